"""Optimizes ONNX's own test cases: python optimized_cases.py REWRIGHT CASES [--every N] [--jobs N] [--budget 2s] [--only TEXT]

CASES is a folder that onnx_cases.py wrote. `REWRIGHT optimize` must end with 0 on each model; what it writes must pass ONNX's full
check wherever the model does, have the same inputs, outputs and opsets, and give what the model gives in ONNX Runtime, wherever that
runs the model itself, on each of the case's data sets; where that is not what the case expects, what the case expects is good, too.
Prints what differs, and the counts; exits 1 if something does.
"""

import argparse
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

USUAL_RTOL, USUAL_ATOL = 1e-3, 1e-7
# Cases whose results are not determined by the inputs.
RANDOM = ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def session(path):
    """None where ONNX Runtime does not run the model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception:  # the runtime throws several unrelated types
        return None


def value_of(path, declared):
    with open(path, "rb") as file:
        data = file.read()
    kind = declared.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def values_of(folder, prefix, declared):
    """By name; some inputs may be left out."""
    files = [(v, os.path.join(folder, f"{prefix}_{index}.pb")) for index, v in enumerate(declared)]
    return {v.name: value_of(file, v) for v, file in files if os.path.exists(file)}


def run(model, inputs):
    try:
        return model.run(None, inputs)
    except Exception:  # as above
        return None


def differs(expected, actual, rtol, atol):
    """The difference, or an empty string."""
    if isinstance(expected, (list, tuple)) or isinstance(actual, (list, tuple)):
        if not isinstance(actual, (list, tuple)) or not isinstance(expected, (list, tuple)) or len(expected) != len(actual):
            return "sequences of different lengths"
        return next(filter(None, (differs(e, a, rtol, atol) for e, a in zip(expected, actual))), "")
    if expected is None or actual is None:
        return "" if expected is actual else "one is missing"
    expected, actual = np.asarray(expected), np.asarray(actual)
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return f"{expected.dtype}{list(expected.shape)} became {actual.dtype}{list(actual.shape)}"
    if expected.dtype.kind in "fc":
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        same = np.allclose(actual.astype(wide), expected.astype(wide), rtol=rtol, atol=atol, equal_nan=True)
        return "" if same else f"differs by up to {np.nanmax(np.abs(actual.astype(wide) - expected.astype(wide))):.3g}"
    return "" if np.array_equal(actual, expected) else "differs"


def interface(model):
    values = [[(v.name, v.type.SerializeToString(deterministic=True)) for v in side] for side in (model.graph.input, model.graph.output)]
    return values, sorted((o.domain, o.version) for o in model.opset_import), model.ir_version


def passes_check(model):
    try:
        onnx.checker.check_model(model, full_check=True)
        return True, ""
    except Exception as error:  # as above
        return False, str(error).strip().splitlines()[0]


def try_case(program, budget, case):
    """(kind, message): kind is same, not run (by ONNX Runtime), or wrong."""
    path = os.path.join(case, "model.onnx")
    with tempfile.TemporaryDirectory() as folder:
        optimized_path = os.path.join(folder, "optimized.onnx")
        command = [program, "optimize", path, "-o", optimized_path, "--budget", budget, "--threads", "1", "--quiet"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            return "wrong", f"exit {result.returncode}: {' '.join(result.stderr.split())}"
        model, optimized = onnx.load(path), onnx.load(optimized_path)
        if interface(model) != interface(optimized):
            return "wrong", "other inputs, outputs, opsets or IR version"
        if passes_check(model)[0]:
            passes, message = passes_check(optimized)
            if not passes:
                return "wrong", f"ONNX's check: {message}"
        if any(node.op_type in RANDOM for node in model.graph.node):
            return "not run", "random"
        before = session(path)
        if before is None:
            return "not run", "by ONNX Runtime"
        after = session(optimized_path)
        if after is None:
            return "wrong", "ONNX Runtime runs the model, and not the optimized one"
        tolerance = {"rtol": USUAL_RTOL, "atol": USUAL_ATOL}
        if os.path.exists(os.path.join(case, "tolerance.json")):
            with open(os.path.join(case, "tolerance.json"), encoding="utf-8") as file:
                tolerance = json.load(file)
        ran = False
        for data in sorted(glob.glob(os.path.join(case, "test_data_set_*"))):
            try:
                values = values_of(data, "input", model.graph.input)
                right = list(values_of(data, "output", model.graph.output).values())
            except TypeError as error:  # a type that NumPy has not
                return "not run", str(error)
            inputs = {v.name: values[v.name] for v in before.get_inputs() if v.name in values}
            expected = run(before, inputs)
            if expected is None:
                continue
            ran = True
            actual = run(after, inputs)
            if actual is None:
                return "wrong", "ONNX Runtime runs the model, and fails on the optimized one"
            message = differs(expected, actual, **tolerance)
            if message and differs(right, actual, **tolerance):
                return "wrong", message
        return ("same", "") if ran else ("not run", "by ONNX Runtime")


def main():
    parser = argparse.ArgumentParser(description="Optimizes ONNX's own test cases.")
    parser.add_argument("rewright")
    parser.add_argument("cases")
    parser.add_argument("--every", type=int, default=1, help="try every N-th case")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--budget", default="2s")
    parser.add_argument("--only", default="", help="cases whose names hold this")
    arguments = parser.parse_args()
    cases = sorted(os.path.dirname(path) for path in glob.glob(os.path.join(arguments.cases, "*", "model.onnx")))
    cases = [case for case in cases if arguments.only in os.path.basename(case)][:: arguments.every]
    if not cases:
        sys.exit(f"no cases in {arguments.cases}")
    counts = {"same": 0, "not run": 0, "wrong": 0}
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        tries = pool.map(try_case, [arguments.rewright] * len(cases), [arguments.budget] * len(cases), cases)
        for case, (kind, message) in zip(cases, tries):
            counts[kind] += 1
            if kind == "wrong":
                print(f"{os.path.basename(case)}: {message}", flush=True)
    print(f"{len(cases)} cases: {counts['same']} the same in ONNX Runtime, {counts['not run']} that it does not run, {counts['wrong']} wrong")
    sys.exit(1 if counts["wrong"] or not counts["same"] else 0)


if __name__ == "__main__":
    main()
