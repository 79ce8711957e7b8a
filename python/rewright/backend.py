"""ONNX's backend interface: `onnx.backend.test.BackendTest(rewright.backend, __name__)` runs ONNX's own tests on it.

prepare(model, device) gives what run(inputs) runs; run_model(model, inputs, device) does both; run_node runs one node.
"""

import numpy
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from ._native import _core
from .session import InferenceSession


class Prepared(BackendRep):
    """A model, ready to run."""

    def __init__(self, model, device):
        self._bytes = model.SerializeToString()
        self._device = device
        graph = _core.Graph.parse(self._bytes, model.graph.name)
        self._inputs = [value.name for value in graph.declared_inputs()]
        self._outputs = [value.name for value in graph.declared_outputs()]
        # Where parameters are inputs (axes, sizes) the model is read again for the values of each run, as `rewright conformance` does.
        self._session = None if any(node.is_opaque for node in graph.nodes) else InferenceSession(graph, device=device)

    def run(self, inputs, **kwargs):
        """inputs: values in the order of the model's inputs, a dict of them by name, or one alone. Returns a tuple with names."""
        if isinstance(inputs, dict):
            feeds = inputs
        else:
            values = [inputs] if isinstance(inputs, numpy.ndarray) else list(inputs)
            feeds = dict(zip(self._inputs, values))
        session = self._session
        if session is None:
            arrays = {name: value for name, value in feeds.items() if isinstance(value, numpy.ndarray)}
            session = InferenceSession(_core.Graph.parse(self._bytes, "model", arrays), device=self._device)
        return namedtupledict("Outputs", self._outputs)(*session.run(None, feeds))


def _device_name(device):
    parsed = Device(device)
    return f"cuda:{parsed.device_id}" if parsed.type == DeviceType.CUDA else "cpu"


class RewrightBackend(Backend):
    """The backend itself. Its methods are the module's functions as well."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        """Gets a model (an onnx.ModelProto) ready for "CPU" or "CUDA:0"."""
        super().prepare(model, device, **kwargs)  # ONNX's checker
        return Prepared(model, _device_name(device))

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """One node, given a NumPy array for each of its inputs."""
        arrays = [numpy.asarray(value) for value in inputs]
        declared = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip((name for name in node.input if name), arrays)
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", declared, outputs)
        opset = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        return Prepared(model, _device_name(device)).run(arrays)

    @classmethod
    def supports_device(cls, device):
        parsed = Device(device)
        return parsed.type == DeviceType.CPU or (parsed.type == DeviceType.CUDA and _core.has_cuda_device())


is_compatible = RewrightBackend.is_compatible
prepare = RewrightBackend.prepare
run = RewrightBackend.run_model
run_model = RewrightBackend.run_model
run_node = RewrightBackend.run_node
supports_device = RewrightBackend.supports_device
