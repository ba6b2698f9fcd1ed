"""Runs our program and PyTorch in turns on the same models and prints one table. Started by run.sh."""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

QUICKSTART = dict(layers=4, width=256, heads=4, hidden=640, vocabulary=257, context=256)
CASES = {
    # name: model, sequences a step over all ranks, length measured, evaluation only
    "quickstart": (QUICKSTART, 32, 256, False),
    "60m": (dict(layers=8, width=512, heads=8, hidden=2048, vocabulary=50280, context=512), 4, 512, False),
    # GPT-2's sizes; a SwiGLU of 2048 has the parameters of its 3072-wide MLP
    "124m": (dict(layers=12, width=768, heads=12, hidden=2048, vocabulary=50257, context=1024, tied=True), 2, 1024, False),
    "evaluate-16x": (QUICKSTART, 2, 4096, True),
    # The presets, at micro-batches that fill a GPU of 80 GB
    "gpu-60m": (dict(layers=8, width=512, heads=8, hidden=2048, vocabulary=50280, context=512), 64, 512, False),
    "gpu-180m": (dict(layers=8, width=1024, heads=8, hidden=4096, vocabulary=50280, context=1024), 32, 1024, False),
    "gpu-1.2b": (dict(layers=16, width=2048, heads=16, hidden=8192, vocabulary=50280, context=1024), 8, 1024, False),
}
LAYOUTS = {"1x2": (1, 2), "2x1": (2, 1), "gpu": (1, 4)}  # ranks, threads a rank


def on_gpu(layout):
    return layout == "gpu"


def operations_per_token(model, length, evaluate):
    """Products, and attention's pairs j <= i; a multiply and an add are two; the backward is twice the forward."""
    width, hidden = model["width"], model["hidden"]
    layer = 2 * width * (4 * width + 3 * hidden) + 4 * width * (length + 1) / 2
    forward = model["layers"] * layer + 2 * width * model["vocabulary"]
    return forward if evaluate else 3 * forward


class Worker:
    """A program that measures one round whenever it is asked to; see worker.cpp."""

    def __init__(self, command, processes, threads, environment):
        self.folder = tempfile.mkdtemp(prefix="longwave-bench-")
        self.round = 0
        self.command = command
        command = command + ["--control", self.folder]
        self.processes = []
        for rank in range(processes):
            env = dict(os.environ, OMP_NUM_THREADS=str(threads), RANK=str(rank), WORLD_SIZE=str(processes), **environment)
            # A failing program's messages are all there is to go by; the first one's lines are read.
            out = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
            self.processes.append(subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.PIPE, text=True))
        _, rate, self.precision = self.read("ready")
        self.rate = float(rate)

    def read(self, word):
        for line in self.processes[0].stdout:
            if line.startswith(word + " "):
                return line.split()[1:]
        self.processes[0].wait()
        sys.exit(f"{' '.join(self.command)}\nended before it was ready:\n{self.processes[0].stderr.read()[-3000:]}")

    def measure(self):
        """(seconds, processor seconds) of a step"""
        open(f"{self.folder}/go-{self.round}", "w").close()
        self.round += 1
        return tuple(float(word) for word in self.read("round"))

    def stop(self):
        open(f"{self.folder}/stop", "w").close()
        for process in self.processes:
            process.communicate()
        shutil.rmtree(self.folder)


def model_arguments(case, position):
    model, batch, length, evaluate = CASES[case]
    words = [f"--{key}={value}" for key, value in model.items() if key != "tied"] + ["--tied"] * model.get("tied", False)
    words += [f"--batch={batch}", f"--length={length}", f"--position={position}"] + ["--evaluate"] * evaluate
    return words


def start_ours(options, case, layout, position, environment=None, words=()):
    ranks, threads = LAYOUTS[layout]
    launcher = ["mpirun", "-n", str(ranks), "--bind-to", "none"] if ranks > 1 else []
    command = launcher + [options.worker] + model_arguments(case, position)
    command += [f"--seconds={options.seconds}"] + ["--fp32"] * options.fp32 + ["--cuda"] * on_gpu(layout) + list(words)
    return Worker(command, 1, threads, environment or {})


def start_product(options, layout):
    """Rounds of 1e12 operations of the library's matrix product on all ranks: oneDNN's, without our kernels on AMX tiles."""
    return start_ours(options, "evaluate-16x", layout, "rope", {"LONGWAVE_MAX_ISA": "avx512_bf16"}, ["--product"])


def start_torch(options, case, layout, compiled, precision):
    ranks, threads = LAYOUTS[layout]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [options.python, f"{HERE}/torch_worker.py"] + model_arguments(case, "fope")
    command += [f"--seconds={options.seconds}"] + ["--compile"] * compiled + ["--fp32"] * (precision == "fp32")
    command += ["--cuda"] * on_gpu(layout)
    return Worker(command, ranks, threads, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})


def alternate(workers, rounds):
    """[(seconds, processor seconds) of every round] by worker; they take turns, so that a slow moment is shared."""
    runs = {name: [] for name in workers}
    for turn in range(rounds):
        for name in workers if turn % 2 == 0 else reversed(workers):
            runs[name].append(workers[name].measure())
    return runs


def median_seconds(runs):
    return statistics.median(seconds for seconds, _ in runs)


