"""Any mesh trains the same model, from the job file to the weights and the final evaluation; the same mesh twice, the same bits."""

import json
import unittest

from program import ProgramTest
from test_train import read_safetensors

MESHES = ((1, 1), (2, 1), (1, 2), (2, 2))  # data x tensor

# Nothing divides: 257 words of vocabulary, 33 positions. AdamW's epsilon is far above the rounding of a gradient, which near
# zero it would otherwise turn into whole steps.
JOB = ["train.steps=20", "model.context=33", "optimizer.epsilon=1e-5", "evaluate.lengths=[33, 66, 132]",
       "evaluate.passkey={trials: 2, depths: [0, 1]}"]


class Meshes(ProgramTest):
    def train_on(self, mesh, name):
        data, tensor = mesh
        self.train(f"run.name={name}", f"parallel={{data: {data}, tensor: {tensor}}}", *JOB, ranks=data * tensor)

    def evaluation(self, name, what):
        return json.loads((self.run_directory(name) / f"eval/{what}.json").read_text())

    def weights(self, name):
        return read_safetensors(self.run_directory(name) / "weights.safetensors")

    def test_any_mesh_trains_the_same_model(self):
        for mesh in MESHES:
            name = "{}x{}".format(*mesh)
            self.train_on(mesh, name)
            with self.subTest(mesh=name):
                self.assert_same_training(name, "1x1")
                self.assert_same_evaluation(name, "1x1")
                self.assert_same_weights(name, "1x1")
        self.assertLess(self.metrics("2x2")[-1]["loss"], self.metrics("2x2")[0]["loss"] - 1, "nothing was learnt")

    def assert_same_training(self, name, reference):
        self.assertEqual([line["step"] for line in self.metrics(name)], list(range(1, 21)))
        for mine, theirs in zip(self.metrics(name), self.metrics(reference), strict=True):
            self.assertAlmostEqual(mine["loss"], theirs["loss"], delta=1e-5, msg=f"step {mine['step']}")
            self.assertAlmostEqual(mine["grad_norm"], theirs["grad_norm"], delta=1e-4 * theirs["grad_norm"])
            self.assertEqual((mine["learning_rate"], mine["tokens"]), (theirs["learning_rate"], theirs["tokens"]))

    def assert_same_evaluation(self, name, reference):
        rows = [self.evaluation(run, "perplexity")["lengths"] for run in (name, reference)]
        self.assertEqual(len(rows[0]), 3)
        for mine, theirs in zip(*rows, strict=True):
            self.assertEqual((mine["length"], mine["targets"]), (theirs["length"], theirs["targets"]))
            for key in ("perplexity", "tail_perplexity"):
                self.assertAlmostEqual(mine[key], theirs[key], delta=1e-4 * theirs[key])
        cells = [self.evaluation(run, "passkey")["cells"] for run in (name, reference)]
        self.assertEqual(len(cells[0]), 4)
        self.assertEqual(*cells, "the most likely digits")

    def assert_same_weights(self, name, reference):
        mine, theirs = self.weights(name), self.weights(reference)
        self.assertEqual(mine.keys(), theirs.keys())
        for tensor, (shape, values) in theirs.items():
            self.assertEqual(mine[tensor][0], shape, tensor)
            apart = max(abs(a - b) for a, b in zip(mine[tensor][1], values, strict=True))
            self.assertLess(apart, 1e-3, tensor)  # a tenth of one step at the peak learning rate

    def test_the_same_mesh_gives_the_same_bits_twice(self):
        for name in ("once", "twice"):
            self.train_on((2, 2), name)
        kept = ("step", "loss", "grad_norm")
        runs = [[[line[key] for key in kept] for line in self.metrics(name)] for name in ("once", "twice")]
        self.assertEqual(*runs)
        files = [(self.run_directory(name) / "weights.safetensors").read_bytes() for name in ("once", "twice")]
        self.assertTrue(files[0] == files[1], "the weights differ")
        self.assertEqual(self.evaluation("once", "perplexity"), self.evaluation("twice", "perplexity"))


if __name__ == "__main__":
    unittest.main()
