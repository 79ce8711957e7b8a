"""Rewright: a superoptimizing graph compiler for ONNX models.

    import rewright

    result = rewright.optimize("model.onnx", budget=10)     # rewritten by proved rules, as fast as was found
    result.save("faster.onnx")
    session = rewright.InferenceSession("faster.onnx")      # as ONNX Runtime's
    outputs = session.run(None, {"x": array})
    trained = rewright.train("model.onnx", {"x": examples, "targets": classes}, epochs=5)

Modules: `rewright.rules` (the rules, to look at and to compare), `rewright.graph` (graphs, to walk, build and draw),
`rewright.backend` (ONNX's backend interface), `rewright.torch_backend` (a backend of torch.compile).
"""

import importlib

from ._native import _core

if not _core.is_main_interpreter():
    raise ImportError(
        "rewright does not work in a subinterpreter: its threads and libraries are the process's; import it in the main interpreter"
    )

from .errors import BadInputError, CancelledError, Error, MissingError, UnsupportedError, UsageError
from .session import (
    ExecutionMode,
    GraphOptimizationLevel,
    InferenceSession,
    ModelMetadata,
    NodeArg,
    RunOptions,
    Session,
    SessionOptions,
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_device,
    get_version_string,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)
from .values import IOBinding, OrtValue

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
    "optimize": "optimization",
    "optimize_async": "optimization",
    "Result": "optimization",
    "Step": "training",
    "Trained": "training",
    "train": "training",
    "train_async": "training",
    "verify": "rules",
}
_MODULES = ("backend", "graph", "optimization", "rules", "torch_backend", "training")

__all__ = [
    "BadInputError",
    "CancelledError",
    "Error",
    "ExecutionMode",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "MissingError",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "Result",
    "RunOptions",
    "Session",
    "SessionOptions",
    "Step",
    "Trained",
    "UnsupportedError",
    "UsageError",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "get_version_string",
    "optimize",
    "optimize_async",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
    "train",
    "train_async",
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
