"""Running models, with the interface of ONNX Runtime's Python package: a program needs no change but that of the import.

What ONNX Runtime has and Rewright does not, says so when it is asked for. Settings that only concern how ONNX Runtime works
inside are taken and mean nothing here.
"""

import collections
import enum
import os
import time
import warnings

from . import models
from ._native import _core
from .errors import UnsupportedError, UsageError

NodeArg = _core.NodeArg
ModelMetadata = _core.ModelMetadata

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


class GraphOptimizationLevel(enum.IntEnum):
    """Taken for ONNX Runtime's sake: a session runs the model that it is given. `rewright.optimize` rewrites one."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Taken for ONNX Runtime's sake: steps run one after the other, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class SessionOptions:
    """How a session runs.

    intra_op_num_threads: threads; 0 for all processors.
    math: "exact", "reassociate" or "fast": what may change in floating point, as for rewright.optimize.
    kernels: "estimated", "cached" or "measured": how convolutions are chosen, as for rewright.optimize.
    plan_cache: a file that keeps the prepared plan, so that the next process starts faster; empty for none.
    enable_profiling: measure every step (InferenceSession.profile, end_profiling).

    The others are ONNX Runtime's, and mean nothing here.
    """

    def __init__(self):
        self.intra_op_num_threads = 0
        self.math = "reassociate"
        self.kernels = "estimated"
        self.plan_cache = ""
        self.enable_profiling = False
        self.profile_file_prefix = "rewright_profile_"
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order = 0
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_mem_reuse = True
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.use_deterministic_compute = False
        self._entries = {}

    @property
    def optimized_model_filepath(self):
        """Always empty: rewright.optimize(model).save(file) writes an optimized model."""
        return ""

    @optimized_model_filepath.setter
    def optimized_model_filepath(self, file):
        if file:
            raise UnsupportedError("sessions write no models", hint="rewright.optimize(model).save(file) does")

    def add_session_config_entry(self, key, value):
        self._entries[key] = value

    def get_session_config_entry(self, key):
        if key not in self._entries:
            raise UsageError(f'there is no entry "{key}"')
        return self._entries[key]

    def register_custom_ops_library(self, path):
        raise UnsupportedError("operators of ONNX Runtime's own libraries cannot be loaded", where=str(path))


class RunOptions:
    """Taken for ONNX Runtime's sake. A run cannot be ended."""

    def __init__(self):
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self.training_mode = False

    @property
    def terminate(self):
        return False

    @terminate.setter
    def terminate(self, value):
        if value:
            raise UnsupportedError("a run cannot be ended")


def get_available_providers():
    """What sessions can run on here, by ONNX Runtime's names, the fastest first."""
    return [CUDA, CPU] if _core.has_cuda_device() else [CPU]


def get_all_providers():
    """What sessions could run on somewhere, by ONNX Runtime's names."""
    return [CUDA, CPU]


def get_device():
    """ "GPU" where sessions can run on one, else "CPU"."""
    return "GPU" if _core.has_cuda_device() else "CPU"


def get_version_string():
    """Rewright's version."""
    return _core.__version__


def disable_telemetry_events():
    """There are none."""


def enable_telemetry_events():
    """There are none: nothing is ever sent."""


def set_default_logger_severity(level):
    """Nothing is logged."""


def set_default_logger_verbosity(level):
    """Nothing is logged."""


def set_seed(seed):
    """Random operators draw by the seeds that the model gives them."""


def _device_of(providers, provider_options):
    """The first of the providers that is here, as a device; the CPU if none is."""
    options = list(provider_options or [])
    for i, provider in enumerate(providers or []):
        name, settings = provider if isinstance(provider, (tuple, list)) else (provider, options[i] if i < len(options) else {})
        if name == CPU:
            return "cpu"
        if name == CUDA and _core.has_cuda_device():
            return f"cuda:{int(settings.get('device_id', 0))}"
        warnings.warn(f"{name} is not available here; there are {', '.join(get_available_providers())}", stacklevel=4)
    return "cpu"


