"""Graphs: to read, traverse, build, draw and write.

    graph = rewright.graph.read("model.onnx")
    for node in graph.nodes:
        print(node.name, node.op_type, [value.shape for value in node.outputs])

    graph = rewright.graph.Graph()
    x = graph.input("x", "float", ["N", 8])
    y = graph.node("Relu", [x])
    graph.output("y", y)
    graph.save("relu.onnx")

A graph holds the operators that Rewright knows; the others are opaque: kept as they are.
"""

import os

from . import models
from ._native import _core


class Value:
    """A value of a graph: an input, a constant, or what a node computes. Equal values of one graph compare equal."""

    def __init__(self, graph, number):
        self.graph = graph
        self.number = number

    @property
    def name(self):
        """In the model; empty for values that rewriting made."""
        return self.graph._core_graph.name_of(self.number)

    @property
    def type(self):
        """The element type: "float", "int64", ...; None if it is not known."""
        return self.graph._core_graph.type_of(self.number)

    @property
    def shape(self):
        """A number or an expression over the model's sizes ("2*N + 1") for each axis; None if not even their number is known."""
        return self.graph._core_graph.shape_of(self.number)

    @property
    def constant(self):
        """The elements of a constant, as an array; else None."""
        return self.graph._core_graph.constant_of(self.number)

    @property
    def is_constant(self):
        return self.graph._core_graph.is_constant(self.number)

    @property
    def producer(self):
        """The node that computes it; None for inputs and constants."""
        position = self.graph._core_graph.producers()[self.number]
        return None if position < 0 else self.graph.nodes[position]

    @property
    def users(self):
        """The nodes that read it, in order."""
        nodes = self.graph.nodes
        return [nodes[position] for position in self.graph._core_graph.users()[self.number]]

    def __eq__(self, other):
        return isinstance(other, Value) and (self.graph, self.number) == (other.graph, other.number)

    def __hash__(self):
        return hash((id(self.graph), self.number))

    def __repr__(self):
        return f"<Value {self.name or '%' + str(self.number)}: {self.type} {self.shape}>"


class Node:
    """A node of a graph, as of the time of asking.

    name: its own in the model, or that of its result.
    op_type: the operator's name.
    attributes: a dict of the operator's attributes; empty for opaque nodes.
    is_opaque, opaque_reason: is it kept as it is, and why?
    is_rewritten: did rewriting make it?
    """

    def __init__(self, graph, core):
        self.graph = graph
        self.name = core.name
        self.op_type = core.op_type
        self.attributes = core.attributes
        self.is_opaque = core.is_opaque
        self.opaque_reason = core.opaque_reason
        self.is_rewritten = core.is_rewritten
        self._inputs = core.inputs
        self._outputs = core.outputs

    @property
    def inputs(self):
        """Values; None where an optional one is absent."""
        return [None if number is None else Value(self.graph, number) for number in self._inputs]

    @property
    def outputs(self):
        """Values; None where the model does not use one."""
        return [None if number is None else Value(self.graph, number) for number in self._outputs]

    def __repr__(self):
        return f"<Node {self.name}: {self.op_type}>"


class Graph:
    """A graph of operators. Without a model: an empty one, to be built."""

    def __init__(self, model=None):
        self._core_graph = _core.Graph() if model is None else models.read(model).copy()

    # ---- Reading

    @property
    def nodes(self):
        """In an order in which they can be computed."""
        return [Node(self, node) for node in self._core_graph.nodes]

    @property
    def inputs(self):
        return [Value(self, number) for number in self._core_graph.inputs]

    @property
    def outputs(self):
        """A dict of the outputs' values by their names."""
        return {name: Value(self, number) for name, number in self._core_graph.outputs}

    @property
    def values(self):
        """All values of inputs, nodes and outputs."""
        numbers = dict.fromkeys(self._core_graph.inputs)
        for node in self._core_graph.nodes:
            numbers.update(dict.fromkeys(number for number in (*node.inputs, *node.outputs) if number is not None))
        numbers.update(dict.fromkeys(number for _, number in self._core_graph.outputs))
        return [Value(self, number) for number in numbers]

    # ---- Building

    def input(self, name, type, shape):
        """Adds an input. type: "float", "int64", ...; shape: a number or a name for each axis. Returns its Value."""
        return Value(self, self._core_graph.add_input(name, type, shape))

    def constant(self, array, name=""):
        """Adds a constant: a copy of an array. Returns its Value."""
        return Value(self, self._core_graph.add_constant(array, name))

    def node(self, op_type, inputs, *, names=(), **attributes):
        """Adds a node of an operator (see operators) and returns its output's Value, or a tuple of several.

        inputs: Values, arrays (which become constants), or None where an optional one is absent.
        names: of the outputs. attributes: those that are not their defaults. Types and shapes follow; an ill-typed node is an Error.
        """
        numbers = [None if value is None else (value if isinstance(value, Value) else self.constant(value)).number for value in inputs]
        outputs = [Value(self, number) for number in self._core_graph.add_node(op_type, numbers, attributes, list(names))]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def output(self, name, value):
        """Makes a value an output."""
        self._core_graph.add_output(name, value.number)

    # ---- Writing and looking

    def serialize(self):
        """The bytes of an ONNX model."""
        return self._core_graph.serialize()

    def to_proto(self):
        """An onnx.ModelProto."""
        return models.to_proto(self._core_graph)

    def save(self, path):
        """Writes an ONNX model: whole, or not at all."""
        self._core_graph.write(os.fsdecode(path))

    def draw(self, before=None):
        """The graph as SVG. Nodes that `before` (a Graph) does not have are marked."""
        return self._core_graph.svg(None if before is None else before._core_graph)

    def _repr_svg_(self):
        return self.draw()

    def __str__(self):
        return str(self._core_graph)

    def __repr__(self):
        return f"<rewright.graph.Graph: {len(self._core_graph.nodes)} nodes>"


def read(model):
    """The graph of a model: a file, its bytes, or an onnx.ModelProto."""
    return Graph(model)


def operators():
    """All operators that Rewright knows, by name: a dict of their attributes' defaults and numbers of inputs."""
    return {facts.pop("name"): facts for facts in _core.operators()}
