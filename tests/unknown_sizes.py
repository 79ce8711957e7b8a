"""Random graphs whose sizes only the elements tell: python unknown_sizes.py REWRIGHT BUILD_FOLDER [--graphs 200] [--optimized 20]
[--seed 1] [--runs 2] [--keep DIR] [--only N]

A graph has two to six nodes that give as many elements as their inputs' values say (NonZero, Unique, Compress, TopK, Slice, Split,
Where in a loop, NonMaxSuppression, trees' leaves, sequences), some of them inside of If, Loop, Scan and functions, and operators that
do with one size what belongs to another: Slice, TopK, Expand, Reshape, Pad, ScatterND, Range, Gather. Names of sizes that exporters
write (unk__0), or that are wrong, stand at inner values and outputs. The interpreter, a session on the cpu, and what `optimize` makes
of the graph for the cpu and for ONNX Runtime must give what ONNX Runtime gives, on inputs of several sizes. What ONNX Runtime does
not execute is drawn again. Prints what differs, keeps it, and exits 1 if something does.
"""

import argparse
import os
import random
import sys
import time

arguments = argparse.ArgumentParser()
arguments.add_argument("rewright")
arguments.add_argument("build")
arguments.add_argument("--graphs", type=int, default=200)
arguments.add_argument("--optimized", type=int, default=20, help="how many of them are optimized as well, for each device")
arguments.add_argument("--seed", type=int, default=1)
arguments.add_argument("--runs", type=int, default=2, help="inputs for each graph")
arguments.add_argument("--keep", default=".", help="where graphs that differ are written")
arguments.add_argument("--only", type=int, help="the number of the one graph to try")
options = arguments.parse_args()
sys.path.insert(0, os.path.join(options.build, "python"))

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import rewright

OPSET = 18
DOMAIN = "local"
LONGEST = 24  # elements of a value: what grows is cut
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
WRONG_NAMES = ["unk__0", "unk__1", "N", "K", "?", "v1_0", "v3_0", "M"]  # of sizes


def array(values, dtype=numpy.int64):
    return numpy.array(values, dtype)


class Counter:
    def __init__(self):
        self.value = 0

    def __call__(self):
        self.value += 1
        return f"v{self.value}"


