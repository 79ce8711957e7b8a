#!/usr/bin/env python3
"""Sessions raise the exceptions of ONNX Runtime, so that a program's `except` clauses stay as they are.
Usage: python_exceptions.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import os
import pickle
import tempfile
import unittest

from python_testing import in_new_process, main, model_of, one_node, value  # says where the package is

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as their_state
from python_comparing import CPU, outcome, our_kind

import rewright
from rewright.capi import onnxruntime_pybind11_state as our_state

class Exceptions(unittest.TestCase):
    def check(self, what, call):
        """call(package) raises in both, and ours is of the kind of theirs."""
        with self.subTest(what):
            theirs, ours = outcome(lambda: call(onnxruntime)), outcome(lambda: call(rewright))
            self.assertIsInstance(theirs, Exception)
            self.assertIsInstance(ours, our_kind(theirs), f"ONNX Runtime: {type(theirs).__name__} {theirs}")
            self.assertIsInstance(ours, rewright.Error)

    def check_model(self, what, model):
        given = model if isinstance(model, (bytes, str)) else model.SerializeToString()
        self.check(what, lambda package: package.InferenceSession(given, **CPU))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check_model("missing", os.path.join(folder, "none.onnx"))
            self.check_model("a folder", folder)
            for name, contents in {"empty": b"", "text": b"no model, but a text", "cut": one_node("Relu").SerializeToString()[:-3]}.items():
                path = os.path.join(folder, f"{name}.onnx")
                with open(path, "wb") as file:
                    file.write(contents)
                self.check_model(f"file: {name}", path)
                self.check_model(f"bytes: {name}", contents)
        self.check("of another type", lambda package: package.InferenceSession(7, **CPU))

    def test_models(self):
        for what, model in {
            "no graph": onnx.ModelProto(ir_version=8),
            "an opset to come": model_of([helper.make_node("Relu", ["x"], ["y"])], [value("x", 1, [1])], [value("y", 1, [1])], opset=999),
            "an operator that is none": one_node("NoSuchOperator"),
            "a domain that is not imported": one_node("Some", domain="somewhere.else"),
            "an input that is none": model_of([helper.make_node("Relu", ["z"], ["y"])], [value("x", 1, [1])], [value("y", 1, [1])]),
            "an output that is none": model_of([helper.make_node("Relu", ["x"], ["z"])], [value("x", 1, [1])], [value("y", 1, [1])]),
            "a name twice": model_of([helper.make_node("Relu", ["x"], ["y"])] * 2, [value("x", 1, [1])], [value("y", 1, [1])]),
            "too few inputs": one_node("Add"),
            "an attribute of another type": one_node("Softmax", axis=1.5),
            "an attribute that is none": one_node("Relu", slope=1.5),
            "an attribute that is missing": one_node("Cast"),
            "types that differ": model_of(
                [helper.make_node("Add", ["x", "z"], ["y"])], [value("x", 1, [1]), value("z", 7, [1])], [value("y", 1, [1])]
            ),
            "sizes that do not fit": model_of(
                [helper.make_node("MatMul", ["x", "z"], ["y"])], [value("x", 1, [2, 3]), value("z", 1, [4, 5])], [value("y", 1, [2, 5])]
            ),
            "a cycle": model_of(
                [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])],
                [value("x", 1, [1])], [value("b", 1, [1])],
            ),
        }.items():  # fmt: skip
            self.check_model(what, model)
        model = one_node("Some", domain="somewhere.else")
        model.opset_import.append(helper.make_opsetid("somewhere.else", 1))
        self.check_model("an operator of others", model)
        model = one_node("Relu")
        model.ir_version = 99
        self.check_model("a format to come", model)
        weight = numpy_helper.from_array(numpy.ones(3, numpy.float32), "w")
        weight.raw_data = weight.raw_data[:8]
        node = helper.make_node("Add", ["x", "w"], ["y"])
        self.check_model("a weight that is cut", model_of([node], [value("x", 1, [3])], [value("y", 1, [3])], [weight]))
        for location in ("none.bin", "../out.bin"):
            weight = TensorProto(name="w", data_type=1, dims=[3], data_location=TensorProto.EXTERNAL)
            weight.external_data.add(key="location", value=location)
            model = model_of([node], [value("x", 1, [3])], [value("y", 1, [3])], [weight])
            self.check_model("weights in no file", model)
            with tempfile.TemporaryDirectory() as folder:
                inner = os.path.join(folder, "inner")
                os.mkdir(inner)
                with open(os.path.join(folder, "out.bin"), "wb") as file:
                    file.write(bytes(12))
                onnx.save(model, os.path.join(inner, "m.onnx"))
                self.check_model(f"weights in {location}", os.path.join(inner, "m.onnx"))

    def test_feeds(self):
        sessions = {package: package.InferenceSession(one_node("Relu", shape=["N", 8]).SerializeToString(), **CPU) for package in (rewright, onnxruntime)}
        x = numpy.zeros((4, 8), numpy.float32)
        for what, feeds in {
            "none": {},
            "another type": {"x": x.astype(numpy.float64)},
            "another size": {"x": x[:, :3]},
            "another number of axes": {"x": x[0]},
            "one too many": {"x": x, "z": x},
            "nothing": {"x": None},
            "no tensor": {"x": [[1], [1, 2]]},
            "a time": {"x": numpy.zeros((4, 8), "datetime64[s]")},
            "texts": {"x": numpy.full((4, 8), "a")},
            "under a number": {1: x},
        }.items():
            self.check(what, lambda package: sessions[package].run(None, feeds))
        self.check("an output that is none", lambda package: sessions[package].run(["z"], {"x": x}))
        for what, arguments in {"a name": ("y", {"x": x}), "numbers": ([1], {"x": x}), "options": (None, {"x": x}, 7)}.items():
            for package in (onnxruntime, rewright):
                with self.subTest(what), self.assertRaises(TypeError):
                    sessions[package].run(*arguments)

    def test_sequences_and_optionals(self):
        sequence = helper.make_tensor_sequence_value_info("s", 1, None)
        node = helper.make_node("SequenceInsert", ["s", "x"], ["t"])
        model = model_of([node], [sequence, value("x", 1, [2])], [helper.make_tensor_sequence_value_info("t", 1, None)]).SerializeToString()
        x = numpy.ones(2, numpy.float32)
        for what, given in {"elements of another type": [x, numpy.ones(2, numpy.int64)], "a tensor": x}.items():
            self.check(what, lambda package: package.InferenceSession(model, **CPU).run(None, {"s": given, "x": x}))
        optional = helper.make_value_info("x", helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2])))
        model = model_of([helper.make_node("OptionalHasElement", ["x"], ["y"])], [optional], [value("y", TensorProto.BOOL, [])]).SerializeToString()
        for package in (onnxruntime, rewright):
            session = package.InferenceSession(model, **CPU)
            for feeds, expected in (({"x": x}, True), ({"x": None}, False), ({}, False)):
                self.assertEqual(bool(session.run(None, feeds)[0]), expected)

    def test_runs(self):
        x = numpy.arange(4, dtype=numpy.float32)
        for operator, other, second in (
            ("Reshape", TensorProto.INT64, numpy.array([3])),
            ("Expand", TensorProto.INT64, numpy.array([3])),
            ("Add", TensorProto.FLOAT, x[:3]),
        ):
            node = helper.make_node(operator, ["x", "z"], ["y"])
            model = model_of([node], [value("x", 1, [None]), value("z", other, [None])], [value("y", 1, None)]).SerializeToString()
            self.check(operator, lambda package: package.InferenceSession(model, **CPU).run(None, {"x": x, "z": second}))

        def ended(package):
            options = package.RunOptions()
            options.terminate = True
            package.InferenceSession(one_node("Relu").SerializeToString(), **CPU).run(None, {"x": numpy.zeros((4, 8), numpy.float32)}, options)

        self.check("ended", ended)

    def test_an_operator_without_definition_is_noticed_at_once(self):
        model = one_node("Some", domain="somewhere.else")
        model.opset_import.append(helper.make_opsetid("somewhere.else", 1))
        with self.assertRaisesRegex(rewright.UnsupportedError, "somewhere.else.Some"):
            rewright.InferenceSession(model)

    def test_names(self):
        for name in dir(their_state):
            kind = getattr(their_state, name)
            if isinstance(kind, type) and issubclass(kind, Exception):
                self.assertTrue(issubclass(getattr(our_state, name), rewright.Error), name)

    def test_pickle(self):
        for name in dir(rewright.errors):
            kind = getattr(rewright.errors, name)
            if isinstance(kind, type) and issubclass(kind, rewright.Error):
                error = kind("what", "where", "hint")
                again = pickle.loads(pickle.dumps(error))
                self.assertEqual((type(again), str(again), again.code), (kind, "where: what (hint)", kind.code))

    def test_under_the_name_of_onnxruntime(self):
        done = in_new_process("""
import sys, rewright
sys.modules["onnxruntime"] = rewright
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, NoSuchFile, SessionOptions
from onnxruntime.capi._pybind_state import get_available_providers
from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession, OrtValue
import onnxruntime.capi.onnxruntime_pybind11_state as state
import onnxruntime.backend
try:
    onnxruntime.InferenceSession("/no/such.onnx")
except NoSuchFile as error:
    print("caught", isinstance(error, rewright.Error))
assert InferenceSession is rewright.InferenceSession and OrtValue is rewright.OrtValue and SessionOptions is rewright.SessionOptions
assert state.Fail is rewright.errors.Fail and callable(onnxruntime.backend.prepare)
assert not any(name.startswith("onnxruntime._") or name == "onnxruntime.errors" for name in sys.modules), sorted(sys.modules)
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), "caught True")


if __name__ == "__main__":
    main()
