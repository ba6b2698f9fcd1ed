"""Every bad input gets one line that says what, where and what to do, its documented exit code, and nothing half made."""

import os
import struct
import subprocess
import unittest

from program import JOB, ProgramTest

CONFIGURATION, DATA, IO = 78, 65, 74


class BadConfiguration(ProgramTest):
    def assert_configuration_refused(self, *pieces, overrides=(), ranks=0, environment=None):
        result = self.run_program("train", "job.yaml", *overrides, ranks=ranks, environment=environment)
        self.assert_refused(result, CONFIGURATION, *pieces)
        self.assertFalse((self.folder / "runs").exists(), "a refused job must leave nothing behind")

    def test_unknown_key_names_the_nearest(self):
        self.write_job(JOB.replace("heads: 2,", "haeds: 2,", 1))
        self.assert_configuration_refused("job.yaml:2", "haeds", "heads")

    def test_unknown_key_is_refused_once_on_two_ranks(self):
        self.write_job(JOB.replace("batch: 4", "bacth: 4"))
        self.assert_configuration_refused("job.yaml:4", "bacth", "batch", ranks=2)

    def test_wrong_type(self):
        self.write_job(JOB.replace("steps: 8", "steps: many"))
        self.assert_configuration_refused("job.yaml:4", "train.steps", "many")

    def test_numbers_as_people_write_them(self):
        for text in ("1e-4", '"1e-4"', "1E-4", ".0001"):
            self.write_job(JOB.replace("learning_rate: 1e-2", f"learning_rate: {text}"))
            result = self.run_program("plan", "job.yaml", "--json")
            self.assertEqual(result.returncode, 0, f"{text}: {result.stderr}")

    def test_out_of_range(self):
        self.assert_configuration_refused("train.steps", "command line", overrides=["train.steps=0"])

    def test_heads_that_do_not_divide(self):
        self.assert_configuration_refused("heads", overrides=["model.kv_heads=3"])

    def test_missing_key(self):
        self.write_job(JOB.replace("steps: 8, ", ""))
        self.assert_configuration_refused("train.steps")

    def test_batch_that_does_not_divide_over_the_ranks(self):
        self.assert_configuration_refused("train.batch", overrides=["train.batch=3"], ranks=2)

    def test_missing_job_file(self):
        result = self.run_program("train", "nowhere.yaml")
        self.assertIn(result.returncode, (CONFIGURATION, DATA))
        self.assertIn("nowhere.yaml", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_programs_that_each_believe_to_be_alone(self):
        for environment in ({"OMPI_COMM_WORLD_SIZE": "4"}, {"SLURM_NTASKS": "4"}):
            self.assert_configuration_refused("rank", environment=environment)

    def test_wrong_command_line(self):
        self.assert_refused(self.run_program("train"), CONFIGURATION, "CONFIG")
        self.assert_refused(self.run_program("trian", "job.yaml"), CONFIGURATION)

    def test_only_train_and_evaluate_care_about_ranks(self):
        result = self.run_program("plan", "job.yaml", environment={"SLURM_NTASKS": "4"})
        self.assertEqual(result.returncode, 0, result.stderr)


class BadData(ProgramTest):
    def assert_data_refused(self, *pieces, overrides=(), ranks=0, code=DATA):
        result = self.run_program("train", "job.yaml", *overrides, ranks=ranks)
        self.assert_refused(result, code, *pieces)
        self.assertFalse((self.folder / "runs").exists(), "a refused job must leave nothing behind")

    def prepare(self):
        result = self.run_program("prepare", "text/train", "-o", "tokens.lwtok")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return self.folder / "tokens.lwtok"

    def use(self, shard):
        return [f"data.train={shard.relative_to(self.folder)}"]

    def test_missing_file(self):
        self.assert_data_refused("nowhere.txt", overrides=["data.train=nowhere.txt"], ranks=2)

    def test_pattern_without_a_match(self):
        self.assert_data_refused("text/*.gz", overrides=["data.train=text/*.gz"])

    def test_empty_file(self):
        (self.folder / "empty.txt").write_text("")
        self.assert_data_refused("empty.txt", "empty", overrides=["data.train=empty.txt"])

    def test_stream_shorter_than_a_sample(self):
        (self.folder / "short.txt").write_text("too short")
        self.assert_data_refused("short.txt", overrides=["data.train=short.txt"])

    def test_foreign_file(self):
        (self.folder / "foreign.bin").write_bytes(struct.pack("<256i", *([7] * 256)) + bytes(4096))
        self.assert_data_refused("foreign.bin", overrides=["data.train=foreign.bin"])

    def test_truncated_shard(self):
        shard = self.prepare()
        shard.write_bytes(shard.read_bytes()[:-100])
        self.assert_data_refused(shard.name, overrides=self.use(shard))

    def test_corrupted_shard_is_found_when_read_and_keeps_the_run_directory(self):
        shard = self.prepare()
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 1
        shard.write_bytes(data)
        # Ranks compare samples of what they have opened, which finds it before there is a run directory.
        result = self.run_program("train", "job.yaml", *self.use(shard), ranks=2)
        self.assert_refused(result, DATA, shard.name)
        self.assertFalse(self.run_directory().exists())
        result = self.run_program("train", "job.yaml", *self.use(shard))
        self.assert_refused(result, DATA, shard.name)
        self.assertEqual(self.status()["state"], "failed")
        self.assertEqual(self.status()["exit_code"], DATA)

    def test_token_id_out_of_range_names_file_and_offset(self):
        ids = [i % 200 for i in range(12000)]
        ids[1234] = 60000  # between the samples that ranks compare
        (self.folder / "raw.bin").write_bytes(struct.pack(f"<{len(ids)}H", *ids))
        result = self.run_program("train", "job.yaml", "data.tokenizer=none", "data.dtype=uint16", "model.vocabulary=257",
                                  "data.train=raw.bin", "data.validation=raw.bin", "train.steps=200", ranks=2)
        self.assert_refused(result, DATA, "raw.bin", "60000")
        self.assertEqual(self.status()["exit_code"], DATA)

    def test_corrupted_weights(self):
        self.train()
        weights = self.run_directory() / "weights.safetensors"
        data = bytearray(weights.read_bytes())
        data[-5] ^= 4
        weights.write_bytes(data)
        result = self.run_program("evaluate", "runs/job")
        self.assert_refused(result, DATA, "weights.safetensors")


class BadPlaces(ProgramTest):
    def test_run_directory_that_cannot_be_made(self):
        (self.folder / "runs").write_text("a file where a folder should be")
        self.assert_refused(self.run_program("train", "job.yaml", ranks=2), IO, "runs")

    def test_disk_that_is_full(self):
        # A disk of its own that holds the logs but not the weights.
        disk = self.folder / "disk"
        disk.mkdir()
        as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        subprocess.run([*as_root, "mount", "-t", "tmpfs", "-o", "size=96k,mode=777", "tmpfs", disk], check=True)
        self.addCleanup(subprocess.run, [*as_root, "umount", disk], check=True)
        result = self.run_program("train", "job.yaml", "run.dir=disk", ranks=2)
        self.assert_refused(result, IO, "weights.safetensors", "space")
        self.run_directory = lambda name="job": disk / name
        self.assertEqual(self.status()["exit_code"], IO)
        self.assertFalse(list(self.run_directory().glob("weights*")), "a half-written file remains")

    def test_run_directory_in_use_by_a_live_process(self):
        first = self.start_program("train", "job.yaml", "train.steps=1000000")
        self.wait_for(lambda: (self.run_directory() / "metrics.jsonl").exists() and self.metrics(), "the first job's first step")
        result = self.run_program("train", "job.yaml", "train.steps=1000000")
        self.assert_refused(result, CONFIGURATION, "runs/job", str(first.pid))
        self.assertEqual(self.status()["state"], "running")


if __name__ == "__main__":
    unittest.main()
