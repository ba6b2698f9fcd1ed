"""A run that was interrupted ends as one that was not."""

import json
import os
import signal
import time
import unittest

from tiny_run import DATA, REQUEUE, CONFIGURATION, TinyRunTest


class Continuation(TinyRunTest):
    def remove_after(self, name, step):
        for later in self.steps(name):
            if later > step:
                os.rename(self.step(name, later), self.path(f"{name}-{later}"))

    def test_twenty_steps_are_ten_and_ten_to_the_bit(self):
        for ranks, tensor in ((1, 1), (2, 1), (2, 2)):
            for precision in ("fp32", "bf16"):
                with self.subTest(ranks=ranks, tensor=tensor, precision=precision):
                    options = dict(ranks=ranks, tensor=tensor)
                    name = f"{ranks}x{tensor}-{precision}"
                    self.train(name, f"run.precision={precision}", **options)
                    self.copy(name, f"{name}-again")
                    self.reopen(f"{name}-again")
                    self.remove_after(f"{name}-again", 10)
                    output = self.train(f"{name}-again", f"run.precision={precision}", **options)
                    self.assertIn("goes on from ./" + f"{name}-again/checkpoints/step-00000010", output)
                    self.assertEqual(self.outcome(name), self.outcome(f"{name}-again"))
                    self.assertEqual([line[0] for line in self.metrics(name)], list(range(1, 21)))

    def test_automatic_precision_is_what_the_run_began_with(self):
        for precision in ("fp32", "bf16"):
            with self.subTest(precision=precision):
                name = f"automatic-{precision}"
                self.train(name, f"run.precision={precision}", ranks=2)
                expected = self.outcome(name)
                self.reopen(name)
                self.remove_after(name, 10)
                self.assertIn("goes on from", self.train(name, "run.precision=auto", ranks=2))
                self.assertEqual(self.outcome(name), expected)

    def signalled(self, name, number, rank, ranks):
        """Sends a signal to one rank in mid-run and returns the step at which all stopped."""
        process = self.start(name, "train.steps=100000", "schedule.warmup=3", ranks=ranks)
        log = self.path(name, "logs", f"rank-{rank:05}.jsonl")
        deadline = time.time() + 60
        while time.time() < deadline and not (os.path.exists(log) and self.steps(name)):
            time.sleep(0.01)
        if ranks == 1:
            os.kill(process.pid, number)
        else:
            os.kill(self.pid_of(rank), number)
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, REQUEUE, output)
        with open(self.path(name, "status.json")) as file:
            status = json.load(file)
        self.assertEqual(status["state"], "stopped")
        self.assertEqual(status["checkpoint"], f"step-{status['step']:08}")
        self.longwave("checkpoint", "verify", self.step(name, status["step"]))
        return status["step"]

    def test_a_signal_saves_and_leaves_with_75(self):
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            with self.subTest(signal=number):
                name = f"signal-{int(number)}"
                stopped = self.signalled(name, number, 0, 1)
                output = self.train(name, f"train.steps={stopped + 3}")
                self.assertIn(f"step-{stopped:08}", output)
                self.assertEqual([line[0] for line in self.metrics(name)], list(range(1, stopped + 4)))

    def test_a_signal_to_another_rank_than_0_stops_all_at_one_step(self):
        stopped = self.signalled("other", signal.SIGUSR1, 1, 2)
        self.assertIn(f"step-{stopped:08}", self.train("other", f"train.steps={stopped + 3}", ranks=2))

    def test_the_last_step_is_saved_whatever_the_interval(self):
        self.train("last", "train.steps=7", "checkpoint.every_steps=5")
        self.assertEqual(self.steps("last"), [5, 7])
        self.train("only", "train.steps=3", "checkpoint.every_steps=0")
        self.assertEqual(self.steps("only"), [3])

    def test_old_steps_go_and_multiples_stay(self):
        self.train("kept", "checkpoint.every_steps=2", "checkpoint.keep=2", "checkpoint.keep_every=8")
        self.assertEqual(self.steps("kept"), [8, 16, 18, 20])
        self.assertEqual(sorted(os.listdir(self.path("kept", "checkpoints")))[0], "latest")
        self.assertEqual(len(os.listdir(self.path("kept", "checkpoints"))), 5)
        with open(self.path("kept", "checkpoints", "latest")) as file:
            self.assertEqual(file.read(), "step-00000020\n")

    def test_saving_in_the_step_and_behind_it_write_the_same(self):
        self.train("behind")
        self.train("within", "checkpoint.async=false", "checkpoint.verify=false")
        self.assertEqual(self.outcome("behind"), self.outcome("within"))

    def test_metrics_tell_what_a_save_cost(self):
        self.train("cost")
        with open(self.path("cost", "metrics.jsonl")) as file:
            saves = [line for line in map(json.loads, file) if "checkpoint_step" in line]
        self.assertEqual([line["checkpoint_step"] for line in saves], [5, 10, 15, 20])
        for line in saves:
            self.assertGreater(line["checkpoint_bytes"], 0)
            self.assertGreater(line["checkpoint_gb_per_second"], 0)
            self.assertLessEqual(0, line["checkpoint_stall_seconds"])
            self.assertLessEqual(line["checkpoint_stall_seconds"], line["checkpoint_seconds"])

    def test_resume_required_and_never(self):
        self.assertIn("no checkpoint to go on from", self.train("none", "run.resume=required", expect=DATA))
        self.assertFalse(os.path.exists(self.path("none")))
        self.train("some")
        before = self.digest(self.path("some", "status.json"))
        self.assertIn("step-00000020", self.train("some", "run.resume=never", expect=CONFIGURATION))
        self.assertEqual(self.digest(self.path("some", "status.json")), before)

    def test_a_run_goes_back_to_the_step_asked_for_once(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                name = f"back-{ranks}"
                again = (name, "checkpoint.keep=4", "run.resume_step=10")
                self.train(name, "checkpoint.keep=4", ranks=ranks)
                expected = self.outcome(name)
                output = self.train(*again, ranks=ranks)
                self.assertIn(f"goes on from ./{name}/checkpoints/step-00000010", output)
                for step in (15, 20):
                    self.assertIn(f"step-{step:08} is left behind; kept for a look as", output)
                    self.assertTrue(os.path.isdir(self.step(name, step) + ".aside"))
                self.assertEqual(self.outcome(name), expected)
                self.assertEqual(self.steps(name), [5, 10, 15, 20])
                # As a requeued job would, saying the same.
                self.assertIn("already done", self.train(*again, ranks=ranks))
                output = self.train(*again, "train.steps=25", ranks=ranks)
                self.assertIn(f"goes on from ./{name}/checkpoints/step-00000020", output)
                # Another step is another wish.
                output = self.train(name, "checkpoint.keep=4", "run.resume_step=15", "train.steps=25", ranks=ranks)
                self.assertIn(f"goes on from ./{name}/checkpoints/step-00000015", output)
                self.assertEqual([line[0] for line in self.metrics(name)], list(range(1, 26)))
                self.assertTrue(os.path.isdir(self.step(name, 20) + ".aside2"))
                with open(self.path(name, "config.yaml")) as file:
                    self.assertRegex(file.read(), r"resume_step: newest ")

    def test_a_step_asked_for_that_is_missing_or_damaged_is_refused(self):
        self.train("back", ranks=2)
        output = self.train("back", "run.resume_step=5", expect=DATA, ranks=2)
        self.assertIn("there is no step-00000005, which run.resume_step asks for; there is step-00000010, step-00000015", output)
        self.assertIn("there are no checkpoints", self.train("none", "run.resume_step=5", expect=DATA))
        self.assertFalse(os.path.exists(self.path("none")))
        output = self.train("back", "run.resume=never", "run.resume_step=15", expect=CONFIGURATION)
        self.assertIn("run.resume_step: a step to go on from, and run.resume is never", output)
        os.truncate(os.path.join(self.step("back", 15), "rank-00001.safetensors"), 100)
        output = self.train("back", "run.resume_step=15", expect=DATA, ranks=2)
        self.assertIn("step-00000015/rank-00001.safetensors: has 100 bytes", output)
        self.assertIn("run.resume_step asks for step 15", output)
        self.assertEqual(self.steps("back"), [10, 15, 20])
        self.assertEqual(len(self.metrics("back")), 20)

    def test_a_changed_configuration_is_refused_by_key(self):
        self.train("fixed")
        output = self.train("fixed", "train.steps=30", "optimizer.learning_rate=1e-3", "model.width=32", expect=CONFIGURATION)
        self.assertIn("optimizer.learning_rate: 0.001 (was 0.0006)", output)
        self.assertIn("model.width: 32 (was 16)", output)
        self.assertNotIn("train.steps:", output)
        self.assertIn("train.steps", self.train("fixed", "train.steps=19", expect=CONFIGURATION))
        self.train("fixed", "train.steps=30", "logging.every=5", "checkpoint.keep=1", "train.micro_batch=2")
        self.assertEqual(self.steps("fixed"), [30])

    def test_more_steps_keep_the_warm_up(self):
        self.train("warm", "schedule.warmup=null", "train.steps=20")
        self.train("warm", "schedule.warmup=null", "train.steps=60")
        with open(self.path("warm", "config.yaml")) as file:
            self.assertRegex(file.read(), r"warmup: 1 ")


if __name__ == "__main__":
    unittest.main()
