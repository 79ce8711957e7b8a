"""Kernels of the cpu runtime beside ONNX Runtime: python kernel_sweep.py SWEEP BUILD_FOLDER [--cases 300] [--first 0] [--small]
[--family NAME] [--keep DIR] [--seconds N]

SWEEP is rewright_kernel_sweep, which draws the cases, compares elements of each step with the operators' definitions, and writes the
models and inputs. Here every element of the results of rewright.InferenceSession, on one to three threads, is compared with ONNX
Runtime's. What may differ follows from how far ONNX Runtime's own results move when the inputs do by 1e-6 of themselves, and from the
longest sum: n terms round by the square root of n times as much as one (see graph/element_sampler.h), and transforms of convolutions
by some more. A case that differs is judged by the interpreter: one whose result it confirms is counted as ONNX Runtime's. Prints a table; a case that
differs is kept, and the program ends with 1, as it does if the sweep itself found something.
"""

import argparse
import collections
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description="Kernels of the cpu runtime beside ONNX Runtime.")
parser.add_argument("sweep")
parser.add_argument("build")
parser.add_argument("--cases", type=int, default=300)
parser.add_argument("--first", type=int, default=0, help="the first one's seed")
parser.add_argument("--small", action="store_true", help="cases of some milliseconds")
parser.add_argument("--family", help="of the cases")
parser.add_argument("--seconds", type=float, default=math.inf, help="begin no cases after so many")
parser.add_argument("--keep", default=".", help="where cases that differ are kept")
options = parser.parse_args()
sys.path.insert(0, os.path.join(options.build, "python"))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

import rewright  # noqa: E402

EPSILON = 2.0**-24
SHAKE = 1e-6
PLAIN, TRANSFORMED = 16, 64  # times what one rounding of each term gives
BATCH = 20
FEW_QUANTA = 0.02  # of the elements may be the next integer: two roundings, each next to the middle for one in a hundred


