"""Reads checkpoints and exports with Python's standard library alone, from the safetensors specification
(https://huggingface.co/docs/safetensors, "Format") and parallel/checkpoint/README.md. Shares no code with what wrote them."""

import json
import os
import struct

FORMAT = {"F32": ("f", 4), "F64": ("d", 8), "BF16": ("H", 2), "I32": ("i", 4)}


def unpack(dtype, raw):
    letter, size = FORMAT[dtype]
    assert len(raw) % size == 0
    return list(struct.unpack(f"<{len(raw) // size}{letter}", raw))


def count(shape):
    product = 1
    for extent in shape:
        product *= extent
    return product


def read_safetensors(path):
    """{name: (dtype, shape, values)}; every rule of the format is checked."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    assert length <= 100_000_000 and data[8:9] == b"{", path
    header = json.loads(data[8 : 8 + length].decode("utf-8"))
    body = data[8 + length :]
    assert all(isinstance(value, str) for value in header.pop("__metadata__", {}).values())
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        assert begin == end, f"{path}: a gap or an overlap before {name}"
        end = stop
        values = unpack(entry["dtype"], body[begin:stop])
        assert len(values) == count(entry["shape"]), name
        tensors[name] = (entry["dtype"], entry["shape"], values)
    assert end == len(body), f"{path}: bytes after the last tensor"
    return tensors


def read_manifest(folder):
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    assert next(iter(manifest)) == "xxh3" and manifest["format"] == "longwave-checkpoint" and manifest["format_version"] == 1
    return manifest


def read_checkpoint(folder):
    """{logical name: (dtype, shape, values)}, gathered from all ranks' files."""
    manifest = read_manifest(folder)
    files = [read_safetensors(os.path.join(folder, entry["name"])) for entry in manifest["files"]]
    raw = []
    for entry in manifest["files"]:
        with open(os.path.join(folder, entry["name"]), "rb") as file:
            raw.append(file.read())
        assert len(raw[-1]) == entry["bytes"]
    used = set()
    tensors = {}
    for tensor in manifest["tensors"]:
        shape, dtype = tensor["shape"], tensor["dtype"]
        rows = shape[0] if shape else 1
        columns = count(shape[1:])
        whole = [None] * (rows * columns)
        for piece in tensor["slices"]:
            (top, bottom), (left, right) = piece["rows"], piece["columns"]
            stored_dtype, stored_shape, values = files[piece["file"]][piece["tensor"]]
            assert stored_dtype == dtype and count(stored_shape) == (bottom - top) * (right - left)
            at = raw[piece["file"]][piece["offset"] : piece["offset"] + piece["bytes"]]
            assert unpack(dtype, at) == values or any(value != value for value in values), "offset and name disagree"
            used.add((piece["file"], piece["tensor"]))
            width = right - left
            for row in range(top, bottom):
                place = row * columns + left
                assert whole[place : place + width] == [None] * width, "written twice"
                whole[place : place + width] = values[(row - top) * width : (row - top + 1) * width]
        assert None not in whole, f"{tensor['name']} is not complete"
        tensors[tensor["name"]] = (dtype, shape, whole)
    assert used == {(index, name) for index, file in enumerate(files) for name in file}, "a file holds more than is listed"
    return tensors


def read_export(folder):
    index = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(index):
        return read_safetensors(os.path.join(folder, "model.safetensors"))
    with open(index, encoding="utf-8") as file:
        places = json.load(file)["weight_map"]
    tensors = {}
    for name in sorted(set(places.values())):
        part = read_safetensors(os.path.join(folder, name))
        assert set(part) == {tensor for tensor, place in places.items() if place == name}
        tensors.update(part)
    return tensors
