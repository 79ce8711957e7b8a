"""ai.onnx.ml's models as ONNX Runtime executes them: python learned_models.py REWRIGHT [--seed S]

Random linear models, support vectors and ensembles of trees, with every transformation of scores, and what comes before such models.
Not compared, because ONNX Runtime does not do what the operator's description says: the transformation of a single target of a
LinearRegressor, softmax where leaves speak of one of two classes, and two classes that leaves speak of both.
"""

import argparse
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


def model_of(operator, attributes, kind, outputs):
    version = 1 if "classes_strings" in attributes else 3
    node = helper.make_node(operator, ["x"], ["y", "scores"][: outputs or 1], domain="ai.onnx.ml", **attributes)
    shape = [ROWS, FEATURES]
    results = [helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = helper.make_graph([node], operator, [helper.make_tensor_value_info("x", kind, shape)], results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)], ir_version=8)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("program")
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    random = numpy.random.default_rng(options.seed)
    failures = counted = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for operator, attributes, kind, outputs in cases(random):
            model = model_of(operator, attributes, kind, outputs)
            onnx.save(model, folder / "model.onnx")
            x = random.normal(size=(ROWS, FEATURES)).astype("float32") if kind == TensorProto.FLOAT else random.integers(0, 3, size=(ROWS, FEATURES))
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
            command = [options.program, "run", folder / "model.onnx", "--input", f"x={given}", "--output-dir", folder, "--quiet", "--json", folder / "run.json", "--device", "reference"]
            done = subprocess.run(command, capture_output=True, text=True)
            what = f"{operator} {' '.join(str(attributes.get(key, '')) for key in ('norm', 'post_transform', 'aggregate_function', 'kernel_type'))}"
            approximate = attributes.get("post_transform") == "PROBIT"  # in ONNX Runtime, by a formula
            counted += 1
            try:
                if done.returncode != 0:
                    raise AssertionError(done.stderr.strip())
                files = {output["name"]: output["file"] for output in json.loads((folder / "run.json").read_text())["outputs"]}
                for value, array in zip(model.graph.output, expected, strict=True):
                    if array.dtype == object:
                        found = numpy_helper.to_array(onnx.load_tensor(files[value.name])).astype(object)
                        numpy.testing.assert_array_equal([v.decode() if isinstance(v, bytes) else v for v in found.ravel()], array.ravel())
                        continue
                    numpy.testing.assert_allclose(numpy.load(files[value.name]).astype(float).reshape(array.shape), array, rtol=1e-2 if approximate else 1e-4, atol=1e-3 if approximate else 1e-5)
            except AssertionError as error:
                failures += 1
                print(f"{what}: {' '.join(str(error).split())[:400]}", flush=True)
    print(f"{counted - failures} of {counted} agree")
    raise SystemExit(failures > 0)


if __name__ == "__main__":
    main()