class InferenceSession(_core.Session):
    """A model, ready to run.

    path_or_bytes: a file, the bytes of a model, an onnx.ModelProto, a rewright.graph.Graph or a rewright.Result.
    sess_options: SessionOptions.
    providers: as ONNX Runtime's: "CUDAExecutionProvider" or "CPUExecutionProvider", alone or with a dict of options. The first
        that is here is taken; without any, the CPU.
    provider_options: a dict for each of the providers.
    device: instead of providers: "cpu", "cuda", "cuda:N" or "reference".

    Sizes that the model leaves open are those of the inputs of each run; what was prepared for some is kept for the next run with
    the same. May be used by several threads at once. Raises rewright.Error for a model that is broken, or cannot be executed.
    """

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, *, device=None, **kwargs):
        kwargs.pop("enable_fallback", None)
        kwargs.pop("disabled_optimizers", None)
        if kwargs:
            raise UsageError(f'sessions have no option "{next(iter(kwargs))}"')
        options = sess_options or SessionOptions()
        if not isinstance(options, SessionOptions):
            raise UsageError(f"sess_options cannot be of type {type(options).__name__}", hint="give a rewright.SessionOptions")
        self._device = device or _device_of(providers, provider_options)
        self._options = options
        super().__init__(
            models.read(path_or_bytes),
            self._device,
            options.intra_op_num_threads,
            options.math,
            options.kernels,
            options.plan_cache,
            bool(options.enable_profiling),
        )
        for warning in self.warnings():
            warnings.warn(warning, stacklevel=2)

    def get_inputs(self):
        """The model's inputs, as NodeArg: name, type ("tensor(float)") and shape (a number, a name or None for each axis)."""
        return self.declared_inputs()

    def get_outputs(self):
        """The model's outputs, as NodeArg."""
        return self.declared_outputs()

    def get_overridable_initializers(self):
        """None: weights are fixed when a session is made."""
        return []

    def get_modelmeta(self):
        """What the model says of itself, as ModelMetadata."""
        return self.description()

    def get_providers(self):
        """What it runs on, by ONNX Runtime's names."""
        return [CUDA, CPU] if self._device.startswith("cuda") else [CPU]

    def get_provider_options(self):
        return {provider: {} for provider in self.get_providers()}

    def get_session_options(self):
        return self._options

    def io_binding(self):
        """Names bound to values, for run_with_iobinding."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding, run_options=None):
        """Runs on what is bound, and puts the results where outputs are bound to."""
        iobinding._run()

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        """As run, from and to OrtValue."""
        return [OrtValue(value) for value in self.run_values(output_names, _values(input_dict_ort_values))]

    def end_profiling(self):
        """Writes what each step did to a file in the format of Chrome's trace viewer, and returns the file's name."""
        import json

        events, start = [], 0.0
        for step in self.profile():
            duration = step["seconds"] * 1e6
            args = {key: step[key] for key in ("operators", "runs", "flops", "bytes")}
            events.append({"name": step["node"], "cat": "Node", "ph": "X", "pid": 0, "tid": 0, "ts": start, "dur": duration, "args": args})
            start += duration
        file = f"{self._options.profile_file_prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}_{os.getpid()}.json"
        with open(file, "w", encoding="utf-8") as out:
            json.dump(events, out)
        return file


Session = InferenceSession


def _values(named):
    return {name: getattr(value, "_value", value) for name, value in named.items()}


def _need_cpu(device_type):
    if str(device_type).lower() != "cpu":
        raise UnsupportedError(f'values cannot be in the memory of "{device_type}"', hint="give and take them in the CPU's")


class OrtValue:
    """A tensor, a sequence, or nothing, in the CPU's memory. Made by the functions here, or by a session."""

    def __init__(self, value):
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(numpy_obj, device_type="cpu", device_id=0):
        """The value of an array, which is not copied."""
        _need_cpu(device_type)
        return OrtValue(_core.Value.of(numpy_obj))

    @staticmethod
    def ortvalue_from_shape_and_type(shape, element_type, device_type="cpu", device_id=0):
        """A tensor of zeros. element_type: a NumPy type, or the number of one of ONNX's TensorProto."""
        _need_cpu(device_type)
        dtype = _core.dtype_of(element_type) if isinstance(element_type, int) else element_type
        return OrtValue(_core.Value.zeros(list(shape), dtype))

    @staticmethod
    def from_dlpack(data, is_bool_tensor=False):
        """The value of anything with __dlpack__ in the CPU's memory (a torch tensor), which is not copied."""
        return OrtValue(_core.Value.of(data))

    def __dlpack__(self, **arguments):
        return self._value.dlpack().__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._value.dlpack().__dlpack_device__()

    def to_dlpack(self):
        return self.__dlpack__()

    def numpy(self):
        """The array, in the value's own memory."""
        return self._value.numpy()

    def shape(self):
        return list(self._value.shape)

    def element_type(self):
        """As ONNX's TensorProto numbers them."""
        return self._value.element_type

    def data_type(self):
        """ "tensor(float)", as NodeArg.type."""
        return _core.type_text(self._value.element_type)

    def data_ptr(self):
        """The address of the first element."""
        return self._value.address

    def device_name(self):
        return "cpu"

    def is_tensor(self):
        return not (self._value.is_sequence or self._value.is_empty)

    def is_tensor_sequence(self):
        return self._value.is_sequence

    def has_value(self):
        return not self._value.is_empty

    def update_inplace(self, np_arr):
        """Copies an array of the same shape and type into the value."""
        _core.Value.of(np_arr).copy_into(self.numpy())


