"""A job whose ranks are on unlike processors: all take what the least of them has."""

import unittest

from program import ProgramTest


def only_on(rank, setting):
    """A wrapper: rank `rank` alone has `setting` in its environment."""
    return ["sh", "-c", f'[ "$OMPI_COMM_WORLD_RANK" != {rank} ] || export {setting}; exec "$@"', "sh"]


class UnlikeNodes(ProgramTest):
    def train_with(self, name, wrapper=(), *overrides, environment=None):
        process = self.start_program("train", "job.yaml", f"run.name={name}", "run.precision=auto", *overrides, ranks=2,
                                     wrapper=wrapper, environment=environment)
        out, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, out + errors)
        return out

    def test_all_compute_with_the_instructions_of_the_least(self):
        for mesh in ("data", "tensor"):
            everywhere = self.train_with(f"{mesh}-all", (), f"parallel.{mesh}=2", environment={"LONGWAVE_MAX_ISA": "baseline"})
            self.assertIn("SSE2, fp32", everywhere)
            for rank in range(2):
                with self.subTest(mesh=mesh, rank=rank):
                    name = f"{mesh}-{rank}"
                    out = self.train_with(name, only_on(rank, "LONGWAVE_MAX_ISA=baseline"), f"parallel.{mesh}=2")
                    self.assertIn(f"SSE2 (all that rank {rank} has), fp32", out)
                    for mine, theirs in zip(self.metrics(name), self.metrics(f"{mesh}-all"), strict=True):
                        self.assertAlmostEqual(mine["loss"], theirs["loss"], delta=1e-4, msg=f"step {mine['step']}")

    def test_bf16_is_for_all_or_none(self):
        everybody = self.train_with("all")
        lesser = self.train_with("lesser", only_on(1, "ONEDNN_MAX_CPU_ISA=AVX2"))
        self.assertIn("fp32 (rank 1 has no bf16)" if ", bf16" in everybody else ", fp32", lesser)


if __name__ == "__main__":
    unittest.main()
