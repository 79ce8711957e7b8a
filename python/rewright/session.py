"""Running models, with the interface of ONNX Runtime's Python package: a program needs no change but that of the import.

What ONNX Runtime has and Rewright does not, says so when it is asked for. Settings that only concern how ONNX Runtime works
inside are taken and mean nothing here.
"""

import enum
import os
import time
import warnings

from . import models
from ._native import _core
from .errors import MissingError, UnsupportedError, UsageError
from .values import IOBinding, OrtValue

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


class RunOptions(_core.RunOptions):
    """What runs are given.

    terminate: set to True, by any thread, it ends the runs that have these options with a CancelledError: soon, between two
        steps of a model or in its loops. Later ones end at once, until it is False again. The session can be run as before.

    The others are ONNX Runtime's, and mean nothing here.
    """

    def __init__(self):
        super().__init__()
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self.training_mode = False
        self._entries = {}

    def add_run_config_entry(self, key, value):
        self._entries[key] = value

    def get_run_config_entry(self, key):
        if key not in self._entries:
            raise UsageError(f'there is no entry "{key}"')
        return self._entries[key]


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
    """The first of the providers that is here, as a device; the CPU if none is, as in ONNX Runtime."""
    options = list(provider_options or [])
    for i, provider in enumerate(providers or []):
        name, settings = provider if isinstance(provider, (tuple, list)) else (provider, options[i] if i < len(options) else {})
        if name == CPU:
            return "cpu"
        if name == CUDA and _core.has_cuda_device():
            return f"cuda:{int(settings.get('device_id', 0))}"
        warnings.warn(f"{name} is not available here; there are {', '.join(get_available_providers())}", stacklevel=3)
    return "cpu"


class InferenceSession(_core.Session):
    """A model, ready to run.

    path_or_bytes: a file, the bytes of a model, an onnx.ModelProto, a rewright.graph.Graph or a rewright.Result.
    sess_options: SessionOptions.
    providers: as ONNX Runtime's: "CUDAExecutionProvider" or "CPUExecutionProvider", alone or with a dict of options. The first
        that is here is taken, with a warning for each that is not; where none is, the CPU, as in ONNX Runtime.
    provider_options: a dict for each of the providers.
    enable_fallback: False raises the MissingError of a provider that is here but cannot start, instead of going on on the CPU.
    device: instead of providers: "cpu", "cuda", "cuda:N" or "reference". This one or none: MissingError says what is missing.

    Sizes that the model leaves open are those of the inputs of each run; what was prepared for some is kept for the next run with
    the same. May be used by several threads at once. Raises rewright.Error for a model that is broken, or cannot be executed.
    """

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, *, device=None, **kwargs):
        falls_back = bool(int(kwargs.pop("enable_fallback", True)))
        kwargs.pop("disabled_optimizers", None)
        if kwargs:
            raise UsageError(f'sessions have no option "{next(iter(kwargs))}"')
        options = sess_options or SessionOptions()
        if not isinstance(options, SessionOptions):
            raise UsageError(f"sess_options cannot be of type {type(options).__name__}", hint="give a rewright.SessionOptions")
        self._options = options
        graph = models.read(path_or_bytes)
        self._device = device or _device_of(providers, provider_options)
        try:
            self._prepare(graph)
        except MissingError as error:
            if device is not None or self._device == "cpu" or not falls_back:
                raise
            warnings.warn(f"{CUDA} cannot be used: {error}; going on with {CPU}", stacklevel=2)
            self._device = "cpu"
            self._prepare(graph)
        for warning in self.warnings():
            warnings.warn(warning, stacklevel=2)

    def _prepare(self, graph):
        options = self._options
        super().__init__(
            graph,
            self._device,
            options.intra_op_num_threads,
            options.math,
            options.kernels,
            options.plan_cache,
            bool(options.enable_profiling),
        )

    def get_inputs(self):
        """The model's inputs, as NodeArg: name, type ("tensor(float)") and shape (a number, a name or None for each axis)."""
        return self.declared_inputs()

    def get_outputs(self):
        """The model's outputs, as NodeArg."""
        return self.declared_outputs()

    def get_overridable_initializers(self):
        """Weights that the model lists among its inputs, too (from IR version 4 on), as NodeArg. They are fixed as long as none
        is given to a run: one that is makes another session, with that weight as an input, which is kept."""
        return self.overridable_initializers()

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

    def enable_fallback(self):
        """Taken for ONNX Runtime's sake: a session stays where it was prepared, and its runs fall back to nothing."""

    disable_fallback = enable_fallback

    def run_async(self, output_names, input_feed, callback=None, user_data=None, run_options=None):
        """As run, in another thread.

        With a callback, as in ONNX Runtime: returns at once, and callback(results, user_data, error) is called in that thread,
        with the results and "", or with an empty list and what went wrong. `run_options.terminate` ends the run.

        Without one: `await session.run_async(names, feeds)` returns the results. Cancelling its task ends the run, and no other
        that has the same options, before CancelledError of asyncio is raised.
        """
        if callback is None:
            return self._run_awaited(output_names, input_feed, run_options)
        import threading

        def work():
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except Exception as raised:  # whatever it is, there is nobody here to catch it
                results, error = [], str(raised)
            callback(results, user_data, error)

        threading.Thread(target=work, name="rewright run").start()
        return None

    async def _run_awaited(self, output_names, input_feed, run_options):
        import asyncio

        ending = _core.RunOptions(run_options if isinstance(run_options, _core.RunOptions) else None)
        future = asyncio.get_running_loop().run_in_executor(None, self.run, output_names, input_feed, ending)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            ending.terminate = True
            await asyncio.wait([future])  # nothing of ours goes on behind the caller's back
            future.exception()  # what it ended with counts for nothing
            raise

    def io_binding(self):
        """Names bound to values, for run_with_iobinding."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding, run_options=None):
        """Runs on what is bound, and puts the results where outputs are bound to."""
        iobinding._run(run_options)

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        """As run, from and to OrtValue."""
        values = {name: getattr(value, "_value", value) for name, value in input_dict_ort_values.items()}
        return [OrtValue(value) for value in self.run_values(output_names, values, run_options)]

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
