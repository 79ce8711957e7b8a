"""Trains on devices, in one process and in several: python device_training.py PROGRAM PLUGIN [--mpi PLUGIN --mpirun MPIRUN]

PLUGIN is what the program takes for its CUDA runtime: that of tests, which has two devices. It lies beside a copy of the program, where
there is nothing of NCCL's.
"""

import argparse
import json
import os
import pathlib
import shutil
import tempfile
import unittest

import numpy
import onnx
from onnx import helper, numpy_helper

import training

ARGUMENTS = None


def dropping(model):
    """The model with half of what its second layer reads dropped in training."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    layer = next(node for node in model.graph.node if node.name == "second")
    dropout = helper.make_node("Dropout", [layer.input[0], "ratio", "in_training"], ["dropped"], seed=3)
    layer.input[0] = "dropped"
    model.graph.node.insert(list(model.graph.node).index(layer), dropout)
    model.graph.initializer.append(numpy_helper.from_array(numpy.float32(0.5), "ratio"))
    model.graph.initializer.append(numpy_helper.from_array(numpy.array(True), "in_training"))
    return model


class DeviceTraining(training.Fixture):
    def losses(self, *more, **where):
        metrics = self.folder / "metrics"
        metrics.unlink(missing_ok=True)
        self.trained("out.onnx", "--epochs", "2", "--metrics", str(metrics), *more, **where)
        return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]

    def compare(self, *more, tolerance=1e-4, device="cuda", **where):
        expected = self.losses(*more, **where)
        found = self.losses(*more, "--device", device, **where)
        self.assertEqual(len(found), len(expected))
        for a, b in zip(expected, found):
            self.assertLess(abs(a - b), tolerance * abs(a), more)

    def test_losses_are_those_of_the_cpu(self):
        onnx.save(dropping(onnx.load(self.folder / "model.onnx")), self.folder / "dropping.onnx")
        self.compare("--clip", "0.5")
        self.compare("--accumulate", "3", model="dropping.onnx")
        self.compare("--precision", "bfloat16", tolerance=0.05)

    def test_one_process_adds_nothing_up(self):
        self.assertEqual(self.losses("--device", "cuda", "--allreduce", "nccl"), self.losses("--device", "cuda"))

    def test_what_the_device_holds_is_kept_and_judged(self):
        state, facts = str(self.folder / "state"), self.folder / "facts"
        on_device = ["--device", "cuda:1", "--optimizer", "momentum"]
        whole = self.trained("out.onnx", *on_device, "--epochs", "2", "--validate", str(self.folder / "data"), "--json", str(facts))
        self.assertIn("accuracy", json.loads(facts.read_text())["validation"])
        self.trained("other.onnx", *on_device, "--epochs", "2", "--checkpoint", state, "--save-every", "8")
        first = (self.folder / "state").read_bytes()
        # Nothing is left to do: the model and the next checkpoint hold what was read.
        self.assertEqual(self.trained("out.onnx", *on_device, "--epochs", "2", "--checkpoint", state, "--resume"), whole)
        self.assertEqual((self.folder / "state").read_bytes(), first)

    def test_what_is_missing_is_one_line(self):
        self.refused("there is no GPU 2", "--device", "cuda:2", status=4)
        self.refused("there is no device", "--device", "toaster", status=2)

    def test_processes_take_a_device_each(self):
        if not ARGUMENTS.mpi:
            self.skipTest("no MPI")
        self.compare("--allreduce", "ring", "--check-every", "4", processes=2)
        self.compare("--bucket", "100", device="cuda:1", processes=2)
        shards = ["--epochs", "1", "--shards", "4", "--device", "cuda"]
        self.assertEqual(self.trained("one.onnx", *shards), self.trained("two.onnx", *shards, processes=2))

    def test_processes_without_a_device_or_nccl_are_refused(self):
        if not ARGUMENTS.mpi:
            self.skipTest("no MPI")
        for what, processes in (("a GPU of its own", 3), ("no NCCL", 2)):
            result = self.train("refused.onnx", "--device", "cuda", processes=processes)
            self.assertEqual(result.returncode, 4, result.stderr)
            lines = [line for line in result.stderr.splitlines() if line.startswith("rewright: error: ")]
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertIn(what, lines[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rewright")
    parser.add_argument("plugin")
    parser.add_argument("--mpi")
    parser.add_argument("--mpirun", default="mpirun")
    ARGUMENTS, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "rewright"
        shutil.copy2(ARGUMENTS.rewright, program)
        os.symlink(os.path.abspath(ARGUMENTS.plugin), program.parent / "librewright_cuda.so")
        if ARGUMENTS.mpi:
            os.symlink(os.path.abspath(ARGUMENTS.mpi), program.parent / "librewright_mpi.so")
        training.ENVIRONMENT["XDG_CACHE_HOME"] = folder  # kernels and choices of the device of tests
        ARGUMENTS.rewright = str(program)
        training.ARGUMENTS = ARGUMENTS
        unittest.main(argv=["device_training.py", *rest])
