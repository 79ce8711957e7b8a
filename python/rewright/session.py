"""Runs models, with the interface of ONNX Runtime's Python package: only a program's import changes.

Features of ONNX Runtime that Rewright lacks raise an error when they are used. Settings that only concern ONNX Runtime's own
internals are accepted and ignored.
"""

import os
import time
import warnings

from . import models, providers
from ._native import _core
from .devices import OrtAllocatorType, OrtMemoryInfo, OrtMemType, get_ep_devices
from .errors import ArgumentError, Error, LoadCancelledError, MissingError, UnwritableError, UsageError
from .providers import CPU, CUDA
from .session_options import SessionOptions
from .sparse import SparseTensor
from .values import IOBinding, OrtValue

NodeArg = _core.NodeArg
ModelMetadata = _core.ModelMetadata


class InferenceSession(_core.Session):
    """A model, ready to run.

    path_or_bytes: a file, the bytes of a model, an onnx.ModelProto, a rewright.graph.Graph or a rewright.Result.
    sess_options: SessionOptions.
    providers: as ONNX Runtime's: "CUDAExecutionProvider" or "CPUExecutionProvider", alone or with a dict of options. The
        first available one is used, with a warning for each that is not; the CPU if none is, as in ONNX Runtime.
    provider_options: a dict for each of the providers.
    enable_fallback: False raises an error if the providers are wrong, or one of them is available but cannot start. Otherwise the
        session uses the CPU, with a warning.
    device: instead of providers: "cpu", "cuda", "cuda:N" or "reference". There is no fallback: MissingError says what is missing.

    Sizes that the model leaves open may change with each run; what was prepared for some sizes is kept for later runs with them.
    Several threads may use a session at once. Raises rewright.Error for a model that is broken or cannot be executed.
    """

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, *, device=None, **kwargs):
        self._falls_back = bool(int(kwargs.pop("enable_fallback", True)))
        for ignored in ("disabled_optimizers", "read_config_from_model"):
            kwargs.pop(ignored, None)
        if kwargs:
            raise UsageError(f'sessions have no option "{next(iter(kwargs))}"')
        options = sess_options or SessionOptions()
        if not isinstance(options, SessionOptions):
            raise UsageError(f"sess_options cannot be of type {type(options).__name__}", hint="give a rewright.SessionOptions")
        if options._cancelled:
            raise LoadCancelledError("making the session was cancelled")
        self._options = options
        self._model_path = os.fspath(path_or_bytes) if isinstance(path_or_bytes, (str, os.PathLike)) else None
        self._device, self._device_options = (device, {}) if device else self._chosen(providers, provider_options)
        started = time.monotonic_ns()
        graph = models.read(path_or_bytes, options._given())
        loaded = time.monotonic_ns()
        if options.optimized_model_filepath:
            _write(graph, options.optimized_model_filepath)
        # Only where there are several devices can a session move to another one.
        self._graph = graph if _core.has_cuda_device() and device is None else None
        try:
            self._prepare(graph)
        except MissingError as error:
            if device is not None or self._device == "cpu" or not self._falls_back:
                raise
            warnings.warn(f"{CUDA} cannot be used: {error}; going on with {CPU}", stacklevel=2)
            self._device, self._device_options = "cpu", {}
            self._prepare(graph)
        self._made = {"started": started, "loaded": loaded, "ready": time.monotonic_ns()}
        self._profile_ended = not options.enable_profiling
        self._sparse = {value.name for value in self.get_outputs() if value.type.startswith("sparse_tensor")}
        if self._sparse:
            self.run = self._run_sparse
        for warning in self.warnings():
            warnings.warn(warning, stacklevel=2)

    def _chosen(self, given, provider_options):
        if given is None and self._options.has_providers():
            given = self._options._providers
        try:
            return providers.device_of(given, provider_options, stacklevel=4)
        except (ValueError, RuntimeError) as error:
            if not self._falls_back:
                raise
            warnings.warn(f"{error}; going on with {CPU}", stacklevel=3)
            return "cpu", {}

    def _prepare(self, graph, again=False):
        options = self._options
        threads = max(0, options.intra_op_num_threads)
        prepare = self.prepare_again if again else super().__init__
        prepare(
            graph, self._device, threads, options.math, options.kernels, options.plan_cache, options.enable_profiling,
            options.check_kernels,
        )  # fmt: skip

    def set_providers(self, providers=None, provider_options=None):
        """Moves the session to the first available provider. All names must be known, and no run may be active."""
        device, settings = _device_of(providers, provider_options)
        if device != self._device and self._graph is not None:
            self._device, self._device_options = device, settings
            self._prepare(self._graph, again=True)
        self._device_options = settings

    def get_inputs(self):
        """The model's inputs, as NodeArg: name, type ("tensor(float)") and shape (a number, a name or None for each axis)."""
        return self.declared_inputs()

    def get_outputs(self):
        """The model's outputs, as NodeArg."""
        return self.declared_outputs()

    def get_overridable_initializers(self):
        """Weights that the model lists among its inputs, too (from IR version 4 on), as NodeArg. Runs that give one use another
        session, in which it is an input; that session is kept."""
        return self.overridable_initializers()

    def get_modelmeta(self):
        """The model's metadata, as ModelMetadata."""
        return self.description()

    def get_providers(self):
        """The providers that the session runs on, by ONNX Runtime's names."""
        return [CUDA, CPU] if self._device.startswith("cuda") else [CPU]

    def get_provider_options(self):
        """The options that were given, by the names of the providers."""
        return {provider: dict(self._device_options) if provider == CUDA else {} for provider in self.get_providers()}

    def get_session_options(self):
        return self._options

    def enable_fallback(self):
        """Accepted for compatibility with ONNX Runtime. A session stays on its device; its runs have no fallback."""
        self._falls_back = True

    def disable_fallback(self):
        """See enable_fallback."""
        self._falls_back = False

    def get_input_memory_infos(self):
        """The memory from which inputs are read without a copy, as OrtMemoryInfo."""
        return [self._memory_info() for _ in self.get_inputs()]

    def get_output_memory_infos(self):
        """The memory of run()'s outputs, as OrtMemoryInfo."""
        return [self._memory_info() for _ in self.get_outputs()]

    def _memory_info(self):
        return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, OrtMemType.DEFAULT)

    def get_input_epdevices(self):
        """The devices that read the inputs, as OrtEpDevice."""
        device = next(device for device in get_ep_devices() if device.ep_name == self.get_providers()[0])
        return [device for _ in self.get_inputs()]

    def create_ortvalue_from_shape_and_type(self, shape, element_type, device_type, device_id=0, vendor_id=-1):
        """OrtValue.ortvalue_from_shape_and_type."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def set_ep_dynamic_options(self, options):
        """Accepted for compatibility with ONNX Runtime: providers have no options that change."""

    def get_tuning_results(self):
        """None: SessionOptions.kernels says how kernels are chosen."""
        return []

    def set_tuning_results(self, results, *, error_on_invalid=False):
        """Accepted for compatibility with ONNX Runtime."""

    def release_captured_graph(self, graph_annotation_id=0):
        """There is nothing to release by hand."""

    def _run_sparse(self, output_names, input_feed, run_options=None):
        results = super().run(output_names, input_feed, run_options)
        names = output_names or [value.name for value in self.get_outputs()]
        return [SparseTensor.of_dense(result) if name in self._sparse else result for name, result in zip(names, results)]

    def run_async(self, output_names, input_feed, callback=None, user_data=None, run_options=None):
        """run() in another thread.

        With a callback, as in ONNX Runtime: returns at once, and callback(results, user_data, error) is called in that thread,
        with the results and "", or with an empty list and what went wrong. `run_options.terminate` ends the run.

        Without one: `await session.run_async(names, feeds)` returns the results. Cancelling its task ends the run, and no other
        that has the same options, before CancelledError of asyncio is raised.
        """
        if callback is None:
            return self._run_awaited(output_names, input_feed, run_options)
        for value in self.get_inputs():
            if value.name not in input_feed and not value.type.startswith("optional"):
                raise ArgumentError("is not given", where=f'input "{value.name}"')
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
        """Runs on the bound inputs, and puts the results where the outputs are bound."""
        if iobinding._session is not self:
            raise UsageError("IOBinding must be used with the session that created it")
        iobinding._run(run_options)

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        """run() from and to OrtValue."""
        values = {name: _plain(name, value) for name, value in input_dict_ort_values.items()}
        results = [OrtValue(value) for value in self.run_values(output_names, values, run_options)]
        names = (output_names or [value.name for value in self.get_outputs()]) if self._sparse else ()
        for i, name in enumerate(names):
            if name in self._sparse:
                results[i] = OrtValue(SparseTensor.of_dense(results[i].numpy()))
        return results

    def run_with_ortvaluevector(self, run_options, feed_names, feeds, fetch_names, fetches, fetch_devices):
        """run() from and to OrtValueVector (or lists of OrtValue). fetch_devices: an OrtDevice for each of the outputs."""
        if len(feed_names) != len(feeds):
            raise ArgumentError(f"there are {len(feed_names)} names and {len(feeds)} values")
        fetches.extend(self.run_with_ort_values(list(fetch_names), dict(zip(feed_names, feeds)), run_options))

    def get_profiling_start_time_ns(self):
        """When profiling began, on the clock of time.monotonic_ns; 0 where it did not."""
        return self._made["started"] if self._options.enable_profiling else 0

    def end_profiling(self):
        """Writes what each step did to a file in the format of Chrome's trace viewer, and returns the file's name; "" where
        SessionOptions.enable_profiling was not set, and from the second call on."""
        if self._profile_ended:
            return ""
        self._profile_ended = True
        return _write_profile(self._options.profile_file_prefix, self._made, self.profile())


def _device_of(given, provider_options):
    return providers.device_of(given, provider_options, stacklevel=4)


def _plain(name, value):
    if isinstance(value, OrtValue) and value.is_sparse_tensor():
        raise ArgumentError("sessions take no sparse tensors", where=f'input "{name}"')
    return getattr(value, "_value", value)


def _write(graph, file):
    try:
        graph.write(os.fsdecode(file))
    except Error as error:
        raise UnwritableError(error.text, error.where, error.hint) from None


def _write_profile(prefix, made, steps):
    """One event a line. A step's event has the total time of its runs; events follow one after the other."""
    import json

    def event(category, name, start, duration, args):
        return {"cat": category, "pid": os.getpid(), "tid": os.getpid(), "dur": duration, "ts": start, "ph": "X", "name": name, "args": args}

    def microseconds(nanoseconds):
        return (nanoseconds - made["started"]) / 1e3

    loaded, ready = microseconds(made["loaded"]), microseconds(made["ready"])
    events = [event("Session", "model_loading", 0.0, loaded, {}), event("Session", "session_initialization", loaded, ready - loaded, {})]
    start = ready
    for step in steps:
        duration = step["seconds"] * 1e6
        events.append(event("Node", step["node"], start, duration, {key: step[key] for key in ("operators", "runs", "flops", "bytes")}))
        start += duration
    events.insert(2, event("Session", "model_run", ready, start - ready, {"runs": max((step["runs"] for step in steps), default=0)}))
    file = f"{prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}_{os.getpid()}.json"
    with open(file, "w", encoding="utf-8") as out:
        out.write("[\n" + ",\n".join(json.dumps(one) for one in events) + "\n]\n")
    return file


Session = InferenceSession
