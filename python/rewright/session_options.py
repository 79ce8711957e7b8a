"""Options of sessions and runs, by ONNX Runtime's names. Other names and values of other types are refused."""

import enum
import operator

from . import providers
from ._native import _core
from .errors import OptionArgumentError, OptionError, UnsupportedOptionError
from .values import OrtValue


class GraphOptimizationLevel(enum.IntEnum):
    """Accepted for compatibility with ONNX Runtime: a session runs the model as given. `rewright.optimize` rewrites a model."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Accepted for compatibility with ONNX Runtime: steps run one after the other, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Accepted for compatibility with ONNX Runtime: a session orders its steps when it is made."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Option:
    """An attribute with values of one type."""

    def __init__(self, initial, kind):
        self._initial = initial
        self._kind = kind

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, options, owner=None):
        return self if options is None else options._values.get(self._name, self._initial)

    def __set__(self, options, value):
        if self._kind is bool and (value is None or hasattr(type(value), "__bool__")):
            value = bool(value)
        elif self._kind is int and hasattr(type(value), "__index__"):
            value = operator.index(value)
        if not isinstance(value, self._kind):
            raise TypeError(f"{self._name} is of type {self._kind.__name__}, not {type(value).__name__}")
        options._values[self._name] = value


class _Entries:
    """Pairs of texts, under names that ONNX Runtime knows; they have no effect."""

    def __init__(self, owner):
        self._owner = owner
        self._texts = {}

    def add(self, key, value):
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError("an entry's name and its value are texts")
        if not 0 < len(key) <= 1024:
            raise OptionError("Config key is empty or longer than maximum length 1024")
        self._texts[key] = value

    def get(self, key):
        if key not in self._texts:
            raise OptionError(f"{self._owner} does not have configuration with key: {key}")
        return self._texts[key]


class SessionOptions:
    """Options of a session.

    intra_op_num_threads: threads; 0 for all processors.
    math: "exact", "reassociate" or "fast": what may change in floating point, as for rewright.optimize.
    kernels: "estimated", "cached", "measured" or "searched": how convolutions and loops of generated code are chosen, as for
        rewright.optimize.
    plan_cache: a file that keeps the prepared plan, so that the next process starts faster; empty for none.
    enable_profiling: measure every step (InferenceSession.profile, end_profiling).
    check_kernels: compare elements of what each step computes with the operators' definitions, in the first run with
        each set of sizes. A step whose kernel is wrong is computed in another way, in that run already, with a warning
        (InferenceSession.checked_kernels, warnings).
    profile_file_prefix: the beginning of the name of the file that end_profiling writes.
    optimized_model_filepath: a file to which the model is written as it was imported, with the sizes and weights that are given
        here. It is not optimized: rewright.optimize(model).save(file) is.

    The others are ONNX Runtime's, and have no effect.
    """

    __slots__ = (
        "_values", "_entries", "_named_sizes", "_denoted_sizes", "_initializers", "_external", "_files", "_providers", "_cancelled",
        "__weakref__",
    )  # fmt: skip

    intra_op_num_threads = _Option(0, int)
    math = _Option("reassociate", str)
    kernels = _Option("estimated", str)
    plan_cache = _Option("", str)
    enable_profiling = _Option(False, bool)
    check_kernels = _Option(False, bool)
    profile_file_prefix = _Option("rewright_profile_", str)
    optimized_model_filepath = _Option("", str)
    inter_op_num_threads = _Option(0, int)
    use_per_session_threads = _Option(True, bool)
    graph_optimization_level = _Option(GraphOptimizationLevel.ORT_ENABLE_ALL, GraphOptimizationLevel)
    execution_mode = _Option(ExecutionMode.ORT_SEQUENTIAL, ExecutionMode)
    execution_order = _Option(ExecutionOrder.DEFAULT, ExecutionOrder)
    enable_cpu_mem_arena = _Option(True, bool)
    enable_mem_pattern = _Option(True, bool)
    enable_mem_reuse = _Option(True, bool)
    log_severity_level = _Option(-1, int)
    log_verbosity_level = _Option(0, int)
    logid = _Option("", str)
    use_deterministic_compute = _Option(False, bool)

    def __init__(self):
        self._values = {}
        self._entries = _Entries("SessionOptions")
        self._named_sizes, self._denoted_sizes = {}, {}
        self._initializers, self._external, self._files = {}, {}, {}
        self._providers = []
        self._cancelled = False

    def add_free_dimension_override_by_name(self, name, size):
        """Gives open dimensions of this name a size. The first size for a name counts."""
        _add_size(self._named_sizes, name, size)

    def add_free_dimension_override_by_denotation(self, denotation, size):
        """Fixes the dimensions with this denotation in the model ("DATA_BATCH")."""
        _add_size(self._denoted_sizes, denotation, size)

    def add_initializer(self, name, ortvalue):
        """Replaces the model's weight of this name, if it has one. The value's memory is not copied, and shared by all sessions
        with it; it must not change."""
        if not isinstance(ortvalue, OrtValue):
            raise OptionError(f"an initializer is an OrtValue, not {type(ortvalue).__name__}", where=name)
        if name in self._initializers:
            raise OptionError("an initializer of this name was added before", where=name)
        self._initializers[name] = ortvalue

    def add_external_initializers(self, names, ortvalues):
        """Replaces weights whose data are in files beside the model. These files need not exist then."""
        if len(names) != len(ortvalues):
            raise OptionError(f"there are {len(names)} names and {len(ortvalues)} values")
        for name, value in zip(names, ortvalues):
            if not isinstance(value, OrtValue):
                raise OptionError(f"an initializer is an OrtValue, not {type(value).__name__}", where=name)
            self._external[name] = value

    def add_external_initializers_from_files_in_memory(self, names, buffers, lengths):
        """The contents of the files beside the model, by the names that the model has for them."""
        if not len(names) == len(buffers) == len(lengths):
            raise OptionError(f"there are {len(names)} names, {len(buffers)} buffers and {len(lengths)} lengths")
        for name, buffer, length in zip(names, buffers, lengths):
            self._files[name] = bytes(memoryview(buffer).cast("B")[: operator.index(length)])

    def add_provider(self, name, options):
        """Sets the providers, unless InferenceSession is given `providers`."""
        providers.check_known(name)
        self._providers.append((name, dict(options)))

    def add_provider_for_devices(self, devices, options):
        """Sets the providers by devices of rewright.get_ep_devices()."""
        if not devices:
            raise OptionArgumentError("Must provide one or more OrtEpDevice instances.")
        self._providers.append((devices[0].ep_name, dict(options)))

    def set_provider_selection_policy(self, policy):
        """A policy that prefers a GPU gets one, if there is one; all others the CPU."""
        self._providers = [(name, {}) for name in providers.preferred(policy)]

    def has_providers(self):
        return bool(self._providers)

    def add_session_config_entry(self, key, value):
        """Entries of ONNX Runtime's configuration; they have no effect here."""
        self._entries.add(key, value)

    def get_session_config_entry(self, key):
        return self._entries.get(key)

    def set_load_cancellation_flag(self, cancelled):
        """True: no session is made with these options."""
        if not isinstance(cancelled, bool):
            raise TypeError("the flag is True or False")
        self._cancelled = cancelled

    def register_custom_ops_library(self, path):
        raise UnsupportedOptionError(
            "operators of ONNX Runtime's own libraries cannot be loaded", str(path), "api/rewright_c.h says how to bring operators"
        )

    def set_ep_context_data_read_func(self, function):
        raise UnsupportedOptionError("models that were compiled for a device elsewhere are not read")

    def clear_ep_context_data_read_func(self):
        """There is none."""

    def _given(self):
        """Replacements of parts of the model, as _core.Graph takes them."""
        weights = {name: (value._value, False) for name, value in self._initializers.items()}
        weights.update({name: (value._value, True) for name, value in self._external.items()})
        parts = {
            "named_sizes": self._named_sizes,
            "denoted_sizes": self._denoted_sizes,
            "weights": weights,
            "external_files": self._files,
        }
        return {name: values for name, values in parts.items() if values}


