"""Trains with the program: several processes, kills, resuming, and input that cannot be trained on.

python training.py PROGRAM [--mpirun MPIRUN]
"""

import argparse
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zlib

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


def write_png(file, grey):
    """A PNG file of 8-bit grey pixels, [height, width]."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = grey.shape
    lines = b"".join(b"\0" + line.tobytes() for line in grey)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


class Fixture(unittest.TestCase):
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


class Training(Fixture):
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

    def test_a_step_keeps_to_a_budget_of_memory(self):
        rng = numpy.random.default_rng(5)
        nodes, weights, value = [], [], "x"
        for layer, (rows, columns) in enumerate([(4, 64), *[(64, 64)] * 5, (64, 3)]):
            weight = (rng.normal(size=(rows, columns)) / rows**0.5).astype("float32")
            weights.append(numpy_helper.from_array(weight, f"w{layer}"))
            nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"a{layer}"]))
            value = f"b{layer}"
            nodes.append(helper.make_node("Tanh", [f"a{layer}"], [value]))
        value_info = helper.make_tensor_value_info
        inputs, outputs = [value_info("x", TensorProto.FLOAT, ["N", 4])], [value_info(value, TensorProto.FLOAT, ["N", 3])]
        graph = helper.make_graph(nodes, "deep", inputs, outputs, weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "deep.onnx")
        facts = self.folder / "facts"

        def run(*options, processes=1):
            options = ["--epochs", "3", "--optimizer", "sgd", "--json", str(facts), *options]
            self.trained("out.onnx", *options, model="deep.onnx", processes=processes)
            return json.loads(facts.read_text())

        free = run()
        whole = run("--memory-budget", "1G")
        self.assertEqual(whole["rematerialization"]["nodes_again"], 0)
        self.assertLess(whole["peak_bytes"], free["peak_bytes"])
        self.assertAlmostEqual(whole["loss"], free["loss"], places=5)
        small = run("--memory-budget", str(whole["peak_bytes"] * 9 // 10))
        self.assertLessEqual(small["peak_bytes"], whole["peak_bytes"] * 9 // 10)
        self.assertGreater(small["rematerialization"]["nodes_again"], 0)
        self.assertAlmostEqual(small["loss"], whole["loss"], places=5)
        if ARGUMENTS.mpirun:
            half = run("--memory-budget", str(whole["peak_bytes"] * 4 // 5), processes=2)
            self.assertLessEqual(half["peak_bytes"], whole["peak_bytes"] * 4 // 5)
            self.assertAlmostEqual(half["loss"], whole["loss"], places=5)
        self.refused("the least that was found is", "--memory-budget", "1K", model="deep.onnx")
        self.refused("512M", "--memory-budget", "much", status=2)

    def test_tables_and_pictures_train_as_arrays_do(self):
        table = self.folder / "data.csv"
        rows = [[*(repr(float(v)) for v in x), str(t)] for x, t in zip(self.x, self.targets)]
        table.write_text("a,b,c,d,class\n" + "".join(",".join(row) + "\n" for row in rows))
        arrays = self.trained("arrays.onnx", "--epochs", "2")
        self.assertEqual(self.trained("table.onnx", "--epochs", "2", "--target", "class", data="data.csv"), arrays)
        # Grey images of 2 x 2 are the model's 4 numbers.
        model = perceptron()
        model.graph.node.insert(0, helper.make_node("Flatten", ["picture"], ["x"]))
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["N", 1, 2, 2]))
        onnx.save(model, self.folder / "seeing.onnx")
        pixels = numpy.random.default_rng(3).integers(0, 256, size=(48, 1, 2, 2), dtype="uint8")
        classes = numpy.arange(48) // 16
        for number, (picture, name) in enumerate(zip(pixels, classes)):
            (self.folder / "pictures" / f"class{name}").mkdir(parents=True, exist_ok=True)
            write_png(self.folder / "pictures" / f"class{name}" / f"{number:02}.png", picture[0])
        (self.folder / "arrays").mkdir()
        numpy.save(self.folder / "arrays/picture.npy", ((pixels / 255.0 - 0.5) / 0.25).astype("float32"))
        numpy.save(self.folder / "arrays/targets.npy", classes)
        arrays = self.trained("arrays.onnx", "--epochs", "2", data="arrays", model="seeing.onnx")
        options = ["--epochs", "2", "--mean", "0.5", "--std", "0.25"]
        self.assertEqual(self.trained("seen.onnx", *options, data="pictures", model="seeing.onnx"), arrays)
        (self.folder / "pictures/class1/20.png").write_bytes(b"\x89PNG, once")
        self.refused("class1/20.png: is a damaged PNG file", *options, data="pictures", model="seeing.onnx")

    def test_what_is_dropped_is_the_same_again(self):
        model = perceptron()
        model.graph.initializer.extend([numpy_helper.from_array(numpy.float32(0.4), "ratio"), numpy_helper.from_array(numpy.bool_(True), "train")])
        model.graph.node.insert(3, helper.make_node("Dropout", ["c", "ratio", "train"], ["kept"], name="drop"))
        model.graph.node[4].input[0] = "kept"
        onnx.save(model, self.folder / "dropping.onnx")
        options = ["--epochs", "3", "--shards", "2"]
        whole = self.trained("whole.onnx", *options, model="dropping.onnx")
        self.assertEqual(self.trained("again.onnx", *options, model="dropping.onnx"), whole)
        self.assertNotEqual(self.trained("other.onnx", *options, "--seed", "1", model="dropping.onnx"), whole)
        if ARGUMENTS.mpirun:
            self.assertEqual(self.trained("two.onnx", *options, model="dropping.onnx", processes=2), whole)
        facts = self.folder / "facts"
        judged = ["--epochs", "20", "--validate", str(self.folder / "data"), "--json", str(facts)]
        self.trained("judged.onnx", *judged, model="dropping.onnx")  # by all that it has: nothing is dropped then
        self.assertGreater(json.loads(facts.read_text())["validation"]["accuracy"], 0.8)
        self.assertEqual([n.op_type for n in onnx.load(self.folder / "judged.onnx").graph.node], [n.op_type for n in model.graph.node])

    def test_short_products_and_parts_train_as_well(self):
        facts = self.folder / "facts"
        judged = ["--epochs", "20", "--validate", str(self.folder / "data"), "--json", str(facts)]
        for options, least in ((["--precision", "bfloat16"], 0.85), (["--precision", "float16"], 0.85), (["--accumulate", "3"], 0.7)):
            self.trained("out.onnx", *judged, *options)
            # Parts of four examples leave batch normalizations little to go by.
            self.assertGreater(json.loads(facts.read_text())["validation"]["accuracy"], least, options)
        # Sums beyond all numbers: of which node, is said.
        self.write("huge", numpy.full((24, 4), 3e38, "float32"), self.targets[:24])
        self.refused('the loss or a gradient is not finite, first in the result of', data="huge")

    def test_weights_of_16_bits_train_as_well(self):
        facts = self.folder / "facts"
        judged = ["--epochs", "20", "--validate", str(self.folder / "data"), "--json", str(facts)]
        for kind in ("bfloat16", "float16"):
            for rounding in ("nearest", "stochastic"):
                self.trained("out.onnx", *judged, "--weights", kind, "--rounding", rounding)
                self.assertGreater(json.loads(facts.read_text())["validation"]["accuracy"], 0.8, (kind, rounding))
        weights = {t.name: numpy_helper.to_array(t) for t in onnx.load(self.folder / "out.onnx").graph.initializer}
        self.assertEqual(weights["w1"].dtype, numpy.float32)
        numpy.testing.assert_array_equal(weights["w1"], weights["w1"].astype(numpy.float16).astype(numpy.float32))

    def test_a_recurrent_network_stays_one(self):
        model = perceptron()
        rng = numpy.random.default_rng(3)
        for name, shape in (("w", (1, 24, 4)), ("r", (1, 24, 6)), ("b", (1, 48)), ("head", (6, 3))):
            model.graph.initializer.append(numpy_helper.from_array(0.5 * rng.normal(size=shape).astype("float32"), name))
        model.graph.ClearField("node")
        model.graph.node.extend(
            [
                helper.make_node("LSTM", ["x", "w", "r", "b"], ["", "last"], hidden_size=6, name="network"),
                helper.make_node("Squeeze", ["last", "axis"], ["state"]),
                helper.make_node("MatMul", ["state", "head"], ["y"]),
            ]
        )
        model.graph.initializer.append(numpy_helper.from_array(numpy.array([0]), "axis"))
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, "N", 4]))
        model.graph.node.insert(0, helper.make_node("Transpose", ["given"], ["x"], perm=[1, 0, 2]))
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("given", TensorProto.FLOAT, ["N", 5, 4]))
        onnx.save(model, self.folder / "recurrent.onnx")
        x = rng.normal(size=(96, 5, 4)).astype("float32")
        self.write("sequences", x, x[:, -1, :3].argmax(1))
        (self.folder / "sequences" / "x.npy").rename(self.folder / "sequences" / "given.npy")
        facts = self.folder / "facts"
        judged = ["--epochs", "30", "--validate", str(self.folder / "sequences"), "--json", str(facts)]
        self.trained("out.onnx", *judged, data="sequences", model="recurrent.onnx")
        self.assertGreater(json.loads(facts.read_text())["validation"]["accuracy"], 0.7)
        nodes = onnx.load(self.folder / "out.onnx").graph.node
        self.assertEqual([n.op_type for n in nodes], ["Transpose", "LSTM", "Squeeze", "MatMul"])

    def test_what_cannot_be_trained_on_is_refused(self):
        self.write("short", self.x[:5], self.targets[:5])
        self.refused("fewer than a batch", data="short")
        self.write("wide", numpy.zeros((24, 5), "float32"), numpy.zeros(24, "int64"))
        self.refused("x", data="wide")
        self.write("classes", self.x[:24], numpy.full(24, 3))
        self.refused("targets.npy: example 0: the target is class 3", data="classes")
        self.write("real", self.x[:24], self.x[:24, 0])
        self.refused("targets", data="real")
        self.write("uneven", self.x[:24], self.targets[:20])
        self.refused("examples", data="uneven")
        broken = self.x[:24].copy()
        broken[3, 2] = numpy.nan
        self.write("nan", broken, self.targets[:24])
        self.refused("x.npy: example 3: holds a number that is not finite", data="nan")
        self.trained("skipped.onnx", "--on-nan", "skip", data="nan")
        self.refused("none: cannot be read", data="none")
        (self.folder / "empty").mkdir()
        self.refused("x.npy", data="empty")
        self.refused("shards", "--shards", "5", status=2)
        self.refused("there are", "--loss", "none", status=2)
        self.refused("there are", "--optimizer", "none", status=2)
        (self.folder / "bad.csv").write_text("a,b,c,d,target\n1,2,3,4,0\n1,,3,4,0\n")
        self.refused("bad.csv:3: column 'b' is empty", data="bad.csv")
        self.refused("there is no column 'e'", "--target", "e", data="bad.csv")
        (self.folder / "pictures" / "a").mkdir(parents=True)
        self.refused("pictures", data="pictures")
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
