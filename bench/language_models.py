"""Decoders of language models as onnxruntime-genai's builder writes them, with random weights, for bench/language."""

import dataclasses
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32  # weights with a scale in common


@dataclasses.dataclass(frozen=True)
class Decoder:
    name: str
    bits: int  # of weights; 32: floats
    layers: int = 12
    hidden: int = 768
    inner: int = 2048
    heads: int = 12
    shared: int = 4  # heads of keys and values
    vocabulary: int = 8192
    positions: int = 2048
    accuracy_level: int = 4  # as the builder writes it

    @property
    def size(self):
        return self.hidden // self.heads


CASES = [Decoder("int4", 4), Decoder("int4, exact", 4, accuracy_level=0), Decoder("int8", 8), Decoder("float", 32)]


class Writer:
    def __init__(self, case):
        self.case, self.nodes, self.weights = case, [], []
        self.random = np.random.default_rng(1)
        self.quantized_bytes = 0

    def weight(self, name, array):
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op, inputs, outputs, **attributes):
        standard = op in ("Gather", "ReduceSum", "Sub", "Cast", "Shape", "Sigmoid", "Mul", "MatMul", "SimplifiedLayerNormalization")
        self.nodes.append(helper.make_node(op, inputs, outputs, domain="" if standard else "com.microsoft", **attributes))
        return outputs[0]

    def product(self, name, x, depth, columns):
        c = self.case
        if c.bits == 32:
            w = self.random.standard_normal((depth, columns), dtype=np.float32) * depth**-0.5
            self.quantized_bytes += w.nbytes
            return self.node("MatMul", [x, self.weight(name + ".w", w)], [name])
        blocks = depth // BLOCK
        q = self.random.integers(0, 256, (columns, blocks, BLOCK * c.bits // 8), dtype=np.uint8)
        spread = (2**c.bits) / 12**0.5  # the standard deviation of the integers
        scales = (self.random.random((columns, blocks), dtype=np.float32) + 0.5) * np.float32(depth**-0.5 / spread)
        self.quantized_bytes += q.nbytes + scales.nbytes
        inputs = [x, self.weight(name + ".q", q), self.weight(name + ".s", scales)]
        return self.node("MatMulNBits", inputs, [name], K=depth, N=columns, bits=c.bits, block_size=BLOCK, accuracy_level=c.accuracy_level)

    def norm(self, name):
        return self.weight(name, np.ones(self.case.hidden, np.float32))


def lengths_of_mask(w):
    w.weight("one", np.array([1], np.int64))
    w.weight("axis", np.array(1, np.int64))
    w.node("ReduceSum", ["attention_mask", "one"], ["ones"], keepdims=0)
    w.node("Sub", ["ones", "one"], ["less"])
    w.node("Cast", ["less"], ["last"], to=TensorProto.INT32)
    w.node("Shape", ["attention_mask"], ["mask_shape"])
    w.node("Gather", ["mask_shape", "axis"], ["count"], axis=0)
    w.node("Cast", ["count"], ["total"], to=TensorProto.INT32)


def layer(w, n, h, x):
    """One layer: h is the sum so far, x its norm; both of the next one."""
    c, name = w.case, f"layer{n}"
    qkv = w.product(name + ".qkv", x, c.hidden, (c.heads + 2 * c.shared) * c.size)
    past = [f"past_key_values.{n}.{which}" for which in ("key", "value")]
    present = [f"present.{n}.{which}" for which in ("key", "value")]
    a = w.node("GroupQueryAttention", [qkv, "", "", *past, "last", "total", "cos", "sin"], [name + ".a", *present],
               num_heads=c.heads, kv_num_heads=c.shared, do_rotary=1)  # fmt: skip
    o = w.product(name + ".o", a, c.hidden, c.hidden)
    y, s = name + ".n", name + ".h"
    w.node("SkipSimplifiedLayerNormalization", [h, o, w.norm(name + ".norm")], [y, "", "", s], epsilon=1e-6)
    gate, up = w.product(name + ".gate", y, c.hidden, c.inner), w.product(name + ".up", y, c.hidden, c.inner)
    swish = w.node("Mul", [gate, w.node("Sigmoid", [gate], [name + ".sigmoid"])], [name + ".swish"])
    down = w.product(name + ".down", w.node("Mul", [swish, up], [name + ".m"]), c.inner, c.hidden)
    y, t = name + ".y", name + ".t"
    w.node("SkipSimplifiedLayerNormalization", [s, down, w.norm(name + ".norm2")], [y, "", "", t], epsilon=1e-6)
    return t, y


def export(case, folder):
    """Writes the model; returns its file and the bytes of the weights of its products."""
    w = Writer(case)
    lengths_of_mask(w)
    angles = np.arange(case.positions)[:, None] / 10000 ** (np.arange(case.size // 2) / (case.size // 2))
    w.weight("cos", np.cos(angles).astype(np.float32))
    w.weight("sin", np.sin(angles).astype(np.float32))
    table = w.weight("embedding", w.random.standard_normal((case.vocabulary, case.hidden), dtype=np.float32))
    h = w.node("Gather", [table, "input_ids"], ["embedded"], axis=0)
    x = w.node("SimplifiedLayerNormalization", [h, w.norm("norm")], ["first"], epsilon=1e-6, axis=-1, stash_type=1)
    for n in range(case.layers):
        h, x = layer(w, n, h, x)
    w.product("logits", x, case.hidden, case.vocabulary)
    value = helper.make_tensor_value_info
    inputs = [value("input_ids", TensorProto.INT64, ["B", "S"]), value("attention_mask", TensorProto.INT64, ["B", "T"])]
    outputs = [value("logits", TensorProto.FLOAT, ["B", "S", case.vocabulary])]
    for n in range(case.layers):
        for which in ("key", "value"):
            inputs.append(value(f"past_key_values.{n}.{which}", TensorProto.FLOAT, ["B", case.shared, "P", case.size]))
            outputs.append(value(f"present.{n}.{which}", TensorProto.FLOAT, ["B", case.shared, "T", case.size]))
    graph = helper.make_graph(w.nodes, case.name, inputs, outputs, w.weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    path = os.path.join(folder, case.name.replace(", ", "_") + ".onnx")
    onnx.save_model(helper.make_model(graph, opset_imports=opsets, ir_version=10), path, save_as_external_data=True, location=os.path.basename(path) + ".data")
    return path, w.quantized_bytes


def feeds(case, length, past, seed=0):
    """`length` new tokens behind `past` positions."""
    random = np.random.default_rng(seed)
    values = {"input_ids": random.integers(0, case.vocabulary, (1, length)), "attention_mask": np.ones((1, past + length), np.int64)}
    for n in range(case.layers):
        for which in ("key", "value"):
            cache = random.standard_normal((1, case.shared, past, case.size), dtype=np.float32)
            values[f"past_key_values.{n}.{which}"] = cache
    return values
