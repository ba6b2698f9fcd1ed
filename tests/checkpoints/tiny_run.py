"""A training run small enough to be started a hundred times, and what its outcome is compared by."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import unittest

LONGWAVE = os.environ["LONGWAVE"]
MPIRUN = os.environ["LONGWAVE_MPIRUN"]

DONE, DATA, LOST, IO, REQUEUE, CONFIGURATION = 0, 65, 69, 74, 75, 78

JOB = """
run: {precision: fp32, dir: .}
model: {layers: 1, width: 16, heads: 4, kv_heads: 2, head_dim: 8, mlp_hidden: 24, context: 16}
position: {theta: 100, floor_cycles: 0.5}
data: {train: text.txt}
train: {steps: 20, batch: 4}
schedule: {kind: cosine, warmup: 3}
logging: {every: 1}
checkpoint: {every_steps: 5, every_minutes: 0, keep: 3}
evaluate: {passkey: {trials: 0}}
"""


class TinyRunTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="longwave-checkpoints-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        words = "the a of model wave long short train and attention position rank mesh sea ship".split()
        choose = random.Random(1)
        with open(self.path("text.txt"), "w") as file:
            file.write(" ".join(choose.choice(words) for _ in range(4000)))
        with open(self.path("job.yaml"), "w") as file:
            file.write(JOB)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def command(self, name, *overrides, ranks=1, tensor=1):
        launcher = [MPIRUN, "-n", str(ranks)] if ranks > 1 else []
        return launcher + [LONGWAVE, "train", "job.yaml", f"run.name={name}", f"parallel.tensor={tensor}", *overrides]

    def start(self, *arguments, environment=None, **options):
        return subprocess.Popen(
            self.command(*arguments, **options), cwd=self.folder, env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def train(self, *arguments, expect=DONE, timeout=120, **options):
        """Runs to the end and returns what it printed."""
        process = self.start(*arguments, **options)
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            self.fail(f"{arguments} did not end within {timeout} s:\n{output}")
        if expect is not None:
            self.assertEqual(process.returncode, expect, f"{arguments}:\n{output}")
        return output

    def pid_of(self, rank):
        """The process of one rank among those that were started here."""
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
                directory = os.readlink(f"/proc/{entry}/cwd")
            except OSError:
                continue
            if directory == self.folder and f"OMPI_COMM_WORLD_RANK={rank}".encode() in environment:
                return int(entry)
        self.fail(f"rank {rank} is not running")

    def longwave(self, *arguments, expect=DONE):
        done = subprocess.run([LONGWAVE, *arguments], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, expect, f"{arguments}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def steps(self, name):
        folder = self.path(name, "checkpoints")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return sorted(int(entry[5:]) for entry in names if entry.startswith("step-") and entry[5:].isdigit())

    def step(self, name, step):
        return self.path(name, "checkpoints", f"step-{step:08}")

    def metrics(self, name):
        """What must not depend on interruptions, a line a step."""
        with open(self.path(name, "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        keys = ("step", "loss", "learning_rate", "grad_norm", "tokens", "skipped")
        return [[line[key] for key in keys] for line in lines if "loss" in line]

    def digest(self, path):
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def outcome(self, name, step=20):
        """Weights, moments and metrics, to the bit."""
        files = sorted(entry for entry in os.listdir(self.step(name, step)) if entry.endswith(".safetensors"))
        state = [self.digest(os.path.join(self.step(name, step), entry)) for entry in files]
        return [self.digest(self.path(name, "weights.safetensors")), *state, self.metrics(name)]

    def copy(self, name, to):
        shutil.copytree(self.path(name), self.path(to))

    def reopen(self, name):
        """Lets a run that is done be entered again."""
        os.remove(self.path(name, "status.json"))
