"""Models in all accepted forms (a file, bytes, an onnx.ModelProto, a graph, a result of this package), and models made from them."""

import functools
import os

from ._native import _core
from .errors import ModelTypeError


def read(model, given=None):
    """The graph of a model (`_core.Graph`). given: replacements of its parts, as for _core.Graph.read."""
    given = given or {}
    core = model if isinstance(model, _core.Graph) else getattr(model, "_core_graph", None)  # rewright.graph.Graph, MadeModel
    if core is not None:
        return _core.Graph.parse(core.serialize(), core.name, given) if given else core
    if isinstance(model, (str, os.PathLike)):
        return _core.Graph.read(os.fsdecode(model), given)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _core.Graph.parse(bytes(model), "model", given)
    if hasattr(model, "SerializeToString"):
        return _core.Graph.parse(model.SerializeToString(), model.graph.name or "model", given)
    raise ModelTypeError(
        f"a model cannot be of type {type(model).__name__}",
        hint="give a path, bytes, an onnx.ModelProto, a rewright.graph.Graph or a rewright.Result",
    )


def to_proto(graph):
    """An onnx.ModelProto of a graph (`_core.Graph`)."""
    import onnx

    return onnx.ModelProto.FromString(graph.serialize())


def kind_of(model):
    """The kind of a given model: "path", "bytes", "proto" or "graph"."""
    if isinstance(model, (str, os.PathLike)):
        return "path"
    if isinstance(model, (bytes, bytearray, memoryview)):
        return "bytes"
    return "proto" if hasattr(model, "SerializeToString") else "graph"


class MadeModel:
    """A model made from a given one.

    path: the file that was written, if one was asked for.
    """

    def __init__(self, graph, given, path):
        self._core_graph = graph
        self._given = given
        self.path = path

    @functools.cached_property
    def model(self):
        """The model in the form of the given one: bytes for bytes, a rewright.graph.Graph for a graph, for a path the output's path
        if there is one, otherwise an onnx.ModelProto."""
        if self._given == "bytes":
            return self.serialize()
        if self._given == "graph":
            from .graph import Graph

            return Graph(self._core_graph)
        if self._given == "path" and self.path is not None:
            return self.path
        return to_proto(self._core_graph)

    def serialize(self):
        """The model's bytes. Models of 2 GB and more have none: save them."""
        return self._core_graph.serialize()

    def save(self, path):
        """Writes the model: whole, or not at all. Weights over 1.9 GB go to a file beside it."""
        self._core_graph.write(os.fsdecode(path))

    def session(self, sess_options=None, **arguments):
        """A rewright.InferenceSession of the model."""
        from .session import InferenceSession

        return InferenceSession(self, sess_options, **arguments)