class IOBinding:
    """Names of a session's inputs and outputs, bound to values."""

    def __init__(self, session):
        self._session = session
        self.clear_binding_inputs()
        self.clear_binding_outputs()

    def bind_cpu_input(self, name, arr_on_cpu):
        """An array, which is read where it is, at every run."""
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name, ortvalue):
        self._inputs[name] = ortvalue._value

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        """Memory that the caller keeps alive: `buffer_ptr` is the address of the first element."""
        _need_cpu(device_type)
        self._inputs[name] = _array_at(element_type, shape, buffer_ptr)

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        """To memory of the caller's, or, without `buffer_ptr`, to whatever the session allocates."""
        _need_cpu(device_type)
        self._outputs[name] = None if buffer_ptr is None else _array_at(element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name, ortvalue):
        self._outputs[name] = ortvalue.numpy()

    def get_outputs(self):
        """The outputs of the last run, as OrtValue, in the order in which they were bound."""
        return list(self._results.values())

    def copy_outputs_to_cpu(self):
        """The outputs of the last run, as arrays."""
        return [value.numpy() for value in self._results.values()]

    def synchronize_inputs(self):
        """Values are in the CPU's memory: there is nothing to wait for."""

    def synchronize_outputs(self):
        """Values are in the CPU's memory: there is nothing to wait for."""

    def clear_binding_inputs(self):
        self._inputs = {}

    def clear_binding_outputs(self):
        self._outputs = {}
        self._results = collections.OrderedDict()

    def _run(self):
        if not self._outputs:
            raise UsageError("no output is bound")
        found = self._session.run_values(list(self._outputs), self._inputs)
        for (name, target), value in zip(self._outputs.items(), found):
            if target is not None:
                value.copy_into(target)
                value = _core.Value.of(target)
            self._results[name] = OrtValue(value)


def _array_at(element_type, shape, address):
    """An array in memory that is somebody else's."""
    import ctypes
    import math

    import numpy

    dtype = numpy.dtype(_core.dtype_of(element_type) if isinstance(element_type, int) else element_type)
    size = math.prod(shape) * dtype.itemsize
    return numpy.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(shape)
