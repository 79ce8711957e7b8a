#!/usr/bin/env python3
"""Weights that a model lists among its inputs, which callers may override; and sparse weights.
Usage: default_inputs.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import os
import subprocess
import tempfile
import unittest

from python_testing import QUICK, REWRIGHT, main, model_of, value  # says where the package is

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import rewright


def in_onnxruntime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)


class Overridable(unittest.TestCase):
    """y = reshape(x * scale + fixed, shape), where scale and shape are inputs as well."""

    def setUp(self):
        rng = numpy.random.default_rng(2)
        weights = {
            "scale": rng.normal(size=4).astype(numpy.float32),
            "two": numpy.full(4, 2, numpy.float32),
            "fixed": rng.normal(size=4).astype(numpy.float32),
            "shape": numpy.array([2, 6]),
        }
        nodes = [
            helper.make_node("Mul", ["scale", "two"], ["s"]),  # would be folded
            helper.make_node("Mul", ["x", "s"], ["m"]),
            helper.make_node("Add", ["m", "fixed"], ["a"]),
            helper.make_node("Reshape", ["a", "shape"], ["y"]),
        ]
        inputs = [value("x", TensorProto.FLOAT, [3, 4]), value("scale", TensorProto.FLOAT, [4]), value("shape", TensorProto.INT64, [2])]
        outputs = [value("y", TensorProto.FLOAT, ["a", "b"])]
        self.model = model_of(nodes, inputs, outputs, [numpy_helper.from_array(array, name) for name, array in weights.items()])
        self.x = rng.normal(size=(3, 4)).astype(numpy.float32)
        self.cases = [
            {"x": self.x},
            {"x": self.x, "scale": numpy.arange(4, dtype=numpy.float32)},
            {"x": self.x, "shape": numpy.array([4, 3])},
            {"x": self.x, "scale": -self.x[0], "shape": numpy.array([12, 1])},
        ]

    def check(self, model, cases):
        for feeds in cases:
            with self.subTest(sorted(feeds)):
                expected = in_onnxruntime(self.model, feeds)[0]
                numpy.testing.assert_allclose(in_onnxruntime(model, feeds)[0], expected, rtol=1e-6)
                for device in ("cpu", "reference"):
                    found = rewright.InferenceSession(model, device=device).run(None, feeds)[0]
                    self.assertEqual(found.shape, expected.shape)
                    numpy.testing.assert_allclose(found, expected, rtol=1e-6)

    def test_sessions(self):
        self.check(self.model, self.cases)
        session = rewright.InferenceSession(self.model)
        theirs = onnxruntime.InferenceSession(self.model.SerializeToString())
        for mine, other in ((session.get_inputs(), theirs.get_inputs()), (session.get_overridable_initializers(), theirs.get_overridable_initializers())):
            self.assertEqual([(i.name, i.type, i.shape) for i in mine], [(i.name, i.type, i.shape) for i in other])
        for _ in range(2):  # the sessions for the others are kept
            for feeds in self.cases:
                numpy.testing.assert_allclose(session.run(None, feeds)[0], in_onnxruntime(self.model, feeds)[0], rtol=1e-6)
        with self.assertRaises(rewright.Error):
            session.run(None, {"x": self.x, "fixed": self.x[0]})
        with self.assertRaisesRegex(rewright.Error, '"scale".*axis 0 must be 4'):
            session.run(None, {"x": self.x, "scale": self.x[0, :3]})

    def test_before_version_4_they_are_constants(self):
        self.model.ir_version = 3
        session = rewright.InferenceSession(self.model)
        self.assertEqual(session.get_overridable_initializers(), [])
        with self.assertRaises(rewright.Error):
            session.run(None, self.cases[1])

    def test_optimized_models_keep_them(self):
        with self.assertWarnsRegex(UserWarning, "2 weights are inputs as well"):
            written = rewright.optimize(self.model, **QUICK).model
        self.assertEqual([i.name for i in written.graph.input], ["x", "scale", "shape"])
        self.check(written, self.cases)
        # Optimized once more, and as a result.
        self.check(rewright.optimize(written, **QUICK).model, self.cases)
        session = rewright.InferenceSession(rewright.optimize(self.model, **QUICK))
        self.assertEqual([i.name for i in session.get_inputs()], ["x"])
        for feeds in self.cases:
            numpy.testing.assert_allclose(session.run(None, feeds)[0], in_onnxruntime(self.model, feeds)[0], rtol=1e-6)

    def test_optimized_models_without_them(self):
        written = rewright.optimize(self.model, fix_inputs=True, **QUICK).model
        self.assertEqual([i.name for i in written.graph.input], ["x"])
        self.assertLess(len(written.graph.node), 4)
        self.check(written, self.cases[:1])

    def test_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = lambda name: os.path.join(folder, name)  # noqa: E731
            run = lambda *arguments: subprocess.run([REWRIGHT, *arguments], check=True, capture_output=True, text=True)  # noqa: E731
            onnx.save(self.model, path("model.onnx"))
            given = []
            for name, array in self.cases[3].items():
                numpy.save(path(f"{name}.npy"), array)
                given += ["--input", f"{name}={path(name)}.npy"]
            for device in ("cpu", "reference", "onnxruntime"):
                run("run", path("model.onnx"), *given, "--output-dir", path("out"), "--device", device)
                numpy.testing.assert_allclose(numpy.load(path("out/y.npy")), in_onnxruntime(self.model, self.cases[3])[0], rtol=1e-6)
            optimize = ["optimize", path("model.onnx"), "--device", "cpu", "--estimate", "--certificate", path("certificate")]
            for options in ([], ["--fix-inputs"]):
                said = run(*optimize, "-o", path("faster.onnx"), *options)
                self.assertEqual("2 weights are inputs as well" in said.stderr, not options)
                run("compare", path("model.onnx"), path("faster.onnx"))
                run("replay", path("model.onnx"), path("certificate"), "-o", path("again.onnx"))
                with open(path("faster.onnx"), "rb") as first, open(path("again.onnx"), "rb") as second:
                    self.assertEqual(first.read(), second.read())


def sparse(name, values, indices, shape):
    values = numpy.asarray(values, numpy.float32)
    tensors = [numpy_helper.from_array(values, name), numpy_helper.from_array(numpy.asarray(indices, numpy.int64), name + "_indices")]
    return helper.make_sparse_tensor(*tensors, list(shape))


class Sparse(unittest.TestCase):
    def test_random_ones(self):
        rng = numpy.random.default_rng(5)
        for _ in range(20):
            shape = [int(size) for size in rng.integers(1, 5, int(rng.integers(1, 4)))]
            dense = numpy.where(rng.random(shape) < 0.4, rng.normal(size=shape), 0).astype(numpy.float32)
            flat = numpy.flatnonzero(dense)
            kinds = [flat] if len(shape) == 1 or rng.integers(2) else [numpy.stack(numpy.unravel_index(flat, shape), 1)]
            w = sparse("w", dense.ravel()[flat], kinds[0], shape)
            c = sparse("", dense.ravel()[flat], kinds[0], shape)
            nodes = [
                helper.make_node("Add", ["x", "w"], ["y"]),
                helper.make_node("Constant", [], ["c"], sparse_value=c),
                helper.make_node("Mul", ["x", "c"], ["z"]),
            ]
            names = ("y", "z", "w", "c")
            model = model_of(nodes, [value("x", TensorProto.FLOAT, shape)], [value(name, TensorProto.FLOAT, shape) for name in names])
            model.graph.sparse_initializer.append(w)
            x = rng.normal(size=shape).astype(numpy.float32)
            expected = [x + dense, x * dense, dense, dense]
            for device in ("cpu", "reference"):
                for found, wanted in zip(rewright.InferenceSession(model, device=device).run(None, {"x": x}), expected):
                    numpy.testing.assert_array_equal(found, wanted)
            written = rewright.optimize(model, **QUICK).model
            for found, wanted in zip(rewright.InferenceSession(written).run(None, {"x": x}), expected):
                numpy.testing.assert_array_equal(found, wanted)

    def test_broken_ones(self):
        for values, indices, shape, message in (
            ([1, 2], [0, 9], [3], "index 1 is outside"),
            ([1, 2], [0, -1], [3], "index 1 is outside"),
            ([1, 2], [[0, 0], [0, 3]], [3, 3], "index 1 is outside"),
            ([1, 2], [0], [3], "indices must be int64 of shape"),
            ([1], [0], [1 << 40], "take more than"),
            ([1], [0], [1 << 40, 1 << 40], "beyond 64 bits"),
        ):
            model = model_of([helper.make_node("Neg", ["w"], ["y"])], [], [value("y", TensorProto.FLOAT, None)])
            model.graph.sparse_initializer.append(sparse("w", values, indices, shape))
            with self.assertRaisesRegex(rewright.Error, message):
                rewright.InferenceSession(model)


if __name__ == "__main__":
    main()
