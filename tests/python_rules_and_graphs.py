#!/usr/bin/env python3
"""Rules, proofs and graphs from Python.
Usage: python_rules_and_graphs.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import os
import tempfile
import unittest

from python_testing import convolutions, main, QUICK  # says where the package is

import numpy
import onnx

import rewright


class Rules(unittest.TestCase):
    def test_shipped(self):
        rules = rewright.rules.load()
        self.assertGreater(len(rules), 100)
        self.assertEqual(len(rewright.rules.names()), len(rules))
        known = rewright.rules.facts(rules[0])
        self.assertEqual((known["name"], known["status"]), (rules[0].name, "proved"))
        self.assertEqual(rewright.rules.show(rules[3].name), rules[3].algebra)
        self.assertEqual(rewright.rules.parse(rules[3].algebra)[0].algebra, rules[3].algebra)
        self.assertTrue(rules[3].dot.startswith("digraph"))
        self.assertTrue(any(rule.conditions for rule in rules))
        with self.assertRaisesRegex(rewright.UsageError, "no_such"):
            rewright.rules.show("no_such")

    def test_diff_and_files(self):
        rules = rewright.rules.load()
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "some.rules")
            rewright.rules.save(rules[:5], file)
            self.assertEqual(rewright.rules.load(file), rules[:5])
            difference = rewright.rules.diff(rules[:6], file)
        self.assertEqual(difference, {"only_first": [rules[5].name], "only_second": [], "changed": [], "renamed": []})

    def test_verify(self):
        rules = rewright.rules.parse(
            "rule right: \"sums commute\"\n  x, y\n  Add(x, y) => Add(y, x)\n  exact\n\nrule wrong: \"differences do\"\n  x, y\n  Sub(x, y) => Sub(y, x)\n  exact\n"
        )
        told = []
        verified = rewright.verify(rules, threads=1, progress=lambda *facts: told.append(facts))
        self.assertEqual([verdict.verdict for verdict in verified], ["proved", "refuted"])
        self.assertTrue(verified[1].counterexample)
        self.assertEqual([rule.name for rule in verified.proved], ["right"])
        with self.assertRaises(rewright.CancelledError):
            rewright.verify(rewright.rules.load()[:100], threads=1, progress=lambda *facts: False)
        with self.assertRaisesRegex(rewright.BadInputError, "Nothing"):
            rewright.rules.parse("rule broken: \"of what is not there\"\n  x\n  Nothing(x) => x\n")


class Graphs(unittest.TestCase):
    def test_walk(self):
        graph = rewright.graph.read(convolutions(numpy.random.default_rng(0)))
        self.assertEqual([node.op_type for node in graph.nodes][:3], ["Conv", "BatchNormalization", "Relu"])
        convolution = graph.nodes[0]
        self.assertEqual(convolution.inputs[0], graph.inputs[0])
        self.assertEqual(convolution.inputs[1].constant.shape, (8, 8, 3, 3))
        self.assertEqual(convolution.attributes["group"], 1)
        self.assertEqual(convolution.attributes["pads_begin"], [1, 1])
        self.assertEqual(convolution.outputs[0].users[0].op_type, "BatchNormalization")
        self.assertEqual(graph.outputs["y"].producer.op_type, "Relu")
        self.assertEqual((graph.outputs["y"].type, graph.outputs["y"].shape), ("float", [1, 8, 10, 10]))
        self.assertIn(graph.inputs[0], graph.values)

    def test_build(self):
        graph = rewright.graph.Graph()
        x = graph.input("x", "float", ["N", 4])
        y = graph.node("MatMul", [x, numpy.eye(4, dtype=numpy.float32) * 2])
        first, second = graph.node("Split", [graph.node("Relu", [y])], axis=1, sizes=[1, 3])
        graph.output("first", first)
        graph.output("second", second)
        self.assertEqual(second.shape, ["N", 3])
        onnx.checker.check_model(graph.to_proto(), full_check=True)
        found = rewright.InferenceSession(graph).run(None, {"x": numpy.array([[1, -1, 2, 3]], numpy.float32)})
        self.assertEqual([array.tolist() for array in found], [[[2]], [[0, 4, 6]]])
        with self.assertRaisesRegex(rewright.UsageError, "no_such"):
            graph.node("Relu", [x], no_such=1)
        with self.assertRaisesRegex(rewright.UsageError, "NoSuch"):
            graph.node("NoSuch", [x])
        with self.assertRaises(rewright.BadInputError):
            graph.node("MatMul", [x, numpy.eye(3, dtype=numpy.float32)])
        self.assertIn("Relu", rewright.graph.operators())

    def test_draw(self):
        model = convolutions(numpy.random.default_rng(0))
        before, after = rewright.graph.read(model), rewright.graph.read(rewright.optimize(model, **QUICK))
        self.assertEqual(before.draw().count("<title>"), 9)
        self.assertIn('class="new"', after.draw(rewright.graph.read(model)))
        self.assertTrue(after._repr_svg_().startswith("<svg"))


if __name__ == "__main__":
    main()
