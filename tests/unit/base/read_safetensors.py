"""Prints a safetensors file as JSON: {"metadata": {...}, "tensors": {name: {"dtype", "shape", "values"}}}.

Written from the format's description (https://huggingface.co/docs/safetensors) with the standard library alone, so that it
shares nothing with the program that wrote the file. Refuses what the description does not allow.
"""

import json
import math
import struct
import sys

SIZES = {"F64": 8, "F32": 4, "I32": 4, "BF16": 2}


def values(dtype, data):
    if dtype == "BF16":  # the upper half of a 32-bit float
        words = struct.unpack(f"<{len(data) // 2}H", data)
        return [struct.unpack("<f", struct.pack("<I", word << 16))[0] for word in words]
    return list(struct.unpack(f"<{len(data) // SIZES[dtype]}{ {'F64': 'd', 'F32': 'f', 'I32': 'i'}[dtype] }", data))


def unique(pairs):
    assert len({key for key, _ in pairs}) == len(pairs), "duplicate keys"
    return dict(pairs)


def read(path):
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    assert content[8:9] == b"{", "the header begins with a brace"
    header = json.loads(content[8:8 + length].decode("utf-8"), object_pairs_hook=unique)
    data = content[8 + length:]
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(value, str) for value in metadata.values())
    position = 0
    tensors = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        dtype, shape = entry["dtype"], entry["shape"]
        assert begin == position, f"hole or overlap before {name}"
        assert end - begin == SIZES[dtype] * math.prod(shape), f"size of {name}"
        assert (8 + length + begin) % SIZES[dtype] == 0, f"{name} is not aligned"
        tensors[name] = {"dtype": dtype, "shape": shape, "values": values(dtype, data[begin:end])}
        position = end
    assert position == len(data), "bytes after the last tensor"
    return {"metadata": metadata, "tensors": tensors}


if __name__ == "__main__":
    print(json.dumps(read(sys.argv[1])))
