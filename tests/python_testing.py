"""Shared by the tests of the Python package: its place, small models, and processes of their own.

A test is started as python_NAME.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]."""

import os
import subprocess
import sys
import unittest

REWRIGHT, BUILD = sys.argv[1:3]
PACKAGE = os.path.join(BUILD, "python")
sys.path.insert(0, PACKAGE)

import numpy
from onnx import TensorProto, helper, numpy_helper

# Options that need no clock.
QUICK = {"device": "cpu", "estimate": True, "check": 0}


def value(name, type, shape):
    return helper.make_tensor_value_info(name, type, shape)


def model_of(nodes, inputs, outputs, initializers=(), opset=21, **about):
    graph = helper.make_graph(nodes, "small", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **about)


def one_node(op_type, type=TensorProto.FLOAT, shape=(4, 8), outputs=None, **attributes):
    node = helper.make_node(op_type, ["x"], ["y"], **attributes)
    return model_of([node], [value("x", type, shape)], [value("y", outputs or type, shape)])


def convolutions(rng, layers=3):
    """Convolutions with batch normalizations, which are folded into them."""
    nodes, weights, last = [], [], "x"
    for i in range(layers):
        for name, shape in {f"w{i}": (8, 8, 3, 3), f"s{i}": (8,), f"b{i}": (8,), f"m{i}": (8,), f"v{i}": (8,)}.items():
            weights.append(numpy_helper.from_array(rng.uniform(0.5, 1, shape).astype(numpy.float32), name))
        nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("BatchNormalization", [f"c{i}", f"s{i}", f"b{i}", f"m{i}", f"v{i}"], [f"n{i}"]))
        nodes.append(helper.make_node("Relu", [f"n{i}"], [f"r{i}"]))
        last = f"r{i}"
    nodes[-1].output[0] = "y"
    size = [1, 8, 10, 10]
    return model_of(nodes, [value("x", TensorProto.FLOAT, size)], [value("y", TensorProto.FLOAT, size)], weights)


def random_model(rng):
    """A few operators, each on what was there before it; all sizes but the first known."""
    names, nodes, weights = ["x"], [], []
    for i in range(rng.integers(2, 9)):
        kind = rng.choice(["Add", "Mul", "Sub", "Max", "MatMul", "Relu", "Sigmoid", "Tanh", "Softmax", "Gemm", "LayerNormalization", "Concat"])
        first, second = rng.choice(names, 2)
        if kind in ("MatMul", "Gemm"):
            weights.append(numpy_helper.from_array(rng.standard_normal((6, 6)).astype(numpy.float32) / 3, f"w{i}"))
            nodes.append(helper.make_node(kind, [first, f"w{i}"], [f"v{i}"]))
        elif kind == "LayerNormalization":
            weights.append(numpy_helper.from_array(rng.uniform(0.5, 2, 6).astype(numpy.float32), f"w{i}"))
            nodes.append(helper.make_node(kind, [first, f"w{i}"], [f"v{i}"]))
        elif kind == "Concat":  # and back to the size that all have
            weights.append(numpy_helper.from_array(numpy.array([0]), f"a{i}"))
            weights.append(numpy_helper.from_array(numpy.array([6]), f"e{i}"))
            weights.append(numpy_helper.from_array(numpy.array([1]), f"x{i}"))
            nodes.append(helper.make_node(kind, [first, second], [f"j{i}"], axis=1))
            nodes.append(helper.make_node("Slice", [f"j{i}", f"a{i}", f"e{i}", f"x{i}"], [f"v{i}"]))
        else:
            nodes.append(helper.make_node(kind, [first] if kind in ("Relu", "Sigmoid", "Tanh", "Softmax") else [first, second], [f"v{i}"]))
        names.append(f"v{i}")
    outputs = sorted({names[-1], rng.choice(names[1:])})
    return model_of(
        nodes, [value("x", TensorProto.FLOAT, ["N", 6])], [value(name, TensorProto.FLOAT, ["N", 6]) for name in outputs], weights
    )


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def in_new_process(code, *arguments):
    environment = {**os.environ, "PYTHONPATH": PACKAGE}
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, check=False)


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
