"""ONNX Runtime's own operators (domain com.microsoft) beside ONNX Runtime: python contrib_operators.py REWRIGHT BUILD_FOLDER
[--cases 6] [--first 0] [--only NAME]

Each operator is tried on random attributes, sizes and sets of optional inputs. No node may be opaque, results must be ONNX Runtime's,
and a graph that nothing changed must be written with the node as it was. In ONNX's own operators (`optimize --dialect standard`) ONNX's
checker must accept the model without another domain, and ONNX Runtime's results must be the same. Then attributes, inputs and sizes are
damaged: the model is read or refused with one line.
"""

import argparse
import os
import re
import sys
import tempfile

parser = argparse.ArgumentParser(description="Operators of com.microsoft beside ONNX Runtime.")
parser.add_argument("program")
parser.add_argument("build")
parser.add_argument("--cases", type=int, default=6, help="of each operator")
parser.add_argument("--first", type=int, default=0, help="the first one's seed")
parser.add_argument("--only", help="one operator")
options = parser.parse_args()
sys.path.insert(0, os.path.join(options.build, "python"))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from contrib_case import DOMAIN, Case  # noqa: E402
from contrib_cases import OPERATORS  # noqa: E402
from contrib_gate_cases import linear_attention  # noqa: E402
from contrib_selection_cases import OPERATORS as SELECTION  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from onnxruntime.capi import onnxruntime_pybind11_state  # noqa: E402
from program import declare_outputs  # noqa: E402

import rewright  # noqa: E402

onnxruntime.set_default_logger_severity(4)


def differs(name, ours, theirs, tolerance):
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{name} is {ours.dtype}{list(ours.shape)}, must be {theirs.dtype}{list(theirs.shape)}"
    if tolerance == "quantum":
        distance = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
        return f"{name} is off by {distance.max()}" if distance.size and distance.max() > 1 else None
    if ours.dtype != np.float32:
        return None if np.array_equal(ours, theirs) else f"{name} differs"
    limit = tolerance * max(1.0, np.abs(theirs[np.isfinite(theirs)]).max(initial=0))
    with np.errstate(invalid="ignore"):
        worst = np.where((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)), 0, np.abs(ours - theirs)).max(initial=0)
    return None if worst <= limit else f"{name} is off by {worst:.3g}"


class Refused(Exception):
    """ONNX Runtime refuses the node."""


def fault(case):
    """What is wrong with a case; None: nothing. Raises Refused."""
    model = case.model()
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.intra_op_num_threads = 1  # with more, DynamicQuantizeLSTM takes the range of a part of the batch
    try:
        peer = onnxruntime.InferenceSession(case.peer_model().SerializeToString(), settings, providers=["CPUExecutionProvider"])
        expected = peer.run(None, case.feeds())
    except Exception as error:
        raise Refused(str(error)) from error
    declare_outputs(model, expected)
    bytes_ = model.SerializeToString()
    graph = rewright.graph.read(bytes_)
    opaque = [node.opaque_reason for node in graph.nodes if node.is_opaque]
    if opaque and case.is_arithmetic:  # procedures have no graph
        return f"the node is opaque: {opaque[0]}"
    written = graph.to_proto()
    if [node.SerializeToString() for node in written.graph.node] != [node.SerializeToString() for node in model.graph.node]:
        return "the node is written in another form"
    results = rewright.InferenceSession(bytes_).run(None, case.feeds())
    for info, ours, theirs in zip(model.graph.output, results, expected):
        if reason := differs(info.name, ours, theirs, case.tolerance):
            return reason
    return standard_fault(bytes_, case, expected) if case.is_arithmetic else None


