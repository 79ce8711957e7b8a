"""Trains with the program: several processes, kills, resuming, and input that cannot be trained on.

python training.py PROGRAM [--mpirun MPIRUN]
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ARGUMENTS = None
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def perceptron():
    """x [N, 4] -> 8 -> 3 classes, with a batch normalization between."""
    rng = numpy.random.default_rng(1)

    def weight(name, *shape):
        return numpy_helper.from_array(rng.normal(size=shape).astype("float32"), name)

    weights = [weight("w1", 4, 8), weight("w2", 8, 3), weight("b2", 3)]
    for name, value in (("scale", 1), ("shift", 0), ("mean", 0), ("variance", 1)):
        weights.append(numpy_helper.from_array(numpy.full(8, value, "float32"), name))
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Gemm", ["c", "w2", "b2"], ["y"], name="second"),
    ]
    value = helper.make_tensor_value_info
    inputs, outputs = [value("x", TensorProto.FLOAT, ["N", 4])], [value("y", TensorProto.FLOAT, ["N", 3])]
    graph = helper.make_graph(nodes, "perceptron", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Training(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        rng = numpy.random.default_rng(2)
        self.x = rng.normal(size=(96, 4)).astype("float32")
        self.targets = (self.x[:, :3] + 0.1 * rng.normal(size=(96, 3))).argmax(1)
        self.write("data", self.x, self.targets)
        onnx.save(perceptron(), self.folder / "model.onnx")

    def tearDown(self):
        self.temporary.cleanup()

    def write(self, name, x, targets):
        (self.folder / name).mkdir(exist_ok=True)
        numpy.save(self.folder / name / "x.npy", x)
        numpy.save(self.folder / name / "targets.npy", targets)

    def command(self, output, *more, data="data", model="model.onnx"):
        command = [ARGUMENTS.rewright, "train", self.folder / model, "--data", self.folder / data, "-o", self.folder / output]
        return [str(part) for part in [*command, "--batch", "12", "--rate", "0.02", "--threads", "1", *more]]

    def train(self, output, *more, processes=1, **where):
        launch = [ARGUMENTS.mpirun, "--oversubscribe", "-n", str(processes)] if processes > 1 else []
        command = [*launch, *self.command(output, *more, **where)]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)

    def trained(self, *arguments, **more):
        result = self.train(*arguments, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return (self.folder / arguments[0]).read_bytes()

    def refused(self, what, *more, status=3, **where):
        result = self.train("refused.onnx", *more, **where)
        self.assertEqual(result.returncode, status, result.stderr)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("rewright: error: "), lines[0])
        self.assertIn(what, lines[0])
        self.assertFalse((self.folder / "refused.onnx").exists())

    def test_a_trained_model_is_the_model_with_better_weights(self):
        facts = self.folder / "facts"
        metrics = self.folder / "metrics"
        options = ["--epochs", "20", "--validate", str(self.folder / "data"), "--json", str(facts), "--metrics", str(metrics)]
        self.trained("out.onnx", *options)
        before, after = onnx.load(self.folder / "model.onnx"), onnx.load(self.folder / "out.onnx")
        onnx.checker.check_model(after, full_check=True)
        self.assertEqual([n.name for n in after.graph.node], [n.name for n in before.graph.node])
        self.assertEqual(after.graph.input, before.graph.input)
        self.assertEqual({w.name for w in after.graph.initializer}, {w.name for w in before.graph.initializer})
        logits = onnxruntime.InferenceSession(after.SerializeToString()).run(None, {"x": self.x})[0]
        accuracy = (logits.argmax(1) == self.targets).mean()
        self.assertGreater(accuracy, 0.85)
        self.assertAlmostEqual(json.loads(facts.read_text())["validation"]["accuracy"], accuracy)
        steps = [json.loads(line) for line in metrics.read_text().splitlines()]
        self.assertEqual([s["step"] for s in steps], list(range(1, 161)))
        self.assertLess(steps[-1]["loss"], steps[0]["loss"] / 2)

    def test_several_processes_train_as_one(self):
        if not ARGUMENTS.mpirun:
            self.skipTest("no mpirun")
        for method in ("adam", "momentum"):
            one = self.trained("one.onnx", "--shards", "12", "--optimizer", method, "--epochs", "2")
            for processes in (2, 3):
                many = self.trained("many.onnx", "--shards", "12", "--optimizer", method, "--epochs", "2", processes=processes)
                self.assertEqual(one, many)
        # Without an order of adding, up to rounding.
        result = self.train("any.onnx", "--optimizer", "sgd", "--epochs", "2", "--metrics", str(self.folder / "m"), processes=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len((self.folder / "m").read_text().splitlines()), 16)

    def test_a_rewritten_step_trains_as_well(self):
        plain, fast = self.folder / "plain", self.folder / "fast"
        self.trained("plain.onnx", "--epochs", "3", "--json", str(plain))
        processes = 2 if ARGUMENTS.mpirun else 1
        self.trained("fast.onnx", "--epochs", "3", "--json", str(fast), "--rewrite", "2s", processes=processes)
        losses = [json.loads(file.read_text())["loss"] for file in (plain, fast)]
        self.assertLess(abs(losses[0] - losses[1]), 0.2)  # batch normalizations see half of the batch

    def test_a_run_that_is_killed_goes_on_as_if_it_had_not_been(self):
        options = ["--epochs", "200", "--shards", "2"]
        start = time.monotonic()
        whole = self.trained("whole.onnx", *options)
        seconds = time.monotonic() - start
        keep = [*options, "--checkpoint", str(self.folder / "state"), "--save-every", "7", "--resume"]
        rng = random.Random(3)
        for _ in range(4):
            process = subprocess.Popen(self.command("again.onnx", *keep), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(seconds * rng.uniform(0.1, 0.5))
            process.kill()
            process.wait()
        self.assertEqual(self.trained("again.onnx", *keep), whole)
        # Asked to end, it writes what it has, and goes on from there.
        (self.folder / "state").unlink()
        process = subprocess.Popen(self.command("part.onnx", *keep), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while not (self.folder / "state").exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 0)
        process.stderr.close()
        onnx.checker.check_model(onnx.load(self.folder / "part.onnx"), full_check=True)
        self.assertEqual(self.trained("again.onnx", *keep), whole)

    def test_what_cannot_be_trained_on_is_refused(self):
        self.write("short", self.x[:5], self.targets[:5])
        self.refused("fewer than a batch", data="short")
        self.write("wide", numpy.zeros((24, 5), "float32"), numpy.zeros(24, "int64"))
        self.refused("x", data="wide")
        self.write("classes", self.x[:24], numpy.full(24, 3))
        self.refused("target 0 is class 3", data="classes")
        self.write("real", self.x[:24], self.x[:24, 0])
        self.refused("targets", data="real")
        self.write("uneven", self.x[:24], self.targets[:20])
        self.refused("examples", data="uneven")
        broken = self.x[:24].copy()
        broken[3, 2] = numpy.nan
        self.write("nan", broken, self.targets[:24])
        self.refused("step", data="nan")
        self.trained("skipped.onnx", "--on-nan", "skip", data="nan")
        self.refused("x.npy", data="none")
        self.refused("shards", "--shards", "5", status=2)
        self.refused("there are", "--loss", "none", status=2)
        self.refused("there are", "--optimizer", "none", status=2)
        state = str(self.folder / "state")
        self.trained("one.onnx", "--epochs", "1", "--checkpoint", state)
        self.refused("another run", "--checkpoint", state, "--resume", "--seed", "5")
        self.refused("another run", "--checkpoint", state, "--resume", "--optimizer", "sgd")
        (self.folder / "state").write_bytes(b"nothing")
        self.refused("state", "--checkpoint", state, "--resume")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rewright")
    parser.add_argument("--mpirun")
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=["training.py", *rest])
