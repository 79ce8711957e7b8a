"""Characters: the text of docs/ and the README, a causal transformer written with onnx.helper, training by `rewright train`."""

import collections
import json
import math

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from example import ROOT, Example, write_arrays

LENGTH, WIDTH, HEADS, LAYERS = 64, 64, 4, 2


def read_text():
    files = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "LICENSE"]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def unigram_bits(train, test):
    """What the frequencies of characters alone would take for one of the held-out text."""
    counts = collections.Counter(train.ravel().tolist())
    total = sum(counts.values()) + len(counts)
    return numpy.mean([-math.log2((counts[c] + 1) / total) for c in test.ravel().tolist()])


def transformer(characters, seed=1):
    """Layers of attention and perceptrons with normalizations before them (A. Vaswani et al., arXiv:1706.03762; R. Xiong et al.,
    arXiv:2002.04745). Logits are [N, characters, LENGTH]."""
    random = numpy.random.default_rng(seed)
    weights, nodes = [], []

    def weight(name, *shape, deviation=0.02, mean=0.0):
        weights.append(numpy_helper.from_array((mean + deviation * random.normal(size=shape)).astype("float32"), name))
        return name

    def shape(name, *sizes):
        weights.append(numpy_helper.from_array(numpy.array(sizes, "int64"), name))
        return name

    def node(op, name, *inputs, **attributes):
        nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def normalized(name, x):
        scale, shift = weight(f"{name}.scale", WIDTH, deviation=0, mean=1), weight(f"{name}.shift", WIDTH, deviation=0)
        return node("LayerNormalization", name, x, scale, shift, axis=-1)

    def layer(name, x, rows, columns):
        product = node("MatMul", f"{name}.product", x, weight(f"{name}.weight", rows, columns, deviation=rows**-0.5 / 2))
        return node("Add", name, product, weight(f"{name}.bias", columns, deviation=0))

    heads, joined = shape("heads", 0, 0, HEADS, WIDTH // HEADS), shape("joined", 0, 0, WIDTH)
    future = numpy.triu(numpy.full((LENGTH, LENGTH), -1e9, "float32"), 1)
    weights.append(numpy_helper.from_array(future[None, None], "future"))
    weights.append(numpy_helper.from_array(numpy.float32((WIDTH // HEADS) ** -0.5), "root"))
    embedded = node("Gather", "embedded", weight("embedding", characters, WIDTH, deviation=0.1), "characters")
    x = node("Add", "placed", embedded, weight("places", 1, LENGTH, WIDTH, deviation=0.1))
    for number in range(LAYERS):
        name = f"layer{number}"
        before = normalized(f"{name}.before", x)
        parts = {}
        for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            split = node("Reshape", f"{name}.{part}.split", layer(f"{name}.{part}", before, WIDTH, WIDTH), heads)
            parts[part] = node("Transpose", f"{name}.{part}.heads", split, perm=order)
        scores = node("Mul", f"{name}.scaled", node("MatMul", f"{name}.scores", parts["query"], parts["key"]), "root")
        attention = node("Softmax", f"{name}.attention", node("Add", f"{name}.masked", scores, "future"), axis=-1)
        mixed = node("Transpose", f"{name}.mixed", node("MatMul", f"{name}.mixture", attention, parts["value"]), perm=[0, 2, 1, 3])
        x = node("Add", f"{name}.seen", x, layer(f"{name}.out", node("Reshape", f"{name}.joined", mixed, joined), WIDTH, WIDTH))
        inner = node("Relu", f"{name}.inner", layer(f"{name}.wide", normalized(f"{name}.then", x), WIDTH, 4 * WIDTH))
        x = node("Add", f"{name}.result", x, layer(f"{name}.narrow", inner, 4 * WIDTH, WIDTH))
    node("Transpose", "logits", layer("predictions", normalized("last", x), WIDTH, characters), perm=[0, 2, 1])
    info = helper.make_tensor_value_info
    inputs = [info("characters", TensorProto.INT64, ["N", LENGTH])]
    outputs = [info("logits", TensorProto.FLOAT, ["N", characters, LENGTH])]
    graph = helper.make_graph(nodes, "characters", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    length = ("--text", {"type": int, "help": "characters of the text to use (default: all)"})
    example = Example("train_characters", __doc__, epochs=20, options=[length])
    arguments, folder = example.arguments, example.folder
    text = read_text()[: arguments.text]
    known = {character: number for number, character in enumerate(sorted(set(text)))}
    numbers = numpy.array([known[character] for character in text], "int64")
    count = (len(numbers) - 1) // LENGTH
    windows = numpy.stack([numbers[n * LENGTH : (n + 1) * LENGTH + 1] for n in range(count)])
    held_out = numpy.arange(count) % 10 == 9
    train, test = windows[~held_out], windows[held_out]
    for name, part in (("train", train), ("test", test)):  # each character is to be predicted from those before it in its window
        write_arrays(folder / name, characters=part[:, :-1], targets=part[:, 1:])
    onnx.save(transformer(len(known)), folder / "characters.onnx")
    print(f"{len(text)} characters, {len(known)} different ones; {unigram_bits(train, test):.3f} bits each by their frequencies", flush=True)

    facts = folder / "facts.json"
    command = ["train", folder / "characters.onnx", "--data", folder / "train", "--validate", folder / "test"]
    command += ["-o", folder / "trained.onnx", "--metrics", folder / "metrics.jsonl", "--json", facts, "--epochs", arguments.epochs]
    command += ["--batch", 32, "--shards", 4, "--rate", 0.003, "--schedule", "cosine", "--warm-up", 20, "--frozen", "future"]
    example.rewright(*command)
    print(f"bits per character {json.loads(facts.read_text())['validation']['loss'] / math.log(2):.3f}")


if __name__ == "__main__":
    main()