def standard_fault(given, case, expected):
    """What is wrong with the node in ONNX's own operators; None: nothing."""
    standard = rewright.optimize(given, dialect="standard", device="cpu", estimate=True, check=0, budget=5).model
    model = onnx.load_from_string(standard)
    if domains := {opset.domain for opset in model.opset_import} - {"", "ai.onnx.ml"}:
        return f"the standard form imports {domains}"
    onnx.checker.check_model(model, full_check=True)
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        results = onnxruntime.InferenceSession(standard, settings, providers=["CPUExecutionProvider"]).run(None, case.feeds())
    except Exception as error:
        return f"ONNX Runtime refuses the standard form: {error}"
    for info, ours, theirs in zip(model.graph.output, results, expected):
        if reason := differs(info.name, ours, theirs, case.exact_tolerance or case.tolerance):
            return f"in the standard form {reason}"
    return None


# Forms of Resize that ONNX Runtime computes on channels in blocks, as Upsample.
RESIZES = [{"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
           *({"mode": "linear", "coordinate_transformation_mode": c} for c in ("asymmetric", "half_pixel", "align_corners"))]


def blocked_fault(seed, folder):
    """What is wrong with convolutions on channels in blocks, which ONNX Runtime writes at its level "all"; None: nothing."""
    random = np.random.default_rng(seed)
    draw = lambda *shape: random.normal(0, 0.3, shape).astype(np.float32)  # noqa: E731
    first, second = int(random.integers(1, 4)) * 16, int(random.integers(1, 40))
    weights = {"w": draw(first, 3, 3, 3), "b": draw(first), "d": draw(first, 1, 3, 3), "e": draw(second, first, 1, 1), "f": draw(second)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4, strides=[2, 2]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("Conv", ["r", "d"], ["s"], group=first, pads=[1] * 4), helper.make_node("Add", ["s", "r"], ["a"]),
             helper.make_node("Concat", ["a", "r"], ["j"], axis=1), helper.make_node("Split", ["j"], ["k", "l"], axis=1),
             helper.make_node("MaxPool", ["k"], ["m"], kernel_shape=[3, 3], pads=[1] * 4),
             helper.make_node("AveragePool", ["m"], ["n"], kernel_shape=[2, 2]),
             helper.make_node("Resize", ["n", "", "scales"], ["o"], **RESIZES[seed % len(RESIZES)]), helper.make_node("Conv", ["o", "e", "f"], ["y"])]
    weights["scales"] = np.array([1, 1, *random.integers(1, 4, 2)], np.float32)
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3, 12, 12])
    graph = helper.make_graph(nodes, "graph", [given], [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(v, k) for k, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    settings = onnxruntime.SessionOptions()
    settings.optimized_model_filepath = os.path.join(folder, "blocked.onnx")
    settings.log_severity_level = 4
    feeds = {"x": draw(2, 3, 12, 12)}
    expected = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    with open(settings.optimized_model_filepath, "rb") as file:
        written = file.read()
    if not any(node.op_type == "Upsample" for node in onnx.load_from_string(written).graph.node):
        return "ONNX Runtime writes no Upsample: nothing tests it"
    opaque = [node.opaque_reason for node in rewright.graph.read(written).nodes if node.is_opaque]
    if opaque:
        return f"a node is opaque: {opaque[0]}"
    return differs("y", rewright.InferenceSession(written).run(None, feeds)[0], expected, 2e-5)


def damaged(case):
    """The case's model with one thing changed."""
    model, random = case.model(), case.random
    node = model.graph.node[0]
    how = random.integers(5)
    if how == 0 and node.attribute:
        attribute = node.attribute[random.integers(len(node.attribute))]
        if attribute.type == onnx.AttributeProto.INT:
            attribute.i = int(random.choice([0, -1, 3, 7, 1 << 20, (1 << 62) + 1, -(1 << 63)]))
        elif attribute.type == onnx.AttributeProto.FLOAT:
            attribute.f = float(random.choice([0, -1, np.inf, np.nan]))
        elif attribute.type == onnx.AttributeProto.STRING:
            attribute.s = b"nothing"
        else:
            attribute.ints[:] = [int(i) for i in random.integers(-3, 9, random.integers(0, 5))]
    elif how == 1 and node.attribute:
        del node.attribute[random.integers(len(node.attribute))]
    elif how == 2:
        node.input[random.integers(len(node.input))] = ""
    elif how == 3 and model.graph.initializer:
        weight = model.graph.initializer[random.integers(len(model.graph.initializer))]
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight).reshape(-1)[: random.integers(0, 5)], weight.name))
    else:
        shape = model.graph.input[random.integers(len(model.graph.input))].type.tensor_type.shape
        if random.random() < 0.3 and shape.dim:
            del shape.dim[-1]
        elif shape.dim:
            shape.dim[random.integers(len(shape.dim))].dim_value = int(random.choice([0, 1, 5, 17, 1 << 40]))
    return model.SerializeToString()