class Scope:
    """Nodes of one graph, of floats with one axis mostly. All steps are defined for all sizes, 0 as well, and hardly one rounds: how
    many elements are equal, or above a limit, must not depend on it."""

    def __init__(self, rng, new_name, values, functions, depth=0):
        self.rng, self.new_name, self.functions, self.depth = rng, new_name, functions, depth
        self.values = list(values)  # names that may be read
        self.nodes = []
        self.unknown = 0  # nodes whose sizes are not known

    # ---- Parts of steps

    def node(self, kind, inputs, outputs=1, domain="", **attributes):
        names = [self.new_name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value):
        return self.node("Constant", [], value=numpy_helper.from_array(value))

    def ints(self, *values):
        return self.constant(array(values))

    def length(self, value):
        return self.node("Shape", [value])

    def least(self, a, b):
        return self.node("Min", [a, b])

    def some(self):
        return self.rng.choice(self.values)

    def cut(self, value, length=LONGEST):
        end = self.ints(length) if isinstance(length, int) else length
        return self.node("Slice", [value, self.ints(0), end, self.ints(0)])

    def truths(self, value):
        limit = self.constant(array(self.rng.choice([-1.0, 0.0, 0.5, 1.0, 9.0]), numpy.float32))
        return self.node(self.rng.choice(["Greater", "Less"]), [value, limit])

    def count(self, value):
        """The number of a value's elements that fulfil a condition, as one axis."""
        truths = self.node("Cast", [self.truths(value)], to=INT64)
        return self.node("ReduceSum", [truths, self.ints(0)], keepdims=1)

    # ---- Nodes of unknown sizes

    def compress(self, a):
        return self.node("Compress", [a, self.truths(a)], axis=0)

    def nonzero(self, a):
        places = self.node("NonZero", [self.truths(a)])
        return self.node("GatherND", [a, self.node("Transpose", [places], perm=[1, 0])])

    def places(self, a):
        places = self.node("NonZero", [a])
        return self.node("Cast", [self.node("Squeeze", [places, self.ints(0)])], to=FLOAT)

    def unique(self, a):
        more = self.node("Concat", [a, self.constant(array([0.5], numpy.float32))], axis=0)
        outputs = self.node("Unique", [more], 4, sorted=1)
        if self.rng.random() < 0.5:
            return outputs[0]
        return self.node("Cast", [outputs[self.rng.choice([1, 2, 3])]], to=FLOAT)

    def topk(self, a):
        values, places = self.node("TopK", [a, self.count(a)], 2)
        if self.rng.random() < 0.5:
            return values
        return self.node("Add", [values, self.node("Cast", [places], to=FLOAT)])

    def slice(self, a):
        return self.node("Slice", [a, self.ints(0), self.count(self.some()), self.ints(0)])

    def split(self, a):
        first = self.least(self.count(self.some()), self.length(a))
        both = self.node("Concat", [first, self.node("Sub", [self.length(a), first])], axis=0)
        parts = self.node("Split", [a, both], 2, axis=0)
        return self.rng.choice(parts)

    def suppression(self, a):
        """Intervals as boxes, of which those that overlap go."""
        column = self.node("Unsqueeze", [a, self.ints(1)])
        one = self.node("Add", [column, self.constant(array([0.7], numpy.float32))])
        low, high = self.constant(array([[0.0]], numpy.float32)), self.constant(array([[1.0]], numpy.float32))
        size = self.node("Concat", [self.length(a), self.ints(1)], axis=0)
        boxes = self.node("Concat", [column, self.node("Expand", [low, size]), one, self.node("Expand", [high, size])], axis=1)
        scores = self.node("Unsqueeze", [a, self.ints(0, 1)])
        chosen = self.node("NonMaxSuppression", [self.node("Unsqueeze", [boxes, self.ints(0)]), scores, self.ints(20),
                                                 self.constant(array([0.5], numpy.float32))])  # fmt: skip
        return self.node("Gather", [a, self.node("Squeeze", [self.node("Gather", [chosen, self.ints(2)], axis=1), self.ints(1)])])

    def trees(self, a):
        column = self.node("Unsqueeze", [self.compress(a), self.ints(1)])
        score = self.node(
            "TreeEnsembleRegressor", [column], domain="ai.onnx.ml", n_targets=1, nodes_falsenodeids=[2, 0, 0], nodes_featureids=[0, 0, 0],
            nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_nodeids=[0, 1, 2], nodes_treeids=[0, 0, 0], nodes_truenodeids=[1, 0, 0],
            nodes_values=[0.25, 0.0, 0.0], target_ids=[0, 0], target_nodeids=[1, 2], target_treeids=[0, 0], target_weights=[1.5, -2.0],
        )  # fmt: skip
        return self.node("Reshape", [score, self.ints(-1)])

    def sequence(self, a):
        if self.rng.random() < 0.5:
            parts = self.node("SequenceConstruct", [a, self.compress(self.some()), self.nonzero(a)])
            at = self.least(self.count(a), self.ints(2))
        else:
            more = self.node("Concat", [a, self.constant(array([1.0, 2.0], numpy.float32))], axis=0)
            parts = self.node("SplitToSequence", [more, self.constant(array(2))], axis=0)
            at = self.ints(0)
        if self.rng.random() < 0.3:
            return self.node("ConcatFromSequence", [parts], axis=0)
        return self.node("SequenceAt", [parts, self.node("Squeeze", [at])])

    def inner(self, values, name, steps=None):
        """Steps in a graph inside of this one, and the value they end with."""
        scope = Scope(self.rng, self.new_name, values, self.functions, self.depth + 1)
        for _ in range(steps or self.rng.randint(1, 2)):
            scope.step(0.7)
        self.unknown += scope.unknown
        return scope, scope.values[-1]

    def declared(self, name, rank=1):
        """An output of a body, as carelessly declared as exporters do."""
        sizes = [self.rng.choice([None, *WRONG_NAMES]) for _ in range(rank)]
        return helper.make_tensor_value_info(name, FLOAT, None if self.rng.random() < 0.5 else sizes)

    def branch(self, a):
        condition = self.node("Greater", [self.count(a), self.count(self.some())])
        graphs = {}
        for name in ("then_branch", "else_branch"):
            scope, last = self.inner([a, self.some()], name)
            graphs[name] = helper.make_graph(scope.nodes, name, [], [self.declared(last)])
        return self.node("If", [self.node("Squeeze", [condition])], **graphs)

    def loop(self, a):
        turn, goes, carried = (self.new_name() for _ in range(3))
        scope, last = self.inner([carried, self.some()], "body")
        following = scope.cut(last)
        going = scope.node("Identity", [goes])
        outputs = [helper.make_tensor_value_info(going, BOOL, []), self.declared(following)]
        inputs = [helper.make_tensor_value_info(turn, INT64, []), helper.make_tensor_value_info(goes, BOOL, []), self.declared(carried)]
        scans = self.rng.random() < 0.4
        if scans:
            counted = scope.node("ReduceSum", [following], keepdims=0)
            outputs.append(helper.make_tensor_value_info(counted, FLOAT, []))
        body = helper.make_graph(scope.nodes, "body", inputs, outputs)
        times = self.constant(array(self.rng.randint(0, 3)))
        if self.rng.random() < 0.6:  # not known when the model is read
            times = self.node("Squeeze", [self.least(self.count(a), self.ints(3))])
        results = self.node("Loop", [times, self.constant(array(True, bool)), a], 2 if scans else 1, body=body)
        return self.rng.choice(results) if scans else results

    def scan(self, a):
        state, element = self.new_name(), self.new_name()
        scope = Scope(self.rng, self.new_name, [self.some()], self.functions, self.depth + 1)
        scope.values.append(scope.node("Add", [scope.values[0], element]))
        scope.step(0.8)
        self.unknown += scope.unknown
        total = scope.node("ReduceSum", [scope.values[-1]], keepdims=0)
        following = scope.node("Add", [state, total])
        given = scope.node("Mul", [following, element])
        scalar = lambda name: helper.make_tensor_value_info(name, FLOAT, [])
        body = helper.make_graph(scope.nodes, "body", [scalar(state), scalar(element)], [scalar(following), scalar(given)])
        start = self.constant(array(0.0, numpy.float32))
        return self.node("Scan", [start, a], 2, num_scan_inputs=1, body=body)[1]

    def function(self, a):
        """A call of a function of the model; some are called several times."""
        if not self.functions or self.rng.random() < 0.5:
            parameters = [self.new_name(), self.new_name()]
            scope, last = self.inner(parameters, "function")
            name = f"f{len(self.functions)}"
            imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid(DOMAIN, 1)]
            self.functions.append(helper.make_function(DOMAIN, name, parameters, [last], scope.nodes, imports))
        return self.node(self.rng.choice(self.functions).name, [a, self.some()], domain=DOMAIN)

    # ---- What is done with sizes

    def take(self, a, b):
        return self.cut(a, self.length(b))

    def largest(self, a, b):
        return self.node("TopK", [a, self.least(self.length(a), self.length(b))], 2)[0]

    def outer(self, a, b):
        column = self.node("Unsqueeze", [a, self.ints(1)])
        wide = self.node("Expand", [column, self.node("Concat", [self.length(a), self.length(b)], axis=0)])
        sum_ = self.node("Add", [wide, b]) if self.rng.random() < 0.5 else wide
        return self.node("ReduceSum", [sum_, self.ints(self.rng.randint(0, 1))], keepdims=0)

    def product(self, a, b):
        ab = self.node("MatMul", [self.node("Unsqueeze", [a, self.ints(1)]), self.node("Unsqueeze", [b, self.ints(0)])])
        return self.node("ReduceSum", [self.node("Transpose", [ab], perm=[1, 0]), self.ints(self.rng.randint(0, 1))], keepdims=0)

    def flat(self, a, b):
        both = self.node("Reshape", [a, self.ints(-1)]), self.node("Reshape", [b, self.ints(-1)])
        return self.node("Concat", both, axis=0)

    def reshaped(self, a, b):
        pair = self.node("Concat", [self.length(a), self.ints(1)], axis=0)
        column = self.node("Reshape", [a, pair])
        return self.node("Reshape", [self.node("Concat", [column, column], axis=1), self.node("Mul", [self.length(a), self.ints(2)])])

    def padded(self, a, b):
        return self.node("Pad", [a, self.node("Concat", [self.ints(0), self.length(b)], axis=0)])

    def scattered(self, a, b):
        least = self.least(self.length(a), self.length(b))
        scalar = self.node("Squeeze", [least])
        places = self.node("Range", [self.constant(array(0)), scalar, self.constant(array(1))])
        zeros = self.node("ConstantOfShape", [self.length(a)], value=helper.make_tensor("v", FLOAT, [1], [0.5]))
        return self.node("ScatterND", [zeros, self.node("Unsqueeze", [places, self.ints(1)]), self.cut(b, least)])

    def both(self, a, b):
        least = self.least(self.length(a), self.length(b))
        return self.node(self.rng.choice(["Add", "Mul", "Max"]), [self.cut(a, least), self.cut(b, least)])

    def gathered(self, a, b):
        more = self.node("Concat", [a, self.constant(array([3.0], numpy.float32))], axis=0)
        places = self.node("Range", [self.constant(array(0)), self.node("Squeeze", [self.length(b)]), self.constant(array(1))])
        return self.node("Gather", [more, self.node("Min", [places, self.length(a)])])

    def filled(self, a, b):
        ones = self.node("ConstantOfShape", [self.length(a)], value=helper.make_tensor("v", FLOAT, [1], [2.0]))
        return self.node("Mul", [ones, a])

    def sized(self, a, b):
        size = self.node("Cast", [self.node("Sub", [self.length(a), self.length(b)])], to=FLOAT)
        return self.node("Add", [a, size])

    def joined(self, a, b):
        return self.node("Concat", [a, b, a], axis=0)

    def scaled(self, a, b):
        kind = self.rng.choice(["Relu", "Neg", "Abs", "Sign", "Identity"])
        return self.node(kind, [self.node("Mul", [a, self.constant(array([1.5], numpy.float32))])])

    def lowered(self, a, b):
        more = self.node("Concat", [b, self.constant(array([1.0], numpy.float32))], axis=0)
        return self.node("Sub", [a, self.node("ReduceMax", [more, self.ints(0)], keepdims=1)])

    def step(self, chance_of_unknown):
        if self.rng.random() < chance_of_unknown:
            kinds = [self.compress, self.nonzero, self.places, self.unique, self.topk, self.slice, self.split, self.suppression,
                     self.trees, self.sequence]  # fmt: skip
            if self.depth < 2:
                kinds += 2 * [self.branch, self.loop, self.scan, self.function]
            kind = self.rng.choice(kinds)
            self.unknown += 1
            result = kind(self.some())
        else:
            kind = self.rng.choice([self.take, self.largest, self.outer, self.product, self.flat, self.reshaped, self.padded,
                                    self.scattered, self.both, self.gathered, self.filled, self.sized, self.joined, self.scaled,
                                    self.lowered])  # fmt: skip
            result = kind(self.some(), self.some())
        self.values.append(self.cut(result) if self.depth == 0 and self.rng.random() < 0.5 else result)


