"""Two models proved equal: python command_line_prove.py REWRIGHT [unittest's options]"""

import json
import shutil

import numpy
import onnx
from onnx import helper

from program import ProgramTest, main, tensor


class Prove(ProgramTest):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        w = random.normal(0, 0.3, (8, 3, 3, 3)).astype("float32")
        gamma, beta, mean, variance = (random.uniform(0.5, 1.5, 8).astype("float32") for _ in range(4))
        norm = {"w": w, "gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
        scale = gamma / numpy.sqrt(variance + numpy.float32(1e-5))
        folded = {"w": w * scale.reshape(-1, 1, 1, 1), "b": beta - mean * scale}
        self.save("a.onnx", norm, helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1] * 4),
                  helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["n"], name="norm"),
                  helper.make_node("Relu", ["n"], ["y"], name="relu"))
        self.save("b.onnx", folded, helper.make_node("Conv", ["x", "w", "b"], ["n"], name="conv", pads=[1] * 4),
                  helper.make_node("Relu", ["n"], ["y"], name="relu"))
        self.save("wrong.onnx", folded, helper.make_node("Conv", ["x", "w", "b"], ["n"], name="conv", pads=[1] * 4),
                  helper.make_node("Abs", ["n"], ["y"], name="relu"))
        self.save("renamed.onnx", folded, helper.make_node("Conv", ["image", "w", "b"], ["n"], name="conv", pads=[1] * 4),
                  helper.make_node("Relu", ["n"], ["y"], name="relu"), input="image")

    def save(self, name, weights, *nodes, input="x", channels=8):
        given = helper.make_tensor_value_info(input, onnx.TensorProto.FLOAT, ["N", 3, 8, 8])
        result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", channels, 8, 8])
        graph = helper.make_graph(list(nodes), "g", [given], [result], [tensor(n, v.astype("float32")) for n, v in weights.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.path(name))

    def test_what_was_folded_is_proved_and_its_certificate_accepted(self):
        facts = self.report("prove", self.path("a.onnx"), self.path("b.onnx"), "--certificate", self.path("proof"))
        self.assertEqual(facts["verdict"], "proved")
        self.assertEqual({c["name"] for c in facts["constants"]}, {"w", "b"})
        self.assertTrue(all(0 < c["max_rel_error"] <= 1e-6 for c in facts["constants"]))
        self.assertGreater(facts["equations"], 0)
        self.assertGreater(facts["peak_bytes"], 0)
        checked = self.report("prove", self.path("a.onnx"), self.path("b.onnx"), "--check", self.path("proof"))
        self.assertTrue(checked["accepted"])
        self.assertEqual(checked["equations"], facts["equations"])
        self.assertIn("another model", self.error("prove", self.path("a.onnx"), self.path("wrong.onnx"), "--check", self.path("proof"), status=3))
        text = self.folder / "proof" / "equality.json"
        text.write_text(text.read_text().replace('"leaves"', '"leaver"', 1))
        self.assertIn("damaged", self.error("prove", self.path("a.onnx"), self.path("b.onnx"), "--check", self.path("proof"), status=3))
        shutil.rmtree(self.folder / "proof")
        self.error("prove", self.path("a.onnx"), self.path("b.onnx"), "--check", self.path("proof"), status=3)

    def test_the_tolerance_of_constants(self):
        facts = self.report("prove", self.path("a.onnx"), self.path("b.onnx"), "--tolerance", "0", status=1)
        self.assertEqual(facts["verdict"], "undecided")
        self.assertTrue(facts["places"])

    def test_what_differs_is_refuted_with_inputs_and_small_models(self):
        facts = self.report("prove", self.path("a.onnx"), self.path("wrong.onnx"), "--reduce", self.path("small"), status=1)
        self.assertEqual(facts["verdict"], "refuted")
        self.assertEqual([(p["a"], p["b"]) for p in facts["places"]], [("relu", "relu")])
        inputs = [text for name, file in facts["inputs"].items() for text in ("--input", f"{name}={file}")]
        self.assertFalse(self.report("compare", self.path("a.onnx"), self.path("wrong.onnx"), *inputs, status=1)["ok"])
        small = [onnx.load(file) for file in facts["reduced"]]
        self.assertLessEqual(sum(len(m.graph.node) for m in small), 6)
        self.assertEqual(self.report("prove", *facts["reduced"], status=1)["verdict"], "refuted")

    def test_a_small_change_of_one_weight_is_refuted_in_double(self):
        model = onnx.load(self.path("b.onnx"))
        weight = next(i for i in model.graph.initializer if i.name == "w")
        values = onnx.numpy_helper.to_array(weight).copy()
        values.flat[100] *= 1.0003
        weight.CopyFrom(onnx.numpy_helper.from_array(values, "w"))
        onnx.save(model, self.path("slight.onnx"))
        facts = self.report("prove", self.path("a.onnx"), self.path("slight.onnx"), status=1)
        self.assertEqual(facts["verdict"], "refuted")
        self.assertEqual([p["b"] for p in facts["places"]], ["conv"])

    # ONNX Runtime 1.31 at its basic level makes of 1 / a * cast(x), where the cast changes nothing: x / a, which reads the result of the
    # cast that is no longer there (its issue 32416).
    def test_a_removed_value_that_is_still_read(self):
        info = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3])  # noqa: E731
        one = tensor("one", numpy.float32(1))

        def save(name, *nodes):
            graph = helper.make_graph(list(nodes), "g", [info("x"), info("a")], [info("y")], [one])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.path(name))

        save("before.onnx", helper.make_node("Cast", ["x"], ["mid"], to=1, name="cast"), helper.make_node("Div", ["one", "a"], ["d"], name="div"),
             helper.make_node("Mul", ["d", "mid"], ["y"], name="mul"))
        save("after.onnx", helper.make_node("Div", ["mid", "a"], ["y"], name="div"))
        save("right.onnx", helper.make_node("Div", ["x", "a"], ["y"], name="div"))
        reason = self.error("prove", self.path("before.onnx"), self.path("after.onnx"), status=3)
        self.assertIn('"div"', reason)
        self.assertIn('"mid"', reason)
        self.assertEqual(self.report("prove", self.path("before.onnx"), self.path("right.onnx"))["verdict"], "proved")

    def test_time_that_is_up(self):
        facts = self.report("prove", self.path("a.onnx"), self.path("b.onnx"), "--budget", "0.001s", status=1)
        self.assertEqual((facts["verdict"], facts["reason"]), ("undecided", "the time was up"))

    def test_the_optimizer_proves_what_it_wrote(self):
        facts = self.report("optimize", self.path("a.onnx"), "-o", self.path("fast.onnx"), "--estimate", "--budget", "2s", "--check", "0", "--prove")
        self.assertEqual(facts["proof"]["verdict"], "proved")
        self.assertTrue(facts["proof"]["written"])

    def test_what_is_refuted_is_not_written(self):
        rules = self.folder / "wrong.rules"
        rules.write_text('rule forgets: "wrong" x Exp(Neg(x)) => Exp(x) exact\n')
        self.save("negated.onnx", {}, helper.make_node("Neg", ["x"], ["n"], name="neg"), helper.make_node("Exp", ["n"], ["y"], name="exp"), channels=3)
        options = ["--rules", str(rules), "--unproved", "--estimate", "--check", "0", "--prove", "--certificate", self.path("steps")]
        done = self.run_program("optimize", self.path("negated.onnx"), "-o", self.path("out.onnx"), "--json", self.path("facts"), *options, status=1)
        self.assertIn("refuted", done.stderr)
        self.assertIn("the given graph was written", done.stderr)
        proof = json.loads((self.folder / "facts").read_text())["proof"]
        self.assertEqual((proof["verdict"], proof["written"]), ("refuted", False))
        self.assertEqual([n.op_type for n in onnx.load(self.path("out.onnx")).graph.node], ["Neg", "Exp"])
        self.assertEqual(json.loads((self.folder / "steps").read_text())["steps"], [])
        self.run_program("replay", self.path("negated.onnx"), self.path("steps"), "-o", self.path("again.onnx"))

    def test_how_far_results_lie_apart(self):
        facts = self.report("prove", self.path("a.onnx"), self.path("b.onnx"), "--rounding", "--range", "x=0:1")
        (output,) = facts["rounding"]
        self.assertEqual(output["output"], "y")
        self.assertEqual(list(facts["rounding_sizes"]), ["N"])
        self.assertGreater(output["sampled"], 0)
        self.assertLessEqual(output["sampled"], output["bound"])
        self.assertLess(output["bound"], 1e-3)
        self.assertEqual(self.report("prove", self.path("a.onnx"), self.path("a.onnx"), "--rounding")["rounding"][0]["bound"], 0)
        for wrong in ("x", "x=1", "x=1:0", "x=0:a", "z=0:1"):
            self.error("prove", self.path("a.onnx"), self.path("b.onnx"), "--rounding", "--range", wrong, status=2)

    def test_names_are_mapped(self):
        a, renamed = self.path("a.onnx"), self.path("renamed.onnx")
        self.assertIn("no input", self.error("prove", a, renamed, status=3))
        self.assertEqual(self.report("prove", a, renamed, "--map", "x=image")["verdict"], "proved")
        self.assertIn("NAME=NAME", self.error("prove", a, renamed, "--map", "x", status=2))
        self.assertIn("no input or output", self.error("prove", a, renamed, "--map", "z=image", status=2))

    def test_no_model(self):
        (self.folder / "text.onnx").write_text(json.dumps({}))
        self.error("prove", self.path("a.onnx"), self.path("text.onnx"), status=3)
        self.error("prove", self.path("a.onnx"), status=2)


if __name__ == "__main__":
    main()
