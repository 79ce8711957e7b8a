#!/usr/bin/env python3
"""Tensors in a GPU's memory, in and out of sessions. The GPU is the device of the CUDA runtime's tests: a plug-in that computes on
the host stands beside the package in the place of the one that knows CUDA. And what is said where there is none.
Usage: python_device_memory.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

TESTED_HERE = len(sys.argv) > 3 and sys.argv[3] == "--on-host"
if TESTED_HERE:  # a process of its own, in which the package is another one
    os.environ["XDG_CACHE_HOME"] = sys.argv[4]
    sys.argv[2:5] = [os.path.join(sys.argv[4], "build")]

from python_testing import BUILD, main, model_of, one_node, PACKAGE, REWRIGHT, value  # says where the package is

import numpy
from onnx import TensorProto, helper

import rewright

CUDA = (2, 0)  # DLPack's kDLCUDA, and the number of the GPU


def with_device_of_tests(folder):
    package = os.path.join(folder, "build", "python", "rewright")
    plugin = os.path.join(BUILD, "runtime", "cuda", "on_host", "librewright_cuda.so")
    shutil.copytree(os.path.join(PACKAGE, "rewright"), package, symlinks=True)
    native = os.path.join(package, "_native")
    installed = os.path.join(native, "librewright_cuda.so")
    if os.path.lexists(installed):
        os.remove(installed)
    os.symlink(plugin, installed)
    return folder


@unittest.skipIf(TESTED_HERE, "there is a device here")
class Started(unittest.TestCase):
    def test_with_the_device_of_tests(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-B", __file__, REWRIGHT, BUILD, "--on-host", with_device_of_tests(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])


@unittest.skipIf(TESTED_HERE, "there is a device here")
class Missing(unittest.TestCase):
    """Without a usable GPU an error names the missing part, and the process goes on."""

    @classmethod
    def setUpClass(cls):
        if "CUDAExecutionProvider" in rewright.get_available_providers():
            raise unittest.SkipTest("there is a GPU")

    def assert_missing(self, work):
        with self.assertRaises(rewright.MissingError) as caught:
            work()
        self.assertEqual(caught.exception.code, "missing")
        self.assertIn("cuda", caught.exception.where)
        self.assertTrue(caught.exception.hint)

    def test_values(self):
        x = numpy.ones((4, 8), numpy.float32)
        self.assert_missing(lambda: rewright.OrtValue.ortvalue_from_numpy(x, "cuda", 0))
        self.assert_missing(lambda: rewright.OrtValue.ortvalue_from_shape_and_type([4, 8], numpy.float32, "cuda", 1))
        with self.assertRaisesRegex(rewright.UsageError, "npu"):
            rewright.OrtValue.ortvalue_from_numpy(x, "npu", 0)

    def test_session_by_device(self):
        self.assert_missing(lambda: rewright.InferenceSession(one_node("Neg"), device="cuda"))

    def test_binding(self):
        session = rewright.InferenceSession(one_node("Neg"))
        binding = session.io_binding()
        binding.bind_cpu_input("x", numpy.ones((4, 8), numpy.float32))
        binding.bind_output("y", "cuda")
        self.assert_missing(lambda: session.run_with_iobinding(binding))

    def test_providers_fall_back_as_in_onnxruntime(self):
        x = numpy.ones((4, 8), numpy.float32)
        for providers in (["CUDAExecutionProvider", "CPUExecutionProvider"], ["CUDAExecutionProvider"], [("CUDAExecutionProvider", {"device_id": 3})]):
            with self.assertWarnsRegex(UserWarning, "CUDAExecutionProvider is not available"):
                session = rewright.InferenceSession(one_node("Neg"), providers=providers)
            self.assertEqual(session.get_providers(), ["CPUExecutionProvider"])
            self.assertEqual(session.run(None, {"x": x})[0].tolist(), (-x).tolist())


class Foreign:
    """An array on a GPU, of which nothing is known but DLPack's protocol."""

    def __init__(self, value):
        self.value, self.streams = value, []

    def __dlpack__(self, *, stream=None, **arguments):
        self.streams.append(stream)
        return self.value.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.value.__dlpack_device__()