def measure(options, case, layout):
    """Rows of one case and layout."""
    model, batch, length, evaluate = CASES[case]
    tokens = batch * length
    ours = start_ours(options, case, layout, "fope")
    row = {"case": case, "layout": layout, "ours": None, "peer": None, "ratio": None, "fraction_of_rate": None}
    runs = {"ours": [], "product": []}
    workers = {"ours": ours} if on_gpu(layout) else {"ours": ours, "product": start_product(options, layout)}
    # One peer at a time: together they would not fit into the memory of a laptop.
    for mode in ("eager", "compile") if options.python else ():
        try:
            peer = start_torch(options, case, layout, mode == "compile", ours.precision)
        except SystemExit as problem:  # ours is worth having without it
            print(f"PyTorch {mode} is left out: {problem}", file=sys.stderr)
            continue
        pair = alternate({**workers, "peer": peer}, options.rounds)
        peer.stop()
        for name in workers:
            runs[name] += pair[name]
        row[mode] = tokens / median_seconds(pair["peer"])
        ratio = statistics.median(peer / own for (own, _), (peer, _) in zip(pair["ours"], pair["peer"]))
        if row["ratio"] is None or ratio < row["ratio"]:
            row.update(peer=row[mode], ratio=ratio, peer_mode=mode)
    if not runs["ours"]:
        runs.update(alternate(workers, options.rounds))
    row["ours"] = tokens / median_seconds(runs["ours"])
    row["operations_per_token"] = operations_per_token(model, length, evaluate)
    operations = tokens * row["operations_per_token"]
    if on_gpu(layout):
        row["rate"] = ours.rate
        row["fraction_of_rate"] = row["ours"] * row["operations_per_token"] / row["rate"]
    else:
        workers["product"].stop()
        row["rate"] = 1e12 / median_seconds(runs["product"])
        row["fraction_of_rate"] = statistics.median(
            operations / seconds * product / 1e12 for (seconds, _), (product, _) in zip(runs["ours"], runs["product"]))
    row["own_rate"] = ours.rate
    row["precision"] = ours.precision
    row["processors"] = statistics.median(own / seconds for seconds, own in runs["ours"]) / LAYOUTS[layout][1]
    rows = [row]
    if case == "quickstart":
        rope = start_ours(options, case, layout, "rope")
        pair = alternate({"fope": ours, "rope": rope}, 3 * options.rounds)
        rope.stop()
        fope_tokens, rope_tokens = (tokens / median_seconds(pair[name]) for name in ("fope", "rope"))
        ratio = statistics.median(rope / fope for (fope, _), (rope, _) in zip(pair["fope"], pair["rope"]))
        rows.append(dict(row, case="fope-over-rope", ours=fope_tokens, peer=rope_tokens, ratio=ratio, peer_mode="rope"))
    ours.stop()
    return rows


def show(rows):
    print(f"\n{'case':<16}{'layout':<8}{'in':<6}{'tokens/s':>10}{'peer':>10}  {'best of peer':<13}{'ratio':>6}"
          f"{'of rate':>9}{'TFLOP/s':>9}{'own rate':>10}{'processors':>12}")
    for row in rows:
        peer = f"{row['peer']:>10.0f}" if row["peer"] else f"{'-':>10}"
        ratio = f"{row['ratio']:>6.2f}" if row["ratio"] else f"{'-':>6}"
        mode = row.get("peer_mode", "-")
        print(f"{row['case']:<16}{row['layout']:<8}{row['precision']:<6}{row['ours']:>10.0f}{peer}  {mode:<13}{ratio}"
              f"{row['fraction_of_rate']:>9.2f}{row['rate'] / 1e12:>9.2f}{row['own_rate'] / 1e12:>10.2f}{row['processors']:>12.2f}")
    print("\nMedians of alternating rounds, ratios within a round. layout: ranks x threads. of rate: operations of the step over the\n"
          "rate of oneDNN's (on a GPU cuBLASLt's) large square product, measured by turns (TFLOP/s); own rate: the same product by our\n"
          "kernels, where the processor has AMX. processors: share of its processors that our program got; below 0.95 something else\n"
          "was running and the figures are not worth keeping.")


def main():
    parser = argparse.ArgumentParser(prog="run.sh")
    parser.add_argument("--worker", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--python", default="", help=argparse.SUPPRESS)
    parser.add_argument("--json", default="", metavar="FILE", help="write the rows there")
    cases = ",".join(case for case in CASES if not case.startswith("gpu-"))
    parser.add_argument("--cases", default=cases, help=f"default: {cases}")
    parser.add_argument("--layouts", default="1x2,2x1", help="ranks x threads, or gpu; default: 1x2,2x1")
    parser.add_argument("--rounds", type=int, default=3, help="of each program; default 3")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a round, at least one step; default 1.5")
    parser.add_argument("--fp32", action="store_true", help="both programs in fp32 also where the processor has bf16")
    options = parser.parse_args()
    rows = []
    for case in options.cases.split(","):
        for layout in options.layouts.split(","):
            print(f"measuring {case} on {layout}", file=sys.stderr, flush=True)
            rows += measure(options, case, layout)
            if options.json:
                with open(options.json, "w") as file:
                    json.dump(rows, file, indent=1)
    show(rows)


main()
