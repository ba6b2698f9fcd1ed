"""A file system that has no room, or has become read-only: nothing older is lost, and all ranks do the same."""

import json
import os
import resource
import subprocess
import time
import unittest

from tiny_run import DONE, IO, TinyRunTest

RANKS = 2


class Space(TinyRunTest):
    def mounted(self, megabytes):
        """A file system of its own for checkpoints/, where this machine lets one be mounted."""
        folder = self.path("disk")
        os.mkdir(folder)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=True)
        return folder

    def with_room_for_two(self, name):
        """A run directory whose checkpoints lie on a disk that is too small for three and what else is on it."""
        disk = self.mounted(4)
        self.train(name, "checkpoint.every_steps=0", "train.steps=5", ranks=RANKS)
        os.rename(self.path(name, "checkpoints"), os.path.join(disk, "checkpoints"))
        os.symlink(os.path.join(disk, "checkpoints"), self.path(name, "checkpoints"))
        return disk

    def fill(self, disk):
        with open(os.path.join(disk, "filler"), "wb") as file:
            try:
                while True:
                    file.write(bytes(4096))
                    file.flush()
            except OSError:
                pass

    def test_a_full_disk_costs_the_save_and_not_the_run(self):
        disk = self.with_room_for_two("full")
        self.fill(disk)
        output = self.train("full", ranks=RANKS)
        self.assertIn("checkpoint of step 10 failed", output)
        self.assertIn("MB are free", output)
        self.assertIn("training goes on", output)
        self.assertEqual(self.steps("full"), [5])
        self.longwave("checkpoint", "verify", self.step("full", 5))
        os.remove(os.path.join(disk, "filler"))
        self.reopen("full")
        self.train("full", ranks=RANKS)
        self.assertEqual(self.steps("full"), [10, 15, 20])

    def test_a_full_disk_ends_the_run_when_it_shall(self):
        disk = self.with_room_for_two("full")
        self.fill(disk)
        output = self.train("full", "checkpoint.on_error=abort", ranks=RANKS, expect=IO)
        self.assertIn("free some space", output)
        self.assertEqual(self.steps("full"), [5])

    def test_a_quota_costs_the_save_and_not_the_run(self):
        # Smaller than a rank's file, larger than what else a run writes.
        limit = os.path.getsize(os.path.join(self.saved(), "rank-00000.safetensors")) // 2
        command = self.command("quota", "train.steps=12", ranks=RANKS)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        output = done.stdout + done.stderr
        self.assertIn("checkpoint of step 5 failed", output)
        self.assertIn("training goes on", output)
        self.assertIn("step 12/12", output)
        self.assertEqual(self.steps("quota"), [])
        self.train("quota", "train.steps=12", ranks=RANKS)

    def saved(self):
        self.train("size", "train.steps=5", ranks=RANKS)
        return self.step("size", 5)

    def test_a_folder_made_read_only_in_mid_run(self):
        for policy, code in (("continue", DONE), ("abort", IO)):
            with self.subTest(policy=policy):
                name = f"locked-{policy}"
                folder = self.path(name, "checkpoints")
                os.makedirs(folder)
                subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
                self.addCleanup(subprocess.run, ["umount", "-l", folder], check=True)
                process = self.start(name, "train.steps=3000", "schedule.warmup=3", f"checkpoint.on_error={policy}",
                                     "checkpoint.every_steps=100", "logging.every=100", ranks=RANKS)
                while not self.steps(name) and process.poll() is None:
                    time.sleep(0.005)
                subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
                output, _ = process.communicate(timeout=120)
                self.assertEqual(process.returncode, code, output)
                self.assertIn("Read-only file system", output)
                with open(self.path(name, "status.json")) as file:
                    self.assertEqual(json.load(file)["exit_code"], code)
                for step in self.steps(name):
                    self.longwave("checkpoint", "verify", self.step(name, step))
                self.assertNotEqual(self.steps(name), [])


if __name__ == "__main__":
    unittest.main()
