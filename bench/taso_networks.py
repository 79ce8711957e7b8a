#!/usr/bin/env python3
"""Networks as TASO's published examples have them, where they differ from those of `rewright models`: taso_networks.py NAME OUT.onnx

bert       eight layers of attention on 64 rows of width 1024 with 16 heads, and nothing else: no softmax, no norms. What the
           next layer reads is one more product of the layer's input, and the attention's result is an output
resnext50  without batch norms and without the classifier; a rectifier behind the projections, too
"""

import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Network:
    def __init__(self, shape):
        self.random = np.random.default_rng(0)
        self.nodes, self.weights, self.outputs = [], [], []
        self.inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)]

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        values = self.random.standard_normal(shape, dtype=np.float32) / np.sqrt(np.prod(shape[1:]))
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def numbers(self, *values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, dtype=np.int64), name))
        return name

    def node(self, kind, *inputs, **attributes):
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [result], name=result, **attributes))
        return result

    def output(self, value, shape):
        self.outputs.append(helper.make_tensor_value_info(value, TensorProto.FLOAT, shape))

    def save(self, file):
        graph = helper.make_graph(self.nodes, "network", self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, file)


def bert():
    rows, width, heads, layers = 64, 1024, 16, 8
    n = Network([rows, width])
    x = "input"
    for _ in range(layers):

        def by_head(product):
            split = n.node("Reshape", product, n.numbers(rows, heads, width // heads))
            return n.node("Transpose", split, perm=[1, 0, 2])

        q, k, v = (by_head(n.node("MatMul", x, n.weight(width, width))) for _ in range(3))
        y = n.node("Transpose", n.node("MatMul", n.node("MatMul", q, k), v), perm=[1, 0, 2])
        n.output(n.node("Reshape", y, n.numbers(rows, width)), [rows, width])
        x = n.node("MatMul", x, n.weight(width, width))
    n.output(x, [rows, width])
    return n


def resnext50():
    n = Network([1, 3, 224, 224])

    def conv(x, inputs, outputs, kernel, stride=1, group=1, relu=True):
        pads = {1: 0, 3: 1, 7: 3}[kernel]
        y = n.node("Conv", x, n.weight(outputs, inputs // group, kernel, kernel), kernel_shape=[kernel] * 2, strides=[stride] * 2,
                   pads=[pads] * 4, group=group)
        return n.node("Relu", y) if relu else y

    x = conv("input", 3, 64, 7, 2)
    x = n.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels, size = 64, 56
    for blocks, width, first in [(3, 128, 1), (4, 256, 2), (6, 512, 2), (3, 1024, 2)]:
        for block in range(blocks):
            stride = first if block == 0 else 1
            y = conv(conv(x, channels, width, 1), width, width, 3, stride, 32)
            y = conv(y, width, 2 * width, 1, relu=False)
            if block == 0:
                x = conv(x, channels, 2 * width, 1, stride)
                channels, size = 2 * width, size // stride
            x = n.node("Relu", n.node("Add", x, y))
    n.output(x, [1, channels, size, size])
    return n


NETWORKS = {"bert": bert, "resnext50": resnext50}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NETWORKS)
    parser.add_argument("output")
    options = parser.parse_args()
    NETWORKS[options.name]().save(options.output)


if __name__ == "__main__":
    main()