def random_model(rng):
    names, functions = Counter(), []
    scope = Scope(rng, names, ["x", "y"], functions)
    wanted = rng.randint(2, 6)
    while scope.unknown < wanted:
        scope.step(0.5)
    for _ in range(rng.randint(1, 4)):
        scope.step(0.1)
    read = {name for node in scope.nodes for name in node.input}
    made = [name for name in scope.values if name not in ("x", "y")]
    outputs = [name for name in made if name not in read or rng.random() < 0.2]
    sizes = rng.sample(["N", "unk__0", "K", None, "v1_0", "?"], 2)
    inputs = [helper.make_tensor_value_info(name, FLOAT, [size]) for name, size in zip(("x", "y"), sizes, strict=True)]
    declared = []
    for name in outputs:
        chance = rng.random()
        shape = [rng.choice([None, *WRONG_NAMES])] if chance < 0.6 else None
        declared.append(helper.make_tensor_value_info(name, FLOAT, shape) if chance < 0.8 else helper.make_empty_tensor_value_info(name))
    # Names of inputs' sizes are believed: at inner values they must be right.
    careless = [name for name in WRONG_NAMES if name not in sizes]
    inner = [name for name in made if name not in outputs and rng.random() < 0.3]
    infos = [helper.make_tensor_value_info(name, FLOAT, [rng.choice(careless)]) for name in inner]
    graph = helper.make_graph(scope.nodes, "unknown_sizes", inputs, declared, value_info=infos)
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions)


