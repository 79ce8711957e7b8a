"""The same call on ONNX Runtime and on Rewright."""

import unittest

import onnxruntime

import rewright
from rewright.capi import onnxruntime_pybind11_state as state

onnxruntime.set_default_logger_severity(4)
BOTH = (onnxruntime, rewright)
CPU = {"providers": ["CPUExecutionProvider"], "enable_fallback": 0}


def outcome(call):
    """The result of a call, or its exception."""
    try:
        return call()
    except Exception as error:
        return error


def our_kind(error):
    """The class by which a program would catch such an exception of ONNX Runtime's: one of the same name, or the same built-in."""
    kind = type(error)
    return getattr(state, kind.__name__) if kind.__module__.startswith("onnxruntime") else kind


class Same(unittest.TestCase):
    def check(self, call):
        """call(package) has the same result in both, or raises the same kind."""
        theirs, ours = (outcome(lambda package=package: call(package)) for package in BOTH)
        if isinstance(theirs, Exception):
            self.assertIsInstance(ours, our_kind(theirs), f"ONNX Runtime: {type(theirs).__name__} {theirs}; Rewright: {type(ours).__name__} {ours}")
        elif isinstance(ours, Exception):
            self.fail(f"{type(ours).__name__} {ours}; ONNX Runtime: {theirs}")
        else:
            self.assertEqual(ours, theirs)
