"""The main job: what it writes, that it repeats itself, that ranks agree, that it can be stopped."""

import csv
import json
import math
import pathlib
import signal
import struct
import unittest

from program import ProgramTest


def read_safetensors(path):
    """From the format's specification: length, JSON header, data."""
    raw = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    codes = {"F32": "f", "F64": "d"}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = raw[8 + size + begin:8 + size + end]
        code = codes[entry["dtype"]]
        tensors[name] = (entry["shape"], struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))
    return tensors


def read_fields(data):
    """Protocol buffer fields of one message, in order, as (number, value)."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
            continue
        size = {1: 8, 5: 4}[kind] if kind != 2 else varint()
        yield tag >> 3, data[at:at + size]
        at += size


def read_events(path):
    """(step, {tag: value}) of every event of a TensorBoard file."""
    raw, at, events = pathlib.Path(path).read_bytes(), 0, []
    while at < len(raw):
        (size,) = struct.unpack_from("<Q", raw, at)
        fields = list(read_fields(raw[at + 12:at + 12 + size]))
        step, values = 0, {}
        for number, value in fields:
            if number == 2:
                step = value
            if number == 5:
                for _, scalar in read_fields(value):
                    parts = dict(read_fields(scalar))
                    values[parts[1].decode()] = struct.unpack("<f", parts[2])[0]
        events.append((step, values))
        at += 12 + size + 4
    return events


class RunDirectory(ProgramTest):
    def test_has_everything_a_reader_needs(self):
        self.train(ranks=2)
        run = self.run_directory()
        for name in ("config.yaml", "provenance.json", "status.json", "metrics.jsonl", "logs/rank-00000.jsonl", "logs/rank-00001.jsonl",
                     "weights.safetensors", "eval/perplexity.json", "eval/perplexity.csv", "eval/passkey.json", "eval/passkey.csv",
                     "report.html"):
            self.assertTrue((run / name).is_file(), name)
        self.assertEqual(self.status()["state"], "done")
        self.assertEqual(self.status()["exit_code"], 0)
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, 9)))
        self.assertEqual(self.metrics()[-1]["tokens"], 8 * 4 * 32)

        perplexity = json.loads((run / "eval/perplexity.json").read_text())
        self.assertEqual(perplexity["train_length"], 32)
        self.assertEqual([row["length"] for row in perplexity["lengths"]], [32, 64, 128])
        for row in perplexity["lengths"]:
            self.assertEqual(row["targets"], row["chunks"] * (row["length"] - 1))
            self.assertEqual(row["chunks"], 2048 // row["length"])
            self.assertTrue(1 < row["perplexity"] < 300)
        cells = json.loads((run / "eval/passkey.json").read_text())["cells"]
        for cell in cells:
            self.assertTrue(cell["low"] <= cell["correct"] / cell["trials"] <= cell["high"])
        with open(run / "eval/perplexity.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([int(row["length"]) for row in rows], [32, 64, 128])

    def test_metrics_say_where_time_and_memory_go(self):
        self.train("run.name=alone")
        self.train("logging.every=4", "model.layers=4", ranks=2)
        before = 0
        for line in self.metrics():
            parts = [line[f"{part}_seconds"] for part in ("data", "forward", "backward", "optimizer")]
            self.assertTrue(all(part > 0 for part in parts), line)
            self.assertTrue(0 <= line["exposed_communication_seconds"] < sum(parts), line)
            self.assertLess(sum(parts), line["seconds"] - before)
            before = line["seconds"]
            self.assertIn(line["slowest_rank"], (0, 1))
            self.assertGreaterEqual(line["slowest_rank_behind_seconds"], 0)
        self.assertGreater(sum(line["exposed_communication_seconds"] for line in self.metrics()), 0)
        memory, alone = self.metrics()[0]["memory_bytes"], self.metrics("alone")[0]["memory_bytes"]
        self.assertEqual(list(memory), ["parameters", "gradients", "optimizer", "activations", "tables"])
        self.assertTrue(all(size > 0 for size in memory.values()), memory)
        self.assertEqual(alone["optimizer"], 2 * alone["gradients"])
        self.assertAlmostEqual(memory["optimizer"], memory["gradients"], delta=0.01 * memory["gradients"])
        self.assertEqual(self.metrics("alone")[0]["slowest_rank_behind_seconds"], 0)

    def test_every_rank_logs_its_phases_and_steps(self):
        self.train(ranks=2)
        for rank in range(2):
            log = self.run_directory() / f"logs/rank-{rank:05}.jsonl"
            events = [json.loads(line) for line in log.read_text().splitlines()]
            phases = [event for event in events if event["event"] == "phase"]
            self.assertEqual([event["phase"] for event in phases if event["next"] != "save"][:2], ["start", "save"], events)
            self.assertEqual(phases[-1]["next"], "end")
            self.assertTrue(all(event["seconds"] > 0 for event in phases))
            steps = [event for event in events if event["event"] == "step"]
            self.assertEqual([event["step"] for event in steps], list(range(1, 9)))
            self.assertTrue(all(event["forward_seconds"] > 0 and event["backward_seconds"] > 0 for event in steps))

    def test_weights_are_whole_matrices_under_hugging_face_names(self):
        self.train(ranks=2)
        tensors = read_safetensors(self.run_directory() / "weights.safetensors")
        shapes = {name: shape for name, (shape, _) in tensors.items()}
        self.assertEqual(shapes["model.embed_tokens.weight"], [257, 32])
        self.assertEqual(shapes["lm_head.weight"], [257, 32])
        self.assertEqual(shapes["model.layers.1.self_attn.q_proj.weight"], [32, 32])
        self.assertEqual(shapes["model.layers.0.mlp.gate_proj.weight"], [64, 32])
        self.assertEqual(shapes["model.norm.weight"], [32])
        for name, (shape, values) in tensors.items():
            self.assertEqual(len(values), math.prod(shape), name)
            self.assertTrue(all(math.isfinite(value) for value in values), name)

    def test_config_yaml_repeats_the_run(self):
        self.train()
        (self.folder / "again.yaml").write_text((self.run_directory() / "config.yaml").read_text())
        result = self.run_program("train", "again.yaml", "run.name=again")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([line["loss"] for line in self.metrics()], [line["loss"] for line in self.metrics("again")])
        self.assertEqual((self.run_directory() / "weights.safetensors").read_bytes(),
                         (self.run_directory("again") / "weights.safetensors").read_bytes())


    def test_tensorboard_files_hold_the_metrics(self):
        self.train("logging.tensorboard=true")
        (path,) = (self.run_directory() / "tensorboard").iterdir()
        events = read_events(path)
        self.assertEqual(events[0][1], {})
        scalars = [(step, values) for step, values in events if "loss" in values]
        self.assertEqual([step for step, _ in scalars], list(range(1, 9)))
        for (_, values), line in zip(scalars, self.metrics(), strict=True):
            self.assertAlmostEqual(values["loss"], line["loss"], places=5)
            self.assertAlmostEqual(values["learning_rate"], line["learning_rate"], places=7)


class Ranks(ProgramTest):
    def assert_runs_agree(self, name, other, tolerance):
        for mine, theirs in zip(self.metrics(name), self.metrics(other), strict=True):
            self.assertAlmostEqual(mine["loss"], theirs["loss"], delta=tolerance * theirs["loss"])
            self.assertAlmostEqual(mine["grad_norm"], theirs["grad_norm"], delta=10 * tolerance * theirs["grad_norm"])
        rows = [json.loads((self.run_directory(run) / "eval/perplexity.json").read_text())["lengths"] for run in (name, other)]
        for mine, theirs in zip(*rows, strict=True):
            self.assertAlmostEqual(mine["perplexity"], theirs["perplexity"], delta=1e-4 * theirs["perplexity"])

    def test_one_and_two_train_the_same_model(self):
        self.train("run.name=one", ranks=1)
        self.train("run.name=two", ranks=2)
        self.assert_runs_agree("two", "one", 1e-5)

    def test_accumulation_trains_the_same_model(self):
        self.train("run.name=whole", ranks=1)
        self.train("run.name=parts", "train.micro_batch=1", ranks=1)
        self.assert_runs_agree("parts", "whole", 1e-5)

    def test_every_position_trains_on_two_ranks(self):
        for kind in ("fope", "fope-paper", "rope", "alibi", "nope", "p-rope", "clipped-rope"):
            self.train(f"run.name={kind}", f"position.kind={kind}", "train.steps=3", ranks=2)
            self.assertTrue(all(math.isfinite(line["loss"]) for line in self.metrics(kind)), kind)


class ContinualTraining(ProgramTest):
    def test_yarn_goes_on_at_twice_the_length_from_rope_weights(self):
        self.train("run.name=short", "position.kind=rope", "train.steps=40")
        self.train("run.name=long", "position={kind: yarn, original_context: 32}", "model.context=64", "train.steps=5",
                   "run.init_from=runs/short", "optimizer.learning_rate=1e-4")
        short, long = self.metrics("short"), self.metrics("long")
        self.assertLess(long[0]["loss"], (short[0]["loss"] + short[-1]["loss"]) / 2, "it must start from what was learnt")
        frequencies = read_safetensors(self.run_directory("long") / "weights.safetensors")["model.position.frequencies"][1]
        self.assertEqual(frequencies[0], 1 / 2 + 1 / 2 * (32 / (2 * math.pi) - 1) / 31)  # 5.09 cycles within 32
        self.assertIn("original_context: 32", (self.run_directory("long") / "config.yaml").read_text())


class Stopping(ProgramTest):
    def stop_with(self, number, ranks=2):
        process = self.start_program("train", "job.yaml", "train.steps=1000000", ranks=ranks)
        self.wait_for(lambda: (self.run_directory() / "metrics.jsonl").exists() and self.metrics(), "the first step")
        process.send_signal(number)
        process.communicate(timeout=60)
        return process.returncode

    def test_sigterm_ends_the_step_and_says_so(self):
        self.assertEqual(self.stop_with(signal.SIGTERM, ranks=0), 75)
        self.assertEqual(self.status()["state"], "stopped")
        self.assertEqual(self.status()["exit_code"], 75)
        self.assertIn("SIGTERM", self.status()["reason"])

    def test_sigint_ends_the_step_and_says_so(self):
        self.assertEqual(self.stop_with(signal.SIGINT, ranks=0), 75)
        self.assertEqual(self.status()["state"], "stopped")

    def test_a_done_run_is_left_alone(self):
        self.train()
        before = (self.run_directory() / "metrics.jsonl").read_bytes()
        self.assertIn("done", self.train().stdout)
        self.assertEqual((self.run_directory() / "metrics.jsonl").read_bytes(), before)


class OtherCommands(ProgramTest):
    def test_evaluate_measures_again_on_any_number_of_ranks(self):
        self.train(ranks=2)
        first = json.loads((self.run_directory() / "eval/perplexity.json").read_text())
        result = self.run_program("evaluate", "runs/job", "--lengths", "32,256", "-o", "elsewhere")
        self.assertEqual(result.returncode, 0, result.stderr)
        again = json.loads((self.folder / "elsewhere/perplexity.json").read_text())
        self.assertEqual([row["length"] for row in again["lengths"]], [32, 256])
        self.assertAlmostEqual(again["lengths"][0]["perplexity"], first["lengths"][0]["perplexity"],
                               delta=1e-4 * first["lengths"][0]["perplexity"])

    def test_evaluate_scales_rope(self):
        self.train("position.kind=rope")
        for scaling in ("pi", "ntk", "yarn"):
            result = self.run_program("evaluate", "runs/job", f"position.scaling={scaling}", "--lengths", "128", "-o", scaling)
            self.assertEqual(result.returncode, 0, result.stderr)
        values = {json.loads((self.folder / scaling / "perplexity.json").read_text())["lengths"][0]["perplexity"]
                  for scaling in ("pi", "ntk", "yarn")}
        self.assertEqual(len(values), 3, "each scaling must change the model")

    def test_generate_continues_a_text_reproducibly(self):
        self.train()
        texts = [self.run_program("generate", "runs/job", "--prompt", "the of", "--tokens", "20", "--seed", "3") for _ in range(2)]
        self.assertEqual(texts[0].returncode, 0, texts[0].stderr)
        self.assertTrue(texts[0].stdout.startswith("the of"))
        self.assertEqual(texts[0].stdout, texts[1].stdout)

    def test_help_and_version(self):
        for arguments in (["--help"], ["--version"], ["train", "--help"], ["evaluate", "--help"], ["report", "--help"],
                          ["prepare", "--help"], ["plan", "--help"], ["generate", "--help"]):
            result = self.run_program(*arguments)
            self.assertEqual(result.returncode, 0, arguments)
            self.assertTrue(result.stdout.strip(), arguments)


if __name__ == "__main__":
    unittest.main()
