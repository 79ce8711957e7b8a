#!/usr/bin/env python3
"""ONNX's own tests on rewright.backend: at the level of `rewright conformance`.
Usage: python_backend.py REWRIGHT BUILD_FOLDER CASES

CASES are those that onnx_cases.py writes. Left out is what `rewright conformance` says is not supported, with the reason that it gives,
and what would be downloaded. Everything else must pass: what the program runs and the package does not is a failure."""

import collections
import json
import os
import subprocess
import sys
import tempfile
import unittest

REWRIGHT, BUILD, CASES = sys.argv[1:4]
sys.path.insert(0, os.path.join(BUILD, "python"))

import numpy
import onnx.backend.test
from onnx.backend.test import loader

import rewright.backend

STEPS = {"float16": 2 * 2.0**-10, "bfloat16": 2 * 2.0**-7}


def unsupported(folder):
    """Names of cases, why they cannot be run, and how many there are in all."""
    with tempfile.TemporaryDirectory() as temporary:
        facts = os.path.join(temporary, "facts.json")
        subprocess.run([REWRIGHT, "conformance", folder, "--quiet", "--json", facts], check=True)
        with open(facts, encoding="utf-8") as file:
            cases = json.load(file)["cases"]
    return {case["name"]: case["reason"] for case in cases if case["status"] == "unsupported"}, len(cases)


def left_out():
    """Reasons by the names of the cases that are left out, and the number of the others, over all kinds of cases."""
    reasons = {case.name: "is downloaded" for case in loader.load_model_tests(kind="real") if case.model_dir is None}
    all_cases = 0
    for folder in (CASES, *(os.path.join(loader.DATA_DIR, kind) for kind in ("simple", "pytorch-converted", "pytorch-operator"))):
        found, count = unsupported(folder)
        reasons.update(found)
        all_cases += count - len(found)
    return reasons, all_cases


class Tests(onnx.backend.test.BackendTest):
    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, rtol, atol, model_dir=None):
        """ONNX's comparison, with the tolerance of runtime/conformance.h for the rounding of expected results; also lists, and None."""
        assert len(outputs) == len(ref_outputs), (len(outputs), len(ref_outputs))
        for found, expected in zip(outputs, ref_outputs):
            if expected is None:
                assert found is None, found
            elif isinstance(expected, (list, tuple)):
                assert isinstance(found, list), type(found)
                cls.assert_similar_outputs(expected, found, rtol, atol)
            else:
                expected = numpy.asarray(expected)
                relative = max(rtol, STEPS.get(expected.dtype.name, 0))
                absolute = atol
                if expected.dtype == numpy.float32 and expected.size:
                    absolute = max(atol, 2.0**-24 * numpy.abs(numpy.nan_to_num(expected, posinf=0, neginf=0)).max())
                super().assert_similar_outputs([expected], [found], relative, absolute)


def main():
    reasons, supported = left_out()
    tests = Tests(rewright.backend, __name__)
    for name in reasons:
        tests.exclude(f"^{name}_cpu$")
    outcome = unittest.TextTestRunner(verbosity=0, buffer=True).run(tests.test_suite)
    skipped = {test.id().rpartition(".")[2]: reason for test, reason in outcome.skipped}
    ran = outcome.testsRun - len(skipped)
    for reason, count in collections.Counter(reasons.values()).most_common():
        print(f"left out: {count}: {reason}")
    print(f"{ran - len(outcome.failures) - len(outcome.errors)} of {ran} passed")
    # Cases that are not run are those left out above, and those for a device that is not here.
    others = [name for name in skipped if not name.endswith("_cuda") and name.removesuffix("_cpu") not in reasons]
    assert not others, others
    assert ran >= supported, (ran, supported)
    return 0 if outcome.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
