"""Plans for many processes: python command_line_plans.py REWRIGHT [unittest's options]"""

import json

import numpy
import onnx
from onnx import helper

from program import ProgramTest, main, tensor

MACHINE = {
    "devices": {"count": 4, "per_node": 4, "operations_per_second": 1e12, "bytes_per_second": 1e11, "memory": 16e9},
    "links": {"node": {"latency": 1e-6, "bytes_per_second": 1e10, "shape": "switch"}},
}
SUMS = {"all-reduce", "reduce-scatter"}


class Plans(ProgramTest):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        weights = [
            tensor("w1", random.normal(0, 0.1, (64, 256)).astype("float32")),
            tensor("w2", random.normal(0, 0.1, (256, 16)).astype("float32")),
        ]
        nodes = [
            helper.make_node("MatMul", ["x", "w1"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "w2"], ["y"]),
        ]
        given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 64])
        result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 16])
        model = helper.make_model(helper.make_graph(nodes, "dense", [given], [result], weights), opset_imports=[helper.make_opsetid("", 18)])
        onnx.save(model, self.path("model.onnx"))
        self.write("machine.json", MACHINE)

    def plan(self, *options):
        return self.report("plan", self.path("model.onnx"), "--machine", self.path("machine.json"), "-o", self.path("out.plan"), *options)

    def test_plans_are_made_and_proved(self):
        for purpose in ("training", "inference"):
            facts = self.plan("--batch", "4096", "--for", purpose, "--trace", self.path("trace.json"))
            self.assertEqual(facts["processes"], 4)
            self.assertTrue(facts["proved"])
            self.assertLessEqual(facts["lower_bound"], facts["seconds"])
            self.assertIn("data", facts["strategies"])
            self.assertLessEqual(facts["seconds"], facts["strategies"]["data"])
            self.assertGreater(facts["peak_bytes"], 0)
            self.assertTrue(json.loads((self.folder / "trace.json").read_text())["traceEvents"])
            checked = self.report("plan", "--check", self.path("out.plan"), self.path("model.onnx"))
            self.assertTrue(checked["proved"])

    def test_data_parallel_training_sums_gradients(self):
        facts = self.plan("--batch", "4096", "--strategy", "data")
        plan = json.loads((self.folder / "out.plan").read_text())
        sums = [e for e in plan["exchanges"] if e["exchange"] in SUMS]
        self.assertGreaterEqual(len(sums), 2)
        self.assertGreater(facts["bytes_sent"], 0)

    def test_a_plan_without_a_sum_is_not_proved(self):
        self.plan("--batch", "4096", "--strategy", "data")
        plan = json.loads((self.folder / "out.plan").read_text())
        plan["exchanges"] = [e for e in plan["exchanges"] if e["exchange"] not in SUMS]
        self.write("wrong.plan", plan)
        checked = self.report("plan", "--check", self.path("wrong.plan"), self.path("model.onnx"), status=1)
        self.assertFalse(checked["proved"])
        self.assertRegex(checked["reason"], "the plan has no (all-reduce|reduce-scatter) for it")

    def test_two_levels(self):
        facts = self.plan("--batch", "64", "--for", "inference", "--strategy", "data+tensor", "--groups", "2")
        self.assertEqual((facts["strategy"], facts["processes"], facts["groups"]), ("data+tensor", 4, 2))
        plan = json.loads((self.folder / "out.plan").read_text())
        self.assertEqual((plan["processes"], plan["within"]["processes"]), (2, 2))
        self.assertTrue(self.report("plan", "--check", self.path("out.plan"), self.path("model.onnx"))["proved"])
        for level in (plan, plan["within"]):
            if level["exchanges"]:
                lost = level["exchanges"].pop()
                self.write("wrong.plan", plan)
                self.assertFalse(self.report("plan", "--check", self.path("wrong.plan"), self.path("model.onnx"), status=1)["proved"])
                level["exchanges"].append(lost)
        self.write("deep.plan", {**plan, "within": {**plan["within"], "within": plan["within"]}})
        self.fails(3, "more than two levels", "plan", "--check", self.path("deep.plan"), self.path("model.onnx"))
        options = ["--machine", self.path("machine.json"), "-o", self.path("out.plan"), "--batch", "64", "--strategy", "data+tensor"]
        self.fails(2, "groups", "plan", self.path("model.onnx"), *options)
        self.fails(2, "groups", "plan", self.path("model.onnx"), *options, "--groups", "3")

    def test_a_plan_is_shown(self):
        for options in (["--strategy", "tensor"], ["--strategy", "data+data", "--groups", "2"]):
            made = self.plan("--batch", "64", "--for", "inference", *options)
            facts = self.report("show", self.path("out.plan"))
            self.assertEqual((facts["processes"], facts["seconds"]), (4, made["seconds"]))
            products = sum(o["nodes"] for o in facts["operators"] if o["operator"] == "MatMul")
            self.assertEqual(products, 2 * (1 + (facts["groups"] > 1)))
            self.assertEqual(sum(p["last"] - p["first"] + 1 for p in facts["by_process"]), 4)
        plan = json.loads((self.folder / "out.plan").read_text())
        plan["nodes"][0]["operator"] = 7
        self.write("wrong.plan", plan)
        self.fails(3, "no plan", "show", self.path("wrong.plan"))

    def test_pipelines(self):
        options = ["--batch", "64", "--stages", "2", "--micro-batches", "4"]
        for schedule in ("gpipe", "1f1b", "chimera", "zb-h1"):
            facts = self.plan(*options, "--strategy", "pipeline:" + schedule, "--trace", self.path("trace.json"))
            self.assertEqual((facts["processes"], facts["stages"], facts["micro_batches"]), (2, 2, 4))
            self.assertTrue(facts["proved"])
            self.assertLessEqual(facts["lower_bound"], facts["seconds"])
            self.assertTrue(0 <= facts["bubble"] < 1)
            self.assertTrue(json.loads((self.folder / "trace.json").read_text())["traceEvents"])
            self.assertTrue(self.report("plan", "--check", self.path("out.plan"), self.path("model.onnx"))["proved"])
        shown = self.report("show", self.path("out.plan"))
        self.assertEqual((shown["pipeline"]["stages"], len(shown["pipeline"]["schedule"]), sum(shown["pipeline"]["sends"].values()) > 0), (2, 2, True))
        plan = json.loads((self.folder / "out.plan").read_text())
        plan["pipeline"]["sends"].pop()
        self.write("wrong.plan", plan)
        checked = self.report("plan", "--check", self.path("wrong.plan"), self.path("model.onnx"), status=1)
        self.assertIn("nothing sends", checked["reason"])
        plan["pipeline"]["schedule"].append("process 2: G0.0")
        self.write("wrong.plan", plan)
        self.fails(3, "is no action", "plan", "--check", self.path("wrong.plan"), self.path("model.onnx"))

    def test_pipelines_for_inference_and_the_best_one(self):
        facts = self.plan("--batch", "64", "--for", "inference", "--strategy", "pipeline", "--stages", "3")
        self.assertTrue(facts["proved"])
        self.assertEqual(facts["micro_batches"], 8)  # of 64 samples, up to 4 for each process
        self.assertIn("pipeline:1f1b", facts["strategies"])
        inputs = self.path("x.npy")
        numpy.save(inputs, numpy.zeros((64, 64), "float32"))
        arguments = ["--plan", self.path("out.plan"), "--input", "x=" + inputs, "--output-dir", self.path("results")]
        self.assertIn("for 3 processes, and 1 was started", self.error("run", self.path("model.onnx"), *arguments, status=3))

    def test_a_pipeline_is_found_where_links_are_slow(self):
        machine = json.loads((self.folder / "machine.json").read_text())
        machine["devices"] |= {"count": 2, "per_node": 2, "operations_per_second": 1e9, "bytes_per_second": 1e10, "memory": 16e9}
        nodes, weights, value = [], [], "x"
        for n in range(6):
            weights.append(tensor(f"w{n}", numpy.random.default_rng(n).normal(0, 0.2, (64, 64)).astype("float32")))
            nodes.append(helper.make_node("MatMul", [value, f"w{n}"], [f"a{n}"]))
            value = f"b{n}" if n < 5 else "y"
            nodes.append(helper.make_node("Tanh", [f"a{n}"], [value]))
        given, result = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 64]) for name in "xy")
        graph = helper.make_graph(nodes, "deep", [given], [result], weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), self.path("model.onnx"))
        for rate, is_pipeline in ((1e12, False), (2e7, True)):
            machine["links"] = {"node": {"latency": 1e-6, "bytes_per_second": rate, "shape": "switch"}}
            self.write("machine.json", machine)
            facts = self.plan("--batch", "32")
            self.assertEqual(facts["strategy"].startswith("pipeline:"), is_pipeline, facts["strategies"])
            self.assertTrue(facts["proved"])
            step = facts["seconds_alone"] if is_pipeline else facts["seconds"]
            self.assertLessEqual(step, 1.0000001 * min(facts["strategies"].values()))

    def test_stale_weights_are_not_proved(self):
        facts = self.report("plan", self.path("model.onnx"), "--machine", self.path("machine.json"), "-o", self.path("out.plan"), "--batch", "64",
                            "--strategy", "pipeline:pipedream", "--stages", "2", "--micro-batches", "4", status=1)  # fmt: skip
        self.assertFalse(facts["proved"])
        self.assertIn("asynchronous", facts["reason"])
        self.assertFalse(self.report("plan", "--check", self.path("out.plan"), self.path("model.onnx"), status=1)["proved"])

    def test_pipelines_that_cannot_be(self):
        options = ["plan", self.path("model.onnx"), "--machine", self.path("machine.json"), "-o", self.path("out.plan"), "--batch", "64"]
        for text, more in (
            ("there is no schedule", ["pipeline:2f2b"]),
            ("64 samples are no 5 equal micro-batches", ["pipeline:1f1b", "--micro-batches", "5"]),
            ("the machine has 4", ["pipeline:1f1b", "--stages", "5"]),
            ("nodes to divide", ["pipeline:interleaved", "--micro-batches", "4", "--for", "inference"]),
            ("even number of processes", ["pipeline:chimera", "--stages", "3"]),
            ("inference has none", ["pipeline:pipedream", "--for", "inference"]),
        ):
            self.fails(2, text, *options, "--strategy", *more)

    def test_bad_input(self):
        model, machine, out = self.path("model.onnx"), self.path("machine.json"), self.path("out.plan")
        self.plan("--batch", "64")
        other = json.loads((self.folder / "out.plan").read_text())
        other["graph"] = "0" * 16
        self.write("other.plan", other)
        (self.folder / "damaged.plan").write_text(json.dumps(other)[:100])
        self.write("links.json", {**MACHINE, "links": {"node": {"shape": "edges", "edges": [[0, 9, 1e-6, 1e9]]}}})
        self.fails(2, "--batch", "plan", model, "--machine", machine, "-o", out)
        self.fails(2, "there is no strategy", "plan", model, "--machine", machine, "-o", out, "--batch", "64", "--strategy", "fast")
        self.fails(2, "needs --machine", "plan", model)
        self.fails(3, "links.json", "plan", model, "--machine", self.path("links.json"), "-o", out, "--batch", "64")
        small = {**MACHINE, "devices": {**MACHINE["devices"], "memory": 1e4}}
        self.write("small.json", small)
        self.fails(4, "no plan was found that fits", "plan", model, "--machine", self.path("small.json"), "-o", out, "--batch", "64")
        self.fails(3, "another model", "plan", "--check", self.path("other.plan"), model)
        self.fails(3, "no plan", "plan", "--check", self.path("damaged.plan"), model)

    def fails(self, status, text, *arguments):
        self.assertIn(text, self.error(*arguments, status=status))

    def write(self, name, value):
        (self.folder / name).write_text(json.dumps(value))


if __name__ == "__main__":
    main()
