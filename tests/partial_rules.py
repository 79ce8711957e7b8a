"""Corrected partial equivalences in the optimizer: python partial_rules.py REWRIGHT

They fit nearly every convolution. They are applied only where the predicted cost falls, and so never make it larger. (Predictions do
not tell dilated convolutions from dense ones: only measured costs see gains, and tests do not depend on those.)
"""

import itertools
import json
import pathlib

import numpy
import onnx
from onnx import TensorProto, helper

from program import ProgramTest, main, tensor

RULES = sorted((pathlib.Path(__file__).resolve().parent.parent / "rules" / "optional").glob("found_*.rules"))
# N, C, H, W, K, dilation, group, stride
CASES = [(1, 16, 16, 16, 16, 1, 1, 1), (2, 16, 8, 8, 16, 1, 1, 1), (1, 16, 16, 16, 16, 2, 1, 1), (4, 8, 8, 8, 8, 2, 8, 1),
         (1, 16, 16, 16, 16, 1, 2, 1), (1, 8, 16, 16, 16, 1, 1, 2)]


def convolution(case):
    n, c, h, w, k, dilation, group, stride = case
    weights = numpy.random.default_rng(0).standard_normal((k, c // group, 3, 3)).astype(numpy.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[dilation] * 4, dilations=[dilation] * 2, group=group,
                            strides=[stride] * 2)
    graph = helper.make_graph([node], "convolution", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [n, c, h, w])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [n, k, h // stride, w // stride])],
                              [tensor("w", weights)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class PartialRules(ProgramTest):
    def test_they_are_proved_and_applied_only_where_the_cost_falls(self):
        proved = self.path("proved")
        verdicts = self.report("verify", *map(str, RULES), "-o", proved)
        self.assertEqual((verdicts["refuted"], verdicts["undecided"]), (0, 0))
        self.assertGreater(verdicts["proved"], 0)
        devices = [("cpu",), (f"profile:{self.profile('slow_calls', '1e12', '1e11', '1e-4')}",),
                   (f"profile:{self.profile('quick_calls', '1e9', '1e12', '1e-9')}",)]
        for case in CASES:
            onnx.save(convolution(case), self.path("model.onnx"))
            # The shipped rules have those of groups.
            for (device,), rules in itertools.product(devices, ((), ("--rules", proved)) if case[6] > 1 else (("--rules", proved),)):
                with self.subTest(case=case, device=device, rules=rules):
                    estimate = ("--estimate",) if device == "cpu" else ()
                    report = self.optimize(*rules, "--math", "fast", "--device", device, *estimate, "--certificate", self.path("steps.json"))
                    before, after = report["predicted_ms"]["before"], report["predicted_ms"]["after"]
                    self.assertLessEqual(after, before)
                    with open(self.path("steps.json"), encoding="utf-8") as file:
                        if json.load(file)["steps"]:
                            self.assertLess(after, before)
                    self.assertTrue(report["check"]["ok"])


if __name__ == "__main__":
    main()
