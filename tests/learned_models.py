"""ai.onnx.ml's models as ONNX Runtime executes them: python learned_models.py REWRIGHT [--seed S]

Random linear models, support vectors and ensembles of trees, with every transformation of scores, and what comes before such models; trees of
any form, with every mode, sets, ties and missing values, in the interpreter and on the CPU.
Not compared, because ONNX Runtime does not do what the operator's description says: the transformation of a single target of a
LinearRegressor, softmax where leaves speak of one of two classes, and two classes that leaves speak of both.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FEATURES, ROWS = 4, 6
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


def trees(random, classes, prefix, ids):
    """Two full trees of depth two."""
    nodes = {key: [] for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    leaves = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(2):
        for node in range(7):
            leaf = node >= 3
            nodes["treeids"].append(tree)
            nodes["nodeids"].append(node)
            nodes["featureids"].append(0 if leaf else int(random.integers(FEATURES)))
            nodes["values"].append(0.0 if leaf else float(random.normal()))
            nodes["modes"].append("LEAF" if leaf else str(random.choice(["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"])))
            nodes["truenodeids"].append(0 if leaf else 2 * node + 1)
            nodes["falsenodeids"].append(0 if leaf else 2 * node + 2)
            for target in ids if leaf else ():
                leaves["treeids"].append(tree)
                leaves["nodeids"].append(node)
                leaves["ids"].append(target)
                leaves["weights"].append(float(random.normal()))
    return {**{f"nodes_{key}": value for key, value in nodes.items()}, **{f"{prefix}_{key}": value for key, value in leaves.items()}}


def random_tree(random, leaves):
    """Branches as (yes, no), each a branch or ~leaf, of a tree of any form; the root is the first. None: a single leaf."""
    if leaves == 1:
        return []
    branches, open_ends = [[None, None]], [(0, 0), (0, 1)]
    while len(open_ends) < leaves:
        branch, side = open_ends.pop(int(random.integers(len(open_ends))))
        branches[branch][side] = len(branches)
        branches.append([None, None])
        open_ends += [(len(branches) - 1, 0), (len(branches) - 1, 1)]
    for leaf, (branch, side) in enumerate(open_ends):
        branches[branch][side] = ~leaf
    return branches


def numbered_forest(random, prefix, ids, modes):
    """Trees of any form and depth, whose splits are small integers, as the elements of x are: there are ties."""
    nodes = {key: [] for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    leaves = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(int(random.integers(1, 30))):
        branches = random_tree(random, int(random.choice([1, 2, 5, 31, 33, 70, 300])))
        for branch in range(len(branches)):
            nodes["treeids"].append(tree)
            nodes["nodeids"].append(branch)
            nodes["featureids"].append(int(random.integers(FEATURES)))
            nodes["values"].append(float(random.integers(-3, 4)))
            nodes["modes"].append(str(random.choice(modes)))
            nodes["missing_value_tracks_true"].append(int(random.integers(2)))
            yes, no = (node if node >= 0 else len(branches) + ~node for node in branches[branch])
            nodes["truenodeids"].append(yes)
            nodes["falsenodeids"].append(no)
        for leaf in range(len(branches) + 1):
            for key, value in zip(nodes, (tree, len(branches) + leaf, 0, 0.0, "LEAF", 0, 0, 0)):
                nodes[key].append(value)
            for target in ids:
                for key, value in zip(leaves, (tree, len(branches) + leaf, target, float(random.normal()))):
                    leaves[key].append(value)
    return {**{f"nodes_{key}": value for key, value in nodes.items()}, **{f"{prefix}_{key}": value for key, value in leaves.items()}}


def listed_forest(random, kind):
    """The same in the form of ai.onnx.ml 5, some tests by sets."""
    numbers = {TensorProto.FLOAT: numpy.float32, TensorProto.DOUBLE: numpy.float64}[kind]
    lists = {key: [] for key in ("featureids", "splits", "modes", "truenodeids", "trueleafs", "falsenodeids", "falseleafs", "missing_value_tracks_true")}
    roots, weights, members = [], [], []
    for _ in range(int(random.integers(1, 20))):
        branches = random_tree(random, int(random.choice([2, 5, 31, 70])))
        first_branch, first_leaf = len(lists["splits"]), len(weights)
        roots.append(first_branch)
        for branch in branches:
            mode = int(random.integers(7))
            lists["featureids"].append(int(random.integers(FEATURES)))
            lists["splits"].append(float(random.integers(-3, 4)))
            lists["modes"].append(mode)
            lists["missing_value_tracks_true"].append(int(random.integers(2)))
            for side, node in zip(("true", "false"), branch):
                lists[f"{side}nodeids"].append(node + first_branch if node >= 0 else ~node + first_leaf)
                lists[f"{side}leafs"].append(int(node < 0))
            if mode == 6:
                members += [float(value) for value in random.choice(numpy.arange(-3, 4), size=int(random.integers(1, 6)), replace=False)] + [float("nan")]
        weights += [float(value) for value in random.normal(size=len(branches) + 1)]
    attributes = {f"nodes_{key}": value for key, value in lists.items() if key not in ("splits", "modes")}
    attributes["nodes_splits"] = numpy_helper.from_array(numpy.array(lists["splits"], numbers))
    attributes["nodes_modes"] = numpy_helper.from_array(numpy.array(lists["modes"], numpy.uint8))
    attributes["leaf_weights"] = numpy_helper.from_array(numpy.array(weights, numbers))
    if members:
        attributes["membership_values"] = numpy_helper.from_array(numpy.array(members, numbers))
    return {**attributes, "tree_roots": roots, "leaf_targetids": [int(v) for v in random.integers(3, size=len(weights))], "n_targets": 3}


def forests(random):
    ordered, all_modes = ["BRANCH_LEQ"], ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    for modes in (ordered, ["BRANCH_LT"], all_modes):
        for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
            targets = int(random.integers(1, 4))
            yield "TreeEnsembleRegressor", {**numbered_forest(random, "target", range(targets), modes), "n_targets": targets, "aggregate_function": aggregate}, TensorProto.FLOAT, None
        yield "TreeEnsembleRegressor", {**numbered_forest(random, "target", [0], modes), "n_targets": 1}, TensorProto.DOUBLE, None
        yield "TreeEnsembleClassifier", {**numbered_forest(random, "class", range(3), modes), "classlabels_int64s": [0, 1, 2]}, TensorProto.FLOAT, 2
    for kind in (TensorProto.FLOAT, TensorProto.DOUBLE):
        for aggregate in range(4):
            yield "TreeEnsemble", {**listed_forest(random, kind), "aggregate_function": aggregate}, kind, None


def cases(random):
    def floats(*shape):
        return [float(v) for v in random.normal(size=shape).ravel()]

    for norm in ("MAX", "L1", "L2"):
        yield "Normalizer", {"norm": norm}, TensorProto.FLOAT, None
    yield "Scaler", {"offset": floats(FEATURES), "scale": floats(FEATURES)}, TensorProto.FLOAT, None
    yield "Binarizer", {"threshold": 0.3}, TensorProto.FLOAT, None
    yield "Imputer", {"imputed_value_floats": floats(FEATURES), "replaced_value_float": float("nan")}, TensorProto.FLOAT, None
    yield "Imputer", {"imputed_value_floats": [2.5], "replaced_value_float": 0.0}, TensorProto.FLOAT, None
    yield "Imputer", {"imputed_value_int64s": [7], "replaced_value_int64": 1}, TensorProto.INT64, None
    yield "OneHotEncoder", {"cats_int64s": [0, 2, 5]}, TensorProto.INT64, None
    yield "FeatureVectorizer", {"inputdimensions": [FEATURES]}, TensorProto.FLOAT, None
    for transform in TRANSFORMS:
        for targets in (1, 3):
            if targets > 1 or transform == "NONE":
                yield "LinearRegressor", {"coefficients": floats(targets, FEATURES), "intercepts": floats(targets), "targets": targets, "post_transform": transform}, TensorProto.FLOAT, None
            for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
                if transform == "NONE":
                    yield "TreeEnsembleRegressor", {**trees(random, targets, "target", range(targets)), "n_targets": targets, "aggregate_function": aggregate, "base_values": floats(targets)}, TensorProto.FLOAT, None
        for labels in ([3, 5], [3, 5, 9]):
            yield "LinearClassifier", {"coefficients": floats(len(labels), FEATURES), "intercepts": floats(len(labels)), "classlabels_ints": labels, "post_transform": transform}, TensorProto.FLOAT, 2
        yield "TreeEnsembleClassifier", {**trees(random, 3, "class", range(3)), "classlabels_int64s": [3, 5, 9], "post_transform": transform}, TensorProto.FLOAT, 2
        if "SOFTMAX" not in transform:
            yield "TreeEnsembleClassifier", {**trees(random, 2, "class", [0]), "classlabels_int64s": [0, 1], "post_transform": transform}, TensorProto.FLOAT, 2
        for labels in ({"classlabels_ints": [4, 9]}, {"classlabels_strings": ["no", "yes"]}):
            yield "LinearClassifier", {"coefficients": floats(FEATURES), "intercepts": floats(1), "post_transform": transform, **labels}, TensorProto.FLOAT, 2
            # More coefficients than intercepts tell of.
            yield "LinearClassifier", {"coefficients": floats(3, FEATURES), "intercepts": floats(2), "post_transform": transform, **labels}, TensorProto.FLOAT, 2
        for label in (0, 1, 7):
            yield "TreeEnsembleClassifier", {**trees(random, 1, "class", [0]), "classlabels_int64s": [label], "post_transform": transform}, TensorProto.FLOAT, 2
        yield "TreeEnsembleClassifier", {**trees(random, 1, "class", [0]), "classlabels_int64s": [1], "base_values": [0.3], "post_transform": transform}, TensorProto.FLOAT, 2
    for kind in (TensorProto.INT64, TensorProto.STRING):
        yield "LabelEncoder", {"classes_strings": ["b", "c", "a", "b"], "default_int64": 17}, kind, None
        yield "CategoryMapper", {"cats_strings": ["b", "c", "c"], "cats_int64s": [2, 1, 2], "default_string": "other"}, kind, None
    texts, many = ["b", "z", "a"], [f"w{i}" for i in range(100)]
    yield "LabelEncoder", {"keys_strings": texts, "values_int64s": [5, 6, 7], "default_int64": 9}, TensorProto.STRING, None
    yield "LabelEncoder", {"keys_strings": many + texts, "values_floats": floats(103)}, TensorProto.STRING, None
    yield "LabelEncoder", {"keys_int64s": [2, 0, 9], "values_int64s": [-4, 2**40, 3]}, TensorProto.INT64, None
    yield "LabelEncoder", {"keys_int64s": [1, 2], "values_floats": floats(2), "default_float": 0.25}, TensorProto.INT64, None
    yield "LabelEncoder", {"keys_int64s": list(range(1, 100)), "values_int64s": [int(v) for v in random.integers(1000, size=99)]}, TensorProto.INT64, None
    yield "LabelEncoder", {"keys_int64s": [2, 1, 4], "values_strings": ["x", "y", "z"], "default_string": "none"}, TensorProto.INT64, None
    yield "OneHotEncoder", {"cats_strings": ["c", "q", "a"]}, TensorProto.STRING, None
    yield "OneHotEncoder", {"cats_int64s": [2, 1, 0], "zeros": 0}, TensorProto.INT64, None
    yield "OneHotEncoder", {"cats_int64s": [int(v) for v in random.permutation(100)], "zeros": 1}, TensorProto.INT64, None
    # Scores between 0 and 1.
    weak = [0.02 * v for v in floats(3, FEATURES)]
    yield "LinearRegressor", {"coefficients": weak, "intercepts": [0.3, 0.5, 0.8], "targets": 3, "post_transform": "PROBIT"}, TensorProto.FLOAT, None
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        common = {"kernel_type": kernel, "kernel_params": [0.4, 0.3, 2.0]}
        yield "SVMRegressor", {**common, "support_vectors": floats(3, FEATURES), "coefficients": floats(3), "n_supports": 3, "rho": floats(1)}, TensorProto.FLOAT, None
        machine = {**common, "support_vectors": floats(5, FEATURES), "coefficients": floats(2, 5), "vectors_per_class": [2, 1, 2], "rho": floats(3), "classlabels_ints": [4, 6, 8]}
        yield "SVMClassifier", machine, TensorProto.FLOAT, 2
        yield "SVMClassifier", {**machine, "prob_a": floats(3), "prob_b": floats(3)}, TensorProto.FLOAT, 2
        two = {**common, "support_vectors": floats(4, FEATURES), "coefficients": floats(4), "vectors_per_class": [2, 2], "rho": floats(1), "classlabels_ints": [4, 6]}
        yield "SVMClassifier", {**two, "prob_a": floats(1), "prob_b": floats(1)}, TensorProto.FLOAT, 2


def model_of(operator, attributes, kind, outputs, rows):
    version = 1 if "classes_strings" in attributes else 5 if operator == "TreeEnsemble" else 3
    node = helper.make_node(operator, ["x"], ["y", "scores"][: outputs or 1], domain="ai.onnx.ml", **attributes)
    shape = [rows, FEATURES]
    results = [helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = helper.make_graph([node], operator, [helper.make_tensor_value_info("x", kind, shape)], results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)], ir_version=8)


def ours(program, folder, device, given):
    """What the program computes for model.onnx, by the outputs' names. Raises AssertionError if it fails."""
    command = [program, "run", folder / "model.onnx", "--input", f"x={given}", "--output-dir", folder, "--quiet", "--json", folder / "run.json", "--device", device]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stderr.strip())
    return {output["name"]: output["file"] for output in json.loads((folder / "run.json").read_text())["outputs"]}


