#!/usr/bin/env python3
"""The Python package as a whole: what importing it does, its program, and its errors.
Usage: python_package.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import os
import pickle
import subprocess
import sys
import unittest

from python_testing import in_new_process, main, one_node, PACKAGE  # says where the package is

import numpy

import rewright


class Package(unittest.TestCase):
    def test_import_loads_little(self):
        done = in_new_process("import rewright, sys; print(sorted({name.split('.')[0] for name in sys.modules}))")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("onnx", "asyncio", "torch", "onnxruntime"):
            self.assertNotIn(f"'{name}'", done.stdout)

    def test_names_are_there(self):
        for name in rewright.__all__:
            if name != "torch_backend":
                self.assertIsNotNone(getattr(rewright, name), name)
        with self.assertRaises(AttributeError):
            rewright.nothing

    def test_program(self):
        said = in_new_process("import rewright.program, sys; sys.argv = ['rewright', '--version']; sys.exit(rewright.program.main())")
        self.assertIn(f"rewright {rewright.__version__}", said.stdout)
        failed = subprocess.run(
            [sys.executable, "-m", "rewright", "show", "/no/such.onnx"],
            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": PACKAGE}, check=False,
        )
        self.assertEqual(failed.returncode, 3)
        self.assertIn("/no/such.onnx", failed.stderr)

    def test_subinterpreter_is_refused(self):
        code = f"""
import _xxsubinterpreters as interpreters
inner = interpreters.create()
interpreters.run_string(inner, '''
import sys
sys.path.insert(0, {PACKAGE!r})
try:
    import rewright
except ImportError as error:
    print("refused:", error)
''')
"""
        done = in_new_process(code)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("refused: rewright does not work in a subinterpreter", done.stdout)


class Errors(unittest.TestCase):
    def test_parts(self):
        with self.assertRaises(rewright.BadInputError) as caught:
            rewright.InferenceSession("/no/such.onnx")
        self.assertIsInstance(caught.exception, rewright.Error)
        self.assertEqual(caught.exception.code, "bad_input")
        self.assertIn("/no/such.onnx", caught.exception.where)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(again), str(again)), (type(caught.exception), str(caught.exception)))

    def test_usage(self):
        with self.assertRaisesRegex(rewright.UsageError, "no option \"speed\""):
            rewright.optimize(one_node("Relu"), speed=1)
        with self.assertRaisesRegex(rewright.UsageError, "soon"):
            rewright.optimize(one_node("Relu"), budget="soon")
        with self.assertRaisesRegex(rewright.UsageError, "tpu"):
            rewright.InferenceSession(one_node("Relu"), device="tpu")
        with self.assertRaisesRegex(rewright.UsageError, "cannot be of type int"):
            rewright.optimize(7)

    def test_broken_bytes(self):
        with self.assertRaises(rewright.BadInputError):
            rewright.InferenceSession(b"no model")

    def test_feeds(self):
        session = rewright.InferenceSession(one_node("Relu"))
        x = numpy.zeros((4, 8), numpy.float32)
        for feeds, said in (
            ({}, 'input "x": is not given'),
            ({"x": x.astype(numpy.float64)}, '"x"'),
            ({"x": x[:2]}, '"x"'),
            ({"x": x, "z": x}, 'no input "z"'),
            ({"x": None}, '"x"'),
            ({"x": [[x], 1]}, '"x"'),
            ({"x": numpy.zeros((4, 8), "datetime64[s]")}, "datetime64"),
        ):
            with self.assertRaisesRegex(rewright.Error, said):
                session.run(None, feeds)
        with self.assertRaisesRegex(rewright.Error, 'no output "z"'):
            session.run(["z"], {"x": x})
        with self.assertRaises(TypeError):
            session.run([1], {"x": x})
        with self.assertRaises(TypeError):
            session.run(None, 7)


if __name__ == "__main__":
    main()
