"""The same model as worker.cpp in PyTorch, measured the same way: same arguments, same lines, rounds on request.

  ready STEPS_A_ROUND 0 PRECISION
  round SECONDS_A_STEP PROCESSOR_SECONDS_A_STEP

Written as a good PyTorch program would be: fused q, k, v and gate-up products, scaled_dot_product_attention, bf16 autocast
over fp32 weights, fused AdamW, gradient clipping, DistributedDataParallel over gloo when there is more than one rank. A step
reads its loss, as ours does, so that none is left on a GPU's queue when the clock stops.
"""

import argparse
import contextlib
import math
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("layers", "width", "heads", "hidden", "vocabulary", "context"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--tied", action="store_true")
    parser.add_argument("--position", choices=("fope", "rope"), default="fope")
    parser.add_argument("--length", type=int, default=0)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--fp32", action="store_true")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--control", default="")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--cuda", action="store_true")
    chosen = parser.parse_args()
    chosen.length = chosen.length or chosen.context
    return chosen


def position_tables(args):
    """cosine and sine [heads, length, head_dim / 2] of RoPE or FoPE."""
    half = args.width // args.heads // 2
    frequencies = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    time_of = torch.arange(args.length, dtype=torch.float64)
    if args.position == "rope":
        angles = torch.outer(time_of, frequencies).expand(args.heads, -1, -1)
        return angles.cos().float(), angles.sin().float()
    kept = frequencies[frequencies >= 2 * math.pi / args.context - 1e-12]
    columns = min(len(kept), half // 2)
    std = 0.3 * math.sqrt(2 / (columns * (len(kept) + args.heads)))
    angles = torch.outer(time_of, kept)
    tables = []
    for wave in (angles.cos(), angles.sin()):
        mix = torch.randn(args.heads, len(kept), columns, dtype=torch.float64) * std + torch.eye(len(kept), columns)
        constant = torch.ones(args.heads, args.length, half - columns, dtype=torch.float64)
        tables.append(torch.cat((wave @ mix, constant), dim=-1).float())
    return tuple(tables)


class Norm(nn.RMSNorm):
    def forward(self, x):
        # PyTorch has a fused kernel only where the gain has the type of x.
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class Block(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.heads = args.heads
        self.attention_norm = Norm(args.width, eps=1e-6)
        self.qkv = nn.Linear(args.width, 3 * args.width, bias=False)
        self.out = nn.Linear(args.width, args.width, bias=False)
        self.mlp_norm = Norm(args.width, eps=1e-6)
        self.gate_up = nn.Linear(args.width, 2 * args.hidden, bias=False)
        self.down = nn.Linear(args.hidden, args.width, bias=False)
        cosine, sine = position_tables(args)
        self.register_buffer("cosine", cosine)
        self.register_buffer("sine", sine)

    def turn(self, x):
        low, high = x.float().chunk(2, dim=-1)
        turned = torch.cat((low * self.cosine - high * self.sine, high * self.cosine + low * self.sine), dim=-1)
        return turned.to(x.dtype)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, args):
        super().__init__()
        padded = (args.vocabulary + 63) // 64 * 64
        self.embedding = nn.Embedding(padded, args.width)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.norm = Norm(args.width, eps=1e-6)
        self.head = nn.Linear(args.width, padded, bias=False)
        if args.tied:
            self.head.weight = self.embedding.weight
        self.compute = torch.float32 if args.fp32 else torch.bfloat16
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets, reduction):
        x = self.embedding(tokens).to(self.compute)  # the residual stream in the compute type, as ours
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction=reduction)


def make_step(args, model, tokens, targets):
    autocast = contextlib.nullcontext if args.fp32 else lambda: torch.autocast(tokens.device.type, torch.bfloat16)

    if args.evaluate:
        def evaluate():
            with torch.no_grad(), autocast():
                return model(tokens, targets, "none").sum().item()
        return evaluate

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def train():
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss = model(tokens, targets, "mean")
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()
    return train


def slowest(seconds, ranks):
    if ranks == 1:
        return seconds
    value = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value.item()


def wait_for_round(number, control):
    if not control:
        return number < 3
    while not os.path.exists(f"{control}/go-{number}"):
        if os.path.exists(f"{control}/stop"):
            return False
        time.sleep(0.005)
    return True


def main():
    args = arguments()
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    device = torch.device("cuda" if args.cuda else "cpu")
    torch.manual_seed(1)
    with device:
        model = Model(args)
    step_model = model
    if ranks > 1:
        dist.init_process_group("gloo")
        if not args.evaluate:
            step_model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if args.compile:
        step_model = torch.compile(step_model)
    tokens = torch.randint(args.vocabulary, (args.batch // ranks, args.length + 1), device=device)
    step = make_step(args, step_model, tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    for _ in range(2):
        step()
    begin = time.perf_counter()
    step()
    steps = max(1, round(args.seconds / slowest(time.perf_counter() - begin, ranks)))
    if rank == 0:
        print("ready", steps, 0, "fp32" if args.fp32 else "bf16", flush=True)
    number = 0
    while wait_for_round(number, args.control):
        if ranks > 1:
            dist.barrier()
        begin, processor = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        processor = (time.process_time() - processor) / steps
        seconds = slowest(time.perf_counter() - begin, ranks) / steps
        if rank == 0:
            print(f"round {seconds:.6f} {processor:.6f}", flush=True)
        number += 1
    if ranks > 1:
        dist.destroy_process_group()


main()
