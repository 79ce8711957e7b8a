"""scikit-learn's estimators that skl2onnx converts: each by default, with every value of each of its options, and on other data."""

import importlib
import random

import numpy as np

import cases

sklearn_supported = importlib.import_module("skl2onnx._supported_operators")
SAMPLES, FEATURES = 60, 6

# Arguments without which an estimator cannot be made or tells nothing.
NEEDED = {}


def need(name):
    def note(function):
        NEEDED[name] = function
        return function

    return note


def parts(classifier):
    from sklearn import linear_model, tree

    if classifier:
        return [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))]
    return [("a", linear_model.LinearRegression()), ("b", tree.DecisionTreeRegressor(max_depth=3))]


for estimator in ("VotingClassifier", "StackingClassifier"):
    need(estimator)(lambda: {"estimators": parts(True)})
for estimator in ("VotingRegressor", "StackingRegressor"):
    need(estimator)(lambda: {"estimators": parts(False)})
for estimator in ("OneVsRestClassifier", "OneVsOneClassifier", "OutputCodeClassifier", "MultiOutputClassifier", "ClassifierChain"):
    need(estimator)(lambda: {"estimator": parts(True)[0][1]})
for estimator in ("MultiOutputRegressor", "RegressorChain"):
    need(estimator)(lambda: {"estimator": parts(False)[0][1]})
for estimator in ("SelectFromModel", "RFE", "RFECV", "CalibratedClassifierCV", "GridSearchCV", "TunedThresholdClassifierCV"):
    need(estimator)(lambda: {"estimator": parts(True)[1][1]})
NEEDED["GridSearchCV"] = lambda: {"estimator": parts(True)[1][1], "param_grid": {"max_depth": [2, 3]}}


NEEDED["LocalOutlierFactor"] = lambda: {"novelty": True}
NEEDED["NearestNeighbors"] = lambda: {"radius": None}
NEEDED["SGDOneClassSVM"] = lambda: {"max_iter": 500}


@need("ColumnTransformer")
def column_transformer():
    from sklearn import preprocessing

    return {"transformers": [("a", preprocessing.StandardScaler(), [0, 2]), ("b", preprocessing.MinMaxScaler(), [1, 3])], "remainder": "passthrough"}


@need("FeatureUnion")
def feature_union():
    from sklearn import decomposition, preprocessing

    return {"transformer_list": [("a", preprocessing.StandardScaler()), ("b", decomposition.PCA(2))]}


@need("Pipeline")
def pipeline():
    from sklearn import preprocessing

    return {"steps": [("a", preprocessing.StandardScaler()), ("b", parts(True)[0][1])]}


SMALL = {"n_estimators": 8, "max_iter": 60, "n_init": 1, "hidden_layer_sizes": (8,), "random_state": 0, "n_components": 3, "n_clusters": 3, "n_neighbors": 4, "max_depth": 4}


def estimators():
    found = {}
    for kind in sklearn_supported.build_sklearn_operator_name_map():
        if kind.__module__.startswith("sklearn"):
            found[kind.__name__] = kind
    return dict(sorted(found.items()))


CLASSES = estimators()


def choices(kind):
    """(option, value) of whatever has a list of values, and truth values."""
    from sklearn.utils import _param_validation as validation

    found = []
    for option, constraints in getattr(kind, "_parameter_constraints", {}).items():
        if option in ("verbose", "n_jobs", "copy", "copy_X", "warm_start", "copy_x", "scoring"):
            continue
        for constraint in constraints if isinstance(constraints, list) else []:
            if isinstance(constraint, validation.StrOptions):
                found += [(option, value) for value in sorted(constraint.options)]
            elif constraint == "boolean":
                found += [(option, value) for value in (False, True)]
    return found


def is_kind(kind, what):
    return getattr(kind, "_estimator_type", None) == what or what in kind.__name__.lower() or any(what in base.__name__.lower() for base in kind.__mro__)


def data_kinds(name, kind):
    if name in ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer"):
        return ["texts"]
    if name == "FeatureHasher":
        return ["words"]
    if name in ("DictVectorizer",):
        return ["maps"]
    if name in ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder", "SimpleImputer"):
        return ["categories", "words", "plain"]
    if name in ("LabelEncoder", "LabelBinarizer"):
        return ["labels", "label words"]
    if is_kind(kind, "classifier"):
        return ["three", "two", "words", "several", "three without ZipMap", "three in columns", "three doubles", "raw scores", "batch of one"]
    if is_kind(kind, "regressor"):
        return ["plain", "several", "doubles", "whole numbers", "batch of one"]
    return ["plain", "doubles", "missing", "whole numbers", "counts"]


def names():
    found = []
    for name, kind in CLASSES.items():
        kinds = data_kinds(name, kind)
        found += [f"{name} {data}" for data in kinds]
        found += [f"{name} {kinds[0]} {option}={value!r}" for option, value in choices(kind)]
    return found


