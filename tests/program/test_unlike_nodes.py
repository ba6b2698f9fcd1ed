"""A job whose ranks are on unlike nodes: all take what the least processor has, and all have to read the same files."""

import random
import shutil
import unittest

from program import ProgramTest


def only_on(rank, command):
    """A wrapper: rank `rank` alone does `command` first."""
    return ["sh", "-c", f'[ "$OMPI_COMM_WORLD_RANK" != {rank} ] || {command}; exec "$@"', "sh"]


class UnlikeProcessors(ProgramTest):
    def train_with(self, name, wrapper=(), *overrides, environment=None):
        return self.train(f"run.name={name}", "run.precision=auto", *overrides, ranks=2, wrapper=wrapper,
                          environment=environment).stdout

    def test_all_compute_with_the_instructions_of_the_least(self):
        for mesh in ("data", "tensor"):
            everywhere = self.train_with(f"{mesh}-all", (), f"parallel.{mesh}=2", environment={"LONGWAVE_MAX_ISA": "baseline"})
            self.assertIn("SSE2, fp32", everywhere)
            for rank in range(2):
                with self.subTest(mesh=mesh, rank=rank):
                    name = f"{mesh}-{rank}"
                    out = self.train_with(name, only_on(rank, "export LONGWAVE_MAX_ISA=baseline"), f"parallel.{mesh}=2")
                    self.assertIn(f"SSE2 (all that rank {rank} has), fp32", out)
                    for mine, theirs in zip(self.metrics(name), self.metrics(f"{mesh}-all"), strict=True):
                        self.assertAlmostEqual(mine["loss"], theirs["loss"], delta=1e-4, msg=f"step {mine['step']}")

    def test_bf16_is_for_all_or_none(self):
        everybody = self.train_with("all")
        lesser = self.train_with("lesser", only_on(1, "export ONEDNN_MAX_CPU_ISA=AVX2"))
        self.assertIn("fp32 (rank 1 has no bf16)" if ", bf16" in everybody else ", fp32", lesser)


class UnlikeFiles(ProgramTest):
    """Rank 1 runs in a folder of its own, as on a node whose disk is its own."""

    def setUp(self):
        super().setUp()
        self.other = self.folder / "other"
        self.other.mkdir()
        shutil.copytree(self.folder / "text", self.other / "text")
        shutil.copy(self.folder / "job.yaml", self.other)

    def run_there(self):
        return self.run_program("train", "job.yaml", f"run.dir={self.folder}/runs", ranks=2, wrapper=only_on(1, "cd other"))

    def assert_refused_there(self, code, *pieces):
        self.assert_refused(self.run_there(), code, *pieces)
        self.assertFalse((self.folder / "runs").exists(), "a run directory was made")

    def test_the_same_files_train(self):
        result = self.run_there()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_another_job_file_is_refused(self):
        job = (self.other / "job.yaml").read_text()
        (self.other / "job.yaml").write_text(job.replace("learning_rate: 1e-2", "learning_rate: 2e-2"))
        self.assert_refused_there(78, "rank 1 on ", "optimizer.learning_rate: 0.02", "rank 0", "optimizer.learning_rate: 0.01")

    def test_other_data_is_refused(self):
        draw = random.Random(6)
        for side in ("train", "validation"):
            with self.subTest(side=side):
                file = self.other / "text" / side / "a.txt"
                kept = file.read_text()
                words = kept.split(" ")
                draw.shuffle(words)
                file.write_text(" ".join(words))
                self.assertEqual(file.stat().st_size, len(kept))
                self.assert_refused_there(65, "rank 1 on ", "has other data")
                file.write_text(kept)


if __name__ == "__main__":
    unittest.main()
