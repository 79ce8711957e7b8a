#!/usr/bin/env python3
"""Sessions with ONNX Runtime's interface, with ONNX Runtime as the judge.
Usage: python_session.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import json
import os
import tempfile
import unittest

from python_testing import convolutions, main, one_node, random_model  # says where the package is

import numpy
import onnxruntime
from onnx import helper

import rewright


class Sessions(unittest.TestCase):
    def test_as_onnxruntime(self):
        rng = numpy.random.default_rng(5)
        for _ in range(25):
            model = random_model(rng)
            theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            ours = rewright.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            for a, b in zip(ours.get_inputs() + ours.get_outputs(), theirs.get_inputs() + theirs.get_outputs(), strict=True):
                self.assertEqual((a.name, a.type, a.shape), (b.name, b.type, b.shape))
            for n in (1, 3):
                x = rng.standard_normal((n, 6)).astype(numpy.float32)
                for names in (None, [], [ours.get_outputs()[-1].name]):
                    found, expected = ours.run(names, {"x": x}), theirs.run(names, {"x": x})
                    self.assertEqual(len(found), len(expected))
                    for a, b in zip(found, expected):
                        self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
                        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)

    def test_description(self):
        model = one_node("Relu", shape=["N", None])
        model.producer_name, model.domain, model.model_version, model.doc_string = "someone", "there", 7, "what it is"
        helper.set_model_props(model, {"key": "value"})
        ours, theirs = (kind(model.SerializeToString()) for kind in (rewright.InferenceSession, onnxruntime.InferenceSession))
        for name in ("producer_name", "graph_name", "domain", "description", "graph_description", "version", "custom_metadata_map"):
            self.assertEqual(getattr(ours.get_modelmeta(), name), getattr(theirs.get_modelmeta(), name), name)
        self.assertEqual(ours.get_inputs()[0].shape, ["N", None])
        self.assertEqual(ours.get_providers(), ["CPUExecutionProvider"])
        self.assertIn("CPUExecutionProvider", rewright.get_available_providers())
        self.assertIn(rewright.get_device(), ("CPU", "GPU"))

    def test_providers(self):
        options = rewright.SessionOptions()
        options.intra_op_num_threads = 1
        options.graph_optimization_level = rewright.GraphOptimizationLevel.ORT_ENABLE_ALL
        session = rewright.InferenceSession(one_node("Relu"), options, providers=[("CPUExecutionProvider", {"arena": "1"})])
        self.assertIs(session.get_session_options(), options)
        with self.assertWarnsRegex(UserWarning, "DmlExecutionProvider") as caught:
            rewright.InferenceSession(one_node("Relu"), providers=["DmlExecutionProvider", "CPUExecutionProvider"])
        self.assertEqual(caught.filename, __file__)

    def test_profile(self):
        options = rewright.SessionOptions()
        options.enable_profiling = True
        session = rewright.InferenceSession(convolutions(numpy.random.default_rng(0)), options)
        session.run(None, {"x": numpy.zeros((1, 8, 10, 10), numpy.float32)})
        steps = session.profile()
        self.assertTrue(steps and all(step["runs"] == 1 for step in steps))
        with tempfile.TemporaryDirectory() as folder:
            options.profile_file_prefix = os.path.join(folder, "profile")
            with open(session.end_profiling(), encoding="utf-8") as file:
                self.assertEqual(sum(event["cat"] == "Node" for event in json.load(file)), len(steps))


if __name__ == "__main__":
    main()
