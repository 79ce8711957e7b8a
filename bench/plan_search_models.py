"""Networks to plan for, of the sizes that they are trained in, and a search for a plan. No step is executed, so weights are holes of a sparse file."""

import json
import os
import subprocess

import common
import onnx
from onnx import TensorProto, helper


def search(folder, file, machine, batch, budget, *options):
    """The facts of the best plan for a machine, found in so many seconds (not proved where that is the schedule's nature), or an "error"."""
    place, facts = os.path.join(folder, "machine.json"), os.path.join(folder, "facts.json")
    with open(place, "w", encoding="utf-8") as f:
        json.dump(machine, f)
    command = [common.BINARY, "plan", file, "--machine", place, "--batch", str(batch), "-o", os.path.join(folder, "a.plan"), "--budget", f"{budget}s", *options]
    result = subprocess.run([*command, "--json", facts, "--quiet"], capture_output=True, text=True, check=False)
    if result.returncode > 1:
        return {"error": result.stderr.strip().splitlines()[-1].replace(folder + os.sep, "")}
    found = common.read_json(facts)
    del found["output"]  # a file of this run
    return found


class Network:
    def __init__(self, name):
        self.name, self.nodes, self.weights, self.inputs, self.at = name, [], [], [], 0

    def node(self, op, *inputs, **attributes):
        result = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [result], **attributes))
        return result

    def constant(self, *numbers):
        name = f"numbers_{len(self.weights)}"
        self.weights.append(helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers))
        return name

    def scalar(self, number):
        name = f"number_{len(self.weights)}"
        self.weights.append(helper.make_tensor(name, TensorProto.FLOAT, [], [number]))
        return name

    def weight(self, *sizes):
        tensor = TensorProto(name=f"weight_{len(self.weights)}", data_type=TensorProto.FLOAT, dims=sizes, data_location=TensorProto.EXTERNAL)
        count = 4
        for size in sizes:
            count *= size
        for key, value in (("location", f"{self.name}.weights"), ("offset", self.at), ("length", count)):
            tensor.external_data.add(key=key, value=str(value))
        self.at += -(-count // 4096) * 4096
        self.weights.append(tensor)
        return tensor.name

    def input(self, name, *sizes, element=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, element, ["N", *sizes]))
        return name

    def linear(self, x, width, features):
        return self.node("Add", self.node("MatMul", x, self.weight(width, features)), self.weight(features))

    def normalized(self, x, width):
        return self.node("LayerNormalization", x, self.weight(width), self.weight(width), axis=-1)

    def write(self, folder, result, *sizes):
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, sizes)
        graph = helper.make_graph(self.nodes, self.name, self.inputs, [output], self.weights)
        file = os.path.join(folder, f"{self.name}.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
        with open(os.path.join(folder, f"{self.name}.weights"), "wb") as weights:
            weights.truncate(self.at)
        return file


def resnet50(folder):
    """He et al., 2016, images of 224 x 224."""
    file = os.path.join(folder, "resnet50.onnx")
    subprocess.run([common.BINARY, "models", "build", "resnet50", "-o", file, "--quiet"], check=True)
    model = onnx.load(file)
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(model, file)
    return file


def vgg16(folder):
    """Simonyan and Zisserman, 2015, configuration D, images of 224 x 224."""
    net = Network("vgg16")
    x, channels = net.input("image", 3, 224, 224), 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            x = net.node("Relu", net.node("Conv", x, net.weight(width, channels, 3, 3), net.weight(width), pads=[1, 1, 1, 1]))
            channels = width
        x = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Flatten", x)
    for a, b in ((7 * 7 * 512, 4096), (4096, 4096)):
        x = net.node("Relu", net.linear(x, a, b))
    return net.write(folder, net.linear(x, 4096, 1000), "N", 1000)


def transformer(folder, layers=24, width=1024, heads=16, tokens=512, words=32768):
    """GPT-2's medium size (Radford et al., 2019), 512 tokens, a vocabulary of 32,768."""
    net = Network("transformer")
    x = net.node("Add", net.node("Gather", net.weight(words, width), net.input("tokens", tokens, element=TensorProto.INT64)), net.weight(tokens, width))
    by_heads, flat = net.constant(0, tokens, heads, width // heads), net.constant(0, tokens, width)
    scale = net.scalar((heads / width) ** 0.5)
    for _ in range(layers):
        y = net.normalized(x, width)
        q, k, v = (net.node("Transpose", net.node("Reshape", net.linear(y, width, width), by_heads), perm=[0, 2, *axes]) for axes in ([1, 3], [3, 1], [1, 3]))
        weights = net.node("Softmax", net.node("Mul", net.node("MatMul", q, k), scale), axis=-1)
        heard = net.node("Reshape", net.node("Transpose", net.node("MatMul", weights, v), perm=[0, 2, 1, 3]), flat)
        x = net.node("Add", x, net.linear(heard, width, width))
        y = net.linear(net.normalized(x, width), width, 4 * width)
        y = net.node("Mul", y, net.node("Sigmoid", net.node("Mul", y, net.scalar(1.702))))  # GELU, as GPT-2's authors approximate it
        x = net.node("Add", x, net.linear(y, 4 * width, width))
    logits = net.node("MatMul", net.normalized(x, width), net.weight(width, words))
    return net.write(folder, net.node("Transpose", logits, perm=[0, 2, 1]), "N", words, tokens)


def lstm(folder, layers=2, width=2048, steps=20, words=32768):
    """A language model as FlexFlow's example (Jia et al., 2019): LSTMs of width 2,048 over 20 words, an embedding and a softmax layer."""
    net = Network("lstm")
    x = net.node("Transpose", net.node("Gather", net.weight(words, width), net.input("tokens", steps, element=TensorProto.INT64)), perm=[1, 0, 2])
    for _ in range(layers):
        x = net.node("LSTM", x, net.weight(1, 4 * width, width), net.weight(1, 4 * width, width), net.weight(1, 8 * width), hidden_size=width)
        x = net.node("Squeeze", x, net.constant(1))
    logits = net.node("MatMul", net.node("Transpose", x, perm=[1, 0, 2]), net.weight(width, words))
    return net.write(folder, net.node("Transpose", logits, perm=[0, 2, 1]), "N", words, steps)


def dlrm(folder, tables=8, rows=1000000, width=64):
    """Naumov et al., 2019: embeddings of 8 features of a million kinds, 64 wide, their products in pairs, dense layers before and behind."""
    net = Network("dlrm")
    x = net.input("dense", 512)
    for a, b in ((512, 512), (512, 256), (256, width)):
        x = net.node("Relu", net.linear(x, a, b))
    kinds = net.input("kinds", tables, element=TensorProto.INT64)
    rows_of = [net.node("Gather", net.weight(rows, width), net.node("Gather", kinds, net.constant(n), axis=1)) for n in range(tables)]
    features = net.node("Concat", net.node("Unsqueeze", x, net.constant(1)), *rows_of, axis=1)
    pairs = net.node("MatMul", features, net.node("Transpose", features, perm=[0, 2, 1]))
    both = net.node("Concat", x, net.node("Reshape", pairs, net.constant(0, (tables + 1) ** 2)), axis=1)
    for a, b in ((width + (tables + 1) ** 2, 512), (512, 512), (512, 256)):
        both = net.node("Relu", net.linear(both, a, b))
    return net.write(folder, net.linear(both, 256, 1), "N", 1)
