"""Compares models with ONNX Runtime: what as_onnxruntime.py and positions.py share."""

import unittest

import numpy
from onnx import helper, numpy_helper
from python_testing import QUICK, value

import rewright

try:
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)  # what it refuses is expected
except ImportError:
    onnxruntime = None



def of_type(array):
    return helper.np_dtype_to_tensor_dtype(numpy.asarray(array).dtype)


def constant(name, array):
    return numpy_helper.from_array(numpy.asarray(array), name)


def open_value(name, type):
    """A value of unknown rank, so that ONNX's inference has no objection."""
    return helper.make_tensor_value_info(name, type, None)


@unittest.skipIf(onnxruntime is None, "ONNX Runtime is not installed")
class Case(unittest.TestCase):
    """Results on all devices, before and after optimizing, beside ONNX Runtime's."""

    def check(self, model, feeds, optimize=True):
        data = model.SerializeToString()
        expected = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)
        found = {device: rewright.InferenceSession(data, device=device).run(None, feeds) for device in ("reference", "cpu")}
        if optimize:
            found["optimized"] = rewright.optimize(data, **QUICK).session().run(None, feeds)
        for way, results in found.items():
            for e, f in zip(expected, results, strict=True):
                self.assertEqual((numpy.asarray(f).dtype, numpy.asarray(f).shape), (numpy.asarray(e).dtype, numpy.asarray(e).shape), way)
                if numpy.asarray(e).dtype.kind in "iub":
                    numpy.testing.assert_array_equal(f, e, way)
                else:
                    numpy.testing.assert_allclose(f, e, 1e-5, 1e-6, err_msg=way)

    def one(self, type, feeds, weights=(), outputs=1, opset=20, domains=(), declared=False, optimize=True, **attributes):
        """A node of an operator; weights are (name, array), inputs stand in the order of `feeds` and come first."""
        weights = dict(weights)
        names = [f"y{i}" for i in range(outputs)]
        node = helper.make_node(type, [*feeds, *weights], names, **attributes)
        inputs = [value(n, of_type(a), a.shape) if declared else open_value(n, of_type(a)) for n, a in feeds.items()]
        graph = helper.make_graph([node], "one", inputs, [helper.make_empty_tensor_value_info(n) for n in names], [constant(n, a) for n, a in weights.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *domains], ir_version=9)
        self.check(model, feeds, optimize)
