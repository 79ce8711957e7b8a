"""Models with random nodes, made comparable: each node that draws numbers becomes nodes that compute some from positions alone.

The numbers are those of a sequence of integers, (7919 * position + 104729 * node) mod 10007, so that every runtime computes the same ones, at whatever sizes. Mean
and spread are those that the node asks for, so that sizes which depend on the noise stay usual.
"""

import math

import onnx
from onnx import TensorProto, helper, numpy_helper
import numpy as np

MODULUS = 10007  # a prime
LEAST_OPSET = 11  # of Range
LIKE = ("RandomNormalLike", "RandomUniformLike", "Bernoulli")
FIXED = ("RandomNormal", "RandomUniform", *LIKE)


class NotFixed(Exception):
    """The model has random nodes of other kinds, or is too old."""


class Replacement:
    """The nodes that stand for one random node."""

    def __init__(self, node, number):
        self.node, self.number = node, number
        self.prefix = f"{node.output[0]}/noise"
        self.nodes = []
        self.attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def constant(self, array):
        return self.add("Constant", [], value=numpy_helper.from_array(array))

    def add(self, operator, inputs, output=None, **attributes):
        output = output or f"{self.prefix}/{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def uniform(self, shape):
        """Floats in [0, 1) of the shape that a tensor has as its elements."""
        count = self.add("ReduceProd", [shape], keepdims=0)
        zero, one = self.constant(np.int64(0)), self.constant(np.int64(1))
        position = self.add("Range", [zero, count, one])
        stride, start = self.constant(np.int64(7919)), self.constant(np.int64(104729 * self.number))
        mixed = self.add("Add", [self.add("Mul", [position, stride]), start])
        drawn = self.add("Mod", [mixed, self.constant(np.int64(MODULUS))])
        floats = self.add("Div", [self.add("Cast", [drawn], to=TensorProto.FLOAT), self.constant(np.float32(MODULUS))])
        return self.add("Reshape", [floats, shape])

    def scaled(self, uniform):
        """The numbers with the mean and the spread, or the ends, that the node asks for."""
        if "Normal" in self.node.op_type:
            scale = self.attributes.get("scale", 1.0) * math.sqrt(12)
            start = self.attributes.get("mean", 0.0) - 0.5 * scale
        else:
            start = self.attributes.get("low", 0.0)
            scale = self.attributes.get("high", 1.0) - start
        factor, shift = self.constant(np.float32(scale)), self.constant(np.float32(start))
        return self.add("Add", [self.add("Mul", [uniform, factor]), shift])

    def make(self, opset):
        node = self.node
        like = node.op_type in LIKE
        shape = self.add("Shape", [node.input[0]]) if like else self.constant(np.array(self.attributes["shape"], np.int64))
        uniform = self.uniform(shape)
        if node.op_type == "Bernoulli":
            probability = self.add("Cast", [node.input[0]], to=TensorProto.FLOAT)
            result = self.add("Less", [uniform, probability])
        else:
            result = self.scaled(uniform)
        if "dtype" in self.attributes or not like:
            self.add("Cast", [result], node.output[0], to=self.attributes.get("dtype", TensorProto.FLOAT))
        elif opset >= 15:
            self.add("CastLike", [result, node.input[0]], node.output[0])
        else:
            raise NotFixed(f"{node.op_type} of opset {opset} without a type")
        return self.nodes


def fix_nodes(nodes, opset, count, others):
    """Replaces the random nodes of a list, and of the graphs inside of its nodes. count: of random nodes so far; returns it."""
    result = []
    for node in nodes:
        if node.domain in ("", "ai.onnx") and node.op_type in FIXED:
            count += 1
            result += Replacement(node, count).make(opset)
            continue
        if node.op_type in others:
            raise NotFixed(node.op_type)
        for attribute in node.attribute:
            for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                count = fix_nodes(graph.node, opset, count, others)
        result.append(node)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in result]
    del nodes[:]
    nodes.extend(kept)
    return count


def opset_of(imports):
    return max((entry.version for entry in imports if entry.domain in ("", "ai.onnx")), default=0)


def fixed(model, random_operators):
    """A copy of the model without random nodes. Throws NotFixed. random_operators: the names of all operators that draw numbers."""
    others = set(random_operators) - set(FIXED)
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    count = 0
    for nodes, imports in [(copy.graph.node, copy.opset_import), *((f.node, f.opset_import) for f in copy.functions)]:
        opset = opset_of(imports) or opset_of(copy.opset_import)
        if opset < LEAST_OPSET:
            raise NotFixed(f"opset {opset}")
        count = fix_nodes(nodes, opset, count, others)
    return copy
