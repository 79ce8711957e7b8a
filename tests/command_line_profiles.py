"""Profiles of devices, and optimizing by them: python command_line_profiles.py REWRIGHT [unittest's options]"""

import json
import os
import unittest.mock

import numpy
import onnx
from onnx import helper

from program import ProgramTest, main, same_shape, tensor


class Profiles(ProgramTest):
    def test_profiles_decide(self):
        # A product by two narrow weights is fewer calls with both multiplied first, and more operations.
        profiles = {"calls": self.profile("calls", 1e13, 1e12, 1e-5), "sums": self.profile("sums", 1e9, 1e12, 1e-9)}
        random = numpy.random.default_rng(0)
        weights = [tensor("a", random.normal(0, 0.1, (256, 8)).astype("float32")), tensor("b", random.normal(0, 0.1, (8, 256)).astype("float32"))]
        nodes = [helper.make_node("MatMul", ["x", "a"], ["t"]), helper.make_node("MatMul", ["t", "b"], ["y"])]
        onnx.save(same_shape(nodes, [64, 256], weights), self.path("model.onnx"))
        after = {}
        for name, profile in profiles.items():
            results = set()
            for threads in ("1", "2", "1", "2"):
                facts = self.report("optimize", self.path("model.onnx"), "-o", self.path("out.onnx"), "--device", "profile:" + profile, "--threads", threads)
                self.assertEqual(facts["device"], "profile:" + profile)
                self.assertEqual(facts["measured_ms"], {"before": 0, "after": 0})
                self.assertTrue(facts["check"]["ok"])
                results.add((self.folder / "out.onnx").read_bytes())
            self.assertEqual(len(results), 1)
            after[name] = facts["nodes"]["after"]
            self.assertTrue(self.report("compare", self.path("model.onnx"), self.path("out.onnx"))["ok"])
        self.assertEqual(after, {"calls": 1, "sums": 2})
        # The smaller weights again, whatever the device.
        options = ["--device", "profile:" + profiles["calls"], "--objective"]
        facts = self.optimize(*options, "memory")
        self.assertEqual((facts["objective"], facts["nodes"]["after"]), ("memory", 2))
        facts = self.optimize(*options, "latency")
        self.assertEqual([point["rewrites"] > 0 for point in facts["pareto"]], [True, False])
        self.assertLess(facts["pareto"][0]["latency_ms"], facts["pareto"][1]["latency_ms"])
        self.assertGreater(facts["pareto"][0]["peak_bytes"], facts["pareto"][1]["peak_bytes"])
        self.assertEqual(facts["pareto"][0]["peak_bytes"], facts["predicted_peak_bytes"]["after"])

    def test_sizes_are_tried_where_the_result_is_checked(self):
        # Rows of 32, counted in reals: nothing says so before the model runs.
        self.write_text(
            "rows.onnx",
            """(float[N] x) => (float[A, B] y) {
              size = Shape(x)
              real = Cast <to = 1> (size)
              width = Constant <value = float[1] {32.0}> ()
              quotient = Div(real, width)
              floor = Floor(quotient)
              rows = Cast <to = 7> (floor)
              columns = Constant <value = int64[1] {32}> ()
              shape = Concat <axis = 0> (rows, columns)
              cut = Reshape(x, shape)
              a = Relu(cut)
              y = Relu(a)
            }""",
        )
        device = "profile:" + self.profile("calls", 1e13, 1e12, 1e-5)
        facts = self.report("optimize", self.path("rows.onnx"), "-o", self.path("out.onnx"), "--device", device, "--threads", "1", "--budget", "5s")
        self.assertEqual(facts["sizes"]["N"] % 32, 0)
        self.assertTrue(facts["check"]["ok"])
        self.assertLess(facts["nodes"]["after"], facts["nodes"]["before"])

    def test_this_machine_is_measured(self):
        facts = self.report("profile", "--links", "-o", self.path("machine.json"), "--threads", "1")
        with open(self.path("machine.json"), encoding="utf-8") as file:
            machine = json.load(file)
        self.assertEqual(machine, facts["machine"])
        self.assertEqual((machine["devices"]["count"], machine["links"]), (1, {}))
        for rate in ("operations_per_second", "bytes_per_second", "memory"):
            self.assertGreater(machine["devices"][rate], 0)

    def test_operators_of_models_are_measured_for_plans(self):
        facts = self.report("profile", "--links", self.path("model.onnx"), "-o", self.path("machine.json"), "--threads", "1")
        self.assertEqual(facts["machine"]["devices"]["profile"], "machine.json.profile")
        self.assertTrue(os.path.getsize(self.path("machine.json.profile")) > 0)
        priced = self.report("plan", self.path("model.onnx"), "--machine", self.path("machine.json"), "-o", self.path("priced.plan"), "--for", "inference")
        self.assertGreater(priced["seconds"], 0)
        self.assertLessEqual(priced["lower_bound"], priced["seconds"])

    def test_a_device_is_measured(self):
        with unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.path("cache")}):
            facts = self.report("profile", self.path("model.onnx"), "-o", self.path("cpu.profile"), "--threads", "1")
            again = self.report("profile", self.path("model.onnx"), "-o", self.path("again.profile"), "--threads", "1", "--known", "--format", "text")
        self.assertGreater(facts["operators"], 300)
        self.assertEqual(facts["operators"], again["operators"])
        self.assertEqual(facts["failed"], 0)
        self.assertGreaterEqual(facts["predicted_from_others"]["median_factor"], 1)
        united = self.report("profile", "--merge", self.path("cpu.profile"), "--merge", self.path("again.profile"), "-o", self.path("united"))
        self.assertEqual((united["device"], united["operators"]), (facts["device"], facts["operators"]))
        # Without the device, and without what was measured of it.
        results = set()
        for cache in ("a", "b"):
            with unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.path(cache)}):
                facts = self.optimize("--device", "profile:" + self.path("cpu.profile"))
            self.assertLess(facts["nodes"]["after"], facts["nodes"]["before"])
            self.assertTrue(facts["check"]["ok"])
            results.add((self.folder / "out.onnx").read_bytes())
        self.assertEqual(len(results), 1)

    def test_profiles_are_united_and_bad_ones_refused(self):
        a, b = self.profile("a", 1e13, 1e12, 1e-5), self.profile("b", 1e9, 1e12, 1e-9)
        for form in ("binary", "text"):
            facts = self.report("profile", "--merge", a, "--merge", a, "-o", self.path(form), "--format", form)
            self.assertEqual((facts["device"], facts["operations_per_second"], facts["operators"]), ("a", 1e13, 0))
        self.report("profile", "--merge", self.path("binary"), "-o", self.path("text again"), "--format", "text")
        self.assertEqual((self.folder / "text").read_bytes(), (self.folder / "text again").read_bytes())
        self.assertIn("different devices", self.error("profile", "--merge", a, "--merge", b, "-o", self.path("c"), status=3))
        self.assertFalse((self.folder / "c").exists())
        whole = (self.folder / "binary").read_bytes()
        bad = {"empty": b"", "cut": whole[:-1], "noise": bytes(range(256)), "model": (self.folder / "model.onnx").read_bytes(), "version": b'version: 9 device: "d"'}
        for name, contents in bad.items():
            (self.folder / name).write_bytes(contents)
            message = self.error("optimize", self.path("model.onnx"), "-o", self.path("out.onnx"), "--device", "profile:" + self.path(name), status=3)
            self.assertIn(name, message)
            self.assertFalse((self.folder / "out.onnx").exists())
        self.error("optimize", self.path("model.onnx"), "-o", self.path("out.onnx"), "--device", "profile:" + self.path("none"), status=3)
        self.error("profile", "--device", "profile:" + a, "-o", self.path("c"), status=2)
        self.error("profile", status=2)


if __name__ == "__main__":
    main()