def _add_size(sizes, name, size):
    if not isinstance(name, str):
        raise TypeError("a dimension's name is a text")
    size = operator.index(size)
    if size < 0:
        raise OptionArgumentError(f"a size cannot be {size}", where=name)
    sizes.setdefault(name, size)


class RunOptions(_core.RunOptions):
    """Options of a run.

    terminate: True, set by any thread, ends all runs with these options with a CancelledError: soon, between two steps of a
        model or in its loops. Later runs end at once until it is False again. The session stays usable.

    The others are ONNX Runtime's, and have no effect.
    """

    log_severity_level = _Option(-1, int)
    log_verbosity_level = _Option(0, int)
    logid = _Option("", str)
    only_execute_path_to_fetches = _Option(False, bool)

    def __init__(self):
        super().__init__()
        self._values = {}
        self._entries = _Entries("RunOptions")

    def __setattr__(self, name, value):
        if not name.startswith("_") and not hasattr(type(self), name):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        super().__setattr__(name, value)

    def add_run_config_entry(self, key, value):
        """Entries of ONNX Runtime's configuration; they have no effect here."""
        self._entries.add(key, value)

    def get_run_config_entry(self, key):
        return self._entries.get(key)

    def add_active_adapter(self, adapter):
        raise UnsupportedOptionError("adapters are not read", hint="merge the adapter into the model")
