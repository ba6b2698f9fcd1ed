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
    def mount(self, folder, options):
        as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        subprocess.run([*as_root, "mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)

    def disk_for(self, name, megabytes=64):
        """A disk of their own for a run's checkpoints."""
        folder = self.path(name, "checkpoints")
        os.makedirs(folder)
        self.mount(folder, f"size={megabytes}m,mode=777")
        as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        self.addCleanup(subprocess.run, [*as_root, "umount", "-l", folder], check=True)
        return folder

    def saved_once_on_a_small_disk(self, name):
        disk = self.disk_for(name, 4)
        self.train(name, "schedule.kind=constant", "train.steps=5", ranks=RANKS)
        return disk

    def fill(self, disk):
        file = os.open(os.path.join(disk, "filler"), os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(file, bytes(4096))
        except OSError:
            os.close(file)

    def test_a_full_disk_costs_the_save_and_not_the_run(self):
        disk = self.saved_once_on_a_small_disk("full")
        self.fill(disk)
        output = self.train("full", "schedule.kind=constant", ranks=RANKS)
        self.assertIn("checkpoint of step 10 failed", output)
        self.assertIn("MB are free", output)
        self.assertIn("training goes on", output)
        self.assertEqual(self.steps("full"), [5])
        self.longwave("checkpoint", "verify", self.step("full", 5))
        os.remove(os.path.join(disk, "filler"))
        self.reopen("full")
        self.train("full", "schedule.kind=constant", ranks=RANKS)
        self.assertEqual(self.steps("full"), [10, 15, 20])

    def test_a_full_disk_ends_the_run_when_it_shall(self):
        disk = self.saved_once_on_a_small_disk("full")
        self.fill(disk)
        output = self.train("full", "schedule.kind=constant", "checkpoint.on_error=abort", ranks=RANKS, expect=IO)
        self.assertIn("free some space", output)
        self.assertEqual(self.steps("full"), [5])

    LONG = ("train.steps=3000", "schedule.warmup=3", "checkpoint.every_steps=100", "logging.every=100")

    def start_long(self, name, *overrides):
        """A run that has saved once and goes on."""
        process = self.start(name, *self.LONG, *overrides, ranks=RANKS)
        while not self.steps(name) and process.poll() is None:
            time.sleep(0.005)
        return process

    def test_a_quota_costs_the_save_and_not_the_run(self):
        process = self.start_long("quota", "checkpoint.keep=100")
        saved = os.path.join(self.step("quota", self.steps("quota")[0]), "rank-00000.safetensors")
        # Smaller than a rank's file, larger than what else a run writes.
        limit = os.path.getsize(saved) // 2
        resource.prlimit(self.pid_of(1), resource.RLIMIT_FSIZE, (limit, limit))
        output, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, DONE, output)
        self.assertRegex(output, "checkpoint of step [0-9]+ failed: .*File too large.*; training goes on")
        self.assertNotIn(3000, self.steps("quota"))
        for step in self.steps("quota"):
            self.longwave("checkpoint", "verify", self.step("quota", step))
        self.reopen("quota")
        self.train("quota", *self.LONG, ranks=RANKS)
        self.assertIn(3000, self.steps("quota"))

    def test_a_folder_made_read_only_in_mid_run(self):
        for policy, code in (("continue", DONE), ("abort", IO)):
            with self.subTest(policy=policy):
                name = f"locked-{policy}"
                disk = self.disk_for(name)
                process = self.start_long(name, f"checkpoint.on_error={policy}")
                self.mount(disk, "remount,ro")
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
