"""Random models over all operators: python random_models.py REWRIGHT CASES [--models 20] [--seed 1] [--nodes 8] [--keep DIR]

CASES is a folder that onnx_cases.py wrote. A model is made of the nodes of ONNX's own test cases, with their attributes: an input of
a node that holds floats becomes, by chance, an earlier value brought to its size (flattened, repeated or cut, reshaped, cast), an
input of the model or a weight; the others keep the case's values as weights. So every operator that ONNX Runtime executes can follow
every other, with parameters that mean something, and by chance with a size that became 0 or 1 (empty_sizes.py), but for strings, which
NumPy's files cannot hold. The results of the interpreter, of the cpu runtime and of ONNX Runtime must agree, and those of the optimized
model. A value that ONNX Runtime itself changes as much when the inputs change in their last digits
decides nothing. Prints what differs; a model that differs is kept; exits 1 if one does.
"""

import argparse
import glob
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from empty_sizes import UNDECIDED, changed_cases
from onnx import TensorProto, helper, numpy_helper

OPSET = 22
IR_VERSION = 10
LARGEST_TENSOR = 4096
RTOL, ATOL = 1e-3, 1e-5
SHRUNK = 0.25  # of the nodes
FLOATS = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64}
RANDOM = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


class Pieces:
    """A node with the values of its inputs, as a test case has them."""

    def __init__(self, node, values):
        self.node, self.values = node, values


def tensor_type(value_info):
    return value_info.type.WhichOneof("value") == "tensor_type"


def pieces_of(case):
    """None where the case is not one node of tensors that means the same in the models' opset, or ONNX Runtime gets it wrong."""
    model = onnx.load(os.path.join(case, "model.onnx"))
    graph = model.graph
    if len(graph.node) != 1 or graph.initializer or graph.node[0].domain or graph.node[0].op_type in RANDOM:
        return None
    node = graph.node[0]
    if any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute):
        return None
    if not all(tensor_type(v) for v in [*graph.input, *graph.output]):
        return None
    version = {o.domain: o.version for o in model.opset_import}.get("", 0)
    try:
        if onnx.defs.get_schema(node.op_type, version).since_version != onnx.defs.get_schema(node.op_type, OPSET).since_version:
            return None
    except onnx.defs.SchemaError:
        return None
    tensors = {"input": [], "output": []}
    for kind, values in (("input", graph.input), ("output", graph.output)):
        for index, _ in enumerate(values):
            with open(os.path.join(case, "test_data_set_0", f"{kind}_{index}.pb"), "rb") as file:
                tensor = TensorProto.FromString(file.read())
            if np.prod(tensor.dims, dtype=np.int64) > LARGEST_TENSOR or tensor.data_type == TensorProto.STRING:
                return None
            tensors[kind].append(tensor)
    values = {value.name: tensor for value, tensor in zip(graph.input, tensors["input"])}
    if set(filter(None, node.input)) != set(values):
        return None
    try:
        actual = session(model.SerializeToString()).run(None, {n: numpy_helper.to_array(t) for n, t in values.items()})
    except Exception:  # the runtime throws several unrelated types
        return None
    right = all(distance(numpy_helper.to_array(expected), a) <= 1 for expected, a in zip(tensors["output"], actual))
    return Pieces(node, values) if right else None


def shrunk(rng, pieces):
    """The node with one of its sizes, or one axis of an input, replaced by 0 or 1, if ONNX Runtime gives a verdict on that."""
    if any(re.fullmatch(operators, pieces.node.op_type) for operators, *_ in UNDECIDED):
        return pieces
    model = helper.make_model(helper.make_graph([pieces.node], "one", [], []))
    tensors = list(pieces.values.values())
    changed = [c for c in changed_cases("", model, tensors) if c]
    if not changed:
        return pieces
    _, model, arrays = rng.choice(changed)
    protos = [numpy_helper.from_array(array, name) for name, array in zip(pieces.values, arrays)]
    if any(new.data_type != old.data_type for new, old in zip(protos, tensors)):
        return pieces  # a type that NumPy lacks
    return Pieces(model.graph.node[0], dict(zip(pieces.values, protos)))


