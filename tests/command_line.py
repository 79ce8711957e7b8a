"""The commands as their contract says, on small models: python command_line.py REWRIGHT [unittest's options]

Exit statuses, one line on standard error, the facts in the JSON reports, what `optimize` writes. The commands about rules, profiles
and execution have files of their own.
"""

import json
import pathlib
import signal
import subprocess
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from program import ProgramTest, branches, main, same_shape, tensor

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "docs" / "site"))
import pages  # noqa: E402: it is beside the pages that it makes


class CommandLine(ProgramTest):
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
        command = [self.program, "optimize", self.path("mobileone_s0.onnx"), "-o", self.path("out.onnx"), "--json", self.path("facts"), *options]
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

    def test_a_model_that_never_ends_is_optimized(self):
        model, written = self.endless_loop()[0], self.path("ended.onnx")
        with subprocess.Popen([self.program, "optimize", model, "-o", written, "--quiet", "--json", self.path("ended.json")]) as process:
            self.interrupt_at_work(process)
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

    def test_show_counts(self):
        facts = self.report("show", self.path("model.onnx"))
        self.assertEqual(facts["inputs"], [{"name": "x", "type": "float", "shape": [1, 4, 16, 16]}])
        conv = next(o for o in facts["operators"] if o["operator"] == "Conv")
        self.assertEqual(conv["nodes"], 2)
        self.assertEqual(conv["flops"], 2 * 8 * 16 * 16 * 4 * (9 + 1))

    def test_show_has_the_sizes_of_the_model_and_those_assumed(self):
        self.write_text("open.onnx", "(float[batch, n] x) => (float[batch, n] y) { y = Neg(x) }")
        facts = self.report("show", self.path("open.onnx"))
        self.assertEqual((facts["inputs"][0]["shape"], facts["outputs"][0]["shape"]), (["batch", "n"], ["batch", "n"]))
        self.assertEqual(facts["flops"], facts["sizes"]["batch"] * facts["sizes"]["n"])
        facts = self.report("show", self.path("open.onnx"), "--shape", "x=2x5")
        self.assertEqual((facts["sizes"], facts["flops"], facts["inputs"][0]["shape"]), ({"batch": 2, "n": 5}, 10, ["batch", "n"]))
        self.assertIn("with    batch = 2, n = 5", self.run_program("show", self.path("open.onnx"), "--shape", "x=2x5").stdout)

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
            # Nothing here can execute it: the given model comes back, and a line says why.
            self.assertFalse(facts["changed"])
            self.assertEqual(facts["check"]["runs"], 0)
            self.assertIn("Sparkle", facts["check"]["reason"])
            self.assertEqual(onnx.load(self.path("out.onnx")).graph.node, model.graph.node)
            facts = self.optimize(*options, "--check", "0")
            self.assertLess(facts["nodes"]["after"], facts["nodes"]["before"])

    def test_a_wrong_rule_is_named_shown_and_left_out(self):
        self.write_text("model.onnx", "(float[8, 64] x) => (float[8, 64] y) { a = Neg(x)\n b = Exp(a)\n c = Relu(b)\n y = Relu(c) }")
        wrong = 'rule forgets: "wrong" x Exp(Neg(x)) => Exp(x) exact'
        rules = self.rules("some.rules", wrong, 'rule once: "" x Relu(Relu(x)) => Relu(x) exact')
        options = ["--rules", rules, "--unproved", "--estimate", "--no-timing", "--json", self.path("facts"), "--quiet"]
        warnings = self.run_program("optimize", self.path("model.onnx"), "-o", self.path("out.onnx"), *options).stderr
        facts = json.loads((self.folder / "facts").read_text())
        (fault,) = facts["check"]["differs"]
        self.assertEqual((fault["kind"], fault["rules"], fault["file"]), ("rule", ["forgets"], self.path("out.differs.onnx")))
        self.assertTrue(warnings.startswith("rewright: warning: the rule forgets"), warnings)
        self.assertIn("out.differs.onnx", warnings)
        self.assertEqual([n.op_type for n in onnx.load(self.path("out.onnx")).graph.node], ["Neg", "Exp", "Relu"])
        self.assertTrue(facts["check"]["ok"])
        self.assertEqual(facts["check"]["runs"], 1)
        self.assertEqual([n.op_type for n in onnx.load(self.path("out.differs.onnx")).graph.node], ["Neg", "Exp"])
        onnx.checker.check_model(onnx.load(self.path("out.differs.onnx")), full_check=True)

    def test_inputs_are_such_as_the_model_accepts(self):
        # Token types of one kind: every position but 0 is out of range.
        self.write_text(
            "model.onnx",
            """(int64[1, 6] kind, float[1, 6, 4] x) => (float[1, 6, 4] y)
            <float[1, 4] table = {1, 2, 3, 4}> { t = Gather(table, kind)\n a = Add(t, x)\n b = Neg(a)\n c = Neg(b)\n y = Exp(c) }""",
        )
        for device in ("onnxruntime", "cpu"):
            facts = self.optimize("--device", device, "--no-timing")
            self.assertEqual(facts["check"]["runs"], 1)
            self.assertEqual(facts["check"]["on"], device)

    def test_folded_positions_are_those_of_execution(self):
        # Buckets of relative positions as T5's exporters trace them: 16 / 8 is a power of two, and the last bit decides.
        table = tensor("table", numpy.arange(64, dtype=numpy.float32).reshape(32, 2))
        far, eight, log = tensor("far", numpy.arange(8, 40, dtype=numpy.float32)), tensor("eight", numpy.float32(8)), tensor("log", numpy.float32(2.7725887))
        nodes = [
            helper.make_node("Div", ["far", "eight"], ["a"]),
            helper.make_node("Log", ["a"], ["b"]),
            helper.make_node("Div", ["b", "log"], ["c"]),
            helper.make_node("Mul", ["c", "eight"], ["d"]),
            helper.make_node("Cast", ["d"], ["e"], to=TensorProto.INT64),
            helper.make_node("Gather", ["table", "e"], ["f"]),
            helper.make_node("Add", ["x", "f"], ["y"]),
        ]
        onnx.save(same_shape(nodes, [32, 2], [table, far, eight, log]), self.path("model.onnx"))
        for device in ("onnxruntime", "cpu"):
            for math in ("exact", "fast"):
                facts = self.optimize("--device", device, "--math", math, "--no-timing")
                self.assertEqual(facts["check"]["differs"], [])
                self.assertTrue(facts["changed"])
                (folded,) = (numpy_helper.to_array(t) for t in onnx.load(self.path("out.onnx")).graph.initializer)
                self.assertEqual(folded[8].tolist(), [4, 5])

    def test_symbolic_sizes_survive(self):
        onnx.save(branches("N"), self.path("model.onnx"))
        self.optimize("--shape", "x=2x4x16x16")
        shape = onnx.load(self.path("out.onnx")).graph.input[0].type.tensor_type.shape
        self.assertEqual(shape.dim[0].dim_param, "N")

    def test_the_standard_dialect(self):
        def write(*more):
            nodes = [
                helper.make_node("BiasGelu", ["x", "b"], ["a"], domain="com.microsoft"),
                helper.make_node("SimplifiedLayerNormalization", ["a", "b"], ["m" if more else "y"]),
                *more,
            ]
            model = same_shape(nodes, [3, 8], [tensor("b", numpy.linspace(0.5, 1.5, 8, dtype=numpy.float32))])
            model.opset_import.add(domain="com.microsoft", version=1)
            onnx.save(model, self.path("model.onnx"))

        write()
        facts = self.optimize("--dialect", "standard", "--certificate", self.path("certificate"))
        model = onnx.load(self.path("out.onnx"))
        onnx.checker.check_model(model, full_check=True)
        self.assertEqual([(opset.domain, opset.version) for opset in model.opset_import], [("", 23)])
        self.assertEqual((facts["opset"], facts["not_standard"], facts["check"]["runs"]), (23, [], 1))
        self.assertTrue(facts["check"]["ok"])
        self.run_program("replay", self.path("model.onnx"), self.path("certificate"), "-o", self.path("again.onnx"))
        self.assertEqual((self.folder / "out.onnx").read_bytes(), (self.folder / "again.onnx").read_bytes())
        self.run_program("compare", self.path("model.onnx"), self.path("out.onnx"))

        # An operator without a body is named, and kept.
        write(helper.make_node("Mystery", ["m"], ["y"], domain="com.microsoft", name="odd"))
        done = self.run_program("optimize", self.path("model.onnx"), "-o", self.path("out.onnx"), "--dialect", "standard", "--budget", "5s", status=1)
        self.assertIn('node "odd" (com.microsoft.Mystery) has no form', done.stderr)
        self.assertEqual([node.op_type for node in onnx.load(self.path("out.onnx")).graph.node if node.domain], ["Mystery"])
        self.assertIn("standard", self.error("optimize", self.path("model.onnx"), "-o", self.path("out.onnx"), "--dialect", "other", status=2))

    def test_no_gain_gives_the_model_back(self):
        node = helper.make_node("Relu", ["x"], ["y"])
        onnx.save(same_shape([node], [4]), self.path("model.onnx"))
        facts = self.optimize()
        self.assertEqual(facts["search"]["rules_applied"], [])
        self.assertEqual(onnx.load(self.path("out.onnx")).graph.node, onnx.load(self.path("model.onnx")).graph.node)

    def test_models_are_listed_and_built(self):
        names = [m["name"] for m in self.report("models", "list")["models"]]
        self.assertIn("mobileone_s0", names)
        self.run_program("models", "build", "squeezenet", "-o", self.path("squeezenet.onnx"))
        onnx.checker.check_model(onnx.load(self.path("squeezenet.onnx")), full_check=True)
        self.error("models", "build", "squeezenut", "-o", self.path("no.onnx"), status=2)

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
        commands = list(pages.commands(self.program))
        self.assertGreater(len(commands), 15)
        groups = {tuple(words[:-1]) for words, _, _ in commands}
        for words, _, text in commands:
            if tuple(words) not in groups:
                self.assertIn("Example", text, words)
                self.assertIn("--json", text, words)


if __name__ == "__main__":
    main()
