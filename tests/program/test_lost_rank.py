"""A rank of four dies or stops: the job ends within the limit of its phase, says which rank it was, and leaves no process."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import unittest

from program import ProgramTest

RANKS = 4
VICTIM = 2
LOST = 69
LIMIT = 3  # seconds that a phase may be silent
# What ending a job takes beyond the limit: a poll, the ranks' turns, and the launcher, which gives stopped processes a second.
GRACE = 20
SLOW_FILES = {"LD_PRELOAD": os.environ["LONGWAVE_FAULTS"], "LONGWAVE_FAULT_DELAY": "1"}

# Phase of the loss: what makes it last until the rank is lost. Starting draws the weights of a larger model; saving waits for
# files that take a second an operation.
LONG = {
    "start": ["model.layers=6", "model.width=512", "model.heads=8", "model.kv_heads=8", "model.head_dim=64", "model.mlp_hidden=2048"],
    "train": ["train.steps=1000000"],
    "save": ["train.steps=2"],
    "evaluate": ["train.steps=2", "evaluate.passkey.trials=1000000"],
}


class LostRank(ProgramTest):
    def beats(self, name="job"):
        """The heartbeats that are whole, by rank."""
        records = {}
        for path in sorted((self.run_directory(name) / "heartbeats").glob("rank-*.json")):
            try:
                record = json.loads(path.read_text())
            except ValueError:  # caught while it was overwritten
                continue
            records[record["rank"]] = record
        return records

    def wait_until_watched_in(self, phase, process):
        """Every rank is in `phase` and has its watchdog; returns their records."""
        found = {}

        def arrived():
            self.assertIsNone(process.poll(), "the job ended early")
            found.update(self.beats())
            watched = len(list((self.run_directory() / "watchdog").glob("rank-*")))
            there = all(record["phase"] == phase and (phase != "train" or record["step"] > 0) for record in found.values())
            return watched == RANKS and len(found) == RANKS and there

        self.wait_for(arrived, f"phase {phase}")
        return found

    def lose(self, number, phase, command):
        limits = f"watchdog={{start: {LIMIT}, step: {LIMIT}, evaluate: {LIMIT}, save: {LIMIT}}}"
        process = self.start_program(*command, *LONG[phase], limits, ranks=RANKS,
                                     environment=SLOW_FILES if phase == "save" else None)
        before = self.wait_until_watched_in(phase, process)
        os.kill(before[VICTIM]["pid"], number)
        _, errors = process.communicate(timeout=LIMIT + GRACE)
        self.assert_named(errors, before[VICTIM], phase)
        for record in before.values():
            self.wait_for(lambda pid=record["pid"]: not self.is_ours(pid), f"the end of process {record['pid']}", limit=5)
        return process.returncode

    def assert_named(self, errors, victim, phase):
        lines = [line for line in errors.splitlines() if line.startswith("longwave: ")]
        self.assertEqual(len(lines), 1, errors)
        self.assertIn(f"rank {VICTIM} on {socket.gethostname()} (process {victim['pid']})", lines[0])
        self.assertRegex(lines[0], rf"in phase {phase} at step \d+")
        logged = [event for rank in range(RANKS) for event in self.events(rank) if event["event"] == "lost_rank"]
        self.assertEqual([event["lost_rank"] for event in logged], [VICTIM])

    def events(self, rank):
        path = self.run_directory() / f"logs/rank-{rank:05}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    @staticmethod
    def is_ours(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return b"longwave" in file.read()
        except FileNotFoundError:
            return False

    def assert_status(self, phase):
        status = self.status()
        self.assertEqual((status["state"], status["exit_code"], status["rank"], status["host"], status["phase"]),
                         ("failed", LOST, VICTIM, socket.gethostname(), phase))
        self.assertIn(f"rank {VICTIM} on ", status["reason"])
        self.assertIn(f"at step {status['step']}", status["reason"])


class KilledRank(LostRank):
    def test_in_start_up(self):
        self.assertNotEqual(self.lose(signal.SIGKILL, "start", ["train", "job.yaml"]), 0)
        self.assert_status("start")

    def test_in_training(self):
        self.assertNotEqual(self.lose(signal.SIGKILL, "train", ["train", "job.yaml"]), 0)
        self.assert_status("train")
        self.assertGreater(self.status()["step"], 0)

    def test_in_a_save(self):
        self.assertNotEqual(self.lose(signal.SIGKILL, "save", ["train", "job.yaml"]), 0)
        self.assert_status("save")
        self.assertEqual(self.status()["step"], 2)

    def test_in_the_final_evaluation(self):
        self.assertNotEqual(self.lose(signal.SIGKILL, "evaluate", ["train", "job.yaml"]), 0)
        self.assert_status("evaluate")
        self.assertEqual(self.status()["step"], 2)


class StoppedRank(LostRank):
    def test_in_start_up(self):
        self.assertEqual(self.lose(signal.SIGSTOP, "start", ["train", "job.yaml"]), LOST)
        self.assert_status("start")

    def test_in_training(self):
        self.assertEqual(self.lose(signal.SIGSTOP, "train", ["train", "job.yaml"]), LOST)
        self.assert_status("train")

    def test_in_a_save(self):
        self.assertEqual(self.lose(signal.SIGSTOP, "save", ["train", "job.yaml"]), LOST)
        self.assert_status("save")

    def test_in_the_final_evaluation(self):
        self.assertEqual(self.lose(signal.SIGSTOP, "evaluate", ["train", "job.yaml"]), LOST)
        self.assert_status("evaluate")

    def test_in_an_evaluation_by_itself_which_leaves_the_runs_status(self):
        self.train("train.steps=2", "evaluate.passkey.trials=0")
        before = self.status()
        self.assertEqual(self.lose(signal.SIGSTOP, "evaluate", ["evaluate", "runs/job"]), LOST)
        self.assertEqual(self.status(), before)


class StoppedBeforeTheRunDirectory(LostRank):
    """The others come a second later, so that it is stopped while it waits for them in MPI_Init."""

    def lose_in_initialisation(self, *command):
        records = self.folder / "temporary"
        records.mkdir()
        late = ["bash", "-c", f'[ "$OMPI_COMM_WORLD_RANK" = {VICTIM} ] || sleep 1; exec "$0" "$@"']
        process = self.start_program(*command, f"watchdog.start={LIMIT}", ranks=RANKS, wrapper=late,
                                     environment={"TMPDIR": str(records)})
        record = None

        def begun():
            nonlocal record
            record = next(records.glob(f"longwave-start-*/rank-{VICTIM:05}"), None)
            return record is not None and record.stat().st_size == 4

        self.wait_for(begun, "the record of the victim")
        pid = int.from_bytes(record.read_bytes(), sys.byteorder)
        os.kill(pid, signal.SIGSTOP)
        _, errors = process.communicate(timeout=LIMIT + GRACE)
        lines = [line for line in errors.splitlines() if line.startswith("longwave: ")]
        self.assertEqual(len(lines), 1, errors)
        self.assertIn(f"rank {VICTIM} on {socket.gethostname()} (process {pid}) is stopped in phase start", lines[0])
        self.wait_for(lambda: not self.is_ours(pid), f"the end of process {pid}", limit=5)
        self.assertEqual(process.returncode, LOST)

    def test_in_training(self):
        self.lose_in_initialisation("train", "job.yaml")
        self.assertFalse(self.run_directory().exists())

    def test_a_start_that_is_only_slow_goes_on_and_leaves_no_record(self):
        records = self.folder / "temporary"
        records.mkdir()
        late = ["bash", "-c", '[ "$OMPI_COMM_WORLD_RANK" = 1 ] || sleep 2; exec "$0" "$@"']
        process = self.start_program("train", "job.yaml", "train.steps=2", "evaluate.passkey.trials=0", "watchdog.start=1", ranks=2,
                                     wrapper=late, environment={"TMPDIR": str(records)})
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(list(records.glob("longwave-start-*")), [])

    def test_a_start_removes_the_old_records_of_processes_that_are_gone(self):
        records = self.folder / "temporary"
        gone = subprocess.Popen(["true"])
        gone.wait()

        def leave(name, pid, age):
            folder = records / f"longwave-start-{os.getuid()}-{name}"
            folder.mkdir(parents=True)
            (folder / "rank-00000").write_bytes(pid.to_bytes(4, sys.byteorder))
            os.utime(folder, times=(time.time() - age,) * 2)
            return folder

        leave("old", gone.pid, 7200)
        kept = [leave("living", os.getpid(), 7200), leave("young", gone.pid, 60)]
        process = self.start_program("train", "job.yaml", "train.steps=2", "evaluate.passkey.trials=0", ranks=2,
                                     environment={"TMPDIR": str(records)})
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(sorted(records.glob("longwave-start-*")), sorted(kept))


if __name__ == "__main__":
    unittest.main()
