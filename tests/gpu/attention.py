"""Attention of ours beside the best of PyTorch's scaled_dot_product_attention, on the same shapes; part of tests/gpu.sh.

  attention.py OURS OUTPUT     OURS is what gpu_kernels --only attention --json wrote
"""

import json
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}


def seconds_of(call, batches=5, calls=20):
    """Median over batches of calls in a row, as gpu_kernels measures."""
    for _ in range(3):
        call()
    times = []
    for _ in range(batches):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / calls)
    return sorted(times)[batches // 2]


def measure(shape, backend):
    """(forward, backward) in seconds"""
    sizes = (shape["batch"], shape["heads"], shape["length"], shape["head_dim"])
    q, k, v = (torch.randn(sizes, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    with sdpa_kernel(backend):
        with torch.no_grad():
            forward = seconds_of(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        gradient = torch.randn_like(out)
        backward = seconds_of(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))
    return forward, backward


def main():
    ours_path, output = sys.argv[1:]
    with open(ours_path) as file:
        ours = json.load(file)["rows"]
    peers = {}  # shape -> backend -> seconds by direction
    for row in ours:
        if row["shape"] in peers:
            continue
        peers[row["shape"]] = {}
        for name, backend in BACKENDS.items():
            try:
                peers[row["shape"]][name] = dict(zip(("forward", "backward"), measure(row, backend)))
            except RuntimeError as problem:  # this backend does not take these shapes, or this device
                print(f"{row['shape']} {name}: {str(problem).splitlines()[0]}")
        print(row["shape"], peers[row["shape"]], flush=True)
    rows = []
    for row in ours:
        direction = row["kernel"].removeprefix("attention_")
        measured = {name: times[direction] for name, times in peers[row["shape"]].items()}
        if not measured:
            sys.exit(f"no backend of PyTorch ran {row['shape']}")
        best = min(measured, key=measured.get)
        rows.append({"kernel": row["kernel"], "shape": row["shape"], "seconds": row["seconds"], "operations": row["operations"],
                     "peer": measured[best], "peer_backend": best})
    with open(output, "w") as file:
        json.dump({"torch": torch.__version__, "rows": rows}, file, indent=1)


main()
