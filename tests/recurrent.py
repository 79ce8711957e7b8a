"""RNN, GRU and LSTM as ONNX Runtime executes them: python recurrent.py REWRIGHT [--models N] [--seed S]

Random sizes, directions, layouts, lengths of sequences, initial states, peepholes, activations, clipping, coupled gates and either
place of GRU's reset gate, weights that are constants or inputs; on the interpreter and the cpu runtime. ONNX Runtime refuses layout 1,
and is given the same values in layout 0.
"""

import argparse
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
USUAL = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
OTHERS = ["Relu", "Tanh", "Sigmoid", "Softsign", "HardSigmoid"]
RTOL, ATOL = 1e-4, 1e-5
# From layout 0 to layout 1.
BATCH_FIRST = {"X": (1, 0, 2), "h": (1, 0, 2), "c": (1, 0, 2), "Y": (2, 0, 1, 3), "Y_h": (1, 0, 2), "Y_c": (1, 0, 2)}


def model_of(choose, folder):
    """A node's operands by name, which of them are constants, and a function that writes the model in a layout."""
    operator = choose.choice(list(GATES))
    length, batch, inputs, hidden = choose.randint(1, 7), choose.randint(1, 4), choose.randint(1, 9), choose.choice([1, 3, 8, 17])
    direction = choose.choice(["forward", "reverse", "bidirectional"])
    directions = 2 if direction == "bidirectional" else 1
    rows = GATES[operator] * hidden
    floats = numpy.random.default_rng(choose.randrange(1 << 30))

    def values(*sizes):
        return (0.5 * floats.standard_normal(sizes)).astype(numpy.float32)

    operands = {"X": values(length, batch, inputs), "W": values(directions, rows, inputs), "R": values(directions, rows, hidden)}
    if choose.random() < 0.7:
        operands["B"] = values(directions, 2 * rows)
    if choose.random() < 0.5:
        operands["lengths"] = floats.integers(1, length + 1, batch).astype(numpy.int32)
    if choose.random() < 0.5:
        operands["h"] = values(directions, batch, hidden)
    if operator == "LSTM" and choose.random() < 0.5:
        operands["c"] = values(directions, batch, hidden)
    if operator == "LSTM" and choose.random() < 0.5:
        operands["P"] = values(directions, 3 * hidden)
    attributes = {"hidden_size": hidden, "direction": direction}
    if choose.random() < 0.4:
        attributes["activations"] = [choose.choice(OTHERS) for _ in range(directions) for _ in USUAL[operator]]
    if choose.random() < 0.3:
        attributes["clip"] = 0.7
    if operator == "GRU" and choose.random() < 0.5:
        attributes["linear_before_reset"] = 1
    if operator == "LSTM" and choose.random() < 0.3:
        attributes["input_forget"] = 1

    names = ["X", "W", "R", "B", "lengths", "h", "c", "P"] if operator == "LSTM" else ["X", "W", "R", "B", "lengths", "h"]
    results = ["Y", "Y_h", "Y_c"] if operator == "LSTM" else ["Y", "Y_h"]
    constants = {name for name in operands if name != "X" and choose.random() < 0.5}

    def write(layout):
        values = {n: in_layout(n, v, layout) for n, v in operands.items()}
        node = helper.make_node(operator, [n if n in operands else "" for n in names], results, layout=layout, **attributes)
        inputs = [(n, v) for n, v in values.items() if n not in constants]
        graph = helper.make_graph(
            [node],
            "recurrent",
            [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in inputs],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results],
            [numpy_helper.from_array(values[n], n) for n in constants],
        )
        path = pathlib.Path(folder) / f"layout{layout}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
        return path, dict(inputs)

    return write, f"{operator} {attributes}"


def in_layout(name, value, layout):
    return numpy.ascontiguousarray(value.transpose(BATCH_FIRST[name])) if layout == 1 and name in BATCH_FIRST else value


def differences(program, write, layout, folder):
    path, inputs = write(0)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    path, inputs = write(layout)
    given = []
    for name, value in inputs.items():
        numpy.save(f"{folder}/{name}.npy", value)
        given += ["--input", f"{name}={folder}/{name}.npy"]
    for device in ("reference", "cpu"):
        command = [program, "run", str(path), *given, "--output-dir", f"{folder}/results", "--device", device, "--quiet"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            yield f"{device}: {result.stderr.strip()}"
            continue
        for output, value in zip(session.get_outputs(), expected):
            value = in_layout(output.name, value, layout)
            actual = numpy.load(f"{folder}/results/{output.name}.npy")
            if actual.shape != value.shape:
                yield f"{device}: {output.name} has sizes {actual.shape}, not {value.shape}"
            elif not numpy.allclose(actual, value, rtol=RTOL, atol=ATOL):
                yield f"{device}: {output.name} differs by {abs(actual - value).max():.3g}"


def main():
    parser = argparse.ArgumentParser(description="RNN, GRU and LSTM as ONNX Runtime executes them.")
    parser.add_argument("rewright")
    parser.add_argument("--models", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    wrong = 0
    for number in range(arguments.models):
        with tempfile.TemporaryDirectory() as folder:
            choose = random.Random(arguments.seed * 100_000 + number)
            layout = choose.choice([0, 0, 1])
            write, text = model_of(choose, folder)
            for difference in differences(arguments.rewright, write, layout, folder):
                wrong += 1
                print(f"model {number}, {text}, layout {layout}: {difference}")
    print(f"{arguments.models} models, {wrong} differences")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
