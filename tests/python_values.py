#!/usr/bin/env python3
"""Inputs and outputs of sessions: arrays of every type and layout, sequences, DLPack, bound memory.
Usage: python_values.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import gc
import sys
import unittest

from python_testing import main, model_of, one_node, value  # says where the package is

import ml_dtypes
import numpy
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import rewright


class Arrays(unittest.TestCase):
    def test_element_types(self):
        rng = numpy.random.default_rng(3)
        for number in TensorProto.DataType.values():
            if number == TensorProto.UNDEFINED:
                continue
            if number in (TensorProto.FLOAT6E2M3, TensorProto.FLOAT6E3M2):  # the only ones that tensors do not have
                continue
            with self.subTest(TensorProto.DataType.Name(number)):
                if number == TensorProto.STRING:
                    x = numpy.array([["a", "\u00e4\u4e2d"], ["", "c" * 100]], object)
                elif number == TensorProto.BOOL:
                    x = numpy.array([[True, False], [False, True]])
                else:
                    x = rng.integers(1, 4, (2, 2)).astype(helper.tensor_dtype_to_np_dtype(number))
                node = helper.make_node("Identity", ["x"], ["y"])
                model = model_of([node], [value("x", number, [2, 2])], [value("y", number, [2, 2])], opset=25)
                session = rewright.InferenceSession(model)
                y = session.run(None, {"x": x})[0]
                self.assertEqual(y.dtype, x.dtype)
                self.assertEqual(y.tolist(), x.tolist())
                self.assertEqual(session.get_inputs()[0].type, session.get_outputs()[0].type)

    def test_signs_of_narrow_integers(self):
        node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT32)
        session = rewright.InferenceSession(model_of([node], [value("x", TensorProto.INT4, [3])], [value("y", TensorProto.INT32, [3])]))
        x = numpy.array([-8, -1, 7]).astype(ml_dtypes.int4)
        self.assertEqual(session.run(None, {"x": x})[0].tolist(), [-8, -1, 7])

    def test_arrays_of_all_layouts(self):
        session = rewright.InferenceSession(one_node("Neg", shape=["N", "M"]))
        x = numpy.arange(24, dtype=numpy.float32).reshape(4, 6)
        for given in (x.T, x[::2], x[:, ::-1], x[:0], x.astype(">f4")):
            self.assertEqual(session.run(None, {"x": given})[0].tolist(), (-given).tolist())
        unaligned = numpy.frombuffer(b"\0" + x.tobytes(), numpy.uint8)[1:].view(numpy.float32).reshape(4, 6)
        self.assertFalse(unaligned.flags.aligned)
        self.assertEqual(session.run(None, {"x": unaligned})[0].tolist(), (-x).tolist())
        self.assertEqual(session.run(None, {"x": [[1, 2], [3, 4]]})[0].tolist(), [[-1, -2], [-3, -4]])

    def test_results_are_the_callers(self):
        """Neither weights nor inputs nor other results are changed by writing into a result."""
        weight = numpy_helper.from_array(numpy.ones(3, numpy.float32), "w")
        for device in ("cpu", "reference"):
            nodes = [helper.make_node("Identity", ["w"], ["y"]), helper.make_node("Identity", ["x"], ["z"]), helper.make_node("Identity", ["x"], ["u"])]
            outputs = [value(name, TensorProto.FLOAT, [3]) for name in "yzu"]
            session = rewright.InferenceSession(model_of(nodes, [value("x", TensorProto.FLOAT, [3])], outputs, [weight]), device=device)
            x = numpy.full(3, 2, numpy.float32)
            first = session.run(None, {"x": x})
            kept = [session.run_with_ort_values(None, {"x": rewright.OrtValue.ortvalue_from_numpy(x)})[i].numpy() for i in range(3)]
            for array in (*first, *kept):
                array[:] = 9
            self.assertEqual(x.tolist(), [2, 2, 2])
            self.assertEqual([y.tolist() for y in session.run(None, {"x": x})], [[1, 1, 1], [2, 2, 2], [2, 2, 2]])

    def test_sequences_and_optionals(self):
        sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [None])
        model = model_of([helper.make_node("SequenceAt", ["s", "i"], ["y"])], [sequence, value("i", TensorProto.INT64, [])], [value("y", TensorProto.FLOAT, [None])])
        session = rewright.InferenceSession(model)
        self.assertEqual(session.get_inputs()[0].type, "seq(tensor(float))")
        arrays = [numpy.arange(n, dtype=numpy.float32) for n in (1, 2, 3)]
        self.assertEqual(session.run(None, {"s": arrays, "i": numpy.int64(-1)})[0].tolist(), [0, 1, 2])
        model = model_of([helper.make_node("SequenceConstruct", ["x", "x"], ["s"])], [value("x", TensorProto.FLOAT, [2])], [sequence])
        found = rewright.InferenceSession(model).run(None, {"x": arrays[1]})[0]
        self.assertEqual([array.tolist() for array in found], [[0, 1], [0, 1]])


class Memory(unittest.TestCase):
    def test_dlpack(self):
        class Foreign:  # all that is known of it
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **arguments):
                return self.array.__dlpack__(**arguments)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        x = numpy.arange(32, dtype=numpy.float32).reshape(4, 8)
        taken = rewright.OrtValue.from_dlpack(Foreign(x))
        self.assertEqual(taken.data_ptr(), x.ctypes.data)
        session = rewright.InferenceSession(one_node("Neg"))
        self.assertEqual(session.run(None, {"x": Foreign(x)})[0].tolist(), (-x).tolist())
        given = session.run_with_ort_values(None, {"x": taken})[0]
        back = numpy.from_dlpack(given)
        self.assertEqual(back.ctypes.data, given.data_ptr())
        del given, session
        gc.collect()
        self.assertEqual(back.tolist(), (-x).tolist())
        before = sys.getrefcount(x)
        del taken
        gc.collect()
        self.assertLess(sys.getrefcount(x), before)

    def test_io_binding(self):
        x = numpy.arange(32, dtype=numpy.float32).reshape(4, 8)
        for kind in (rewright, onnxruntime):
            session = kind.InferenceSession(one_node("Neg").SerializeToString())
            binding = session.io_binding()
            binding.bind_cpu_input("x", x)
            binding.bind_output("y")
            session.run_with_iobinding(binding)
            self.assertEqual(binding.copy_outputs_to_cpu()[0].tolist(), (-x).tolist())
            target = numpy.zeros_like(x)
            binding.bind_output("y", "cpu", 0, numpy.float32, x.shape, target.ctypes.data)
            session.run_with_iobinding(binding)
            self.assertEqual(target.tolist(), (-x).tolist())
            bound = kind.OrtValue.ortvalue_from_shape_and_type([4, 8], numpy.float32)
            self.assertEqual((bound.shape(), bound.data_type(), bound.device_name()), ([4, 8], "tensor(float)", "cpu"))
            binding.bind_ortvalue_input("x", kind.OrtValue.ortvalue_from_numpy(x + 1))
            binding.bind_ortvalue_output("y", bound)
            session.run_with_iobinding(binding)
            self.assertEqual(bound.numpy().tolist(), (-x - 1).tolist())
        large = numpy.arange(1 << 16, dtype=numpy.float32)
        session = rewright.InferenceSession(one_node("Neg", shape=[1 << 16]).SerializeToString())
        binding = session.io_binding()
        binding.bind_cpu_input("x", large)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        address = binding.get_outputs()[0].data_ptr()
        session.run_with_iobinding(binding)  # nobody has the first result any more
        self.assertEqual(binding.get_outputs()[0].data_ptr(), address)
        held = binding.get_outputs()[0]
        binding.bind_cpu_input("x", large + 1)
        session.run_with_iobinding(binding)
        self.assertEqual(held.numpy()[:3].tolist(), [0, -1, -2])
        self.assertEqual(binding.get_outputs()[0].numpy()[:3].tolist(), [-1, -2, -3])
        for shape, type in (((1, 8), numpy.float32), ((4, 8), numpy.float64)):  # neither repeated nor converted
            binding = rewright.InferenceSession(one_node("Neg")).io_binding()
            binding.bind_cpu_input("x", x)
            binding.bind_ortvalue_output("y", rewright.OrtValue.ortvalue_from_shape_and_type(shape, type))
            with self.assertRaisesRegex(rewright.BadInputError, "the memory for it is of"):
                binding._session.run_with_iobinding(binding)
        with self.assertRaisesRegex(rewright.UsageError, "memory of \"npu\""):
            rewright.InferenceSession(one_node("Neg")).io_binding().bind_output("y", "npu")

    def test_update_in_place(self):
        for type in (numpy.float32, ml_dtypes.int4):
            x = numpy.array([1, -2, 3]).astype(type)
            kept = rewright.OrtValue.ortvalue_from_shape_and_type([3], type)
            kept.update_inplace(x)
            self.assertEqual(kept.numpy().tolist(), x.tolist())
            with self.assertRaisesRegex(rewright.BadInputError, "the memory for it is of"):
                kept.update_inplace(x[:1])
        texts = rewright.OrtValue.ortvalue_from_numpy(numpy.array(["a"], object))
        with self.assertRaisesRegex(rewright.UnsupportedError, "in place"):
            texts.update_inplace(numpy.array(["b"], object))

    def test_element_types_that_are_none(self):
        for number in (-1, 27, 1 << 20):
            with self.assertRaisesRegex(rewright.UsageError, f"no element type {number}"):
                rewright.OrtValue.ortvalue_from_shape_and_type([1], number)


if __name__ == "__main__":
    main()
