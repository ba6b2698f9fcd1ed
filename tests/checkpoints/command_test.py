"""longwave checkpoint, and runs that start from other weights."""

import json
import os
import struct
import unittest

from checkpoint_reader import read_checkpoint, read_export, read_safetensors
from tiny_run import CONFIGURATION, DATA, TinyRunTest

ROPE = ("position.kind=rope", "position.floor_cycles=null")


def widened(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


class Command(TinyRunTest):
    def export(self, name, to, *options):
        self.longwave("checkpoint", "export", name, "-o", to, *options)
        with open(self.path(to, "config.json")) as file:
            return json.load(file)

    def test_list_shows_steps_and_what_is_wrong_with_them(self):
        self.train("run", ranks=2)
        os.truncate(os.path.join(self.step("run", 15), "rank-00001.safetensors"), 100)
        lines = self.longwave("checkpoint", "list", "run").splitlines()
        self.assertEqual([line.split()[0] for line in lines[1:]], ["step-00000010", "step-00000015", "step-00000020"])
        self.assertIn("2 data x 1 tensor", lines[1])
        self.assertIn("complete", lines[3])
        self.assertIn("rank-00001.safetensors: has 100 bytes, expected", lines[2])
        self.assertIn("holds no checkpoints", self.longwave("checkpoint", "list", ".", expect=DATA))

    def test_inspect_shows_shapes_norms_and_owners(self):
        self.train("run", ranks=2)
        output = self.longwave("checkpoint", "inspect", "run")
        self.assertIn("step 20, saved", output)
        tensors = read_checkpoint(self.step("run", 20))
        rows = {line.split()[0]: line for line in output.splitlines() if line.startswith(("model.", "lm_head", "optimizer."))}
        self.assertEqual(set(rows), set(tensors))
        for name, (dtype, shape, values) in tensors.items():
            self.assertIn(f"[{', '.join(map(str, shape))}]", rows[name])
            norm = float(rows[name].split("]")[1].split()[1])
            self.assertAlmostEqual(norm, sum(value * value for value in values) ** 0.5, delta=1e-5 * norm + 1e-12)

    def test_diff_finds_the_one_element_that_differs(self):
        self.train("one")
        self.train("two", "train.steps=20", "checkpoint.keep=1")
        self.assertIn("0 differ", self.longwave("checkpoint", "diff", "one", "two"))
        self.train("three", "run.seed=2", ranks=2)
        output = self.longwave("checkpoint", "diff", "one", "three", expect=DATA)
        self.assertIn("model.embed_tokens.weight", output)
        self.assertNotIn("model.position.frequencies", output)

    def test_export_of_a_rope_model_is_a_llama(self):
        self.train("rope", *ROPE)
        config = self.export("rope", "out")
        self.assertEqual(config["architectures"], ["LlamaForCausalLM"])
        expected = dict(vocab_size=257, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=4,
                        num_key_value_heads=2, head_dim=8, max_position_embeddings=16, rope_theta=100, rms_norm_eps=1e-6,
                        tie_word_embeddings=False, torch_dtype="float32", model_type="llama", hidden_act="silu")
        self.assertEqual({key: config[key] for key in expected}, expected)
        weights = read_safetensors(self.path("rope", "weights.safetensors"))
        exported = read_export(self.path("out"))
        self.assertEqual(exported, {name: value for name, value in weights.items() if ".position." not in name})
        self.assertIn("exists already", self.longwave("checkpoint", "export", "rope", "-o", "out", expect=CONFIGURATION))

    def test_export_of_another_model_says_so_and_keeps_its_positions(self):
        self.train("fope")
        config = self.export("fope", "out", "--dtype", "bf16", "--shard-gb", "0.000005")
        self.assertEqual(config["model_type"], "longwave")
        self.assertEqual(config["position"]["kind"], "fope")
        self.assertEqual(config["position"]["floor_cycles"], 0.5)
        self.assertGreater(len([name for name in os.listdir(self.path("out")) if name.endswith(".safetensors")]), 1)
        weights = read_safetensors(self.path("fope", "weights.safetensors"))
        exported = read_export(self.path("out"))
        self.assertEqual(set(exported), set(weights))
        for name, (dtype, shape, values) in exported.items():
            if ".position." in name:
                self.assertEqual((dtype, shape, values), weights[name])
                continue
            self.assertEqual(dtype, "BF16")
            for rounded, value in zip(map(widened, values), weights[name][2], strict=True):
                self.assertLessEqual(abs(rounded - value), abs(value) / 256)

    def test_logits_of_a_prompt_are_what_generating_goes_by(self):
        self.train("run")
        prompt = "the long wave of the sea"
        self.longwave("generate", "run", "--prompt", prompt, "--logits", "logits.safetensors")
        file = read_safetensors(self.path("logits.safetensors"))
        self.assertEqual(file["tokens"], ("I32", [len(prompt)], list(prompt.encode())))
        dtype, shape, logits = file["logits"]
        self.assertEqual((dtype, shape), ("F32", [len(prompt), 257]))
        for length in (5, len(prompt)):  # causal: rows do not depend on what follows
            row = logits[(length - 1) * 257 : length * 257]
            text = self.longwave("generate", "run", "--prompt", prompt[:length], "--temperature", "0", "--tokens", "1")
            self.assertEqual(text, f"{prompt[:length]}{chr(row.index(max(row)))}\n")

    def test_a_damaged_checkpoint_is_not_exported(self):
        self.train("run")
        path = os.path.join(self.step("run", 20), "rank-00000.safetensors")
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x7f")
        self.assertIn("rank-00000.safetensors", self.longwave("checkpoint", "export", "run", "-o", "out", expect=DATA))
        self.assertFalse(os.path.exists(self.path("out")) or os.path.exists(self.path("out.partial")))

    def first_loss(self, name):
        return self.metrics(name)[0][1]

    def test_weights_come_from_a_run_a_checkpoint_a_file_or_an_export_on_any_mesh(self):
        self.train("source", *ROPE, "train.steps=40", "optimizer.learning_rate=5e-3", ranks=2)
        self.export("source", "folder", "--shard-gb", "0.000005")
        overrides = (*ROPE, "train.steps=1", "schedule.warmup=0")
        self.train("drawn", *overrides)
        losses = []
        for index, path in enumerate(("source", self.step("source", 40), "source/weights.safetensors", "folder")):
            for ranks, tensor in ((1, 1), (4, 2)):
                name = f"from-{index}-{ranks}"
                self.assertIn("weights from", self.train(name, *overrides, f"run.init_from={path}", ranks=ranks, tensor=tensor))
                losses.append(self.first_loss(name))
        for loss in losses:
            self.assertAlmostEqual(loss, losses[0], delta=1e-5)
        self.assertLess(losses[0], self.first_loss("drawn") - 0.5)

    def test_a_run_may_start_from_another_context_and_position(self):
        self.train("source", *ROPE)
        self.train("longer", "run.init_from=source", "model.context=32", "train.steps=5")
        taken = read_checkpoint(self.step("longer", 5))
        self.assertIn("model.layers.0.self_attn.position.cosine", taken)
        # Going on needs the source no more.
        os.rename(self.path("source"), self.path("gone"))
        self.train("longer", "run.init_from=source", "model.context=32", "train.steps=8")

    def test_weights_of_another_model_are_refused_before_anything_is_made(self):
        self.train("source", *ROPE)
        for override, message in (("model.width=32", "the model's is"), ("model.layers=2", "there is no tensor model.layers.1"),
                                  ("model.qk_norm=true", "there is no tensor"), ("model.tied=true", "has lm_head.weight")):
            self.assertIn(message, self.train("refused", "run.init_from=source", override, expect=DATA))
        self.export("source", "folder")
        output = self.train("refused", "run.init_from=folder", "model.heads=2", "model.kv_heads=1", "model.head_dim=16",
                            expect=DATA)
        self.assertIn("num_attention_heads is 4, model.heads is 2", output)
        self.assertIn("there is no such file", self.train("refused", "run.init_from=nowhere", expect=DATA))
        self.assertFalse(os.path.exists(self.path("refused")))


if __name__ == "__main__":
    unittest.main()
