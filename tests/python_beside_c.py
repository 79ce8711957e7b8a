#!/usr/bin/env python3
"""librewright.so, the Python extension module, ONNX's own and ONNX Runtime in one process, whichever comes first. Each holds a
registry of operators and copies of ONNX and Protobuf: none may see another one's, where the library shows its own to nobody.
Usage: python_beside_c.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import os
import tempfile
import unittest

from python_testing import BUILD, convolutions, in_new_process, main  # says where the package is

import numpy
import onnx

LIBRARY = os.path.join(BUILD, "api", "librewright.so")

PARTS = {
    "library": """
import ctypes
c = ctypes.CDLL({library!r})
c.rewright_error_text.restype = c.rewright_result_report.restype = ctypes.c_char_p
""",
    "package": "import rewright\n",
    "others": "import onnx, onnxruntime\nonnx.checker.check_model(onnx.load({model!r}), full_check=True)\n",
}

WORK = """
import json, sys
import numpy, onnx, onnxruntime

def check(status):
    assert status == 0, c.rewright_error_text()

def by_library(model):
    handle, options, result = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(c.rewright_model_read(model.encode(), ctypes.byref(handle)))
    check(c.rewright_options_create(ctypes.byref(options)))
    for name, value in ((b"device", b"cpu"), (b"estimate", b"true"), (b"check", b"1")):
        check(c.rewright_options_set(options, name, value))
    check(c.rewright_optimize(handle, options, ctypes.byref(result)))
    report = json.loads(c.rewright_result_report(result))
    # An error in one library is none of the other's.
    assert c.rewright_model_read(b"/no/such.onnx", ctypes.byref(handle)) == 2
    c.rewright_result_free(result), c.rewright_options_free(options)
    return report["nodes"]

def by_package(model):
    result = rewright.optimize(model, device="cpu", estimate=True, check=1)
    try:
        rewright.InferenceSession(b"no model")
        raise AssertionError("it is a model")
    except rewright.BadInputError:
        pass
    x = numpy.random.default_rng(0).standard_normal((1, 8, 10, 10), numpy.float32)
    expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    numpy.testing.assert_allclose(rewright.InferenceSession(result).run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-4)
    return result.report()["nodes"]

model = sys.argv[1]
found = [by_library(model), by_package(model), by_library(model)]
assert found[0] == found[1] == found[2], found
assert found[0]["after"] < found[0]["before"], found
print("together")
"""


class Together(unittest.TestCase):
    def test_in_any_order(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.onnx")
            onnx.save(convolutions(numpy.random.default_rng(0)), model)
            for order in (("library", "package", "others"), ("package", "others", "library"), ("others", "library", "package")):
                with self.subTest(order=order):
                    parts = "".join(PARTS[part].format(library=LIBRARY, model=model) for part in order)
                    done = in_new_process(parts + WORK, model)
                    self.assertEqual((done.returncode, done.stdout), (0, "together\n"), done.stderr[-3000:])


if __name__ == "__main__":
    main()
