"""Graphs inside of If, Loop and Scan are optimized: python bodies.py REWRIGHT [--models N] [--seed S]

Models of known gains first, then random ones: nodes of control flow up to three deep, whose bodies capture weights, inputs and
inner values of any scope around them. What `optimize` writes gives the same results in ONNX Runtime, passes ONNX's check, and
`replay` writes it again, byte by byte.
"""

import argparse
import json
import pathlib
import random
import subprocess
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, parser

HEADER = '<ir_version: 8, opset_import: ["" : 17]>\n'


def results(path, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)


def operators(graph, outside=True):
    """Counts the operators of a graph and of the graphs inside of it."""
    counts = {}
    for node in graph.node:
        if outside:
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
        for attribute in node.attribute:
            if attribute.HasField("g"):
                for name, count in operators(attribute.g).items():
                    counts[name] = counts.get(name, 0) + count
    return counts


class Program:
    def __init__(self, path, folder):
        self.path, self.folder = path, pathlib.Path(folder)

    def optimize(self, model, budget="30s"):
        """The optimized model; how it was optimized; checked in every way but its results."""
        before, after, again = (self.folder / name for name in ("before.onnx", "after.onnx", "again.onnx"))
        certificate, report = self.folder / "certificate.json", self.folder / "report.json"
        onnx.save(model, before)
        subprocess.run(
            [self.path, "optimize", before, "-o", after, "--estimate", "--no-timing", "--budget", budget, "--threads", "1", "--quiet",
             "--check", "1", "--certificate", certificate, "--json", report],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        subprocess.run([self.path, "replay", before, certificate, "-o", again, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        assert again.read_bytes() == after.read_bytes(), "replay writes another model"
        onnx.checker.check_model(str(after), full_check=True)
        return onnx.load(after), json.loads(report.read_text())

    def compare(self, inputs):
        expected, found = (results(self.folder / name, inputs) for name in ("before.onnx", "after.onnx"))
        for a, b in zip(expected, found, strict=True):
            numpy.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-3)


def text(model):
    return parser.parse_model(HEADER + model)


def add_weights(model, **shapes):
    generator = numpy.random.default_rng(0)
    for name, shape in shapes.items():
        value = generator.uniform(0.5, 1.5, shape) / max(1, numpy.prod(shape[1:]))
        model.graph.initializer.append(numpy_helper.from_array(value.astype("float32"), name))
    return model


CONV_NORM_LOOP = """agraph (int64 m, float[1, 4, 8, 8] x) => (float[1, 4, 8, 8] y, float[K, 1, 4, 8, 8] all) {
  yes = Constant <value = bool {1}> ()
  y, all = Loop (m, yes, x) <body = inner (int64 i, bool c, float[1, 4, 8, 8] v) => (bool go, float[1, 4, 8, 8] next, float[1, 4, 8, 8] out) {
    go = Identity(c)
    d = Conv <pads = [1, 1, 1, 1]> (v, w)
    next = BatchNormalization(d, scale, bias, mean, var)
    out = Relu(next)
  }>
}"""


def conv_norm_in_loop(program):
    """A batch norm behind a convolution, all weights captured."""
    model = add_weights(text(CONV_NORM_LOOP), w=(4, 4, 3, 3), scale=(4,), bias=(4,), mean=(4,), var=(4,))
    after, report = program.optimize(model)
    inside = operators(after.graph, outside=False)
    assert inside.get("Conv") == 1 and "BatchNormalization" not in inside, inside
    assert any("norm" in rule["rule"] or "generated" in rule["rule"] for rule in report["search"]["rules_applied"]), report["search"]
    program.compare({"m": numpy.array(3), "x": numpy.ones((1, 4, 8, 8), "float32")})


def if_in_loop(program):
    """A product of captured weights inside of a branch inside of a loop; the branch captures what the loop computes."""
    model = text(
        """agraph (int64 m, float[2, 8] x) => (float[2, 8] y) {
      yes = Constant <value = bool {1}> ()
      y = Loop (m, yes, x) <body = inner (int64 i, bool c, float[2, 8] v) => (bool go, float[2, 8] next) {
        go = Identity(c)
        two = Constant <value = int64 {2}> ()
        rest = Mod(i, two)
        odd = Cast <to = 9> (rest)
        next = If (odd) <
          then_branch = t () => (float[2, 8] p) { low = MatMul(v, a)
            high = MatMul(low, b)
            p = Add(high, v) },
          else_branch = e () => (float[2, 8] q) { n = Neg(v)
            q = Neg(n) }>
      }>
    }"""
    )
    add_weights(model, a=(8, 8), b=(8, 8))
    after, _ = program.optimize(model)
    inside = operators(after.graph, outside=False)
    assert inside.get("MatMul", 0) + inside.get("Gemm", 0) == 1 and "Neg" not in inside, inside
    program.compare({"m": numpy.array(4), "x": numpy.ones((2, 8), "float32")})


def scan_over_steps(program):
    model = text(
        """agraph (float[4] s, float[T, 4] x) => (float[4] last, float[T, 4] all) {
      last, all = Scan <num_scan_inputs = 1, body = b (float[4] v, float[4] e) => (float[4] next, float[4] out) {
        r = Relu(e)
        rr = Relu(r)
        next = Add(v, rr)
        out = Identity(next)
      }> (s, x)
    }"""
    )
    after, _ = program.optimize(model)
    assert operators(after.graph, outside=False).get("Relu") == 1
    program.compare({"s": numpy.zeros(4, "float32"), "x": numpy.random.default_rng(0).normal(size=(5, 4)).astype("float32")})


def untyped_parts(program):
    """The results of an unknown operator have no type: its users stay, and the rest of the body is rewritten."""
    model = text(
        """agraph (bool c, float[4] x) => (float[4] y) {
      y = If (c) <
        then_branch = t () => (float[4] p) { r = Relu(x)
          rr = Relu(r)
          u = vendor.Strange(rr)
          w = Relu(u)
          p = Relu(w) },
        else_branch = e () => (float[4] q) { q = Relu(x) }>
    }"""
    )
    model.opset_import.append(helper.make_opsetid("vendor", 1))
    after, _ = program.optimize(model)
    inside = operators(after.graph, outside=False)
    assert inside == {"Relu": 4, "Strange": 1}, inside


def names_inside(program):
    """A body's inputs, outputs and kept nodes keep their names; new values get names that nobody has."""
    model = add_weights(text(CONV_NORM_LOOP), w=(4, 4, 3, 3), scale=(4,), bias=(4,), mean=(4,), var=(4,))
    model.graph.node[1].attribute[0].g.node[3].name = "kept"
    after, _ = program.optimize(model)
    body = next(node for node in after.graph.node if node.op_type == "Loop").attribute[0].g
    assert [value.name for value in body.input] == ["i", "c", "v"]
    assert [value.name for value in body.output] == ["go", "next", "out"]
    assert any(node.name == "kept" for node in body.node)


# ---- Random models


class Scopes:
    """Draws graphs on tensors float[2, 3]; `visible` are the values that may be read."""

    def __init__(self, seed):
        self.random, self.count, self.weights = random.Random(seed), 0, []

    def fresh(self):
        self.count += 1
        return f"v{self.count}"

    def weight(self, shape):
        name = f"w{len(self.weights)}"
        values = numpy.array([self.random.choice([-1, -0.5, 0.25, 0.5, 1]) for _ in range(int(numpy.prod(shape)))], "float32")
        self.weights.append(numpy_helper.from_array(values.reshape(shape), name))
        return name

    def shared_weight(self, shape):
        old = [weight.name for weight in self.weights if list(weight.dims) == list(shape)]
        return self.random.choice(old) if old and self.random.random() < 0.4 else self.weight(shape)

    def node(self, visible, depth):
        x, y, out = self.random.choice(visible[-4:]), self.random.choice(visible), self.fresh()
        kind = self.random.randrange(10 if depth < 3 else 7)
        if kind == 0:
            return [helper.make_node(self.random.choice(["Relu", "Neg", "Tanh", "Identity", "Sigmoid"]), [x], [out])], out
        if kind == 1:
            return [helper.make_node(self.random.choice(["Add", "Mul", "Sub", "Max"]), [x, y], [out])], out
        if kind == 2:
            return [helper.make_node("MatMul", [x, self.shared_weight((3, 3))], [out])], out
        if kind == 3:
            shape = self.random.choice([(3,), (2, 3), (1, 1), (2, 1)])
            return [helper.make_node(self.random.choice(["Add", "Mul"]), [x, self.shared_weight(shape)], [out])], out
        if kind == 4:
            inner = self.fresh()
            return [helper.make_node("Transpose", [x], [inner], perm=[1, 0]), helper.make_node("Transpose", [inner], [out], perm=[1, 0])], out
        if kind == 5:
            inner = self.fresh()
            return [helper.make_node("MatMul", [x, self.shared_weight((3, 3))], [inner]), helper.make_node("MatMul", [inner, self.shared_weight((3, 3))], [out])], out
        if kind == 6:
            inner = self.fresh()
            return [helper.make_node("Neg", [x], [inner]), helper.make_node("Neg", [inner], [out])], out
        return self.control(kind, visible, x, out, depth)

    def body(self, visible, depth, inputs, state):
        nodes, current = [], state
        mine = list(visible) + ([state] if state else [])
        for _ in range(self.random.randint(2, 5)):
            made, current = self.node(mine, depth + 1)
            nodes += made
            mine.append(current)
        return nodes, mine

    def typed(self, name, shape=(2, 3)):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    def control(self, kind, visible, x, out, depth):
        if kind == 7:
            branches = {}
            for attribute in ("then_branch", "else_branch"):
                nodes, mine = self.body(visible, depth, [], None)
                branches[attribute] = helper.make_graph(nodes, attribute, [], [self.typed(mine[-1])])
            total, flag, zero = self.fresh(), self.fresh(), self.fresh()
            nodes = [
                helper.make_node("ReduceSum", [x], [total], keepdims=0),
                helper.make_node("Constant", [], [zero], value_float=0.0),
                helper.make_node("Less", [total, zero], [flag]),
                helper.make_node("If", [flag], [out], **branches),
            ]
            return nodes, out
        state = self.fresh()
        if kind == 8:
            step, condition, go, stacked = (self.fresh() for _ in range(4))
            nodes, mine = self.body(visible, depth, [], state)
            nodes.append(helper.make_node("Identity", [condition], [go]))
            inputs = [helper.make_tensor_value_info(step, TensorProto.INT64, []), helper.make_tensor_value_info(condition, TensorProto.BOOL, []), self.typed(state, None)]
            limited = self.fresh()
            nodes.append(helper.make_node("Tanh", [mine[-1]], [limited]))
            outputs = [helper.make_tensor_value_info(go, TensorProto.BOOL, []), self.typed(limited, None), self.typed(mine[-2], None)]
            count, all_of_it = self.fresh(), self.fresh()
            loop = helper.make_graph(nodes, "loop", inputs, outputs)
            return [
                helper.make_node("Constant", [], [count], value_int=3),
                helper.make_node("Loop", [count, "", x], [all_of_it, stacked], body=loop),
                helper.make_node("Add", [all_of_it, x], [out]),
            ], out
        entry, stacked, last = (self.fresh() for _ in range(3))
        nodes, mine = self.body(visible, depth, [], state)
        limited, given = self.fresh(), self.fresh()
        nodes += [helper.make_node("Add", [mine[-1], entry], [limited]), helper.make_node("Tanh", [limited], [given])]
        graph = helper.make_graph(nodes, "scan", [self.typed(state), self.typed(entry, (3,))], [self.typed(given), self.typed(limited)])
        summed = self.fresh()
        return [
            helper.make_node("Scan", [x, x], [last, stacked], num_scan_inputs=1, body=graph),
            helper.make_node("ReduceMax", [stacked], [summed], axes=[0], keepdims=0),
            helper.make_node("Add", [last, summed], [out]),
        ], out

    def model(self):
        nodes, visible = [], ["x", "z"]
        for _ in range(self.random.randint(2, 4)):
            made, current = self.node(visible, 0)
            nodes += made
            visible.append(current)
        made, current = self.control(self.random.choice([7, 8, 9]), visible, visible[-1], self.fresh(), 0)
        graph = helper.make_graph(nodes + made, "random", [self.typed("x"), self.typed("z")], [self.typed(current)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("program")
    arguments.add_argument("--models", type=int, default=12)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = Program(options.program, folder)
        for case in (conv_norm_in_loop, if_in_loop, scan_over_steps, untyped_parts, names_inside):
            case(program)
            print(f"{case.__name__}: ok", flush=True)
        fewer = 0
        for seed in range(options.seed, options.seed + options.models):
            model = Scopes(seed).model()
            onnx.checker.check_model(model, full_check=True)
            after, _ = program.optimize(model, budget="6s")
            generator = numpy.random.default_rng(seed)
            for _ in range(2):
                program.compare({name: generator.normal(size=(2, 3)).astype("float32") for name in ("x", "z")})
            before, now = (sum(operators(m.graph, outside=False).values()) for m in (model, after))
            fewer += now < before
            print(f"seed {seed}: {before} -> {now} nodes inside", flush=True)
        assert fewer * 2 > options.models, f"only {fewer} of {options.models} models have fewer nodes inside"


if __name__ == "__main__":
    main()
