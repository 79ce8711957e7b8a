"""Exceptions by ONNX Runtime's names (rewright.errors says which are raised), and what else programs import from this module."""

from rewright.errors import (  # noqa: F401
    DeviceReset,
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,  # noqa: A004
    RuntimeException,
)
from rewright.session_options import SessionOptions
from rewright.sparse import SparseBlockSparseView, SparseCooView, SparseCsrView  # noqa: F401
from rewright.values import OrtValueVector  # noqa: F401


def get_default_session_options():
    """The default options of a session."""
    return SessionOptions()


def __getattr__(name):
    import rewright

    if name.startswith("_") or name not in rewright.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(rewright, name)
