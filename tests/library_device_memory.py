#!/usr/bin/env python3
"""librewright's bindings to a GPU's memory, through ctypes. The GPU is the device of the CUDA runtime's tests: a plug-in that
computes on the host stands beside the library in the place of the one that knows CUDA, and its memory is the process's.
Usage: library_device_memory.py REWRIGHT BUILD_FOLDER"""

import ctypes
import os
import shutil
import sys
import tempfile
import unittest

REWRIGHT, BUILD = sys.argv[1:3]

import numpy
from onnx import TensorProto, helper


class Tensor(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("rank", ctypes.c_int32), ("sizes", ctypes.POINTER(ctypes.c_int64)),
                ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def tensor_of(array):
    return Tensor(1, array.ndim, (ctypes.c_int64 * array.ndim)(*array.shape), array.ctypes.data, array.nbytes)


def negation():
    declared = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 8]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "negation", declared[:1], declared[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


class Bindings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        os.environ["XDG_CACHE_HOME"] = folder
        os.symlink(os.path.join(BUILD, "runtime", "cuda", "on_host", "librewright_cuda.so"), os.path.join(folder, "librewright_cuda.so"))
        cls.c = ctypes.CDLL(shutil.copy(os.path.join(BUILD, "api", "librewright.so"), folder))
        cls.c.rewright_error_text.restype = cls.c.rewright_error_where.restype = ctypes.c_char_p

    def check(self, status):
        self.assertEqual(status, 0, (self.c.rewright_error_where(), self.c.rewright_error_text()))

    def setUp(self):
        c, given = self.c, negation()
        model, self.session, self.binding = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.check(c.rewright_model_parse(given, ctypes.c_size_t(len(given)), b"negation", ctypes.byref(model)))
        self.check(c.rewright_session_create(model, b"cuda", 0, ctypes.byref(self.session)))
        self.check(c.rewright_binding_create(self.session, ctypes.byref(self.binding)))
        c.rewright_model_free(model)
        self.x = numpy.arange(32, dtype=numpy.float32).reshape(4, 8)

    def tearDown(self):
        self.c.rewright_binding_free(self.binding)
        self.c.rewright_session_free(self.session)

    def bind(self, what, name, device, array):
        given = None if array is None else ctypes.byref(tensor_of(array))
        return getattr(self.c, f"rewright_binding_{what}")(self.binding, name, device, given)

    def test_memory_of_the_callers(self):
        for device in (b"cuda", b"cuda:0", b"cuda:1", b"cpu"):  # by way of the host, if it is another one's
            y = numpy.zeros_like(self.x)
            self.check(self.bind("input", b"x", device, self.x))
            self.check(self.bind("output", b"y", device, y))
            self.check(self.c.rewright_binding_run(self.binding, None))
            self.assertEqual(y.tolist(), (-self.x).tolist())

    def test_memory_that_a_run_allocates(self):
        self.check(self.bind("input", b"x", b"cuda", self.x))
        self.check(self.bind("output", b"y", b"cuda", None))
        result = Tensor()
        for _ in range(3):
            self.check(self.c.rewright_binding_run(self.binding, None))
            self.check(self.c.rewright_binding_result(self.binding, b"y", ctypes.byref(result)))
            self.assertEqual((result.type, result.sizes[:2], result.bytes), (1, [4, 8], self.x.nbytes))
            floats = (ctypes.c_float * 32).from_address(result.data)
            self.assertEqual(list(floats), (-self.x).ravel().tolist())

    def test_what_cannot_be(self):
        self.assertEqual(self.c.rewright_binding_run(self.binding, None), 1)
        self.assertEqual(self.c.rewright_error_where(), b"input x")
        self.check(self.bind("input", b"x", b"cuda", self.x))
        self.assertEqual(self.bind("output", b"y", b"tpu", None), 1)
        self.assertIn(b"tpu", self.c.rewright_error_text())
        self.check(self.bind("output", b"y", b"cuda:7", None))
        self.assertEqual(self.c.rewright_binding_run(self.binding, None), 4)
        self.assertIn(b"no GPU 7", self.c.rewright_error_text())
        self.check(self.bind("output", b"y", b"cuda", numpy.zeros((2, 8), numpy.float32)))
        self.assertEqual(self.c.rewright_binding_run(self.binding, None), 2)
        self.assertEqual(self.c.rewright_error_where(), b'output "y"')


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
