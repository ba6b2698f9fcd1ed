"""However often and whenever a run is killed, it ends as one that was not."""

import os
import random
import signal
import time
import unittest

from tiny_run import DONE, TinyRunTest

KILLS = int(os.environ.get("LONGWAVE_KILLS", "50"))


class Kill(TinyRunTest):
    STEPS = 60
    OVERRIDES = (f"train.steps={STEPS}", "checkpoint.every_steps=3")

    def kill_until_done(self, name, kills, ranks, choose, latest):
        """Kills up to `kills` times at random moments, then lets the run end. Returns how often it was killed."""
        killed = 0
        while killed < kills:
            process = self.start(name, *self.OVERRIDES, ranks=ranks)
            time.sleep(choose.uniform(0.05, latest))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                killed += 1
            process.communicate()
            if process.returncode == DONE:
                return killed
        self.train(name, *self.OVERRIDES, ranks=ranks)
        return killed

    def check(self, ranks, kills):
        begin = time.monotonic()
        self.train(f"undisturbed-{ranks}", *self.OVERRIDES, ranks=ranks)
        # From before the run exists to its end, on this machine as busy as it is; the report takes the rest.
        latest = 0.8 * (time.monotonic() - begin)
        expected = self.outcome(f"undisturbed-{ranks}", self.STEPS)
        choose = random.Random(20 + ranks)
        total = runs = 0
        while total < kills:
            name = f"killed-{ranks}-{runs}"
            total += self.kill_until_done(name, min(kills - total, 8), ranks, choose, latest)
            self.assertEqual(self.outcome(name, self.STEPS), expected, f"after {total} kills")
            runs += 1
        print(f"{total} kills of {ranks} rank(s) in {runs} runs")

    def test_one_rank(self):
        self.check(1, KILLS - KILLS // 4)

    def test_two_ranks(self):
        self.check(2, KILLS // 4)


if __name__ == "__main__":
    unittest.main()
