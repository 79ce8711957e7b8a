"""Digits: data from the scikit-learn package, a network written with onnx.helper, training by `rewright train`."""

import csv
import gzip
import sys
import tempfile
import zipfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from example import ROOT, Example, write_arrays

sys.path.insert(0, str(ROOT / "tools"))
import fetch_models  # noqa: E402: it is beside the other tools

# The data: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, CC BY 4.0.
DIGITS = fetch_models.Package("scikit-learn==1.9.1", "52a0703bbc07ad27f560fa63fa68e4c54dd735bfbbf65b4dd3c225dc7547b6df", "BSD-3-Clause")


def read_digits(folder):
    """Pictures [N, 1, 8, 8] from 0 to 1, and the digits that they show."""
    table = folder / "digits.csv.gz"
    if not table.exists():
        with tempfile.TemporaryDirectory() as temporary:
            # Any Python may read the file: the wheel is asked for by name.
            options = ["--python-version", "3.11", "--implementation", "cp", "--platform", "manylinux_2_28_x86_64"]
            wheel = fetch_models.download(DIGITS, temporary, options)
            with zipfile.ZipFile(wheel) as archive:
                table.write_bytes(archive.read("sklearn/datasets/data/digits.csv.gz"))
    with gzip.open(table, "rt") as file:
        rows = numpy.array([[float(cell) for cell in row] for row in csv.reader(file)], "float32")
    return (rows[:, :64] / 16).reshape(-1, 1, 8, 8), rows[:, 64].astype("int64")


def network(seed=1):
    """Two convolutions, a pool and two layers; weights as K. He et al., arXiv:1502.01852, start them."""
    random = numpy.random.default_rng(seed)
    weights = []

    def weight(name, *shape):
        spread = numpy.sqrt(2 / numpy.prod(shape[1:]))
        weights.append(numpy_helper.from_array((spread * random.normal(size=shape)).astype("float32"), name))
        weights.append(numpy_helper.from_array(numpy.zeros(shape[0], "float32"), name + "_bias"))
        return [name, name + "_bias"]

    nodes = [
        helper.make_node("Conv", ["picture", *weight("conv1", 16, 1, 3, 3)], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", *weight("conv2", 32, 16, 3, 3)], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", *weight("layer1", 64, 512)], ["g"], transB=1),
        helper.make_node("Relu", ["g"], ["h"]),
        helper.make_node("Gemm", ["h", *weight("layer2", 10, 64)], ["logits"], transB=1),
    ]
    value = helper.make_tensor_value_info
    inputs, outputs = [value("picture", TensorProto.FLOAT, ["N", 1, 8, 8])], [value("logits", TensorProto.FLOAT, ["N", 10])]
    graph = helper.make_graph(nodes, "digits", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    example = Example("train_digits", __doc__, epochs=12)
    folder = example.folder
    pictures, digits = read_digits(folder)
    held_out = numpy.arange(len(digits)) % 5 == 4
    write_arrays(folder / "train", picture=pictures[~held_out], targets=digits[~held_out])
    write_arrays(folder / "test", picture=pictures[held_out], targets=digits[held_out])
    onnx.save(network(), folder / "digits.onnx")

    command = ["train", folder / "digits.onnx", "--data", folder / "train", "--validate", folder / "test"]
    command += ["-o", folder / "trained.onnx", "--metrics", folder / "metrics.jsonl", "--epochs", example.arguments.epochs]
    command += ["--batch", 64, "--shards", 4, "--rate", 0.003, "--schedule", "cosine", "--warm-up", 20]
    example.rewright(*command)


if __name__ == "__main__":
    main()
