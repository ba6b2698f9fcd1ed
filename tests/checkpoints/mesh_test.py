"""Every mesh loads what any other has saved."""

import json
import shutil
import unittest

from checkpoint_reader import read_checkpoint, read_export, read_manifest, read_safetensors
from tiny_run import TinyRunTest

MESHES = {"1x1": (1, 1), "2x1": (2, 1), "4x1": (4, 1), "1x2": (2, 2), "2x2": (4, 2)}


class Mesh(TinyRunTest):
    def on(self, mesh):
        ranks, tensor = MESHES[mesh]
        return dict(ranks=ranks, tensor=tensor)

    def test_any_mesh_loads_the_weights_of_any_other_to_the_bit(self):
        for writer in MESHES:
            self.train(writer, **self.on(writer))
            weights = self.digest(self.path(writer, "weights.safetensors"))
            for reader in MESHES:
                with self.subTest(writer=writer, reader=reader):
                    name = f"{writer}-{reader}"
                    self.copy(writer, name)
                    self.reopen(name)
                    # Nothing is left to train: the weights are gathered from where the checkpoint has put them.
                    self.train(name, **self.on(reader))
                    self.assertEqual(self.digest(self.path(name, "weights.safetensors")), weights)

    def test_moments_survive_a_change_of_mesh(self):
        """A run passed from mesh to mesh stays within rounding of one that stayed where it was."""
        self.train("stayed", "train.steps=40")
        for writer in MESHES:
            # The learning rate follows train.steps: the first half is cut from a run of the same length.
            self.train(writer, "train.steps=40", "checkpoint.keep_every=5", **self.on(writer))
            for step in self.steps(writer):
                if step > 20:
                    shutil.rmtree(self.step(writer, step))
            self.reopen(writer)
            for reader in MESHES:
                if writer == reader:
                    continue
                with self.subTest(writer=writer, reader=reader):
                    name = f"{writer}-to-{reader}"
                    self.copy(writer, name)
                    self.train(name, "train.steps=40", "checkpoint.keep_every=5", **self.on(reader))
                    for stayed, moved in zip(self.metrics("stayed"), self.metrics(name), strict=True):
                        self.assertEqual(stayed[0], moved[0])
                        self.assertAlmostEqual(stayed[1], moved[1], delta=1e-5 * stayed[1])
                    shutil.rmtree(self.path(name))

    def trained_bytes_by_rank(self, name):
        manifest = read_manifest(self.step(name, 20))
        sizes = [0] * len(manifest["files"])
        for tensor in manifest["tensors"]:
            if ".position." in tensor["name"]:
                continue
            for piece in tensor["slices"]:
                sizes[piece["file"]] += piece["bytes"]
        return sizes

    def test_ranks_that_all_hold_the_optimizer_share_the_writing(self):
        whole = ("parallel.shard_optimizer=false",)
        vocabulary = "model.vocabulary=384"  # no padding rows, which are somebody's too but are not written
        for mesh in ("2x1", "2x2"):
            with self.subTest(mesh=mesh):
                sharded, shared = f"{mesh}-sharded", f"{mesh}-shared"
                self.train(sharded, vocabulary, **self.on(mesh))
                self.train(shared, vocabulary, *whole, **self.on(mesh))
                sizes = self.trained_bytes_by_rank(shared)
                self.assertEqual(len(sizes), MESHES[mesh][0])
                tensor = MESHES[mesh][1]
                for shard in range(tensor):  # the first shard also writes what is equal on all
                    data_ranks = sizes[shard::tensor]
                    self.assertLessEqual(max(data_ranks) - min(data_ranks), 12, sizes)  # an element and its moments
                self.assertEqual(read_checkpoint(self.step(shared, 20)), read_checkpoint(self.step(sharded, 20)))
                # And goes on where the other went on, each from the other's files.
                for name, overrides in ((shared, ()), (sharded, whole)):
                    self.reopen(name)
                    self.train(name, vocabulary, *overrides, "train.steps=25", **self.on(mesh))
                self.assertEqual(read_checkpoint(self.step(shared, 25)), read_checkpoint(self.step(sharded, 25)))

    def test_a_reader_made_from_the_specification_reads_every_mesh(self):
        for mesh in MESHES:
            with self.subTest(mesh=mesh):
                self.train(mesh, **self.on(mesh))
                tensors = read_checkpoint(self.step(mesh, 20))
                weights = read_safetensors(self.path(mesh, "weights.safetensors"))
                self.assertEqual({name for name in tensors if not name.startswith("optimizer.")}, set(weights))
                for name, (dtype, shape, values) in weights.items():
                    self.assertEqual(tensors[name], (dtype, shape, values), name)
                trained = [name for name in weights if ".position." not in name]
                for name in trained:
                    for moment in ("moment1", "moment2"):
                        dtype, shape, values = tensors[f"optimizer.{moment}.{name}"]
                        self.assertEqual((dtype, shape), weights[name][:2])
                        self.assertTrue(any(value != 0 for value in values), name)
                self.longwave("checkpoint", "export", mesh, "-o", f"{mesh}-export")
                self.assertEqual(read_export(self.path(f"{mesh}-export")), weights)
        with open(self.path("2x2", "checkpoints", "step-00000020", "manifest.json")) as file:
            manifest = json.load(file)
        self.assertEqual(manifest["mesh"], {"data": 2, "tensor": 2})
        self.assertEqual(manifest["samples"], 80)
        self.assertEqual(len(manifest["files"]), 4)


if __name__ == "__main__":
    unittest.main()