def sum_length(node, shapes):
    """The number of terms in the sum of an element."""
    inputs, output = [shapes[name] for name in node.input if name], shapes.get(node.output[0], [])
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    kind = node.op_type
    if kind in ("Conv", "QLinearConv", "ConvInteger"):
        return math.prod(inputs[3 if kind == "QLinearConv" else 1][1:])
    if kind == "ConvTranspose":
        return inputs[1][0] // attributes.get("group", 1) * math.prod(inputs[1][2:])
    if kind == "Gemm":
        return inputs[0][0 if attributes.get("transA") else 1]
    if kind in ("MatMul", "MatMulInteger", "QLinearMatMul"):
        return inputs[0][-1]
    if kind == "Einsum":
        terms, result = attributes["equation"].decode().split("->")
        sizes = {letter: size for term, shape in zip(terms.split(","), inputs) for letter, size in zip(term, shape)}
        return math.prod(size for letter, size in sizes.items() if letter not in result)
    if kind == "InstanceNormalization":
        return math.prod(inputs[0][2:])
    if kind in ("LayerNormalization", "RMSNormalization"):
        return math.prod(inputs[0][attributes.get("axis", -1) :])
    if kind == "AveragePool":
        return math.prod(attributes["kernel_shape"])
    longest = max(inputs[0], default=1)
    return max(longest, math.prod(inputs[0]) // max(1, math.prod(output))) if kind in ROWS or kind.startswith("Reduce") else 1


ROWS = {"Softmax", "LogSoftmax", "CumSum", "GlobalAveragePool"}


def allowed_factor(model):
    """The factor for one rounding of each term."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    shapes = {i.name: list(i.dims) for i in graph.initializer}
    shapes |= {
        v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in [*graph.input, *graph.output, *graph.value_info]
    }
    result = 1.0
    for node in graph.node:
        window = any(a.name == "kernel_shape" and max(a.ints, default=1) > 2 for a in node.attribute)
        times = TRANSFORMED if node.op_type == "Conv" and window else PLAIN
        result = max(result, times * math.sqrt(sum_length(node, shapes)))
    return result


WEIGHTS = {"QLinearConv": (3, 5), "QLinearMatMul": (3, 5), "ConvInteger": (1, 3), "MatMulInteger": (1, 3)}


def without_saturation(model):
    """Signed weights beside unsigned elements become unsigned ones with another zero point: without VNNI, ONNX Runtime adds up products
    of these in 16 bits."""
    graph = model.graph
    kinds = {v.name: v.type.tensor_type.elem_type for v in graph.input}
    wanted = {
        node.input[at]
        for node in graph.node
        for at in WEIGHTS.get(node.op_type, ())
        if kinds.get(node.input[0]) == onnx.TensorProto.UINT8
    }
    for weight in graph.initializer:
        if weight.name in wanted and weight.data_type == onnx.TensorProto.INT8:
            array = onnx.numpy_helper.to_array(weight).astype(np.int16) + 128
            weight.CopyFrom(onnx.numpy_helper.from_array(array.astype(np.uint8), weight.name))
    return model


def peer(path, model, family):
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if family == "8 bits":  # for the dequantized ones, where the entry below says the same
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        settings.add_session_config_entry("session.x64quantprecision", "1")
        path = without_saturation(model).SerializeToString()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def difference(expected, actual, bounds):
    """The largest difference over what is allowed, of all outputs; infinite where types, sizes or integers differ."""
    worst = 0.0
    for e, a, bound in zip(expected, actual, bounds):
        if e.dtype != a.dtype or e.shape != a.shape:
            return math.inf
        if e.size == 0:
            continue
        if e.dtype.kind == "f":
            # The maximum of a window that dilations lead past the image: ONNX Runtime's is the lowest float.
            e, a = np.maximum(e, np.finfo(e.dtype).min), np.maximum(a, np.finfo(a.dtype).min)
            same = (e == a) | (np.isnan(e) & np.isnan(a))
            error = np.abs(np.where(same, 0, e.astype(np.float64) - np.where(same, 0, a))).max()
            worst = max(worst, math.inf if np.isnan(error) else float(error / bound))
            continue
        away = np.abs(e.astype(np.int64) - a.astype(np.int64))
        if e.dtype.itemsize > 1:
            worst = max(worst, math.inf if away.any() else 0.0)
        else:
            worst = max(worst, math.inf if away.max() > 1 else np.count_nonzero(away) / (1 + FEW_QUANTA * e.size))
    return worst


def allowed(runtime, inputs, expected, factor, generator):
    """For each output: what a float computation may be off by."""
    moved = [0.0] * len(expected)
    if any(a.dtype.kind == "f" for a in inputs.values()):
        for _ in range(2):
            varied = {
                name: np.asarray(a * (1 + generator.uniform(-SHAKE, SHAKE, a.shape)), a.dtype) if a.dtype.kind == "f" else a
                for name, a in inputs.items()
            }
            for number, (e, v) in enumerate(zip(expected, runtime.run(None, varied))):
                if e.dtype.kind == "f" and e.size > 0:
                    moved[number] = max(moved[number], float(np.nan_to_num(np.abs(v.astype(np.float64) - e)).max()))
    scale = [float(np.abs(e[np.isfinite(e)]).max(initial=0)) if e.dtype.kind == "f" else 0.0 for e in expected]
    return [EPSILON * (factor * m / SHAKE + 4 * s) + 1e-37 for m, s in zip(moved, scale)]


Count = collections.Counter
totals = collections.defaultdict(Count)
worst_of = collections.defaultdict(float)


def compare(folder):
    """None, or what is wrong with the case."""
    seed = int(folder.name)
    family = (folder / "family.txt").read_text()
    count = totals[family]
    count["cases"] += 1
    path = str(folder / "model.onnx")
    if not os.path.exists(path):
        count["no such operator"] += 1
        return None
    inputs = {p.stem: np.load(p) for p in folder.glob("*.npy")}
    model = onnx.load(path)
    factor = allowed_factor(model)
    try:
        runtime = peer(path, model, family)
        expected = runtime.run(None, inputs)
    except Exception:  # it throws several unrelated types
        count["not run"] += 1
        return None
    bounds = allowed(runtime, inputs, expected, factor, np.random.default_rng(seed))
    settings = rewright.SessionOptions()
    settings.intra_op_num_threads = 1 + seed % 3
    actual = rewright.InferenceSession(path, settings).run(None, inputs)
    count["compared"] += 1
    count["elements"] += sum(e.size for e in expected)
    error = difference(expected, actual, bounds)
    if error <= 1:
        worst_of[family] = max(worst_of[family], error)
        return None
    definition = rewright.InferenceSession(path, device="reference").run(None, inputs)
    if difference(definition, actual, bounds) <= 1:
        count["of ONNX Runtime"] += 1
        print(f"seed {seed} ({family}): ONNX Runtime is {error:.3g} times the bound off, and off the definition", flush=True)
        return None
    count["differ"] += 1
    return f"seed {seed} ({family}): {error:.3g} times the bound off ONNX Runtime"


def draw(first, count, folder):
    command = [options.sweep, "--cases", str(count), "--first", str(first), "--models", str(folder)]
    command += ["--small"] if options.small else []
    command += ["--family", options.family] if options.family else []
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def main():
    start, done, wrong = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        firsts = list(range(options.first, options.first + options.cases, BATCH))
        sizes = [min(BATCH, options.first + options.cases - first) for first in firsts]
        drawn = draw(firsts[0], sizes[0], root / "0")
        for batch, count in enumerate(sizes):
            text = drawn.communicate()[0]
            last = batch + 1 == len(sizes) or time.monotonic() - start > options.seconds
            if not last:  # while this batch is compared
                drawn = draw(firsts[batch + 1], sizes[batch + 1], root / str(batch + 1))
            if drawn.returncode not in (0, None) and last or f"{count} cases" not in text or ", 0 of wrong results" not in text:
                wrong += 1
                print(*[line for line in text.splitlines() if not line.startswith("|")], sep="\n", flush=True)
            for folder in sorted((root / str(batch)).iterdir(), key=lambda f: int(f.name)):
                fault = compare(folder)
                if fault:
                    wrong += 1
                    print(fault, flush=True)
                    shutil.copytree(folder, os.path.join(options.keep, f"kernel_sweep_{folder.name}"), dirs_exist_ok=True)
            shutil.rmtree(root / str(batch))
            done += count
            if last:
                break
    print(f"{done} cases, seeds from {options.first}, {wrong} differ, {time.monotonic() - start:.0f} s\n")
    print("| case | cases | compared with ONNX Runtime | elements | not in ONNX | not run by it | its own faults | differ | largest error / bound |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for family, count in sorted(totals.items()):
        names = ("cases", "compared", "elements", "no such operator", "not run", "of ONNX Runtime", "differ")
        print(f"| {family} | " + " | ".join(str(count[n]) for n in names) + f" | {worst_of[family]:.2f} |")
    sys.exit(1 if wrong else 0)


main()