def long_recurrence_fault(seed):
    """What is wrong with LinearAttention where its number of positions is large, or not known; None: nothing."""
    case = Case("LinearAttention", seed, DOMAIN)
    linear_attention(case, case.pick(1, 3, 33, 70))
    model = case.model()
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = peer.run(None, case.feeds())
    declare_outputs(model, expected)
    if seed % 2:
        for value in (*model.graph.input, *model.graph.output):
            if len(value.type.tensor_type.shape.dim) == 3:
                value.type.tensor_type.shape.dim[1].dim_param = "length"
    results = rewright.InferenceSession(model.SerializeToString()).run(None, case.feeds())
    reasons = [differs(info.name, ours, theirs, case.tolerance) for info, ours, theirs in zip(model.graph.output, results, expected)]
    return next((reason for reason in reasons if reason), None)


def undocumented():
    """Operators of ONNX Runtime's domain that docs/operators.md neither lists as read nor names with a reason."""
    with open(os.path.join(os.path.dirname(__file__), "..", "docs", "operators.md"), encoding="utf-8") as file:
        section = file.read().split("## ONNX Runtime's own operators\n")[1].split("\n## ")[0]
    words = {word for line in section.splitlines() if line.startswith("|") for word in re.findall(r"\w+", line)}
    return sorted({s.name for s in onnxruntime_pybind11_state.get_all_operator_schema() if s.domain == DOMAIN} - words)


def damage_fault(case):
    try:
        rewright.graph.read(damaged(case))
    except rewright.Error as error:
        return None if len(str(error).splitlines()) == 1 else f"an error of several lines: {error}"
    return None


def main():
    bad, refused, tried = [f"docs/operators.md does not name {name}" for name in undocumented()], {}, 0
    operators = OPERATORS | SELECTION
    for name, draw in operators.items():
        if options.only not in (None, name):
            continue
        for seed in range(options.first, options.first + options.cases):
            case = Case(name, seed, "" if name == "SimplifiedLayerNormalization" else DOMAIN)
            draw(case)
            tried += 1
            try:
                reason = fault(case)
            except Refused as error:
                refused.setdefault(name, []).append((seed, str(error).splitlines()[0][:200]))
                continue
            except Exception as error:  # ours: the node must be known
                reason = f"{type(error).__name__}: {error}"
            if reason:
                bad.append(f"{name}, case {seed}: {reason} {case.attributes}")
            for _ in range(8):
                if reason := damage_fault(case):
                    bad.append(f"{name}, case {seed}, damaged: {reason}")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.cases if options.only in (None, "blocked") else 0):
            if reason := blocked_fault(seed, folder):
                bad.append(f"channels in blocks, case {seed}: {reason}")
    for seed in range(options.first, options.first + options.cases if options.only in (None, "LinearAttention") else 0):
        if reason := long_recurrence_fault(seed):
            bad.append(f"LinearAttention of many positions, case {seed}: {reason}")
    print(f"{tried} cases of {len(operators)} operators, {sum(map(len, refused.values()))} refused by ONNX Runtime")
    for name, reasons in refused.items():
        print(f"  {name}: {len(reasons)}, e.g. case {reasons[0][0]}: {reasons[0][1]}")
        if len(reasons) > 0.7 * options.cases:
            bad.append(f"{name}: ONNX Runtime refuses nearly all cases: {reasons[0][1]}")
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
