"""Low-rank adaptation (E. Hu et al., arXiv:2106.09685): a model read from ONNX gets adapters, which are trained while its own weights are
frozen, and `rewright optimize` merges them into these."""

import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from example import ROOT, Example, write_arrays

sys.path.insert(0, str(ROOT / "examples/train_digits"))
import train_digits  # noqa: E402: for its data


def network(seed=1):
    """Three layers; weights as K. He et al., arXiv:1502.01852, start them."""
    random = numpy.random.default_rng(seed)
    weights, nodes, value = [], [helper.make_node("Flatten", ["picture"], ["flat"])], "flat"
    for number, (rows, columns) in enumerate([(64, 128), (128, 64), (64, 10)], 1):
        weight = (numpy.sqrt(2 / rows) * random.normal(size=(rows, columns))).astype("float32")
        weights.append(numpy_helper.from_array(weight, f"layer{number}"))
        weights.append(numpy_helper.from_array(numpy.zeros(columns, "float32"), f"bias{number}"))
        nodes.append(helper.make_node("MatMul", [value, f"layer{number}"], [f"product{number}"]))
        value = f"sum{number}" if number < 3 else "logits"
        nodes.append(helper.make_node("Add", [f"product{number}", f"bias{number}"], [value]))
        if number < 3:
            nodes.append(helper.make_node("Relu", [value], [f"active{number}"]))
            value = f"active{number}"
    info = helper.make_tensor_value_info
    inputs, outputs = [info("picture", TensorProto.FLOAT, ["N", 1, 8, 8])], [info("logits", TensorProto.FLOAT, ["N", 10])]
    graph = helper.make_graph(nodes, "digits", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def add_adapters(model, rank, seed=2):
    """x W becomes x W + (x A) B for every product with a weight W, where B starts as 0. Returns the names of what was there before."""
    random = numpy.random.default_rng(seed)
    graph = model.graph
    frozen = {weight.name: numpy_helper.to_array(weight) for weight in graph.initializer}
    nodes = []
    for node in graph.node:
        nodes.append(node)
        if node.op_type != "MatMul" or node.input[1] not in frozen:
            continue
        name, result = node.input[1], node.output[0]
        rows, columns = frozen[name].shape
        down = (random.normal(size=(rows, rank)) / numpy.sqrt(rows)).astype("float32")
        graph.initializer.append(numpy_helper.from_array(down, name + ".down"))
        graph.initializer.append(numpy_helper.from_array(numpy.zeros((rank, columns), "float32"), name + ".up"))
        node.output[0] = result + ".frozen"
        nodes.append(helper.make_node("MatMul", [node.input[0], name + ".down"], [result + ".narrow"]))
        nodes.append(helper.make_node("MatMul", [result + ".narrow", name + ".up"], [result + ".adapter"]))
        nodes.append(helper.make_node("Add", [result + ".frozen", result + ".adapter"], [result]))
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.checker.check_model(model, full_check=True)
    return list(frozen)


def main():
    rank = ("--rank", {"type": int, "default": 8, "help": "of the adapters"})
    example = Example("fine_tune_lora", __doc__, epochs=30, ranks=False, options=[rank])
    arguments, folder = example.arguments, example.folder

    def rewright(*command):
        example.rewright(*command, quiet=True)

    def train(model, output, data, *options):
        options = ["--epochs", arguments.epochs, "--batch", 64, "--rate", 0.005, "--schedule", "cosine", "--warm-up", 20, *options]
        rewright("train", folder / model, "--data", folder / data, "-o", folder / output, *options)

    def accuracy(model, data):
        """On what was held out."""
        test = folder / (data + "_test")
        rewright("run", folder / model, "--input", f"picture={test / 'picture.npy'}", "--output-dir", folder / "results")
        found = numpy.load(folder / "results/logits.npy").argmax(1)
        return (found == numpy.load(test / "targets.npy")).mean()

    table = folder.parent / "train_digits"
    table.mkdir(exist_ok=True)
    pictures, digits = train_digits.read_digits(table)
    held_out = numpy.arange(len(digits)) % 5 == 4
    for name, shown in (("digits", pictures), ("mirrored", pictures[:, :, :, ::-1].copy())):
        write_arrays(folder / name, picture=shown[~held_out], targets=digits[~held_out])
        write_arrays(folder / (name + "_test"), picture=shown[held_out], targets=digits[held_out])

    onnx.save(network(), folder / "start.onnx")
    train("start.onnx", "base.onnx", "digits")
    print(f"digits, all weights trained: accuracy {accuracy('base.onnx', 'digits'):.4f}")
    model = onnx.load(folder / "base.onnx")
    frozen = add_adapters(model, arguments.rank)
    onnx.save(model, folder / "adapted.onnx")
    keep = [part for name in frozen for part in ("--frozen", name)]
    print(f"mirrored, before: accuracy {accuracy('adapted.onnx', 'mirrored'):.4f}")
    train("adapted.onnx", "tuned.onnx", "mirrored", *keep)
    print(f"mirrored, adapters of rank {arguments.rank} trained: accuracy {accuracy('tuned.onnx', 'mirrored'):.4f}")

    base, with_adapters = onnx.load(folder / "base.onnx"), onnx.load(folder / "tuned.onnx")
    weights = {w.name: numpy_helper.to_array(w) for w in with_adapters.graph.initializer}
    assert all(numpy.array_equal(weights[w.name], numpy_helper.to_array(w)) for w in base.graph.initializer), "a frozen weight changed"
    rewright("optimize", folder / "tuned.onnx", "-o", folder / "merged.onnx", "--shape", "picture=64x1x8x8", "--budget", "20s", "--check", 3)
    merged = onnx.load(folder / "merged.onnx")
    numbers = [sum(numpy.prod(w.dims) for w in model.graph.initializer) for model in (with_adapters, merged, base)]
    nodes = [len(model.graph.node) for model in (with_adapters, merged, base)]
    for what, count in (("nodes", nodes), ("weights", numbers)):
        print(f"{what}: {count[0]} with adapters, {count[1]} merged, {count[2]} in the model without adapters")
    assert nodes[1] <= nodes[2] and numbers[1] <= numbers[2], "adapters were not merged"
    rewright("compare", folder / "tuned.onnx", folder / "merged.onnx", "--rtol", "1e-4", "--atol", "1e-4")
    print("merged and unmerged compute the same")
    print(f"accuracy {accuracy('merged.onnx', 'mirrored'):.4f}")


if __name__ == "__main__":
    main()
