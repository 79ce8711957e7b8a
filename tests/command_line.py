"""The commands as their contract says, on small models: python command_line.py REWRIGHT [unittest's options]

Exit statuses, one line on standard error, the facts in the JSON reports, results as the reference interpreter's.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

REWRIGHT = ""


def tensor(name, array):
    return numpy_helper.from_array(numpy.asarray(array), name)


def branches(batch=1):
    """Two convolutions with batch norms, summed; then what nobody but its vendor knows."""
    random = numpy.random.default_rng(0)

    def norm(name):
        values = {"scale": random.uniform(0.5, 1, 8), "bias": random.normal(size=8), "mean": random.normal(size=8), "var": random.uniform(1, 2, 8)}
        return [tensor(f"{name}_{key}", value.astype("float32")) for key, value in values.items()]

    weights = [tensor("w3", random.normal(size=(8, 4, 3, 3)).astype("float32")), tensor("w1", random.normal(size=(8, 4, 1, 1)).astype("float32"))]
    nodes = [
        helper.make_node("Conv", ["x", "w3"], ["a"], name="conv3", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "n3_scale", "n3_bias", "n3_mean", "n3_var"], ["b"], name="norm3"),
        helper.make_node("Conv", ["x", "w1"], ["c"], name="conv1"),
        helper.make_node("BatchNormalization", ["c", "n1_scale", "n1_bias", "n1_mean", "n1_var"], ["d"], name="norm1"),
        helper.make_node("Add", ["b", "d"], ["e"], name="sum"),
        helper.make_node("Relu", ["e"], ["y"], name="relu"),
    ]
    graph = helper.make_graph(
        nodes,
        "branches",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 4, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 8, 16, 16])],
        weights + norm("n3") + norm("n1"),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        onnx.save(branches(), self.path("model.onnx"))

    def path(self, name):
        return str(self.folder / name)

    def run_program(self, *arguments, status=0):
        result = subprocess.run([REWRIGHT, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, status, result.stderr)
        if status >= 2:
            lines = result.stderr.splitlines()
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertTrue(lines[0].startswith("rewright: error: "), lines[0])
        return result

    def error(self, *arguments, status):
        return self.run_program(*arguments, status=status).stderr

    def report(self, *arguments, status=0):
        return json.loads(self.run_program(*arguments, "--json", "-", status=status).stdout)

    def optimize(self, *arguments):
        return self.report("optimize", self.path("model.onnx"), "-o", self.path("out.onnx"), "--threads", "1", "--budget", "10s", *arguments)

    def test_optimize_reports_what_the_contract_names(self):
        facts = self.optimize("--certificate", self.path("certificate"))
        self.assertLess(facts["nodes"]["after"], facts["nodes"]["before"])
        self.assertEqual(facts["device"], "cpu")
        for key in ("strategy", "stop_reason", "seconds", "graphs_explored", "rules_applied"):
            self.assertIn(key, facts["search"])
        for rule in facts["search"]["rules_applied"]:
            self.assertTrue(rule["rule"] and rule["where"])
        for key in ("predicted_ms", "measured_ms"):
            self.assertGreater(facts[key]["before"], 0)
            self.assertGreater(facts[key]["after"], 0)
        self.assertTrue(facts["check"]["ok"])
        self.assertEqual(facts["check"]["runs"], 1)
        self.assertGreater(facts["peak_bytes"], 0)
        self.assertEqual(facts["nodes"]["opaque"], [])
        onnx.checker.check_model(onnx.load(self.path("out.onnx")), full_check=True)

    def test_a_certificate_replays_to_the_same_bytes(self):
        self.optimize("--certificate", self.path("certificate"))
        self.run_program("replay", self.path("model.onnx"), self.path("certificate"), "-o", self.path("again.onnx"))
        self.assertEqual((self.folder / "out.onnx").read_bytes(), (self.folder / "again.onnx").read_bytes())

    def test_the_same_bytes_each_time_on_any_number_of_threads(self):
        self.run_program("models", "build", "squeezenet", "-o", self.path("squeezenet.onnx"))
        for search in ("auto", "backtrack", "saturate"):
            for model in ("model", "squeezenet"):
                results = set()
                for threads in ("1", "2", "1", "2"):
                    options = ["--estimate", "--check", "0", "--seed", "7", "--search", search, "--threads", threads]
                    facts = self.report("optimize", self.path(model + ".onnx"), "-o", self.path("out.onnx"), "--certificate", self.path("certificate"), *options)
                    self.assertNotEqual(facts["search"]["stop_reason"], "time")
                    results.add(((self.folder / "out.onnx").read_bytes(), (self.folder / "certificate").read_bytes()))
                self.assertEqual(len(results), 1, f"{search}, {model}")

    def profile(self, name, operations, moved, call):
        rates = f"operations_per_second: {operations} bytes_per_second: {moved} call_seconds: {call}"
        (self.folder / name).write_text(f'# by hand\nversion: 1 device: "{name}" {rates}\n')
        return self.path(name)

    def test_profiles_decide(self):
        # A product by two narrow weights is fewer calls with both multiplied first, and more operations.
        profiles = {"calls": self.profile("calls", 1e13, 1e12, 1e-5), "sums": self.profile("sums", 1e9, 1e12, 1e-9)}
        random = numpy.random.default_rng(0)
        weights = [tensor("a", random.normal(0, 0.1, (256, 8)).astype("float32")), tensor("b", random.normal(0, 0.1, (8, 256)).astype("float32"))]
        nodes = [helper.make_node("MatMul", ["x", "a"], ["t"]), helper.make_node("MatMul", ["t", "b"], ["y"])]
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 256]) for name in "xy"]
        onnx.save(helper.make_model(helper.make_graph(nodes, "chain", value[:1], value[1:], weights), ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), self.path("model.onnx"))
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

    def test_a_search_stops_for_the_reason_it_says(self):
        rules = self.rules("two.rules", 'rule twice: "" x Relu(Relu(x)) => Relu(x) exact', 'rule back: "" x Neg(Neg(x)) => x exact')
        for reason, options in (
            ("time", ["--budget", "0s"]),
            ("memory", ["--memory", "1M"]),
            ("done", ["--search", "backtrack"]),
            ("nodes", ["--search", "saturate", "--e-nodes", "20"]),
            ("saturated", ["--search", "saturate", "--rules", rules, "--unproved"]),
        ):
            facts = self.report("optimize", self.path("model.onnx"), "-o", self.path("out.onnx"), "--estimate", *options)
            self.assertEqual(facts["search"]["stop_reason"], reason)
            onnx.checker.check_model(onnx.load(self.path("out.onnx")), full_check=True)
            self.assertTrue(self.report("compare", self.path("model.onnx"), self.path("out.onnx"))["ok"])

    def test_an_interrupted_search_writes_its_best_so_far(self):
        self.run_program("models", "build", "mobileone_s0", "-o", self.path("mobileone_s0.onnx"))
        # Gains in its first regions, and by this patience half a minute of search behind them.
        options = ["--estimate", "--search", "backtrack", "--patience", "1000000000", "--budget", "600s", "--certificate", self.path("certificate")]
        command = [REWRIGHT, "optimize", self.path("mobileone_s0.onnx"), "-o", self.path("out.onnx"), "--json", self.path("facts"), *options]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr:
                if line.startswith("searching") and "predicted gain" in line:
                    process.send_signal(signal.SIGINT)
                    break
            process.stderr.read()
        self.assertEqual(process.returncode, 0)
        facts = json.loads((self.folder / "facts").read_text())
        self.assertEqual(facts["search"]["stop_reason"], "cancelled")
        self.assertLess(facts["predicted_ms"]["after"], facts["predicted_ms"]["before"])
        self.assertTrue(facts["check"]["ok"])
        self.assertEqual(facts["check"]["runs"], 1)
        onnx.checker.check_model(onnx.load(self.path("out.onnx")), full_check=True)
        self.run_program("replay", self.path("mobileone_s0.onnx"), self.path("certificate"), "-o", self.path("again.onnx"))
        self.assertEqual((self.folder / "out.onnx").read_bytes(), (self.folder / "again.onnx").read_bytes())

    def test_a_changed_certificate_is_refused(self):
        self.optimize("--certificate", self.path("certificate"))
        other = branches()
        other.graph.node.pop()
        other.graph.output[0].name = "e"
        onnx.save(other, self.path("other.onnx"))
        self.error("replay", self.path("other.onnx"), self.path("certificate"), "-o", self.path("again.onnx"), status=3)
        self.assertFalse((self.folder / "again.onnx").exists())

    def test_compare_says_yes_and_no(self):
        self.optimize()
        facts = self.report("compare", self.path("model.onnx"), self.path("out.onnx"))
        self.assertTrue(facts["ok"])
        self.assertEqual([o["name"] for o in facts["outputs"]], ["y"])
        other = branches()
        other.graph.initializer[0].CopyFrom(tensor("w3", numpy.zeros((8, 4, 3, 3), "float32")))
        onnx.save(other, self.path("other.onnx"))
        facts = self.report("compare", self.path("model.onnx"), self.path("other.onnx"), status=1)
        self.assertFalse(facts["ok"])

    def test_run_on_every_device_agrees(self):
        x = numpy.random.default_rng(1).normal(size=(1, 4, 16, 16)).astype("float32")
        numpy.save(self.path("x.npy"), x)
        (self.folder / "x.pb").write_bytes(tensor("x", x).SerializeToString())
        results = []
        for device, file in (("reference", "x.npy"), ("cpu", "x.pb"), ("onnxruntime", "x.npy")):
            self.run_program("run", self.path("model.onnx"), "--input", f"x={self.path(file)}", "--output-dir", self.path(device), "--device", device)
            results.append(numpy.load(self.path(device + "/y.npy")))
        for other in results[1:]:
            numpy.testing.assert_allclose(results[0], other, rtol=1e-4, atol=1e-4)

    def test_kernels_are_chosen_by_time_where_that_is_asked_for(self):
        numpy.save(self.path("x.npy"), numpy.random.default_rng(1).normal(size=(1, 4, 16, 16)).astype("float32"))
        options = ["--input", f"x={self.path('x.npy')}", "--output-dir", self.path("out"), "--threads", "1"]

        def output(*more):
            self.run_program("run", self.path("model.onnx"), *options, *more)
            return numpy.load(self.path("out/y.npy"))

        with unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.path("cache")}):
            estimated = output()
            self.assertFalse(os.path.exists(self.path("cache")))
            numpy.testing.assert_array_equal(output("--kernels", "cached"), estimated)
            measured = output("--kernels", "measured")
            numpy.testing.assert_allclose(measured, estimated, rtol=1e-3, atol=1e-3)
            for kernels in ("cached", "measured"):
                numpy.testing.assert_array_equal(output("--kernels", kernels), measured)
            numpy.testing.assert_array_equal(output("--kernels", "estimated"), estimated)
            self.report("bench", self.path("model.onnx"), "--seconds", "0.05s", "--threads", "1", "--kernels", "cached")
            self.error("run", self.path("model.onnx"), *options, "--kernels", "guessed", status=2)

    def test_run_profiles(self):
        numpy.save(self.path("x.npy"), numpy.zeros((1, 4, 16, 16), "float32"))
        facts = self.report("run", self.path("model.onnx"), "--input", f"x={self.path('x.npy')}", "--output-dir", self.path("out"), "--profile")
        self.assertTrue(any("Conv" in step["operators"] for step in facts["profile"]))
        self.assertTrue(all(step["roofline_share"] >= 0 for step in facts["profile"]))
        self.assertGreater(facts["roofline"]["flop_per_s"], 0)

    def write_text(self, name, text):
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> agraph {text}'), self.path(name))

    def test_run_reads_and_writes_values_of_every_kind(self):
        self.write_text(
            "kinds.onnx",
            """(seq(float[3]) q, string[2] t, bfloat16[2] h) => (seq(float[3]) r, string[2] u, bfloat16[2] k, float[3] y) {
              zero = Constant <value = int64 {0}> ()
              first = SequenceAt(q, zero)
              y = Neg(first)
              r = SequenceInsert(q, y)
              u = Identity(t)
              k = Neg(h)
            }""",
        )
        sequence = numpy_helper.from_list([numpy.array([1, 2, 3], numpy.float32)], "q")
        texts = helper.make_tensor("t", TensorProto.STRING, [2], ["a", "b"])
        halves = helper.make_tensor("h", TensorProto.BFLOAT16, [2], [1.5, -2.0])
        arguments = []
        for name, value in (("q", sequence), ("t", texts), ("h", halves)):
            pathlib.Path(self.path(f"{name}.pb")).write_bytes(value.SerializeToString())
            arguments += ["--input", f"{name}={self.path(f'{name}.pb')}"]
        for device in ("cpu", "reference"):
            out = self.folder / device
            self.run_program("run", self.path("kinds.onnx"), *arguments, "--output-dir", str(out), "--device", device)
            written = onnx.SequenceProto.FromString((out / "r.pb").read_bytes())
            self.assertEqual([a.tolist() for a in numpy_helper.to_list(written)], [[1, 2, 3], [-1, -2, -3]])
            self.assertEqual(list(onnx.TensorProto.FromString((out / "u.pb").read_bytes()).string_data), [b"a", b"b"])
            negated = numpy_helper.to_array(onnx.TensorProto.FromString((out / "k.pb").read_bytes()))
            self.assertEqual(negated.astype(numpy.float32).tolist(), [-1.5, 2.0])
            self.assertEqual(numpy.load(out / "y.npy").tolist(), [-1, -2, -3])

    def endless_loop(self):
        self.write_text(
            "endless.onnx",
            """(float[2] x) => (float[2] y) {
              yes = Constant <value = bool {1}> ()
              y = Loop ("", yes, x) <body = b (int64 i, bool c, float[2] v) => (bool go, float[2] next) {
                next = Neg(v)
                go = Identity(c)
              }>
            }""",
        )
        numpy.save(self.path("x.npy"), numpy.ones(2, numpy.float32))
        return [self.path("endless.onnx"), "--input", f"x={self.path('x.npy')}", "--output-dir", self.path("out")]

    def test_a_run_that_never_ends_is_given_up(self):
        for device in ("cpu", "reference"):
            message = self.error("run", *self.endless_loop(), "--budget", "300ms", "--device", device, status=4)
            self.assertIn("endless.onnx", message)
            self.assertIn("longer than its budget of 300ms", message)

    def test_a_run_that_never_ends_is_interrupted(self):
        with subprocess.Popen([REWRIGHT, "run", *self.endless_loop()], stderr=subprocess.PIPE, text=True) as process:
            self.assertRaises(subprocess.TimeoutExpired, process.wait, 2)
            process.send_signal(signal.SIGINT)
            self.assertIn("was interrupted", process.communicate(timeout=60)[1])
            self.assertEqual(process.returncode, 4)

    def test_a_model_that_never_ends_is_optimized(self):
        model, written = self.endless_loop()[0], self.path("ended.onnx")
        with subprocess.Popen([REWRIGHT, "optimize", model, "-o", written, "--quiet", "--json", self.path("ended.json")]) as process:
            self.assertRaises(subprocess.TimeoutExpired, process.wait, 5)  # at its Loop
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=60), 0)
        onnx.checker.check_model(written, full_check=True)
        self.assertEqual([node.op_type for node in onnx.load(written).graph.node], [node.op_type for node in onnx.load(model).graph.node])

    def test_weights_that_are_no_numbers_are_kept_bit_by_bit(self):
        weights = numpy.random.default_rng(0).normal(size=(4, 4)).astype("float32")
        bits = weights.view(numpy.uint32)
        bits[0] = [0xFF812345, 0x7FC54321, 0xFF800000, 0x7F800000]  # a signalling NaN, a quiet one, both infinities
        bits[1, :2] = [0x80000000, 0x00000001]  # -0, a denormal number
        graph = helper.make_graph(
            [
                helper.make_node("MatMul", ["x", "w"], ["a"]),
                helper.make_node("Relu", ["a"], ["b"]),
                helper.make_node("Relu", ["b"], ["c"]),
                helper.make_node("Transpose", ["w"], ["turned"], perm=[1, 0]),
                helper.make_node("MatMul", ["c", "turned"], ["y"]),
            ],
            "numbers",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
            [tensor("w", weights)],
        )
        model, written = self.path("numbers.onnx"), self.path("fewer.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
        self.report("optimize", model, "-o", written, "--estimate", "--no-timing")
        found = {t.name: numpy_helper.to_array(t).view(numpy.uint32) for t in onnx.load(written).graph.initializer}
        numpy.testing.assert_array_equal(found.pop("w"), bits)
        for turned in found.values():
            numpy.testing.assert_array_equal(turned, bits.T)

    def test_run_traces(self):
        numpy.save(self.path("x.npy"), numpy.zeros((1, 4, 16, 16), "float32"))
        options = ["--input", f"x={self.path('x.npy')}", "--output-dir", self.path("out"), "--trace", self.path("trace.json")]
        facts = self.report("run", self.path("model.onnx"), *options)
        with open(self.path("trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual([event["name"] for event in events], [step["operators"] for step in facts["profile"]])
        for before, event in zip(events, events[1:]):
            self.assertEqual(event["ph"], "X")
            self.assertAlmostEqual(before["ts"] + before["dur"], event["ts"], places=3)

    def test_bench_gives_ratios_against_the_first(self):
        facts = self.report("bench", self.path("model.onnx"), self.path("model.onnx"), "--seconds", "0.2s", "--threads", "1")
        self.assertEqual(len(facts["models"]), 2)
        for model in facts["models"]:
            ordered = [model[f"{name}_ms"] for name in ("min", "p10", "median", "p90", "p95", "p99", "max")]
            self.assertEqual(ordered, sorted(ordered))
            self.assertTrue(model["min_ms"] <= model["mean_ms"] <= model["max_ms"])
        self.assertEqual(set(facts["ratios"][0]) & {"median", "low", "high"}, {"median", "low", "high"})

    def test_show_counts(self):
        facts = self.report("show", self.path("model.onnx"))
        self.assertEqual(facts["inputs"], [{"name": "x", "type": "float", "shape": [1, 4, 16, 16]}])
        conv = next(o for o in facts["operators"] if o["operator"] == "Conv")
        self.assertEqual(conv["nodes"], 2)
        self.assertEqual(conv["flops"], 2 * 8 * 16 * 16 * 4 * (9 + 1))

    def test_unknown_operators_are_kept_and_named(self):
        model = branches()
        model.graph.node[-1].op_type, model.graph.node[-1].domain, model.graph.node[-1].name = "Sparkle", "com.example", "vendor"
        model.opset_import.append(helper.make_opsetid("com.example", 3))
        onnx.save(model, self.path("model.onnx"))
        facts = self.report("show", self.path("model.onnx"), "--unsupported", status=1)
        self.assertEqual([n["node"] for n in facts["nodes"]], ["vendor"])
        self.assertFalse(facts["executable"])
        profile = "profile:" + self.profile("profile", 1e12, 1e11, 1e-6)
        for options in (["--device", "cpu"], ["--device", "onnxruntime"], ["--device", profile], ["--estimate"], ["--no-timing"], ["--objective", "memory"]):
            facts = self.optimize(*options)
            self.assertIn("Sparkle", [n.op_type for n in onnx.load(self.path("out.onnx")).graph.node])
            self.assertEqual([n["node"] for n in facts["nodes"]["opaque"]], ["vendor"])
            self.assertLess(facts["nodes"]["after"], facts["nodes"]["before"])

    def test_symbolic_sizes_survive(self):
        onnx.save(branches("N"), self.path("model.onnx"))
        self.optimize("--shape", "x=2x4x16x16")
        shape = onnx.load(self.path("out.onnx")).graph.input[0].type.tensor_type.shape
        self.assertEqual(shape.dim[0].dim_param, "N")

    def test_no_gain_gives_the_model_back(self):
        node = helper.make_node("Relu", ["x"], ["y"])
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
        onnx.save(helper.make_model(helper.make_graph([node], "one", value[:1], value[1:]), ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), self.path("model.onnx"))
        facts = self.optimize()
        self.assertEqual(facts["search"]["rules_applied"], [])
        self.assertEqual(onnx.load(self.path("out.onnx")).graph.node, onnx.load(self.path("model.onnx")).graph.node)

    def test_rules_are_listed_and_shown(self):
        rules = self.report("rules", "list")["rules"]
        self.assertGreaterEqual(len(rules), 40)
        name = rules[0]["name"]
        self.assertIn(name, self.run_program("rules", "show", "--name", name).stdout)
        self.error("rules", "show", "--name", "no_such_rule", status=2)
        (self.folder / "bad.rules").write_text("rule broken: Conv(x => x")
        self.assertIn("bad.rules", self.error("rules", "list", self.path("bad.rules"), status=3))

    def test_every_shipped_rule_is_proved(self):
        for rule in self.report("rules", "list")["rules"]:
            self.assertEqual(rule["status"], "proved", rule["name"])

    def test_a_rule_is_shown_with_its_proof_and_drawn(self):
        (rule,) = self.report("rules", "show", "conv_add")["rules"]
        self.assertEqual((rule["name"], rule["math"], rule["status"], rule["for_training"]), ("conv_add", "reassociates", "proved", True))
        text = self.run_program("rules", "show", "conv_add", "matmul_add").stdout
        self.assertIn(rule["algebra"], text)
        self.assertIn("rule matmul_add", text)
        self.assertIn("# proved for all sizes", text)
        (self.folder / "again.rules").write_text(text)  # what is shown can be read
        self.assertEqual([r["hash"] for r in self.report("rules", "show", self.path("again.rules"), "conv_add")["rules"]], [rule["hash"]])
        dot = self.run_program("rules", "show", "conv_add", "--dot").stdout
        self.assertTrue(dot.startswith('digraph "conv_add" {'), dot)
        self.assertEqual(self.report("rules", "show", "conv_add", "--dot")["rules"][0]["dot"], dot)
        self.error("rules", "show", "conv_adds", status=2)

    def rules(self, name, *texts):
        (self.folder / name).write_text("\n".join(texts))
        return self.path(name)

    def verify(self, *arguments, status):
        """Standard output without times, error lines, and the facts of a run of verify on one thread; on three they are the same."""
        runs = []
        for threads in ("1", "3"):
            command = [REWRIGHT, "verify", *arguments, "--threads", threads, "--json", self.path("facts")]
            result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
            self.assertEqual(result.returncode, status, result.stderr)
            facts = json.loads((self.folder / "facts").read_text())
            del facts["seconds"]
            for rule in facts["rules"]:
                rule.pop("seconds", None)
            errors = [line for line in result.stderr.splitlines() if line.startswith("rewright: error: ")]
            runs.append((result.stdout, errors, facts))
        self.assertEqual(runs[0], runs[1])
        return runs[0]

    def test_bad_rules_leave_the_others_alone(self):
        bad = {
            "operator": 'x Foo(x) => x',
            "unbound": 'x Relu(x) => Transpose(x; perm=p)',
            "stray": 'x Relu(x) => $ x',
            "no_output": 'x Relu(x) =>',
            "cycle": 'x let t = Relu(t) Relu(x) => t',
            "source": 'x[M, N], y[N] Relu(Conv(x, y)) => x',
            "target": 'x[M] Relu(x) => Conv(x, x)',
            "contradiction": 'x[N] Relu(Relu(x)) => Relu(x) where N == 2, N mod 2 == 1',
        }
        texts = [f'rule {name}: "" {rule}' for name, rule in bad.items()]
        texts.insert(2, 'rule good: "" x Relu(Relu(x)) => Relu(x) exact')
        texts.append('rule wrong: "" x[M, M] Transpose(x; perm=[1, 0]) => x')
        file = self.rules("bad.rules", *texts)
        output, errors, facts = self.verify(file, "-o", self.path("proved"), status=3)
        self.assertEqual(len(errors), len(bad))
        for name in bad:
            self.assertEqual(len([e for e in errors if e.startswith(f'rewright: error: {file}: rule "{name}": ')]), 1, name)
        verdicts = {rule["name"]: rule for rule in facts["rules"]}
        self.assertEqual({n for n, r in verdicts.items() if r["verdict"] == "invalid"}, set(bad))
        self.assertTrue(all(verdicts[n]["error"] for n in bad))
        self.assertEqual(verdicts["good"]["verdict"], "proved")
        self.assertEqual(verdicts["wrong"]["counterexample"], "M = 2, x[2, 2] = [[0, 0], [1, 0]]: output 0 at [0, 1] is 1 in the source and 0 in the target")
        self.assertEqual((facts["proved"], facts["refuted"], facts["undecided"], facts["invalid"]), (1, 1, 0, len(bad)))
        self.assertEqual([r["name"] for r in self.report("rules", "list", self.path("proved"))["rules"]], ["good"])
        self.assertIn(f"1 proved, 1 refuted, 0 undecided, {len(bad)} invalid", output)
        self.error("rules", "list", file, status=3)  # elsewhere a file is refused whole
        quiet, errors, _ = self.verify(file, "--quiet", status=3)
        self.assertEqual((quiet, len(errors)), ("", len(bad)))

    def test_conditions_that_are_missing_are_added_or_told(self):
        needs = 'rule needs: "" x[M, N], y[K, L] Relu(x), Relu(y) => Relu(x), Slice(Relu(Concat(x, y; axis=0)); begin=[M, 0], length=[K, L])'
        means = 'rule means: "" x[M, K], y[N, K] ReduceMean(Concat(x, y; axis=0); axes=[0]) => (ReduceMean(x; axes=[0]) + ReduceMean(y; axes=[0])) * 0.5'
        file = self.rules("missing.rules", needs, means)
        output, _, facts = self.verify(file, "-o", self.path("proved"), status=1)
        self.assertEqual([(r["verdict"], r["conditions"], r.get("suggested_conditions")) for r in facts["rules"]],
                         [("proved", ["L == N"], None), ("refuted", [], ["M == N"])])
        self.assertIn("needs where L == N", output)
        self.assertIn("it holds where M == N", output)
        _, _, facts = self.verify(file, "--infer-conditions", "-o", self.path("proved"), status=0)
        self.assertEqual([(r["verdict"], r["conditions"]) for r in facts["rules"]], [("proved", ["L == N"]), ("proved", ["M == N"])])
        # They are part of the rules that are written.
        text = self.run_program("rules", "show", self.path("proved")).stdout
        self.assertIn("where L == N", text)
        self.assertIn("where M == N", text)
        _, _, facts = self.verify(self.path("proved"), status=0)
        self.assertEqual([(r["verdict"], r["conditions"]) for r in facts["rules"]], [("proved", []), ("proved", [])])

    def test_rules_are_by_people_or_generated(self):
        parts = {part: {rule["name"]: rule["origin"] for rule in self.report("rules", "list", part)["rules"]} for part in ("generated", "handwritten")}
        self.assertEqual(set(parts["generated"].values()) - {"generated", "both"}, set())
        self.assertNotIn("generated", parts["handwritten"].values())
        shipped = {rule["name"]: rule["origin"] for rule in self.report("rules", "list")["rules"]}
        self.assertEqual(shipped, parts["generated"] | parts["handwritten"])

    def test_rules_follow_from_others(self):
        given = self.rules("given.rules", 'rule back: "" x Neg(Neg(x)) => x exact')
        again = 'rule again: "" y Neg(Neg(y)) => y exact'
        thrice, other = 'rule thrice: "" x Neg(Neg(Neg(x))) => Neg(x) exact', 'rule other: "" x Relu(Relu(x)) => Relu(x) exact'
        facts = self.report("rules", "derive", self.rules("a.rules", again, thrice), "--from", given)
        self.assertEqual([(r["name"], r["verdict"], r["same"]) for r in facts["rules"]], [("again", "same", "back"), ("thrice", "follows", "")])
        facts = self.report("rules", "derive", self.rules("b.rules", other), "--from", given, status=1)
        self.assertEqual(facts["rules"][0]["verdict"], "no")
        facts = self.report("rules", "merge", given, self.rules("c.rules", thrice, other), "--reduce", "-o", self.path("reduced"))
        self.assertEqual((facts["rules"], facts["derivable"]), (2, ["thrice"]))

    def test_rules_are_compared(self):
        twice, back = 'rule twice: "" x Relu(Relu(x)) => Relu(x) exact', 'rule back: "" x Neg(Neg(x)) => x exact'
        a = self.rules("a.rules", twice, back)
        b = self.rules("b.rules", back.replace('"" x Neg(Neg(x)) => x', '"" y Neg(Neg(y)) => y'), twice.replace("twice", "again"))
        self.assertTrue(self.report("rules", "diff", a, a)["equal"])
        facts = self.report("rules", "diff", a, b)
        self.assertEqual(facts["renamed"], [{"first": "twice", "second": "again"}])
        c = self.rules("c.rules", back.replace("exact", "reassociates"), 'rule new: "" x, y x + y => y + x exact')
        facts = self.report("rules", "diff", a, c, status=1)
        self.assertEqual((facts["only_first"], facts["only_second"], facts["changed"]), (["twice"], ["new"], ["back"]))
        self.assertIn("! back", self.run_program("rules", "diff", a, c, status=1).stdout)

    def test_rules_are_united_in_every_form(self):
        a = self.rules("a.rules", 'rule twice: "" x Relu(Relu(x)) => Relu(x) exact')
        b = self.rules("b.rules", 'rule other: "" y Relu(Relu(y)) => Relu(y) exact', 'rule back: "" x Neg(Neg(x)) => x exact')
        merged = {}
        for form in ("binary", "text", "algebra"):
            merged[form] = self.path(form)
            facts = self.report("rules", "merge", a, b, "-o", merged[form], "--format", form)
            self.assertEqual((facts["rules"], [d["kept"] for d in facts["dropped"]]), (2, ["twice"]))
        self.assertTrue(self.report("rules", "diff", merged["binary"], merged["text"])["equal"])
        self.assertTrue(self.report("rules", "diff", merged["text"], merged["algebra"])["equal"])
        c = self.rules("c.rules", 'rule twice: "" x Relu(Neg(x)) => Relu(x) exact')
        message = self.error("rules", "merge", a, c, "-o", self.path("no"), status=3)
        self.assertTrue("a.rules" in message and "c.rules" in message and "twice" in message, message)
        self.assertFalse((self.folder / "no").exists())

    def test_the_example_of_the_documentation(self):
        text = (pathlib.Path(__file__).parent.parent / "docs" / "rules.md").read_text()
        example = text[text.index("    rule negated_rectifier") :].split("\n\n")[0]
        refuted = self.report("verify", self.rules("mine.rules", example), "-o", self.path("mine.proved"), status=1)
        self.assertEqual(refuted["refuted"], 1)
        self.rules("mine.rules", example.replace("Max", "Min"))
        self.report("verify", self.path("mine.rules"), "-o", self.path("mine.proved"), "--certificates", self.path("certificates"))
        self.run_program("verify", "--check-certificate", self.path("certificates"))
        nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Neg", ["b"], ["y"])]
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 64, 64]) for name in "xy"]
        onnx.save(helper.make_model(helper.make_graph(nodes, "negations", value[:1], value[1:]), ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), self.path("model.onnx"))
        self.assertEqual(self.optimize("--rules", self.path("mine.proved"))["nodes"]["before"], 3)
        (rule,) = self.report("rules", "show", self.path("mine.proved"), "negated_rectifier")["rules"]
        self.assertEqual((rule["status"], len(rule["digest"])), ("proved", 64))

    def test_rules_are_used_only_with_a_proof(self):
        rules = self.rules("my.rules", 'rule my_swap: "" x, y x + y => y + x exact')
        arguments = ("optimize", self.path("model.onnx"), "-o", self.path("out.onnx"), "--threads", "1", "--budget", "2s", "--rules")
        self.assertIn("my_swap", self.error(*arguments, rules, status=3))
        self.assertFalse((self.folder / "out.onnx").exists())
        self.run_program(*arguments, rules, "--unproved")
        self.assertEqual(self.report("verify", rules, "-o", self.path("proved"))["proved"], 1)
        self.run_program(*arguments, self.path("proved"))
        self.run_program("rules", "merge", self.path("proved"), "-o", self.path("text"), "--format", "text")
        text = (self.folder / "text").read_text()
        (self.folder / "text").write_text(text.replace('op: "Add"', 'op: "Sub"', 1))
        self.assertIn("changed since it was proved", self.error(*arguments, self.path("text"), status=3))

    def test_rules_of_taso_are_imported_and_verified(self):
        script = pathlib.Path(__file__).parent / "taso_rules.py"
        subprocess.run([sys.executable, str(script), self.path("taso.pb"), self.path("expected.json")], check=True, stdout=subprocess.DEVNULL)
        expected = json.loads((self.folder / "expected.json").read_text())
        facts = self.report("rules", "import-taso", self.path("taso.pb"), "-o", self.path("imported"))
        ill_typed = [f"taso_{i}" for i, (_, truth) in enumerate(expected) if truth == "ill-typed"]
        self.assertEqual((facts["imported"], [s["name"] for s in facts["skipped"]]), (len(expected) - len(ill_typed), ill_typed))
        self.assertTrue(all(s["reason"].startswith("it is ill-typed") for s in facts["skipped"]), facts["skipped"])
        self.assertEqual({r["origin"] for r in self.report("rules", "list", self.path("imported"))["rules"]}, {"imported"})
        verdicts = {r["name"]: r["verdict"] for r in self.report("verify", self.path("imported"), status=1)["rules"]}
        undecided = 0
        for i, (name, truth) in enumerate(expected):
            verdict = verdicts.get(f"taso_{i}")
            undecided += verdict == "undecided"
            allowed = {"true": ("proved", "undecided"), "false": ("refuted",), "ill-typed": (None,)}[truth]
            self.assertIn(verdict, allowed, name)
        self.assertLessEqual(undecided, 2)

    def test_a_file_that_is_none_of_taso_is_refused(self):
        script = pathlib.Path(__file__).parent / "taso_rules.py"
        subprocess.run([sys.executable, str(script), self.path("taso.pb")], check=True, stdout=subprocess.DEVNULL)
        whole = (self.folder / "taso.pb").read_bytes()
        for name, contents in (("empty", b""), ("cut", whole[:-1]), ("text", b"rule r: no rule of TASO")):
            (self.folder / name).write_bytes(contents)
            self.assertIn(name, self.error("rules", "import-taso", self.path(name), "-o", self.path("out"), status=3))
            self.assertFalse((self.folder / "out").exists())
        self.error("rules", "import-taso", self.path("none"), "-o", self.path("out"), status=3)
        self.error("rules", "import-taso", self.path("taso.pb"), status=2)
        self.error("rules", "import-taso", self.path("taso.pb"), "-o", self.path("no/such/folder/out"), status=4)
        self.run_program("rules", "import-taso", self.path("taso.pb"), "-o", self.path("out.rules"), "--format", "algebra")
        self.assertIn("rule taso_17:", (self.folder / "out.rules").read_text())
        self.run_program("rules", "list", self.path("out.rules"))

    def test_models_are_listed_and_built(self):
        names = [m["name"] for m in self.report("models", "list")["models"]]
        self.assertIn("mobileone_s0", names)
        self.run_program("models", "build", "squeezenet", "-o", self.path("squeezenet.onnx"))
        onnx.checker.check_model(onnx.load(self.path("squeezenet.onnx")), full_check=True)
        self.error("models", "build", "squeezenut", "-o", self.path("no.onnx"), status=2)

    def test_conformance_counts(self):
        case = self.folder / "cases" / "relu" / "test_data_set_0"
        case.mkdir(parents=True)
        node = helper.make_node("Relu", ["x"], ["y"])
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
        onnx.save(helper.make_model(helper.make_graph([node], "relu", value[:1], value[1:]), ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), str(case.parent / "model.onnx"))
        (case / "input_0.pb").write_bytes(tensor("x", numpy.array([-1, 0, 2], "float32")).SerializeToString())
        (case / "output_0.pb").write_bytes(tensor("y", numpy.array([0, 0, 2], "float32")).SerializeToString())
        facts = self.report("conformance", self.path("cases"))
        self.assertEqual((facts["passed"], facts["failed"], facts["unsupported"]), (1, 0, 0))
        (case / "output_0.pb").write_bytes(tensor("y", numpy.array([0, 1, 2], "float32")).SerializeToString())
        facts = self.report("conformance", self.path("cases"), "--device", "reference", status=1)
        self.assertEqual(facts["cases"][0]["status"], "failed")

    def test_wrong_usage(self):
        self.error(status=2)
        self.error("optimise", status=2)
        self.error("optimize", self.path("model.onnx"), status=2)
        self.error("optimize", self.path("model.onnx"), "-o", self.path("o.onnx"), "--budget", "soon", status=2)
        self.error("optimize", self.path("model.onnx"), "-o", self.path("o.onnx"), "--device", "toaster", status=2)
        self.error("optimize", self.path("model.onnx"), "-o", self.path("o.onnx"), "--shape", "x=1y2", status=2)
        self.error("run", self.path("model.onnx"), "--output-dir", self.path("d"), status=2)

    def test_bad_input(self):
        self.assertIn("none.onnx", self.error("show", self.path("none.onnx"), status=3))
        (self.folder / "text.onnx").write_text("this is no model")
        self.assertIn("text.onnx", self.error("optimize", self.path("text.onnx"), "-o", self.path("o.onnx"), status=3))
        message = self.error("optimize", self.path("model.onnx"), "-o", self.path("o.onnx"), "--shape", "x=1x5x16x16", status=3)
        self.assertIn('"x"', message)
        model = branches()
        model.graph.initializer[0].CopyFrom(tensor("w3", numpy.zeros((8, 3, 3, 3), "float32")))
        onnx.save(model, self.path("wrong.onnx"))
        message = self.error("optimize", self.path("wrong.onnx"), "-o", self.path("o.onnx"), status=3)
        self.assertIn("conv3", message)
        self.assertIn("weight has 3 input channels, input has 4 (group 1)", message)
        self.assertFalse((self.folder / "o.onnx").exists())

    def test_what_is_missing_here(self):
        self.error("optimize", self.path("model.onnx"), "-o", self.path("o.onnx"), "--device", "cuda", status=4)
        message = self.error("bench", self.path("model.onnx"), "--device", "cuda:7", status=4)
        self.assertRegex(message, "CUDA|driver|GPU")
        self.error("bench", self.path("model.onnx"), "--device", "cuda:x", status=2)
        self.error("optimize", self.path("model.onnx"), "-o", self.path("no/such/folder/o.onnx"), "--budget", "1s", status=4)

    def test_every_command_has_help_with_an_example(self):
        for command in ("optimize", "run", "bench", "compare", "show", "replay", "conformance", "rules list", "rules show", "rules diff", "rules merge", "rules import-taso", "models list", "models build"):
            text = self.run_program(*command.split(), "--help").stdout
            self.assertIn("Example", text, command)
            self.assertIn("--json", text, command)


if __name__ == "__main__":
    REWRIGHT = sys.argv.pop(1)
    unittest.main()
