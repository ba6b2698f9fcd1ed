"""`longwave logs`: what every rank of a run did, while it runs and afterwards."""

import re
import signal
import subprocess
import unittest

from program import ProgramTest


class Logs(ProgramTest):
    def logs(self, *arguments):
        result = self.run_program("logs", "runs/job", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.splitlines()

    def test_table_has_a_line_a_rank_and_every_phase(self):
        self.train(ranks=2)
        lines = self.logs()
        self.assertIn("done, step 8 of 8", lines[0])
        for column in ("rank", "host", "step", "phase", "start", "train", "save", "evaluate", "work a step", "slowest", "problems"):
            self.assertIn(column, lines[1])
        self.assertEqual(len(lines), 4)
        for rank, line in enumerate(lines[2:]):
            self.assertRegex(line, rf"^ *{rank}  \S+ +8  end +([\d.]+ s +){{4}}[\d.]+ ms")
        self.assertEqual(len(re.findall(r"\+[\d.e-]+ ms", "".join(lines[2:]))), 1, "one rank is the slowest")

    def test_one_rank_tells_its_events(self):
        self.train(ranks=2)
        lines = self.logs("--rank", "1")
        self.assertIn("start: device", lines[0])
        self.assertEqual(sum(" step: 1 step, " in line for line in lines), 8)
        self.assertIn("next end", lines[-1])

    def test_unknown_rank_and_foreign_folder_are_refused(self):
        self.train("evaluate.lengths=[32]")
        self.assert_refused(self.run_program("logs", "runs/job", "--rank", "3"), 78, "runs/job", "rank 3")
        self.assert_refused(self.run_program("logs", "text"), 65, "text")

    def test_follows_a_run_to_its_end(self):
        job = self.start_program("train", "job.yaml", "train.steps=1000000", "logging.every=50", ranks=2)
        self.wait_for(lambda: (self.run_directory() / "metrics.jsonl").exists() and self.metrics(), "the first step")
        follower = self.start_program("logs", "runs/job", "--follow")
        self.wait_for(lambda: len(self.metrics()) > 4, "more steps")
        self.assertIsNone(follower.poll(), "it ended before the run")
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=60)
        output, errors = follower.communicate(timeout=60)
        self.assertEqual((follower.returncode, errors), (0, ""))
        for rank in range(2):
            self.assertRegex(output, rf"rank {rank} .* train     step: 50 steps")
            self.assertRegex(output, rf"rank {rank} .* signal: stopped by SIGTERM")
        self.assertIn("stopped", output.splitlines()[-4])

    def test_problems_of_a_lost_rank_are_told(self):
        job = self.start_program("train", "job.yaml", "train.steps=1000000", ranks=2)
        self.wait_for(lambda: (self.run_directory() / "metrics.jsonl").exists() and self.metrics(), "the first step")
        children = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True).stdout.split()
        self.assertEqual(len(children), 2)
        subprocess.run(["kill", "-KILL", children[1]], check=True)
        job.communicate(timeout=60)
        output = "\n".join(self.logs())
        self.assertIn("failed", output)
        self.assertRegex(output, r"1 error")
        self.assertRegex(output, r"rank \d: .*error lost_rank: rank \d on ")


if __name__ == "__main__":
    unittest.main()
