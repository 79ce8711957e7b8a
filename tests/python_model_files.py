#!/usr/bin/env python3
"""Models in files, with weights beside them, laid out as caches of model hubs have them; and the backend's ways to be given a model.
Usage: python_model_files.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import contextlib
import os
import tempfile
import unittest

from python_testing import main, model_of, one_node, value  # says where the package is

import numpy
import onnx
import onnxruntime
import onnxruntime.backend
from onnx import TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

import rewright
import rewright.backend

onnxruntime.set_default_logger_severity(4)
DATA = numpy.array([1, 2, 3], numpy.float32)
X = numpy.array([10, 20, 30], numpy.float32)


def outside(location):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def constant(location):
    node = helper.make_node("Constant", [], ["w"])
    node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(outside(location))
    return node


def model_with(location, place="initializer"):
    """x + w, with w in a file: as an initializer or a Constant's value, in the graph or in a branch."""
    add, x, y = helper.make_node("Add", ["x", "w"], ["y"]), value("x", 1, [3]), value("y", 1, [3])
    if place == "initializer":
        return model_of([add], [x], [y], [outside(location)])
    if place == "constant":
        return model_of([constant(location), add], [x], [y])
    nodes, weights = ([add], [outside(location)]) if place == "branch's initializer" else ([constant(location), add], [])
    branch = helper.make_graph(nodes, "then", [], [y], weights)
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "else", [], [y])
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=other)
    return model_of([node], [x, value("c", TensorProto.BOOL, [])], [value("z", 1, [3])])


def result(package, path):
    """The results of a model, or None if it is refused."""
    try:
        session = package.InferenceSession(path, providers=["CPUExecutionProvider"], enable_fallback=0)
    except (rewright.Error, state.Fail, state.InvalidGraph):
        return None
    feeds = {"x": X, "c": numpy.array(True)}
    return session.run(None, {name.name: feeds[name.name] for name in session.get_inputs()})[0].tolist()


class Layouts(unittest.TestCase):
    """A layout: files with their contents, and links with what they lead to. The model is at m/m.onnx."""

    def check(self, layout, allowed, place="initializer", beside=True):
        with self.subTest(f"{layout} {place}"), tempfile.TemporaryDirectory() as folder:
            for name, contents in layout.items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if isinstance(contents, str):
                    os.symlink(contents, path)
                elif isinstance(contents, list):
                    with open(path, "wb") as file:
                        file.write(model_with(contents[0], place).SerializeToString())
                else:
                    with open(path, "wb") as file:
                        file.write(contents.tobytes())
            model = os.path.join(folder, "m", "m.onnx")
            expected = (X + DATA).tolist() if allowed else None
            if beside:
                self.assertEqual(result(onnxruntime, model), expected, "ONNX Runtime")
            self.assertEqual(result(rewright, model), expected)
            with contextlib.chdir(os.path.dirname(model)):
                self.assertEqual(result(rewright, "m.onnx"), expected)

    def test_beside_the_model(self):
        for place in ("initializer", "constant", "branch's initializer", "branch's constant"):
            self.check({"m/m.onnx": ["d.bin"], "m/d.bin": DATA}, True, place)
            self.check({"m/m.onnx": ["d.bin"]}, False, place)

    def test_links(self):
        hub = {"blobs/a": ["m.onnx_data"], "blobs/b": DATA, "m/m.onnx": "../blobs/a", "m/m.onnx_data": "../blobs/b"}
        for place in ("initializer", "constant"):
            self.check(hub, True, place)
        for place in ("branch's initializer", "branch's constant"):  # ONNX Runtime follows no links for these
            self.check(hub, True, place, beside=False)
        self.check({"m/m.onnx": ["d.bin"], "m/sub/b": DATA, "m/d.bin": "sub/b"}, True)
        self.check({"a/a": ["d.bin"], "m/m.onnx": "../a/a", "m/d.bin": DATA}, True)
        self.check({"a/a": ["d.bin"], "a/sub/b": DATA, "m/m.onnx": "../a/a", "m/d.bin": "../a/sub/b"}, True)
        self.check({"a/m.onnx": ["d.bin"], "a/d.bin": DATA, "m": "a"}, True)
        self.check({"blobs/a": ["d.bin"], "blobs/b": DATA, "mid/m.onnx": "../blobs/a", "m/m.onnx": "../mid/m.onnx", "m/d.bin": "../blobs/b"}, True)

    def test_no_way_out(self):
        self.check({"m/m.onnx": ["d.bin"], "other/b": DATA, "m/d.bin": "../other/b"}, False)
        self.check({"a/a": ["d.bin"], "other/b": DATA, "m/m.onnx": "../a/a", "m/d.bin": "../other/b"}, False)
        self.check({"a/a": ["d.bin"], "aa/b": DATA, "m/m.onnx": "../a/a", "m/d.bin": "../aa/b"}, False)
        self.check({"a/a": ["d.bin"], "a/d.bin": DATA, "m/m.onnx": "../a/a"}, False)
        self.check({"blobs/a": ["d.bin"], "mid/b": DATA, "mid/m.onnx": "../blobs/a", "m/m.onnx": "../mid/m.onnx", "m/d.bin": "../mid/b"}, False)
        self.check({"m/m.onnx": ["d.bin"], "m/d.bin": "d.bin"}, False)
        self.check({"m/m.onnx": ["d.bin"], "m/d.bin": "none"}, False)

    def test_paths(self):
        self.check({"m/m.onnx": ["s/../d.bin"], "m/s/e": DATA, "m/d.bin": DATA}, True)
        self.check({"m/m.onnx": ["../m/d.bin"], "m/d.bin": DATA}, True)
        self.check({"m/m.onnx": ["../d.bin"], "d.bin": DATA}, False)
        self.check({"m/m.onnx": [os.path.abspath(__file__)]}, False)


class Backend(unittest.TestCase):
    def test_ways_to_give_a_model(self):
        model, x = one_node("Neg"), numpy.ones((4, 8), numpy.float32)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            onnx.save(model, path)
            for package in (rewright, onnxruntime):
                session = package.InferenceSession(path, providers=["CPUExecutionProvider"])
                for given in (model, path, model.SerializeToString(), session):
                    prepared = package.backend.prepare(given, "CPU")
                    self.assertIs(package.backend.prepare(prepared), prepared)
                    for inputs in (x, [x]):
                        self.assertEqual(prepared.run(inputs)[0].tolist(), (-x).tolist())
                        self.assertEqual(package.backend.run(given, inputs, "CPU")[0].tolist(), (-x).tolist())

    def test_devices_and_options(self):
        for package in (rewright, onnxruntime):
            backend = package.backend
            self.assertTrue(backend.supports_device("CPU"))
            self.assertFalse(backend.supports_device("XPU"))
            self.assertTrue(backend.is_compatible(None))
            model = one_node("Neg").SerializeToString()
            prepared = backend.prepare(model, "CPU", intra_op_num_threads=1, something_of_others=1)
            with self.assertRaises(RuntimeError):
                backend.prepare(model, "CPU", optimized_model_filepath="written.onnx")
            with self.assertRaises(RuntimeError):
                prepared.run([numpy.ones((4, 8), numpy.float32)], terminate=True)
        two = model_of([helper.make_node("Add", ["a", "b"], ["y"])], [value("a", 1, [1]), value("b", 1, [1])], [value("y", 1, [1])])
        for package in (rewright, onnxruntime):
            with self.assertRaises(RuntimeError):
                package.backend.prepare(two.SerializeToString(), "CPU").run(numpy.ones(1, numpy.float32))


if __name__ == "__main__":
    main()
