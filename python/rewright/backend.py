"""ONNX's backend interface: `onnx.backend.test.BackendTest(rewright.backend, __name__)` runs ONNX's own tests on it.

prepare(model, device) gives what run(inputs) runs; run_model(model, inputs, device) does both; run_node runs one node. Models are
onnx.ModelProto, files, bytes or sessions, as ONNX Runtime's backend takes them.
"""

# The package is named in full: a program may have entered it as `onnxruntime` in sys.modules.

import os

import numpy
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from rewright._native import _core
from rewright.errors import OptionError
from rewright.models import read
from rewright.session import InferenceSession
from rewright.session_options import RunOptions, SessionOptions


# Options that say how to run, and not where to write files.
_SESSION_OPTIONS = (
    "enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "execution_mode", "execution_order", "graph_optimization_level",
    "inter_op_num_threads", "intra_op_num_threads", "kernels", "log_severity_level", "log_verbosity_level", "logid", "math",
    "use_deterministic_compute", "use_per_session_threads",
)  # fmt: skip
_RUN_OPTIONS = ("log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches")


def _set(options, allowed, given):
    """Sets the keywords that are options here; others are for other backends."""
    for name, value in given.items():
        if name in allowed:
            setattr(options, name, value)
        elif hasattr(options, name):
            raise OptionError(f'"{name}" cannot be set through a backend', hint=f"what can is {', '.join(allowed)}")
    return options


class Prepared(BackendRep):
    """A model, ready to run."""

    def __init__(self, model, device, options=None):
        self._session = model if isinstance(model, InferenceSession) else None
        if self._session is None:
            self._device, self._options = device, options
            graph = read(model)
            # If parameters are inputs (axes, sizes) the model is read again for the values of each run, as `rewright
            # conformance` does.
            if any(node.is_opaque for node in graph.nodes):
                self._model = model if isinstance(model, (str, os.PathLike, bytes)) else model.SerializeToString()
            else:
                self._session = InferenceSession(graph, options, device=device)
        declared = graph.declared_inputs() if self._session is None else self._session.get_inputs()
        self._inputs = [value.name for value in declared]
        declared = graph.declared_outputs() if self._session is None else self._session.get_outputs()
        self._outputs = [value.name for value in declared]

    def run(self, inputs, **kwargs):
        """inputs: values in the order of the model's inputs, a dict of them by name, or one alone. Returns a tuple with names."""
        options = _set(RunOptions(), _RUN_OPTIONS, kwargs)
        if isinstance(inputs, dict):
            feeds = inputs
        else:
            is_one = not isinstance(inputs, (list, tuple))
            values = [inputs] if is_one else list(inputs)
            if len(values) > len(self._inputs) or (is_one and len(self._inputs) != 1):
                raise OptionError(f"the model has {len(self._inputs)} inputs, {len(values)} are given")
            feeds = dict(zip(self._inputs, values))
        session = self._session
        if session is None:
            arrays = {name: value for name, value in feeds.items() if isinstance(value, numpy.ndarray)}
            graph = read(self._model, {"input_values": arrays})
            session = InferenceSession(graph, self._options, device=self._device)
        return namedtupledict("Outputs", self._outputs)(*session.run(None, feeds, options))


def _device_name(device):
    parsed = Device(device)
    return f"cuda:{parsed.device_id}" if parsed.type == DeviceType.CUDA else "cpu"


class RewrightBackend(Backend):
    """The backend itself. Its methods are the module's functions as well."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        return cls.supports_device(device or "CPU")

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        """Prepares a model for "CPU" or "CUDA:0": an onnx.ModelProto, a file, bytes, a session, or an earlier result of prepare().
        kwargs: SessionOptions, except those that write files."""
        if isinstance(model, Prepared):
            return model
        if isinstance(model, InferenceSession):
            return Prepared(model, None)
        options = _set(SessionOptions(), _SESSION_OPTIONS, kwargs)
        if isinstance(model, onnx.ModelProto):
            super().prepare(model, device or "CPU", **kwargs)  # ONNX's checker
        return Prepared(model, _device_name(device or "CPU"), options)

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        return cls.prepare(model, device, **kwargs).run(inputs, **{name: kwargs[name] for name in kwargs if name not in _SESSION_OPTIONS})

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
        try:
            parsed = Device("CUDA" if device == "GPU" else device)
        except (AttributeError, ValueError):  # no such device in ONNX
            return False
        return parsed.type == DeviceType.CPU or (parsed.type == DeviceType.CUDA and _core.has_cuda_device())


is_compatible = RewrightBackend.is_compatible
prepare = RewrightBackend.prepare
run = RewrightBackend.run_model
run_model = RewrightBackend.run_model
run_node = RewrightBackend.run_node
supports_device = RewrightBackend.supports_device
