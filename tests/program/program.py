"""Runs the real program, alone or under mpirun, in a folder of its own with a text to train on and a model that trains in a
second. Standard library only."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BINARY = pathlib.Path(os.environ["LONGWAVE_BINARY"]).resolve()

JOB = """
model: {layers: 2, width: 32, heads: 2, kv_heads: 2, head_dim: 16, mlp_hidden: 64, context: 32}
data: {train: text/train, validation: text/validation}
train: {steps: 8, batch: 4}
optimizer: {learning_rate: 1e-2}
evaluate: {tokens: 2048, lengths: [32, 64, 128], passkey: {trials: 1, depths: [0.5]}}
logging: {every: 1}
run: {precision: fp32}
"""

WORDS = "the of and to in a that it was he his with as for had you not be her is but at on she they".split()


class ProgramTest(unittest.TestCase):
    """A fresh folder a test; the program runs in it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longwave-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        draw = random.Random(5)
        for side, words in (("train", 6000), ("validation", 1500)):
            path = self.folder / "text" / side
            path.mkdir(parents=True)
            (path / "a.txt").write_text(" ".join(draw.choice(WORDS) for _ in range(words)))
        self.write_job(JOB)

    def write_job(self, text, name="job.yaml"):
        (self.folder / name).write_text(text)

    def environment(self, extra=None):
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "LONGWAVE_TERMINAL"))}
        environment.update({"OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
                            "OMPI_MCA_plm_rsh_agent": ""})
        environment.update(extra or {})
        return environment

    def command(self, arguments, ranks, wrapper=()):
        """`wrapper` starts the program on each rank."""
        launcher = ["mpirun", "--quiet", "-n", str(ranks), "--bind-to", "none"] if ranks else []
        return launcher + list(wrapper) + [str(BINARY)] + [str(argument) for argument in arguments]

    def run_program(self, *arguments, ranks=0, environment=None, wrapper=(), limit=120, **options):
        return subprocess.run(self.command(arguments, ranks, wrapper), cwd=self.folder, env=self.environment(environment), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, **options)

    def start_program(self, *arguments, ranks=0, environment=None, wrapper=()):
        process = subprocess.Popen(self.command(arguments, ranks, wrapper), cwd=self.folder, env=self.environment(environment),
                                   text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()

    def train(self, *overrides, **options):
        result = self.run_program("train", "job.yaml", *overrides, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def run_directory(self, name="job"):
        return self.folder / "runs" / name

    def status(self, name="job"):
        return json.loads((self.run_directory(name) / "status.json").read_text())

    def metrics(self, name="job"):
        lines = [json.loads(line) for line in (self.run_directory(name) / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if "loss" in line]

    def wait_for(self, condition, what, limit=60):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.02)
        self.fail(f"waited {limit} seconds for {what}")

    def assert_refused(self, result, code, *pieces):
        """Exit code and exactly one line on standard error, which has every piece."""
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("longwave: "), lines[0])
        for piece in pieces:
            self.assertIn(piece, lines[0])
