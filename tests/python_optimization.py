#!/usr/bin/env python3
"""Optimizing from Python: what comes back, options and rules, progress and cancellation.
Usage: python_optimization.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

from python_testing import contents, convolutions, in_new_process, main, model_of, one_node, QUICK, REWRIGHT, value  # says where the package is

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

import rewright


class Optimization(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = convolutions(numpy.random.default_rng(0))

    def assert_smaller(self, optimized):
        self.assertLess(len(optimized.graph.node), len(self.model.graph.node))
        onnx.checker.check_model(optimized, full_check=True)

    def test_models_come_back_as_they_are_given(self):
        with tempfile.TemporaryDirectory() as folder:
            given, written = os.path.join(folder, "given.onnx"), os.path.join(folder, "written.onnx")
            onnx.save(self.model, given)
            self.assert_smaller(rewright.optimize(given, **QUICK).model)
            self.assert_smaller(rewright.optimize(self.model, **QUICK).model)
            self.assert_smaller(onnx.ModelProto.FromString(rewright.optimize(self.model.SerializeToString(), **QUICK).model))
            self.assert_smaller(rewright.optimize(rewright.graph.read(self.model), **QUICK).model.to_proto())
            result = rewright.optimize(given, output=written, **QUICK)
            self.assertEqual(result.model, written)
            self.assert_smaller(onnx.load(written))
            self.assertEqual(result.serialize(), contents(written))

    def test_certificate_is_replayed(self):
        with tempfile.TemporaryDirectory() as folder:
            given, certificate, written, replayed = (os.path.join(folder, name) for name in ("in.onnx", "c.json", "a.onnx", "b.onnx"))
            onnx.save(self.model, given)
            result = rewright.optimize(given, output=written, certificate=certificate, **QUICK)
            self.assertEqual(contents(certificate).decode(), result.certificate)
            subprocess.run([REWRIGHT, "replay", given, certificate, "-o", replayed, "--quiet"], check=True)
            self.assertEqual(contents(written), contents(replayed))

    def test_report(self):
        result = rewright.optimize(self.model, report=True, **QUICK)
        facts = result.report()
        self.assertEqual(facts, json.loads(result.report("json")))
        self.assertEqual(facts["nodes"]["before"], len(self.model.graph.node))
        self.assertIn("<html", result.report("html"))
        cell = result._repr_html_()
        self.assertIn(f"{facts['nodes']['before']} &rarr; {facts['nodes']['after']}", cell)
        self.assertIn("<svg", cell)
        self.assertIn("times as fast", repr(result))
        with self.assertRaisesRegex(rewright.UsageError, "report=True"):
            rewright.optimize(self.model, **QUICK).report("html")

    def test_same_results(self):
        result = rewright.optimize(self.model, device="cpu", budget="2s")
        x = numpy.random.default_rng(1).standard_normal((1, 8, 10, 10), numpy.float32)
        expected = onnxruntime.InferenceSession(self.model.SerializeToString()).run(None, {"x": x})[0]
        for session in (result.session(), rewright.InferenceSession(result.model), onnxruntime.InferenceSession(result.serialize())):
            numpy.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-4)

    def test_options(self):
        documented = rewright.optimize.__doc__
        for option in rewright.optimization._OPTIONS:
            self.assertIn(f"    {option}: ", documented)
        model = model_of(
            [helper.make_node("MatMul", ["x", "x2"], ["y"])],
            [value("x", TensorProto.FLOAT, ["N", "K"]), value("x2", TensorProto.FLOAT, ["K", "M"])],
            [value("y", TensorProto.FLOAT, ["N", "M"])],
        )
        rewright.optimize(model, shape={"x": (2, 3), "x2": [3, 4]}, rules=["handwritten"], fold_limit=1 << 20, **QUICK)
        with self.assertRaisesRegex(rewright.Error, "contradict"):
            rewright.optimize(model, shape={"x": (2, 3), "x2": [5, 4]}, **QUICK)
        for rows in ([(2, 3), (4, 3)], {(2, 3): 3, (4, 3): 1}, "2x3,4x3"):
            sets = rewright.optimize(model, shape={"x": rows, "x2": "3x4,3x8"}, **QUICK).report()["sets_of_sizes"]
            self.assertEqual([at["sizes"] for at in sets], [{"N": 2, "K": 3, "M": 4}, {"N": 4, "K": 3, "M": 8}])
            self.assertEqual([at["weight"] for at in sets], [3 if isinstance(rows, dict) else 1, 1])
        with self.assertRaisesRegex(rewright.UsageError, "sets of sizes"):
            rewright.optimize(model, shape={"x": [(2, 3), (4, 3)], "x2": [(3, 4), (3, 8), (3, 9)]}, **QUICK)

    def test_own_rules(self):
        rule = rewright.rules.parse("rule mine: \"once is enough\"\n  x\n  Relu(Relu(x)) => Relu(x)\n  exact\n")
        model = model_of(
            [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])],
            [value("x", TensorProto.FLOAT, [3])], [value("y", TensorProto.FLOAT, [3])],
        )
        with self.assertRaisesRegex(rewright.BadInputError, "not proved"):
            rewright.optimize(model, rules=rule, **QUICK)
        proved = rewright.verify(rule).proved
        result = rewright.optimize(model, rules=proved, **QUICK)
        self.assertEqual([used["rule"] for used in result.report()["search"]["rules_applied"]], ["mine"])
        self.assertEqual(len(result.model.graph.node), 1)


# A model of many regions: there is progress to report, and time to end it.
def long_model():
    return convolutions(numpy.random.default_rng(0), layers=60)


class Cancellation(unittest.TestCase):
    def test_progress_is_told_and_ends_the_search(self):
        told = []

        def progress(stage, fraction, gain):
            told.append((stage, fraction, gain))
            return False

        result = rewright.optimize(long_model(), device="cpu", check=0, no_timing=True, budget="100s", progress=progress)
        self.assertTrue(told)
        for stage, fraction, gain in told:
            self.assertIsInstance(stage, str)
            self.assertTrue(0 <= fraction <= 1 and gain > 0)
        onnx.checker.check_model(result.model)
        self.assertEqual(result.report()["search"]["stop_reason"], "cancelled")

    def test_what_progress_raises_is_raised(self):
        class Enough(Exception):
            pass

        enough = Enough()

        def progress(*facts):
            raise enough

        with self.assertRaises(Enough) as caught:
            rewright.optimize(long_model(), device="cpu", check=0, no_timing=True, budget="100s", progress=progress)
        self.assertIs(caught.exception, enough)

    def test_interrupt(self):
        code = """
import os, signal, sys
import rewright
try:
    rewright.optimize(sys.argv[1], device="cpu", check=0, no_timing=True, budget="100s",
                      progress=lambda *facts: os.kill(os.getpid(), signal.SIGINT))
except KeyboardInterrupt:
    print("interrupted")
"""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "long.onnx")
            onnx.save(long_model(), file)
            done = in_new_process(code, file)
        self.assertEqual(done.stdout, "interrupted\n", done.stderr)

    def test_async(self):
        async def work():
            told = []
            first = asyncio.Event()

            def progress(*facts):
                told.append(threading.current_thread())
                first.set()

            task = asyncio.create_task(
                rewright.optimize_async(long_model(), device="cpu", check=0, no_timing=True, budget="100s", progress=progress)
            )
            await first.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertIs(told[0], threading.main_thread())
            return await rewright.optimize_async(one_node("Relu"), **QUICK)

        self.assertEqual(len(asyncio.run(work()).model.graph.node), 1)


if __name__ == "__main__":
    main()
