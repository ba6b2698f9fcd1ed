"""Damage of whatever kind to whatever file is detected and named, and the step before is used."""

import os
import shutil
import unittest

from tiny_run import DATA, TinyRunTest


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def truncate(path):
    os.truncate(path, os.path.getsize(path) - 1)


def empty(path):
    os.truncate(path, 0)


DAMAGES = {
    "first bit": lambda path: flip(path, 0),
    "a bit of the header": lambda path: flip(path, 40),
    "a bit in the middle": lambda path: flip(path, os.path.getsize(path) // 2),
    "last bit": lambda path: flip(path, os.path.getsize(path) - 1),
    "truncated": truncate,
    "deleted": os.remove,
    "emptied": empty,
}


class Damage(TinyRunTest):
    def setUp(self):
        super().setUp()
        self.train("sound", ranks=2)
        self.files = sorted(os.listdir(self.step("sound", 20)))
        self.expected = self.outcome("sound")

    def test_is_named_by_verify(self):
        self.assertEqual(self.files, ["manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"])
        self.longwave("checkpoint", "verify", self.step("sound", 20))
        for file in self.files:
            for kind, damage in DAMAGES.items():
                with self.subTest(file=file, damage=kind):
                    shutil.copytree(self.step("sound", 20), self.path("damaged"))
                    damage(self.path("damaged", file))
                    output = self.longwave("checkpoint", "verify", "damaged", expect=DATA)
                    if file != "manifest.json" or kind != "deleted":
                        self.assertIn(f"damaged/{file}", output)
                    shutil.rmtree(self.path("damaged"))

    def test_makes_the_run_go_on_from_the_step_before(self):
        for file in self.files:
            for kind in ("a bit in the middle", "truncated", "deleted", "emptied"):
                with self.subTest(file=file, damage=kind):
                    self.copy("sound", "damaged")
                    self.reopen("damaged")
                    DAMAGES[kind](os.path.join(self.step("damaged", 20), file))
                    output = self.train("damaged", ranks=2)
                    self.assertIn(f"checkpoint not taken: ./damaged/checkpoints/step-00000020/{file}", output)
                    self.assertIn("goes on from ./damaged/checkpoints/step-00000015", output)
                    self.assertTrue(os.path.isdir(self.step("damaged", 20) + ".aside"))
                    self.assertEqual(self.outcome("damaged"), self.expected)
                    shutil.rmtree(self.path("damaged"))

    def test_of_every_step_is_not_a_fresh_start(self):
        for step in self.steps("sound"):
            truncate(os.path.join(self.step("sound", step), "rank-00001.safetensors"))
        self.reopen("sound")
        output = self.train("sound", ranks=2, expect=DATA)
        self.assertIn("none of the 3 checkpoints is good", output)
        for step in (10, 15, 20):
            self.assertIn(f"step-{step:08}/rank-00001.safetensors", output)
        self.assertEqual(self.steps("sound"), [10, 15, 20])
        self.assertEqual(len(self.metrics("sound")), 20)

    def test_a_lost_folder_of_checkpoints_is_not_a_fresh_start(self):
        shutil.rmtree(self.path("sound", "checkpoints"))
        output = self.train("sound", "train.steps=30", ranks=2, expect=DATA)
        self.assertIn("status.json names the checkpoint step-00000020", output)


if __name__ == "__main__":
    unittest.main()
