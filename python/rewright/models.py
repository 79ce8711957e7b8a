"""Models as they are given: a file, bytes, an onnx.ModelProto, a graph, or the result of an optimization."""

import os

from ._native import _core
from .errors import UsageError


def read(model):
    """The graph of a model (`_core.Graph`)."""
    if isinstance(model, _core.Graph):
        return model
    if isinstance(model, (str, os.PathLike)):
        return _core.Graph.read(os.fsdecode(model))
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _core.Graph.parse(bytes(model), "model")
    core = getattr(model, "_core_graph", None)  # rewright.graph.Graph, rewright.Result
    if core is not None:
        return core
    if hasattr(model, "SerializeToString"):
        return _core.Graph.parse(model.SerializeToString(), model.graph.name or "model")
    raise UsageError(
        f"a model cannot be of type {type(model).__name__}",
        hint="give a path, bytes, an onnx.ModelProto, a rewright.graph.Graph or a rewright.Result",
    )


def to_proto(graph):
    """An onnx.ModelProto of a graph (`_core.Graph`)."""
    import onnx

    return onnx.ModelProto.FromString(graph.serialize())
