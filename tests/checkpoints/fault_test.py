"""Whatever operation of a save is the last one, or fails, a complete step always loads."""

import errno
import os
import unittest

from tiny_run import IO, TinyRunTest

FAULTS = os.environ["LONGWAVE_FAULTS"]


class Fault(TinyRunTest):
    def faults(self, **settings):
        return {"LD_PRELOAD": FAULTS, **{f"LONGWAVE_FAULT_{key.upper()}": str(value) for key, value in settings.items()}}

    def operations(self, name, *overrides, **options):
        """What a whole run does under checkpoints/."""
        log = self.path(f"{name}.operations")
        self.train(name, *overrides, environment=self.faults(log=log), **options)
        with open(log) as file:
            return [line.split()[1] for line in file]

    def verify_all(self, name):
        for step in self.steps(name):
            self.longwave("checkpoint", "verify", self.step(name, step))

    def test_killed_at_every_operation_of_a_save(self):
        # Synchronous, so that the order of operations is the same in every process; a learning rate that does not follow
        # train.steps, so that the outcome does not either.
        overrides = ("checkpoint.async=false", "checkpoint.keep=1", "schedule.kind=constant")
        operations = self.operations("once", *overrides, "train.steps=5")
        for kind in ("mkdir", "open", "pwrite", "fsync", "rename"):
            self.assertIn(kind, operations)
        deaths = newest = 0
        # A process that resumes and saves once does these operations, those of retention on top; each is the last one once.
        for at in range(1, len(operations) + 12):
            output = self.train("killed", *overrides, "train.steps=100000", environment=self.faults(at=at), expect=None)
            deaths += 1
            steps = self.steps("killed")
            self.assertGreaterEqual(max(steps, default=0), newest, output)
            newest = max(steps, default=0)
            self.verify_all("killed")
        self.assertEqual(deaths, len(operations) + 11)
        self.assertGreater(newest, 5)
        steps = newest + 5
        self.train("killed", *overrides, f"train.steps={steps}")
        self.verify_all("killed")
        self.train("undisturbed", *overrides, f"train.steps={steps}")
        self.assertEqual(self.outcome("killed", steps), self.outcome("undisturbed", steps))
        print(f"killed at {deaths} operations, the newest step is {steps}")

    def test_every_operation_may_fail_and_training_goes_on(self):
        overrides = ("train.steps=200", "checkpoint.every_steps=2")
        for ranks, error in ((1, errno.EIO), (2, errno.ENOSPC)):
            with self.subTest(ranks=ranks):
                self.train(f"sound-{ranks}", *overrides, ranks=ranks)
                # Not a divisor of the operations of a save: save after save another one fails.
                output = self.train(f"failing-{ranks}", *overrides, ranks=ranks, environment=self.faults(every=97, error=error))
                self.assertIn("training goes on", output)
                self.verify_all(f"failing-{ranks}")
                self.assertEqual(self.metrics(f"failing-{ranks}"), self.metrics(f"sound-{ranks}"))
                self.assertGreater(max(self.steps(f"failing-{ranks}")), 150)

    def test_a_failure_ends_the_run_when_it_shall(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                name = f"abort-{ranks}"
                output = self.train(name, "checkpoint.on_error=abort", ranks=ranks, expect=IO,
                                    environment=self.faults(at=6, error=errno.ENOSPC))
                self.assertIn("checkpoint of step 5 failed", output)
                self.assertIn("No space left on device", output)
                self.assertEqual(self.steps(name), [])
                self.train(name, ranks=ranks)


if __name__ == "__main__":
    unittest.main()