def random_inputs(rng):
    generator = numpy.random.default_rng(rng.getrandbits(32))
    sizes = [rng.choice([0, 1, 2, 3, 5, 8, 13]) if rng.random() < 0.9 else rng.randint(20, 60) for _ in range(2)]
    return {name: (generator.integers(-6, 7, size) / 2).astype(numpy.float32) for name, size in zip(("x", "y"), sizes, strict=True)}


def onnxruntime_session(model):
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.log_severity_level = 4
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def session(model, device):
    settings = rewright.SessionOptions()
    settings.intra_op_num_threads = 1
    return rewright.InferenceSession(model, settings, device=device)


def difference(found, expected):
    """Why two lists of results are not the same, or nothing."""
    for place, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {place} is {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}"
        if not numpy.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"output {place} differs: {a.ravel()[:8]}, expected {b.ravel()[:8]}"
    return None


class Trial:
    """One graph with its inputs and what ONNX Runtime computes of them."""

    def __init__(self, number):
        self.rng = random.Random(f"{options.seed} {number}")
        self.number, self.drawn = number, 0
        while True:
            self.drawn += 1
            self.model = random_model(self.rng).SerializeToString()
            try:
                theirs = onnxruntime_session(self.model)
                self.inputs = [random_inputs(self.rng) for _ in range(options.runs)]
                self.expected = [theirs.run(None, inputs) for inputs in self.inputs]
                return
            except Exception:  # ONNX Runtime throws several unrelated types
                continue

    def compare(self, what, make):
        """None, or what is wrong with the results of the session that `make` gives."""
        try:
            ours = make()
            for inputs, expected in zip(self.inputs, self.expected, strict=True):
                wrong = difference(ours.run(None, inputs), expected)
                if wrong:
                    return f"{what}: {wrong}"
        except Exception as error:  # whatever it is, ONNX Runtime executes the graph
            return f"{what}: {type(error).__name__}: {error}"
        return None

    def optimized(self, device):
        try:
            result = rewright.optimize(self.model, device=device, estimate=True, check=0, budget="1s", threads=1)
        except Exception as error:
            return [f"optimize for {device}: {type(error).__name__}: {error}"]
        made = result.model
        graph = onnx.load_from_string(made).graph
        for dim in (dim for value in [*graph.output, *graph.value_info] for dim in value.type.tensor_type.shape.dim):
            if dim.dim_param and dim.dim_param not in WRONG_NAMES:
                return [f"optimize for {device}: declares the size {dim.dim_param}"]
        return [self.compare(f"{kind} after optimize for {device}", lambda make=make: make(made))
                for kind, make in (("ONNX Runtime", onnxruntime_session), ("cpu", lambda m: session(m, "cpu")))]  # fmt: skip

    def problems(self, optimize):
        found = [self.compare(device, lambda device=device: session(self.model, device)) for device in ("reference", "cpu")]
        if optimize:
            for device in ("cpu", "onnxruntime"):
                found += self.optimized(device)
        return [problem for problem in found if problem]


