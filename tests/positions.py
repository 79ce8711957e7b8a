"""Indices and sampled positions at the ends of axes and beyond: python positions.py REWRIGHT BUILD [UNITTEST-ARGUMENTS]

All ways to execute a model must give what ONNX Runtime gives, and end a run where it does.
"""

import unittest

import numpy
from beside_onnxruntime import Case, constant, of_type, onnxruntime, open_value
from onnx import TensorProto, helper
from python_testing import QUICK, main, model_of, value

import rewright


@unittest.skipIf(onnxruntime is None, "ONNX Runtime is not installed")
class Positions(unittest.TestCase):
    """Indices outside of their axis: ONNX Runtime ends the run, and so does every way here, whatever stands before and behind."""

    def both(self, type, x, indices, more=(), constant_indices=False, before=False, behind=None, **attributes):
        feeds = {"x": x, **dict(more)}
        weights, nodes, name = [], [], "i"
        if before:
            weights.append(constant("one", numpy.array(1, indices.dtype)))
            nodes.append(helper.make_node("Sub", ["i", "one"], ["before"]))
            indices, name = indices + 1, "before"
        if constant_indices:
            weights.append(constant("i", indices))
        else:
            feeds["i"] = indices
        nodes.append(helper.make_node(type, ["x", name, *dict(more)], ["y"], **attributes))
        if behind:
            weights.append(constant("pads", numpy.array([1, 1], numpy.int64)))
            nodes.append(helper.make_node(behind, ["y", *(["pads", "", "last"] if behind == "Pad" else [])], ["z"]))
            weights.append(constant("last", numpy.array([0], numpy.int64)))
        last = nodes[-1].output[0]
        inputs = [value(n, of_type(a), a.shape) for n, a in feeds.items()]
        graph = helper.make_graph(nodes, "positions", inputs, [open_value(last, of_type(x))], weights)
        data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
        ways = [
            lambda: onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds),
            *(lambda device=device: rewright.InferenceSession(data, device=device).run(None, feeds) for device in ("reference", "cpu")),
            lambda: rewright.optimize(data, **QUICK).session().run(None, feeds),
        ]
        results = []
        for way in ways:
            try:
                results.append(way()[0])
            except Exception as error:  # noqa: BLE001: of several types
                results.append(error)
        if isinstance(results[0], Exception):
            for r in results[1:]:
                self.assertIsInstance(r, rewright.Error)
                self.assertRegex(str(r), "index -?[0-9]+ is outside of an axis of size [0-9]+")
        else:
            for r in results[1:]:
                numpy.testing.assert_array_equal(r, results[0])
        return isinstance(results[0], Exception)

    def test_gathers(self):
        x = numpy.arange(5, dtype=numpy.float32)
        refused = 0
        for index in (-6, -5, -1, 4, 5, 2**31 - 1, -(2**31)):
            for ways in ({}, {"constant_indices": True}, {"before": True}, {"behind": "Neg"}, {"behind": "Pad"}, {"before": True, "behind": "Pad"}):
                with self.subTest(index=index, **ways):
                    if "before" in ways and abs(index) > 2**30:
                        continue
                    indices = numpy.array([0, index, 1], numpy.int32)
                    refused += self.both("Gather", x, indices, **ways)
                    refused += self.both("GatherElements", x, indices, **ways)
                    refused += self.both("GatherND", x, indices.astype(numpy.int64)[:, None], **ways)
        self.assertGreater(refused, 20)

    def test_one_row(self):
        """A table of one row, as embeddings of token types are: its only index is 0."""
        table = numpy.ones((1, 16), numpy.float32)
        self.assertTrue(self.both("Gather", table, numpy.array([[0, 1]], numpy.int64)))
        self.assertFalse(self.both("Gather", table, numpy.array([[0, -1]], numpy.int64)))

    def test_constant_of_one_element(self):
        """It is put into expressions as a number, which has no axis to look at."""
        for indices, refused in (([0, 1], True), ([0, -1], False)):
            x, indices = numpy.float32([7]), numpy.array(indices)
            for type, shape in (("Gather", [2]), ("GatherElements", [2]), ("GatherND", [2, 1])):
                node = helper.make_node(type, ["x", "i"], ["y"])
                model = model_of([node], [value("i", TensorProto.INT64, shape)], [open_value("y", TensorProto.FLOAT)], [constant("x", x)], opset=20)
                for device in ("reference", "cpu"):
                    with self.subTest(type=type, indices=indices, device=device):
                        session = rewright.InferenceSession(model.SerializeToString(), device=device)
                        if refused:
                            with self.assertRaisesRegex(rewright.Error, "index 1 is outside of an axis of size 1"):
                                session.run(None, {"i": indices.reshape(shape)})
                        else:
                            numpy.testing.assert_array_equal(session.run(None, {"i": indices.reshape(shape)})[0], [7, 7])

    def test_long_rows(self):
        table = numpy.ones((3, 200), numpy.float32)
        self.assertTrue(self.both("Gather", table, numpy.array([0, 3], numpy.int64), behind="Neg"))
        self.assertTrue(self.both("GatherND", table, numpy.array([[0], [-4]], numpy.int64)))

    def test_scatters(self):
        x, updates = numpy.zeros(5, numpy.float32), {"u": numpy.ones(2, numpy.float32)}
        for index in (-6, -5, 4, 5):
            indices = numpy.array([0, index], numpy.int64)
            with self.subTest(index=index):
                self.assertEqual(self.both("ScatterElements", x, indices, updates, behind="Neg"), index in (-6, 5))
                self.assertEqual(self.both("ScatterND", x, indices[:, None], updates), index in (-6, 5))

    def test_size_of_a_shape(self):
        """Sizes are followed when the model is read: an axis that is not there is not one that is."""
        for axis in (-3, -2, 1, 2):
            nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "i"], ["y"])]
            graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["a", 3])], [open_value("y", TensorProto.INT64)], [constant("i", numpy.array(axis))])
            data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
            feeds = {"x": numpy.zeros((2, 3), numpy.float32)}
            for device in ("reference", "cpu"):
                if axis in (-3, 2):
                    with self.assertRaisesRegex(rewright.Error, "outside of an axis"):
                        rewright.InferenceSession(data, device=device).run(None, feeds)
                else:
                    self.assertEqual(rewright.InferenceSession(data, device=device).run(None, feeds)[0], feeds["x"].shape[axis])