def require_same(file, array, approximate):
    if array.dtype == object:
        found = numpy_helper.to_array(onnx.load_tensor(file)).astype(object)
        numpy.testing.assert_array_equal([v.decode() if isinstance(v, bytes) else v for v in found.ravel()], array.ravel())
        return
    numpy.testing.assert_allclose(numpy.load(file).astype(float).reshape(array.shape), array, rtol=1e-2 if approximate else 1e-4, atol=1e-3 if approximate else 1e-5)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("program")
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    random = numpy.random.default_rng(options.seed)
    failures = counted = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for (operator, attributes, kind, outputs), is_forest in itertools.chain(zip(cases(random), itertools.repeat(False)), zip(forests(random), itertools.repeat(True))):
            rows = int(random.choice([1, 7, 50])) if is_forest else ROWS
            model = model_of(operator, attributes, kind, outputs, rows)
            onnx.save(model, folder / "model.onnx")
            if is_forest:
                x = random.integers(-4, 5, size=(rows, FEATURES)).astype("float32" if kind == TensorProto.FLOAT else "float64")
                x[random.random(x.shape) < 0.1] = numpy.nan
            else:
                x = random.normal(size=(rows, FEATURES)).astype("float32") if kind == TensorProto.FLOAT else random.integers(0, 3, size=(rows, FEATURES))
            if kind == TensorProto.STRING:
                x = numpy.array(["a", "b", "c"], object)[x]
            if operator == "Imputer" and kind == TensorProto.FLOAT:
                x[random.random(x.shape) < 0.3] = attributes["replaced_value_float"]
            given = folder / ("x.pb" if kind == TensorProto.STRING else "x.npy")
            if kind == TensorProto.STRING:
                given.write_bytes(numpy_helper.from_array(x, "x").SerializeToString())
            else:
                numpy.save(given, x)
            expected = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
            what = f"{operator} {' '.join(str(attributes.get(key, '')) for key in ('norm', 'post_transform', 'aggregate_function', 'kernel_type'))}"
            approximate = attributes.get("post_transform") == "PROBIT"  # in ONNX Runtime, by a formula
            for device in ("reference", "cpu") if "TreeEnsemble" in operator else ("reference",):
                counted += 1
                try:
                    files = ours(options.program, folder, device, given)
                    for value, array in zip(model.graph.output, expected, strict=True):
                        require_same(files[value.name], array, approximate)
                except AssertionError as error:
                    failures += 1
                    print(f"{what} on {device}: {' '.join(str(error).split())[:400]}", flush=True)
    print(f"{counted - failures} of {counted} agree")
    raise SystemExit(failures > 0)


if __name__ == "__main__":
    main()