def session(model, optimized=False):
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class Builder:
    """A model that grows as long as ONNX Runtime executes it."""

    def __init__(self, rng):
        self.rng = rng
        self.nodes, self.inputs, self.weights = [], {}, []
        self.pool = {}  # the values so far, by name
        self.count = 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def weight(self, array, nodes_weights):
        name = self.name()
        nodes_weights.append(numpy_helper.from_array(array, name))
        return name

    def fitted(self, source, tensor, nodes, weights):
        """The value `source` with the size and the type of the tensor."""
        wanted = int(np.prod(tensor.dims, dtype=np.int64))
        size = self.pool[source].size
        current = source

        def step(op, *operands, **attributes):
            nonlocal current
            output = self.name()
            nodes.append(helper.make_node(op, [current, *operands], [output], **attributes))
            current = output

        if list(self.pool[source].shape) != list(tensor.dims):
            step("Reshape", self.weight(np.array([-1], np.int64), weights))
            if size < wanted:
                step("Tile", self.weight(np.array([-(-wanted // size)], np.int64), weights))
            if size != wanted and (size > wanted or wanted % size):
                bounds = [self.weight(np.array([bound], np.int64), weights) for bound in (0, wanted)]
                step("Slice", *bounds)
            step("Reshape", self.weight(np.array(tensor.dims, np.int64), weights))
        if self.pool[source].dtype != FLOATS[tensor.data_type]:
            step("Cast", to=tensor.data_type)
        return current

    def model(self, nodes, weights, outputs):
        inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in self.inputs.items()]
        infos = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(nodes, "random", inputs, infos, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)

    def add(self, pieces):
        """False, and nothing added, where ONNX Runtime does not execute the node, its values leave the usual range, or it may choose:
        of equal elements, which is the largest, is not specified."""
        nodes, weights, inputs = [], [], {}
        names = {"": ""}
        for name, tensor in pieces.values.items():
            array = numpy_helper.to_array(tensor)
            sources = [n for n, a in self.pool.items() if a.dtype.kind == "f" and a.dtype.itemsize > 2 and a.size > 0]
            chance = self.rng.random()
            if tensor.data_type in FLOATS and array.size > 0 and sources and chance < 0.7:
                names[name] = self.fitted(self.rng.choice(sources), tensor, nodes, weights)
            elif tensor.data_type in FLOATS and chance < 0.85:
                names[name] = self.name()
                inputs[names[name]] = array
            else:
                names[name] = self.weight(array, weights)
        outputs = [self.name() if name else "" for name in pieces.node.output]
        node = onnx.NodeProto()
        node.CopyFrom(pieces.node)
        node.ClearField("name")
        if node.op_type == "STFT" and not any(a.name == "onesided" for a in node.attribute):
            # The default, said: ONNX's own shape inference takes another one, and would declare sizes that no value has.
            node.attribute.append(helper.make_attribute("onesided", 1))
        del node.input[:], node.output[:]
        node.input.extend(names[name] for name in pieces.node.input)
        node.output.extend(outputs)
        nodes.append(node)
        known = dict(self.inputs)
        self.inputs.update(inputs)
        try:
            made = [name for n in nodes for name in n.output if name]
            model = onnx.shape_inference.infer_shapes(self.model(self.nodes + nodes, self.weights + weights, made), strict_mode=True)
            values = dict(zip(made, session(model.SerializeToString()).run(made, self.inputs)))
        except Exception:  # as above
            self.inputs = known
            return False
        usual = all(
            a.size <= LARGEST_TENSOR and a.dtype.kind != "O" and (a.dtype.kind != "f" or (np.isfinite(a).all() and np.abs(a).max(initial=0) < 1e4))
            for a in values.values()
        )
        floats = [{**self.pool, **inputs, **values}.get(names[name]) for name in pieces.values]
        tie = any(a is not None and a.dtype.kind == "f" and np.unique(a).size < a.size for a in floats)
        if not usual or (tie and any(values[name].dtype.kind in "iu" for name in outputs if name)):
            self.inputs = known
            return False
        self.nodes += nodes
        self.weights += weights
        self.pool.update(inputs)
        self.pool.update(values)
        return True

    def finish(self):
        used = {name for node in self.nodes for name in node.input}
        outputs = [name for name in self.pool if name not in used and name not in self.inputs]
        model = onnx.shape_inference.infer_shapes(self.model(self.nodes, self.weights, outputs), strict_mode=True)
        for output in model.graph.output:
            if not output.type.tensor_type.HasField("shape"):  # whose inference ONNX has not
                array = self.pool[output.name]
                data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
                output.CopyFrom(helper.make_tensor_value_info(output.name, data_type, [None] * array.ndim))
        onnx.checker.check_model(model, full_check=True)
        return model


def random_model(rng, cases, count):
    builder = Builder(rng)
    kinds = []
    while len(kinds) < count:
        pieces = pieces_of(rng.choice(cases))
        if pieces and rng.random() < SHRUNK:
            pieces = shrunk(rng, pieces)
        if pieces and builder.add(pieces):
            kinds.append(pieces.node.op_type)
    return builder.finish(), builder.inputs, kinds


def program_results(program, device, path, inputs, names, folder):
    os.makedirs(folder, exist_ok=True)
    command = [program, "run", path, "--output-dir", folder, "--device", device, "--threads", "1", "--quiet"]
    for name, array in inputs.items():
        file = os.path.join(folder, f"{name}.in.npy")
        np.save(file, array)
        command += ["--input", f"{name}={file}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"exit {result.returncode}: {' '.join(result.stderr.split())}")
    return [np.load(os.path.join(folder, f"{name}.npy")) for name in names]


def distance(expected, actual):
    """The largest difference of an element over what the tolerances allow; infinite where types or sizes differ."""
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    if expected.dtype.kind not in "fc":
        return 0.0 if np.array_equal(expected, actual) else float("inf")
    expected, actual = expected.astype(np.complex128), actual.astype(np.complex128)
    same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    allowed = ATOL + RTOL * max(np.abs(expected[np.isfinite(expected)]).max(initial=0), 1e-30)
    error = np.abs(np.where(same, 0, actual - np.where(same, 0, expected))).max()
    return float("inf") if np.isnan(error) else float(error / allowed)


def shaken_runs(runtime, names, inputs):
    """Results for inputs whose last digits differ."""
    generator = np.random.default_rng(1)
    runs = []
    for _ in range(4):
        varied = {n: np.asarray(a * (1 + generator.uniform(-1e-6, 1e-6, a.shape)), a.dtype) for n, a in inputs.items()}
        try:
            runs.append(runtime.run(names, varied))
        except Exception:  # of a parameter that has to be exact
            continue
    return runs


def judge(names, expected, shaken, actual):
    """The differing outputs, by name. `shaken` are ONNX Runtime's results for inputs whose last digits differ."""
    wrong = []
    for name, e, s, a in zip(names, expected, shaken, actual):
        error = distance(e, a)
        if error > 1 and not any(distance(e, other) > min(error, 1e3) / 10 for other in s):
            wrong.append(f"{name} {error:.3g}")
    return wrong


def check(program, model, inputs, budget, folder):
    """The faults, a line each."""
    path, optimized = os.path.join(folder, "model.onnx"), os.path.join(folder, "optimized.onnx")
    onnx.save(model, path)
    names = [output.name for output in model.graph.output]
    runtime = session(path)
    expected = runtime.run(names, inputs)
    runs = shaken_runs(runtime, names, inputs)
    shaken = list(zip(*runs)) if runs else [()] * len(names)
    wrong = []
    for device in ("reference", "cpu"):
        try:
            actual = program_results(program, device, path, inputs, names, os.path.join(folder, device))
            wrong += [f"{device}: {w}" for w in judge(names, expected, shaken, actual)]
        except RuntimeError as error:
            wrong.append(f"{device}: {error}")
    command = [program, "optimize", path, "-o", optimized, "--budget", budget, "--threads", "1", "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        wrong.append(f"optimize: exit {result.returncode}: {' '.join(result.stderr.split())}")
        return wrong
    try:
        onnx.checker.check_model(onnx.load(optimized), full_check=True)
        actual = session(optimized).run(names, inputs)
        wrong += [f"optimized: {w}" for w in judge(names, expected, shaken, actual)]
    except Exception as error:  # as above
        wrong.append(f"optimized: {str(error).splitlines()[0]}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description="Random models over all operators.")
    parser.add_argument("rewright")
    parser.add_argument("cases")
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first model; the next have the next")
    parser.add_argument("--nodes", type=int, default=8, help="at most, without those that bring values to their size")
    parser.add_argument("--budget", default="2s")
    parser.add_argument("--keep", default=".", help="where models that differ are kept")
    arguments = parser.parse_args()
    cases = sorted(os.path.dirname(path) for path in glob.glob(os.path.join(arguments.cases, "*", "model.onnx")))
    if not cases:
        sys.exit(f"no cases in {arguments.cases}")
    failed, seen = 0, set()
    for seed in range(arguments.seed, arguments.seed + arguments.models):
        rng = random.Random(seed)
        model, inputs, kinds = random_model(rng, cases, rng.randint(2, arguments.nodes))
        seen.update(kinds)
        with tempfile.TemporaryDirectory() as folder:
            wrong = check(arguments.rewright, model, inputs, arguments.budget, folder)
            if wrong:
                failed += 1
                kept = os.path.join(arguments.keep, f"random_model_{seed}")
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(folder, kept)
                print(f"{kept}: {' '.join(kinds)}", *wrong, sep="\n  ", flush=True)
    print(f"{arguments.models} models of {len(seen)} operators: {failed} differ")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
