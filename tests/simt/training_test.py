"""Trains a small model with the program on the emulated GPU and on the CPU, and holds one against the other.

  training_test.py CASE --simt PROGRAM --cpu PROGRAM --mpirun MPIRUN --text FILE

Cases: a mesh as DATAxTENSOR; `graph-` and a mesh: with run.cuda_graph against without; `checkpoints`; `refusals`; `preflight`;
`driverless`, where the CPU's program is one that was linked with CUDA.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

NO_DRIVER = "the NVIDIA driver is missing or older than this program's CUDA"
JOB = """
model: {layers: 2, width: 128, heads: 2, kv_heads: 2, head_dim: 64, mlp_hidden: 128, context: 64}
position: {kind: fope}
data: {train: [{path: TEXT}], validation: [{path: TEXT}]}
train: {steps: 10, batch: 4}
schedule: {warmup: 2}
evaluate: {lengths: [256], tokens: 512, passkey: {trials: 0}}
logging: {every: 1}
run: {precision: bf16}
"""


def run(program, arguments, ranks=1, environment=None):
    return launch([], program, arguments, ranks, environment)


def launch(before, program, arguments, ranks, environment=None):
    """`before`: a command that each rank's program is an argument of."""
    command = [OPTIONS.mpirun, "-n", str(ranks)] if ranks > 1 else []
    command += [*before, program, "train", str(JOB_FILE), f"run.dir={FOLDER}", *arguments]
    return subprocess.run(command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False)


def only_on(rank, command):
    """What `launch` puts before the program, so that rank `rank` alone does `command` first."""
    return ["sh", "-c", f'[ "$OMPI_COMM_WORLD_RANK" != {rank} ] || {command}; exec "$@"', "sh"]


