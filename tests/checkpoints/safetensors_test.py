"""The `safetensors` package reads every file we write as our own reader does."""

import packages

packages.require("safetensors", "numpy", "safetensors")

import glob
import os
import unittest

import safetensors
import safetensors.numpy

from checkpoint_reader import read_safetensors
from tiny_run import TinyRunTest


class Safetensors(TinyRunTest):
    def assert_same(self, path):
        ours = read_safetensors(path)
        with safetensors.safe_open(path, framework="numpy") as file:
            self.assertEqual(set(file.keys()), set(ours))
            for name, (dtype, shape, _) in ours.items():
                self.assertEqual((file.get_slice(name).get_dtype(), file.get_slice(name).get_shape()), (dtype, shape), name)
        if any(dtype == "BF16" for dtype, _, _ in ours.values()):
            return  # NumPy has no such type
        for name, values in safetensors.numpy.load_file(path).items():
            self.assertEqual(values.flatten().tolist(), ours[name][2], name)

    def test_reads_checkpoints_weights_exports_and_logits(self):
        self.train("run", ranks=4, tensor=2)
        self.longwave("checkpoint", "export", "run", "-o", "fp32", "--shard-gb", "0.000005")
        self.longwave("checkpoint", "export", "run", "-o", "bf16", "--dtype", "bf16")
        self.longwave("generate", "run", "--prompt", "the sea", "--logits", "logits.safetensors")
        files = glob.glob(self.path("**", "*.safetensors"), recursive=True)
        self.assertGreater(len(files), 4 * 3 + 1 + 2 + 1)
        for path in files:
            with self.subTest(file=os.path.relpath(path, self.folder)):
                self.assert_same(path)


if __name__ == "__main__":
    unittest.main()
