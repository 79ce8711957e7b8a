"""Rewright: a superoptimizing graph compiler for ONNX models.

    import rewright

    result = rewright.optimize("model.onnx", budget=10)     # rewritten by proved rules, as fast as was found
    result.save("faster.onnx")
    session = rewright.InferenceSession("faster.onnx")      # as ONNX Runtime's
    outputs = session.run(None, {"x": array})
    trained = rewright.train("model.onnx", {"x": examples, "targets": classes}, epochs=5)
    model = rewright.LanguageModel("smollm2")               # a folder as onnxruntime-genai has it
    for piece in model.generate("The capital of France is", max_tokens=20): print(piece, end="")

Modules: `rewright.rules` (the rules, to look at and to compare), `rewright.graph` (graphs, to walk, build and draw),
`rewright.backend` (ONNX's backend interface), `rewright.torch_backend` (a backend of torch.compile), `rewright.capi` (ONNX
Runtime's exceptions, under the names by which programs import them).
"""

import importlib

from ._native import _core

if not _core.is_main_interpreter():
    raise ImportError(
        "rewright does not work in a subinterpreter: its threads and libraries are the process's; import it in the main interpreter"
    )

from .errors import BadInputError, CancelledError, Error, MissingError, UnsupportedError, UsageError
from .devices import (
    OrtAllocatorType,
    OrtArenaCfg,
    OrtDevice,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtEpDevice,
    OrtHardwareDevice,
    OrtHardwareDeviceType,
    OrtMemoryInfo,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    create_and_register_allocator,
    create_and_register_allocator_v2,
    get_ep_devices,
)
from .environment import (
    disable_telemetry_events,
    enable_telemetry_events,
    get_build_info,
    get_version_string,
    has_collective_ops,
    preload_dlls,
    print_debug_info,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
)
from .providers import (
    OrtExecutionProviderDevicePolicy,
    get_all_providers,
    get_available_providers,
    get_device,
    register_execution_provider_library,
    unregister_execution_provider_library,
)
from .session import InferenceSession, ModelMetadata, NodeArg, Session
from .session_options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from .sparse import OrtSparseFormat, SparseTensor
from .values import IOBinding, OrtValue, copy_tensors

SessionIOBinding = IOBinding

__version__ = _core.__version__


def versions():
    """The versions of Rewright, and of all libraries that it is made with or finds here, by their names."""
    import importlib.metadata

    found = {"rewright": __version__}
    for part in _core.library_versions().replace(", ", "\n").splitlines():
        name, _, version = part.rpartition(" ")
        found[name] = version
    for name, package in (("NumPy", "numpy"), ("ml_dtypes", "ml_dtypes")):
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


# Loaded when they are asked for.
_LAZY = {
    "Completion": "language_model",
    "LanguageModel": "language_model",
    "optimize": "optimization",
    "optimize_async": "optimization",
    "Proving": "proving",
    "check_proof": "proving",
    "prove": "proving",
    "Result": "optimization",
    "Plan": "planning",
    "check_plan": "planning",
    "plan": "planning",
    "Step": "training",
    "Trained": "training",
    "train": "training",
    "train_async": "training",
    "verify": "rules",
}
_MODULES = ("backend", "capi", "graph", "optimization", "planning", "proving", "rules", "torch_backend", "training")

__all__ = [
    "BadInputError",
    "CancelledError",
    "Completion",
    "Error",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "LanguageModel",
    "MissingError",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType",
    "OrtSparseFormat",
    "OrtValue",
    "Plan",
    "Proving",
    "Result",
    "RunOptions",
    "Session",
    "SessionIOBinding",
    "SessionOptions",
    "SparseTensor",
    "Step",
    "Trained",
    "UnsupportedError",
    "UsageError",
    "check_plan",
    "check_proof",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "optimize",
    "optimize_async",
    "plan",
    "preload_dlls",
    "print_debug_info",
    "prove",
    "register_execution_provider_library",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "train",
    "train_async",
    "unregister_execution_provider_library",
    "verify",
    "versions",
    *_MODULES,
]


def __getattr__(name):
    if name in _LAZY:
        value = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    elif name in _MODULES:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
