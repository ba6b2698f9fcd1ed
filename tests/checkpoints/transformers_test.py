"""LlamaForCausalLM of the `transformers` package loads our exports and gives our logits."""

import packages

packages.require("transformers", "torch", "transformers", "safetensors")

import os
import unittest

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM
from transformers.utils import logging

from tiny_run import TinyRunTest

PROMPT = "the long wave of the sea and a short model, twice the context"
# Of logits that reach 3 to 5. Both compute in fp32, in another order, and differ by 1.4e-6; a wrong weight, angle or head shows
# in the first digits. A bf16 export has rounded every weight to 8 bits, which our run has not: 0.007.
TOLERANCE = {"fp32": 2e-5, "bf16": 0.05}
# Training hard enough that the logits are far from those of the drawn weights.
ROPE = ("position.kind=rope", "position.floor_cycles=null", "train.steps=40", "optimizer.learning_rate=1e-2")

MODELS = {
    "grouped": (),
    "ungrouped": ("model.kv_heads=4",),
    "tied": ("model.tied=true",),
    "deep": ("model.layers=3", "model.width=24", "model.head_dim=4", "position.theta=10000"),
    "epsilon": ("model.norm_epsilon=1e-3", "model.vocabulary=300"),
}


class Transformers(TinyRunTest):
    def our_logits(self, name):
        self.longwave("generate", name, "--prompt", PROMPT, "--logits", f"{name}.safetensors")
        file = load_file(self.path(f"{name}.safetensors"))
        return file["tokens"], file["logits"]

    def their_logits(self, folder, tokens):
        model, info = LlamaForCausalLM.from_pretrained(self.path(folder), dtype=torch.float32, output_loading_info=True)
        self.assertFalse(info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"], info)
        with torch.no_grad():
            return model(tokens[None].long()).logits[0]

    def compare(self, name, dtype, *options):
        tokens, ours = self.our_logits(name)
        self.assertEqual(bytes(tokens.tolist()), PROMPT.encode())
        folder = f"{name}-{dtype}-{len(options)}"
        self.longwave("checkpoint", "export", name, "-o", folder, "--dtype", dtype, *options)
        theirs = self.their_logits(folder, tokens)
        self.assertEqual(ours.shape, theirs.shape)
        difference = (ours - theirs).abs().max().item()
        print(f"{name}, {dtype}: logits differ by at most {difference:.2g}, and reach {ours.abs().max().item():.3g}")
        self.assertLess(difference, TOLERANCE[dtype])
        self.assertGreater((ours.max() - ours.min()).item(), 5)

    def test_every_kind_of_model_gives_our_logits(self):
        for name, overrides in MODELS.items():
            with self.subTest(model=name):
                self.train(name, *ROPE, *overrides)
                self.compare(name, "fp32")

    def test_shards_and_bf16_give_our_logits(self):
        self.train("meshed", *ROPE, ranks=4, tensor=2)
        self.compare("meshed", "fp32", "--shard-gb", "0.000005")
        self.compare("meshed", "bf16")


logging.disable_progress_bar()

if __name__ == "__main__":
    unittest.main()