@unittest.skipUnless(TESTED_HERE, "in a process of its own")
class OnDevice(unittest.TestCase):
    def setUp(self):
        self.x = numpy.arange(32, dtype=numpy.float32).reshape(4, 8)
        self.session = rewright.InferenceSession(one_node("Neg", shape=["N", 8]), device="cuda")
        self.assertEqual(self.session.get_providers(), ["CUDAExecutionProvider", "CPUExecutionProvider"])

    def test_values(self):
        there = rewright.OrtValue.ortvalue_from_numpy(self.x, "cuda", 0)
        self.assertEqual((there.device_name(), there.shape(), there.data_type()), ("cuda", [4, 8], "tensor(float)"))
        self.assertTrue(there.is_tensor() and there.has_value() and not there.is_tensor_sequence())
        self.assertNotEqual(there.data_ptr(), self.x.ctypes.data)
        self.assertEqual(there.numpy().tolist(), self.x.tolist())
        there.update_inplace(self.x + 1)
        self.assertEqual(there.numpy().tolist(), (self.x + 1).tolist())
        with self.assertRaisesRegex(rewright.BadInputError, "the memory for it"):
            there.update_inplace(self.x[:2])
        zeros = rewright.OrtValue.ortvalue_from_shape_and_type([2, 3], TensorProto.FLOAT16, "cuda", 1)
        self.assertEqual((zeros.numpy().tolist(), zeros.numpy().dtype), ([[0] * 3] * 2, numpy.float16))
        with self.assertRaisesRegex(rewright.MissingError, "no GPU 2"):
            rewright.OrtValue.ortvalue_from_numpy(self.x, "cuda", 2)
        with self.assertRaisesRegex(rewright.UnsupportedError, "tensors of numbers"):
            rewright.OrtValue.ortvalue_from_numpy(numpy.array(["a"], object), "cuda", 0)

    def test_dlpack(self):
        there = rewright.OrtValue.ortvalue_from_numpy(self.x, "cuda", 0)
        self.assertEqual(there.__dlpack_device__(), CUDA)
        self.assertEqual(rewright.OrtValue.ortvalue_from_numpy(self.x).__dlpack_device__(), (1, 0))
        there.__dlpack__(stream=7)
        with self.assertRaises(BufferError):
            there.__dlpack__(copy=True)
        foreign = Foreign(there)
        taken = rewright.OrtValue.from_dlpack(foreign)
        self.assertEqual((taken.device_name(), taken.data_ptr()), ("cuda", there.data_ptr()))
        self.assertEqual(foreign.streams, [1])  # the producer waits for what it has begun
        del there
        self.assertEqual(taken.numpy().tolist(), self.x.tolist())
        for session in (self.session, rewright.InferenceSession(one_node("Neg", shape=["N", 8]))):
            self.assertEqual(session.run(None, {"x": foreign})[0].tolist(), (-self.x).tolist())

    def test_binding(self):
        here = rewright.OrtValue.ortvalue_from_numpy(self.x, "cuda", 0)
        room = rewright.OrtValue.ortvalue_from_shape_and_type([4, 8], numpy.float32, "cuda", 0)
        binding = self.session.io_binding()
        binding.bind_input("x", "cuda", 0, numpy.float32, [4, 8], here.data_ptr())
        binding.bind_output("y", "cuda")
        self.session.run_with_iobinding(binding)
        found = binding.get_outputs()[0]
        self.assertEqual((found.device_name(), found.__dlpack_device__()), ("cuda", CUDA))
        self.assertEqual(binding.copy_outputs_to_cpu()[0].tolist(), (-self.x).tolist())
        binding.bind_output("y", "cuda", 0, TensorProto.FLOAT, [4, 8], room.data_ptr())
        self.session.run_with_iobinding(binding)
        self.assertEqual(binding.get_outputs()[0].data_ptr(), room.data_ptr())
        self.assertEqual(room.numpy().tolist(), (-self.x).tolist())
        binding.bind_ortvalue_input("x", room)
        binding.bind_ortvalue_output("y", room)  # in place, again and again
        for sign in (1, -1):
            self.session.run_with_iobinding(binding)
            self.assertEqual(room.numpy().tolist(), (sign * self.x).tolist())
        binding.bind_output("y")
        self.session.run_with_iobinding(binding)
        self.assertEqual(binding.get_outputs()[0].device_name(), "cpu")
        binding.bind_output("y", "cuda", 0, numpy.float32, [2, 8], room.data_ptr())
        with self.assertRaisesRegex(rewright.BadInputError, 'output "y"'):
            self.session.run_with_iobinding(binding)

    def test_values_by_name(self):
        there = rewright.OrtValue.ortvalue_from_numpy(self.x, "cuda", 0)
        found = self.session.run_with_ort_values(["y"], {"x": there})[0]
        self.assertEqual((found.device_name(), found.numpy().tolist()), ("cpu", (-self.x).tolist()))
        with self.assertRaisesRegex(rewright.BadInputError, '"x"'):
            self.session.run(None, {"x": rewright.OrtValue.ortvalue_from_numpy(self.x.astype(numpy.float64), "cuda", 0)})
        options = rewright.RunOptions()
        options.terminate = True
        with self.assertRaises(rewright.CancelledError):
            self.session.run(None, {"x": there}, options)

    def test_other_places_go_through_the_host(self):
        """Another GPU's memory, a session on the CPU, and a model with nodes that the GPU does not execute."""
        elsewhere = rewright.OrtValue.ortvalue_from_numpy(self.x, "cuda", 1)
        nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("NonZero", ["n"], ["z"]), helper.make_node("Neg", ["n"], ["y"])]
        outputs = [value("y", TensorProto.FLOAT, [4, 8]), value("z", TensorProto.INT64, [2, "K"])]
        mixed = model_of(nodes, [value("x", TensorProto.FLOAT, [4, 8])], outputs)
        for session, sign in (
            (self.session, -1),
            (rewright.InferenceSession(one_node("Neg"), device="cpu"), -1),
            (rewright.InferenceSession(mixed, device="cuda"), 1),
        ):
            binding = session.io_binding()
            binding.bind_ortvalue_input("x", elsewhere)
            binding.bind_output("y", "cuda", 1)
            session.run_with_iobinding(binding)
            found = binding.get_outputs()[0]
            self.assertEqual((found.__dlpack_device__(), found.numpy().tolist()), ((2, 1), (sign * self.x).tolist()))

    def test_a_gpu_that_is_not_there(self):
        with self.assertRaisesRegex(rewright.MissingError, "no GPU 5"):
            rewright.InferenceSession(one_node("Neg"), device="cuda:5")

    def test_providers(self):
        """If a provider cannot start in spite of a GPU, the session uses the CPU, or fails, as in ONNX Runtime."""
        with unittest.mock.patch.object(rewright.session._core, "has_cuda_device", lambda: True):
            session = rewright.InferenceSession(one_node("Neg"), providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
            self.assertEqual(session.get_providers(), ["CUDAExecutionProvider", "CPUExecutionProvider"])
            missing = [("CUDAExecutionProvider", {"device_id": 9})]
            with self.assertWarnsRegex(UserWarning, "no GPU 9.*going on with CPUExecutionProvider"):
                session = rewright.InferenceSession(one_node("Neg"), providers=missing)
            self.assertEqual(session.get_providers(), ["CPUExecutionProvider"])
            x = self.x[:4]
            self.assertEqual(session.run(None, {"x": x})[0].tolist(), (-x).tolist())
            with self.assertRaisesRegex(rewright.MissingError, "no GPU 9"):
                rewright.InferenceSession(one_node("Neg"), providers=missing, enable_fallback=False)


if __name__ == "__main__":
    main()