def features(data, rng):
    x = rng.standard_normal((SAMPLES, FEATURES)).astype(np.float32)
    if data == "missing":
        x[rng.random(x.shape) < 0.1] = np.nan
    elif data == "counts":
        x = rng.integers(0, 5, x.shape).astype(np.float32)
    elif data == "categories":
        x = rng.integers(0, 4, x.shape)
    elif data == "whole numbers":
        x = rng.integers(-5, 9, x.shape)
    elif data in ("texts", "words", "label words"):
        words = np.array(["red", "green", "blue", "sky", "Sea", "a", "of", "stone"])
        x = words[rng.integers(0, 8, x.shape)].astype(object)
    elif "doubles" in data:
        x = x.astype(np.float64)
    return x


def target(data, x, rng):
    numbers = np.nan_to_num(x.astype(np.float64)) if x.dtype != object else rng.standard_normal(x.shape)
    score = numbers @ rng.standard_normal(numbers.shape[1]) + 0.3 * rng.standard_normal(len(x))
    return score


def labels(data, score, rng):
    if data == "several":
        return np.stack([(score > 0).astype(np.int64), (np.roll(score, 1) > 0.2).astype(np.int64)], 1)
    number = np.digitize(score, np.quantile(score, [0.5] if data == "two" else [0.33, 0.66]))
    return np.array(["low", "middle", "high"])[number] if data == "words" else number


def guessed_type(x):
    from skl2onnx.common import data_types

    kinds = {"float32": data_types.FloatTensorType, "float64": data_types.DoubleTensorType, "int64": data_types.Int64TensorType}
    return kinds.get(str(x.dtype), data_types.StringTensorType)([None, x.shape[1]] if x.ndim > 1 else [None])


def fitted(name, data, option, rng):
    """(estimator, its input)"""
    kind = CLASSES[name]
    arguments = NEEDED[name]() if name in NEEDED else {}
    known = getattr(kind, "_parameter_constraints", {})
    arguments = {**{key: value for key, value in SMALL.items() if key in known and key not in arguments}, **arguments}
    if option:
        arguments.update(option)
    x = features(data, rng)
    if data.startswith("label"):
        y = rng.integers(0, 4, SAMPLES) if data == "labels" else x[:, 0].astype(str)
        return kind(**arguments).fit(y), y
    if data == "texts":
        x = np.array([" ".join(row) for row in x], dtype=object)
    score = target(data, x, rng) if data != "texts" else rng.standard_normal(SAMPLES)
    if is_kind(kind, "classifier") or name in NEEDED:
        if is_kind(kind, "classifier") and data == "words":
            x = features("plain", rng)
            score = target(data, x, rng)
        y = labels(data, score, rng) if not is_kind(kind, "regressor") else score
    else:
        y = np.stack([score, np.roll(score, 1)], 1) if data == "several" else score
    if is_kind(kind, "nb") or name in ("ComplementNB", "MultinomialNB", "NMF", "LatentDirichletAllocation") or "Poisson" in name or "Gamma" in name:
        x = np.abs(x)
        y = np.abs(y) + 0.1 if getattr(y, "dtype", None) is not None and y.dtype.kind == "f" else y
    return kind(**arguments).fit(x, y), x


def parsed(name):
    """(estimator, data, {option: value}) of a case's name."""
    estimator = name.split(" ", 1)[0]
    rest = name[len(estimator) + 1 :]
    option = {}
    if "=" in rest:
        rest, last = rest.rsplit(" ", 1)
        key, value = last.split("=", 1)
        option = {key: {repr(v): v for _, v in choices(CLASSES[estimator])}[value]}
    return estimator, rest, option


def conversion_options(model, data):
    from sklearn.base import is_classifier

    if not is_classifier(model):
        return None
    if data == "raw scores":
        return {id(model): {"raw_scores": True, "zipmap": False}}
    if "without" in data:
        return {id(model): {"zipmap": False}}
    return {id(model): {"zipmap": "columns"}} if "columns" in data else None


def make(name):
    import skl2onnx

    estimator, data, option = parsed(name)
    rng = np.random.default_rng(cases.seed_of(name))
    random.seed(0)
    np.random.seed(0)
    model, x = fitted(estimator, data, option, rng)
    opset = {"": 15 + cases.seed_of(name) % 7, "ai.onnx.ml": 3}
    made = skl2onnx.to_onnx(model, initial_types=[("X", guessed_type(x))], options=conversion_options(model, data), target_opset=opset)
    rows = [x[:1]] if data == "batch of one" else [x[:25], x[25:28]]
    shape = (-1,) if x.ndim == 1 else (-1, x.shape[1])
    return cases.Case(made.SerializeToString(), [{"X": part.reshape(shape)} for part in rows])
