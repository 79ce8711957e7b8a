"""Whole models judged by ONNX Runtime: python compare_ort.py REWRIGHT MODEL.onnx ... [--device cpu] [--shape NAME=1x3x8x8]

Runs each model on random inputs with `REWRIGHT run` and in ONNX Runtime without its graph optimizations, and compares the outputs.
A difference counts relative to the largest element of its output. Prints a line a model; exits 1 if one differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

DTYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


def random_inputs(session, shapes, seed):
    generator = np.random.default_rng(seed)
    inputs = {}
    for value in session.get_inputs():
        shape = shapes.get(value.name) or [size if isinstance(size, int) and size >= 0 else 1 for size in value.shape]
        dtype = DTYPES[value.type]
        floating = np.issubdtype(dtype, np.floating)
        values = generator.standard_normal(shape) if floating else generator.integers(0, 2, shape)
        inputs[value.name] = values.astype(dtype)
    return inputs


def run_rewright(program, model, inputs, arguments, folder):
    """The outputs by name; RuntimeError with the program's message if it fails."""
    report = os.path.join(folder, "report.json")
    command = [program, "run", model, "--output-dir", folder, "--device", arguments.device, "--json", report, "--quiet"]
    for index, (name, value) in enumerate(inputs.items()):
        file = os.path.join(folder, f"input_{index}.npy")
        np.save(file, value)
        command += ["--input", f"{name}={file}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"exit {result.returncode}: {' '.join(result.stderr.split())}")
    with open(report, encoding="utf-8") as file:
        return {output["name"]: np.load(output["file"]) for output in json.load(file)["outputs"]}


def difference(expected, actual):
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return float("inf")
    if expected.size == 0:
        return 0.0
    if not np.issubdtype(expected.dtype, np.floating):
        return 0.0 if (expected == actual).all() else float("inf")
    expected, actual = expected.astype(np.float64), actual.astype(np.float64)
    same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    if same.all():
        return 0.0
    return float(np.abs(np.where(same, 0, expected - actual)).max() / max(np.abs(np.where(same, 0, expected)).max(), 1e-30))


def compare(model, shapes, arguments):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    inputs = random_inputs(session, shapes, arguments.seed)
    names = [value.name for value in session.get_outputs()]
    with tempfile.TemporaryDirectory() as folder:
        actual = run_rewright(arguments.rewright, model, inputs, arguments, folder)
    expected = dict(zip(names, session.run(names, inputs)))
    return max(difference(expected[name], actual[name]) for name in names)


def main():
    parser = argparse.ArgumentParser(description="Compares models in Rewright's runtime with ONNX Runtime.")
    parser.add_argument("rewright", metavar="REWRIGHT", help="the program")
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x8x8")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    shapes = {name: [int(size) for size in sizes.split("x")] for name, _, sizes in (text.rpartition("=") for text in arguments.shape)}
    wrong = 0
    for model in arguments.models:
        try:
            worst = compare(model, shapes, arguments)
            good = worst <= arguments.tolerance
            print(f"{'same' if good else 'DIFFERENT'}  {os.path.basename(model)}  largest relative error {worst:.1e}", flush=True)
        except RuntimeError as error:
            good = False
            print(f"FAILED  {os.path.basename(model)}  {error}", flush=True)
        wrong += not good
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
