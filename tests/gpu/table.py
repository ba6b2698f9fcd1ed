"""The one table of tests/gpu.sh: what its parts left in a folder, printed aligned and written there as table.md.

  table.py FOLDER PART...
"""

import datetime
import json
import os
import sys

# Dense bf16 operations a second by NVIDIA's data sheets: what MFU is a fraction of. The first name that fits counts.
PEAKS = [("H200", 989e12), ("H100 PCIe", 756e12), ("H100", 989e12), ("A100", 312e12)]


def read(folder, name):
    try:
        with open(os.path.join(folder, name)) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def state_of(folder, part):
    try:
        with open(os.path.join(folder, part + ".state")) as file:
            return file.read().strip()
    except FileNotFoundError:
        return "not done"


def seconds(value):
    return f"{value * 1e6:.1f} us" if value < 1e-3 else f"{value * 1e3:.2f} ms"


def suite_rows(folder):
    suite = read(folder, "suite.json")
    if suite:
        good = suite["tests"] - suite["failures"] - suite["disabled"]
        yield "kernel suite", "cases", f"{good} good", f"{suite['failures']} failed", ""


def train_rows(folder):
    path = os.path.join(folder, "runs", "train-60m", "metrics.jsonl")
    if not os.path.exists(path):
        return
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    steps = [line for line in lines if "grad_norm" in line]
    if len(steps) > 1:
        later = sorted(line["tokens_per_second"] for line in steps[1:])
        yield ("train 60m", f"{steps[-1]['step']} steps", f"loss {steps[0]['loss']:.3f} to {steps[-1]['loss']:.3f}", "",
               f"{later[len(later) // 2]:,.0f} tokens/s")


def kernel_rows(folder):
    for row in (read(folder, "kernels.json") or {"rows": []})["rows"]:
        rate = f"{row['operations'] / row['seconds'] / 1e12:.0f} TFLOP/s" if row["operations"] else (
            f"{row['bytes'] / row['seconds'] / 1e9:.0f} GB/s")
        yield (row["kernel"], row["shape"], seconds(row["seconds"]), f"{row['floor'] / row['seconds']:.2f} of floor", rate)


def attention_rows(folder):
    for row in (read(folder, "attention.json") or {"rows": []})["rows"]:
        rate = f"{row['operations'] / row['seconds'] / 1e12:.0f} TFLOP/s"
        yield (row["kernel"] + " beside PyTorch", row["shape"], seconds(row["seconds"]),
               f"{row['peer'] / row['seconds']:.2f} of {row['peer_backend']}", rate)


def model_rows(folder, device):
    peak = next((rate for name, rate in PEAKS if name in device), None)
    for name in ("60m", "180m", "1.2b"):
        for row in read(folder, f"{name}.json") or []:
            peer = f"{row['ratio']:.2f} of PyTorch {row['peer_mode']}" if row["ratio"] else "no peer"
            used = row["ours"] * row["operations_per_token"]
            mfu = f"MFU {used / peak:.1%}, " if peak else ""
            yield f"model {name}", row["case"], f"{row['ours']:,.0f} tokens/s", peer, f"{mfu}{row['fraction_of_rate']:.2f} of rate"


def main():
    folder, *parts = sys.argv[1:]
    kernels = read(folder, "kernels.json") or read(folder, "attention-ours.json") or {}
    device = kernels.get("device", "device not measured yet")
    title = f"{datetime.date.today()}, {device}"
    if kernels:
        title += (f": {kernels['operations_per_second'] / 1e12:.0f} TFLOP/s in cuBLASLt's bf16 product of 8192, "
                  f"{kernels['bytes_per_second'] / 1e9:.0f} GB/s in a copy, read and written")
    rows = [*suite_rows(folder), *train_rows(folder), *model_rows(folder, device)]
    rows += [*attention_rows(folder), *kernel_rows(folder)]
    rows += [(f"part {part}", "", state_of(folder, part), "", "") for part in parts]
    header = ("what", "shape", "measured", "beside", "rate")
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    print(title)
    for row in [header, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    with open(os.path.join(folder, "table.md"), "w") as file:
        file.write(f"## {title}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}\n")
        file.writelines(f"| {' | '.join(row)} |\n" for row in rows)
    print(f"\nAs markdown, for tests/bench/RESULTS.md: {folder}/table.md")


main()