class SampledPositions(Case):
    def test_positions_that_are_no_numbers(self):
        """Positions of GridSample beyond 64-bit integers, NaN included, count as -1; those far outside are outside."""
        x = numpy.random.default_rng(5).standard_normal((1, 2, 3, 8)).astype(numpy.float32)
        special = [numpy.nan, numpy.inf, -numpy.inf, 1e30, -1e30, 1e6, -1e6, -1, 0.3]
        grid = numpy.array([[[(a, b) for a in special] for b in special]], numpy.float32)
        for mode in ("linear", "nearest", "cubic"):
            for aligned in (0, 1):
                with self.subTest(mode=mode, aligned=aligned):
                    self.one("GridSample", {"x": x, "g": grid}, declared=True, mode=mode, align_corners=aligned, optimize=mode == "linear")


class Grids(Case):
    def test_axes_of_one_element(self):
        """Batches of one, which ONNX's own function for AffineGrid cannot take, and axes of one element."""
        for batch, *extents in ((1, 4, 5), (2, 1, 5), (1, 1, 1), (3, 2, 1, 4), (1, 1, 1, 1)):
            rank = len(extents)
            theta = numpy.random.default_rng(7).standard_normal((batch, rank, rank + 1)).astype(numpy.float32)
            size = numpy.array([batch, 1, *extents], numpy.int64)
            for aligned in (0, 1):
                with self.subTest(size=size, aligned=aligned):
                    self.one("AffineGrid", {"theta": theta, "size": size}, opset=20, align_corners=aligned)


if __name__ == "__main__":
    main()