def train(program, name, *arguments, ranks=1, environment=None):
    result = run(program, [f"run.name={name}", *arguments], ranks, environment)
    if result.returncode != 0:
        sys.exit(f"{name}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def metrics(name):
    lines = [json.loads(line) for line in (FOLDER / name / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line for line in lines if "grad_norm" in line}


def perplexity(name):
    return json.loads((FOLDER / name / "eval" / "perplexity.json").read_text())["lengths"][0]["perplexity"]


def expect_close(what, actual, expected, tolerance=1e-2):
    if not abs(actual - expected) <= tolerance * abs(expected):
        sys.exit(f"{what}: {actual}, not {expected}")


def compare_steps(one, other, steps):
    a, b = metrics(one), metrics(other)
    for step in steps:
        for key in ("loss", "grad_norm"):
            expect_close(f"{key} of step {step}, {one} against {other}", a[step][key], b[step][key])


def check_mesh(data, tensor):
    profile = data * tensor == 1
    on_gpu = train(OPTIONS.simt, "gpu", f"parallel.tensor={tensor}", "run.device=cuda", f"logging.profile={str(profile).lower()}",
                   ranks=data * tensor)
    if "cuda, emulated GPU" not in on_gpu:
        sys.exit("not on the emulated GPU:\n" + on_gpu)
    if profile and ("profile of training on rank 0" not in on_gpu or "attention_backward" not in on_gpu):
        sys.exit("no profile of the GPU's operations:\n" + on_gpu)
    for step, line in metrics("gpu").items():
        if not (line["forward_seconds"] > 0 and line["backward_seconds"] > 0):
            sys.exit(f"step {step} took {line['forward_seconds']} s forward and {line['backward_seconds']} s backward")
    train(OPTIONS.cpu, "cpu", "run.device=cpu")
    compare_steps("gpu", "cpu", range(1, 11))
    expect_close("perplexity at 4 x the training length", perplexity("gpu"), perplexity("cpu"))


def check_graph(data, tensor):
    """The same bits, step by step, under a changing learning rate, with several micro-batches, evaluations and a resume."""
    model = {(1, 1): ["position.learnable=true"], (2, 1): [], (1, 2): ["position.kind=alibi", "model.qk_norm=true"]}[data, tensor]
    ranks = data * tensor
    common = [*model, "model.context=32", "model.mlp_hidden=64", f"parallel.tensor={tensor}", "run.device=cuda", "train.steps=6",
              "train.micro_batch=1", "evaluate.every=2", "evaluate.lengths=[64]", "evaluate.tokens=128", "checkpoint.every_steps=3",
              "checkpoint.keep=4"]
    recorded = re.compile(r"^a step is one CUDA graph now: (\d+) operations", re.MULTILINE)

    def exact(name):
        keys = ("loss", "grad_norm", "learning_rate")
        return {step: [line[key] for key in keys] for step, line in metrics(name).items()}

    def compare(what, name, output, records=True):
        counts = [int(count) for count in recorded.findall(output)]
        if records != bool(counts) or any(count < 100 for count in counts):
            sys.exit(f"{what}: graphs of {counts} operations were recorded\n{output}")
        if exact(name) != exact("queued"):
            sys.exit(f"{what}: {exact(name)}\nnot {exact('queued')}")

    compare("without", "queued", train(OPTIONS.simt, "queued", *common, ranks=ranks), records=False)
    if len({rate for _, _, rate in exact("queued").values()}) < 5:
        sys.exit(f"the learning rate stays as it is: {exact('queued')}")
    compare("recorded", "recorded", train(OPTIONS.simt, "recorded", *common, "run.cuda_graph=true", ranks=ranks))
    resumed = train(OPTIONS.simt, "recorded", *common, "run.cuda_graph=auto", "run.resume_step=3", ranks=ranks)
    compare("resumed", "recorded", resumed)
    if data == 1:
        return
    compare("eager queues", "eager", train(OPTIONS.simt, "eager", *common, "run.cuda_graph=auto", ranks=ranks,
                                           environment={"LONGWAVE_SIMT_QUEUES": "eager"}))
    # The last rank alone cannot record: none does.
    broken = only_on(ranks - 1, "export LONGWAVE_SIMT_CAPTURE_LIMIT=150")
    falls_back = launch(broken, OPTIONS.simt, ["run.name=broken", *common, "run.cuda_graph=auto"], ranks)
    if falls_back.returncode != 0 or "steps are queued one by one: no CUDA graph: " not in falls_back.stdout:
        sys.exit(f"a capture that breaks: exit code {falls_back.returncode}\n{falls_back.stdout}\n{falls_back.stderr}")
    compare("broken", "broken", falls_back.stdout, records=False)
    refused = launch(broken, OPTIONS.simt, ["run.name=refused", *common, "run.cuda_graph=true"], ranks)
    lines = [line for line in refused.stderr.splitlines() if line.startswith("longwave: ")]
    if refused.returncode != 78 or len(lines) != 1 or not lines[0].endswith("; use run.cuda_graph=false"):
        sys.exit(f"a capture that has to work: exit code {refused.returncode}\n{refused.stdout}\n{refused.stderr}")


def check_checkpoints():
    """Half a run on one device, the other half on the other, both ways; the schedule is that of the half it is in."""
    first, whole = ["train.steps=5", "checkpoint.every_steps=5"], ["train.steps=8"]
    train(OPTIONS.simt, "gpu-cpu", *first, "run.device=cuda")
    train(OPTIONS.cpu, "gpu-cpu", *whole, "run.device=cpu")
    train(OPTIONS.cpu, "cpu-gpu", *first, "run.device=cpu")
    resumed = train(OPTIONS.simt, "cpu-gpu", *whole, "run.device=cuda", "parallel.tensor=2", ranks=2)
    if "goes on from" not in resumed:
        sys.exit("the checkpoint of the CPU was not read:\n" + resumed)
    compare_steps("gpu-cpu", "cpu-gpu", range(1, 9))


def check_refusals():
    no_gpu = {"LONGWAVE_SIMT_DEVICES": "0"}
    for program, arguments, ranks, environment, words in [
            (OPTIONS.cpu, [], 1, {}, f"built without CUDA|{NO_DRIVER}"),
            (OPTIONS.simt, [], 1, no_gpu, "no GPU is visible"),
            (OPTIONS.simt, ["model.head_dim=32"], 1, {}, "model.head_dim is 32"),
            (OPTIONS.simt, [], 1, {"LONGWAVE_SIMT_CAPABILITY": "75"}, "the GPU is sm_75"),
            (OPTIONS.simt, ["run.precision=fp32"], 1, {}, "run.precision is fp32"),
            (OPTIONS.simt, ["run.cuda_graph=true", "logging.profile=true"], 1, {}, "run.cuda_graph: true, but logging.profile"),
            (OPTIONS.cpu, ["run.cuda_graph=true", "run.device=cpu"], 1, {}, "run.cuda_graph: true, but the job runs on the CPU"),
            (OPTIONS.simt, ["parallel.tensor=2"], 2, {"LONGWAVE_SIMT_DEVICES": "1"}, "ranks 0 and 1 share one GPU")]:
        result = run(program, ["run.name=refused", "run.device=cuda", *arguments], ranks, environment)
        lines = [line for line in result.stderr.splitlines() if line.startswith("longwave: ")]
        if result.returncode != 78 or len(lines) != 1 or not re.search(words, lines[0]):
            sys.exit(f"{words}: exit code {result.returncode}\n{result.stderr}")
        if (FOLDER / "refused").exists():
            sys.exit(f"{words}: a run directory was made")
    for name, environment, words in [("none", no_gpu, "no GPU is visible"),
                                     ("old", {"LONGWAVE_SIMT_CAPABILITY": "75"}, "the GPU is sm_75")]:
        result = run(OPTIONS.simt, [f"run.name=fallback-{name}", "train.steps=1", "schedule.warmup=1"], 1, environment)
        if result.returncode != 0 or f"cpu (no GPU: {words}" not in result.stdout:
            sys.exit(f"auto where {words}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    only_one = only_on(1, "export LONGWAVE_SIMT_DEVICES=0")
    result = launch(only_one, OPTIONS.simt, ["run.name=partly", "train.steps=1", "schedule.warmup=1"], 2)
    if result.returncode != 0 or "cpu (no GPU on rank 1: no GPU is visible" not in result.stdout:
        sys.exit(f"auto where rank 1 has no GPU: exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    result = launch(only_one, OPTIONS.simt, ["run.name=refused", "run.device=cuda"], 2)
    if result.returncode != 78 or result.stderr.count("longwave: ") != 1 or "no GPU is visible" not in result.stderr:
        sys.exit(f"cuda where rank 1 has no GPU: exit code {result.returncode}\n{result.stderr}")


def check_driverless():
    if pathlib.Path("/dev/nvidiactl").exists():
        print("this machine has a driver: nothing to see here")
        return
    result = run(OPTIONS.cpu, ["run.name=auto", "train.steps=1", "schedule.warmup=1"])
    if result.returncode != 0 or f"cpu (no GPU: {NO_DRIVER}" not in result.stdout:
        sys.exit(f"auto: exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    for arguments in ([], ["run.precision=fp32"], ["model.head_dim=32"]):
        result = run(OPTIONS.cpu, ["run.name=refused", "run.device=cuda", *arguments])
        if result.returncode != 78 or result.stderr.count("longwave: ") != 1 or NO_DRIVER not in result.stderr:
            sys.exit(f"cuda {arguments}: exit code {result.returncode}\n{result.stderr}")


def check_preflight():
    """The table counts the GPUs and measures between them; a node with fewer than ranks is unfit."""
    command = [OPTIONS.mpirun, "-n", "2", OPTIONS.simt, "preflight", str(FOLDER), "--space=0.01"]
    for devices, code, words in (
            ("2", 0, [r"^\S+ +2 +2 +68.7 GB ", r"^device: cuda, emulated GPU", r"^all-reduce of all ranks, NCCL: [0-9.]+ GB/s"]),
            ("1", 69, [r"^\S+ +2 +1 +68.7 GB .*UNFIT", r": 2 ranks, but 1 GPUs; start one rank a GPU$"])):
        environment = {**os.environ, "LONGWAVE_SIMT_DEVICES": devices}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        missing = [word for word in words if not re.search(word, result.stdout, re.MULTILINE)]
        if result.returncode != code or missing:
            sys.exit(f"{devices} GPUs: exit code {result.returncode}, without {missing}\n{result.stdout}\n{result.stderr}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    for option in ("simt", "cpu", "mpirun", "text"):
        parser.add_argument("--" + option, required=True)
    OPTIONS = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        FOLDER = pathlib.Path(folder)
        JOB_FILE = FOLDER / "small.yaml"
        JOB_FILE.write_text(JOB.replace("TEXT", OPTIONS.text))
        if OPTIONS.case == "driverless":
            check_driverless()
        elif OPTIONS.case == "checkpoints":
            check_checkpoints()
        elif OPTIONS.case == "refusals":
            check_refusals()
        elif OPTIONS.case == "preflight":
            check_preflight()
        elif OPTIONS.case.startswith("graph-"):
            check_graph(*map(int, OPTIONS.case.removeprefix("graph-").split("x")))
        else:
            check_mesh(*map(int, OPTIONS.case.split("x")))