def main():
    start = time.monotonic()
    drawn = nodes = wrong = optimized = 0
    numbers = range(options.graphs) if options.only is None else [options.only]
    every = max(1, options.graphs // options.optimized) if options.optimized else 0
    for number in numbers:
        trial = Trial(number)
        drawn += trial.drawn
        nodes += len(onnx.load_from_string(trial.model).graph.node)
        optimize = bool(every) and (number % every == 0 or options.only is not None)
        optimized += optimize
        problems = trial.problems(optimize)
        if problems:
            wrong += 1
            path = os.path.join(options.keep, f"unknown_sizes_{options.seed}_{number}.onnx")
            with open(path, "wb") as file:
                file.write(trial.model)
            print(f"graph {number} ({path}):", *problems, sep="\n  ", flush=True)
        if number and number % 1000 == 0:
            print(f"{number} graphs, {wrong} wrong, {time.monotonic() - start:.0f} s", flush=True)
    count = len(numbers)
    print(f"seed {options.seed}: {count} graphs of {nodes / count:.0f} nodes, {options.runs} runs each, {optimized} of them optimized for two "
          f"devices; {drawn - count} drawn that ONNX Runtime refuses; {wrong} wrong")  # fmt: skip
    sys.exit(1 if wrong else 0)


main()
