"""Shared by tests of the program: running it, its errors and reports, and small models.

A test that runs `rewright` derives from ProgramTest and ends with main(): python TEST.py REWRIGHT [unittest's options]
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


def declare_outputs(model, values):
    """Gives the model's outputs the types and sizes of these values."""
    for info, value in zip(model.graph.output, values):
        info.CopyFrom(helper.make_tensor_value_info(info.name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))


def tensor(name, array):
    return numpy_helper.from_array(numpy.asarray(array), name)


def branches(batch=1):
    """Two convolutions with batch norms, summed; then what nobody but its vendor knows."""
    random = numpy.random.default_rng(0)

    def norm(name):
        values = {"scale": random.uniform(0.5, 1, 8), "bias": random.normal(size=8), "mean": random.normal(size=8), "var": random.uniform(1, 2, 8)}
        return [tensor(f"{name}_{key}", value.astype("float32")) for key, value in values.items()]

    weights = [tensor("w3", random.normal(size=(8, 4, 3, 3)).astype("float32")), tensor("w1", random.normal(size=(8, 4, 1, 1)).astype("float32"))]
    nodes = [
        helper.make_node("Conv", ["x", "w3"], ["a"], name="conv3", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "n3_scale", "n3_bias", "n3_mean", "n3_var"], ["b"], name="norm3"),
        helper.make_node("Conv", ["x", "w1"], ["c"], name="conv1"),
        helper.make_node("BatchNormalization", ["c", "n1_scale", "n1_bias", "n1_mean", "n1_var"], ["d"], name="norm1"),
        helper.make_node("Add", ["b", "d"], ["e"], name="sum"),
        helper.make_node("Relu", ["e"], ["y"], name="relu"),
    ]
    graph = helper.make_graph(
        nodes,
        "branches",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 4, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 8, 16, 16])],
        weights + norm("n3") + norm("n1"),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def same_shape(nodes, shape, weights=()):
    """A model from x to y, floats of one shape."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    return helper.make_model(helper.make_graph(nodes, "small", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class ProgramTest(unittest.TestCase):
    """Each test has a folder of its own, with `branches` as model.onnx."""

    program = ""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        onnx.save(branches(), self.path("model.onnx"))

    def path(self, name):
        return str(self.folder / name)

    def run_program(self, *arguments, status=0):
        result = subprocess.run([self.program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, status, result.stderr)
        if status >= 2:
            lines = result.stderr.splitlines()
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertTrue(lines[0].startswith("rewright: error: "), lines[0])
        return result

    def error(self, *arguments, status):
        return self.run_program(*arguments, status=status).stderr

    def report(self, *arguments, status=0):
        return json.loads(self.run_program(*arguments, "--json", "-", status=status).stdout)

    def optimize(self, *arguments):
        return self.report("optimize", self.path("model.onnx"), "-o", self.path("out.onnx"), "--threads", "1", "--budget", "10s", *arguments)

    def rules(self, name, *texts):
        (self.folder / name).write_text("\n".join(texts))
        return self.path(name)

    def profile(self, name, operations, moved, call):
        rates = f"operations_per_second: {operations} bytes_per_second: {moved} call_seconds: {call}"
        (self.folder / name).write_text(f'# by hand\nversion: 1 device: "{name}" {rates}\n')
        return self.path(name)

    def write_text(self, name, text, opset=17):
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> agraph {text}'), self.path(name))

    def endless_loop(self):
        self.write_text(
            "endless.onnx",
            """(float[2] x) => (float[2] y) {
              yes = Constant <value = bool {1}> ()
              y = Loop ("", yes, x) <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] next) {
                next = Neg(v)
                go = Identity(c)
              }>
            }""",
        )
        numpy.save(self.path("x.npy"), numpy.ones(2, numpy.float32))
        return [self.path("endless.onnx"), "--input", f"x={self.path('x.npy')}", "--output-dir", self.path("out")]

    def interrupt_at_work(self, process):
        """Sends SIGINT when the program takes signals itself, which is to say that its threads block them (another is asked for them),
        and has worked for longer than it takes to read a small model. It must end well wherever it is by then."""
        taken, worked = 1 << (signal.SIGINT - 1), 0.5
        while process.poll() is None:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            user, system = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
            if int(re.search(r"^SigBlk:\s*(\w+)", status, re.MULTILINE)[1], 16) & taken and (int(user) + int(system)) / os.sysconf("SC_CLK_TCK") > worked:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)


def main():
    ProgramTest.program = sys.argv.pop(1)
    unittest.main()
