"""LightGBM's and XGBoost's models of every booster and objective, by onnxmltools."""

import itertools

import numpy as np

import cases

SAMPLES, FEATURES = 120, 5
DATA = ["plain", "missing", "whole numbers"]
LIGHT_BOOSTERS = ["gbdt", "dart", "rf", "goss"]
LIGHT_REGRESSION = ["regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie"]
X_REGRESSION = ["reg:squarederror", "reg:logistic", "reg:pseudohubererror", "reg:absoluteerror", "count:poisson", "reg:gamma", "reg:tweedie", "reg:squaredlogerror"]
SIZES = [(1, 2), (6, 3), (25, 6)]  # trees, their depth


def names():
    found = []
    for data, (trees, depth) in itertools.product(DATA, SIZES):
        size = f"{trees}x{depth}"
        for booster, task in itertools.product(LIGHT_BOOSTERS, ["two", "three", "three ZipMap", "two ZipMap", "ranker", "several"]):
            found.append(f"lightgbm {booster} {task} {size} {data}")
        found += [f"lightgbm gbdt {objective} {size} {data}" for objective in LIGHT_REGRESSION]
        found += [f"lightgbm gbdt {task} {size} {data} categories" for task in ("two", "three", "regression")]
        found += [f"lightgbm gbdt {objective} {size} {data} split" for objective in LIGHT_REGRESSION[:2]]
        for booster, task in itertools.product(["gbtree", "dart", "gblinear"], ["two", "three", "reg:squarederror", "forest", "ranker"]):
            found.append(f"xgboost {booster} {task} {size} {data}")
        found += [f"xgboost gbtree {objective} {size} {data}" for objective in X_REGRESSION[1:]]
        found += [f"xgboost gbtree {task} {size} {data} raw" for task in ("two", "three")]
    return found


def features(data, rng):
    x = rng.standard_normal((SAMPLES, FEATURES)).astype(np.float32)
    if data == "whole numbers":
        x = rng.integers(0, 6, x.shape).astype(np.float32)
    if data == "missing":
        x[rng.random(x.shape) < 0.1] = np.nan
    return x


def target(task, x, rng):
    score = np.nan_to_num(x) @ rng.standard_normal(FEATURES) + 0.3 * rng.standard_normal(len(x))
    if task.startswith("two"):
        return (score > np.median(score)).astype(np.int64)
    if task.startswith(("three", "ranker", "forest")):
        return np.digitize(score, np.quantile(score, [0.33, 0.66]))
    low, high = score.min(), score.max()
    return (score - low + 0.01) / (high - low + 0.02)  # between 0 and 1: what every objective takes


def lightgbm_model(booster, task, trees, depth):
    import lightgbm

    options = {"n_estimators": trees, "max_depth": depth, "boosting_type": booster, "min_child_samples": 3, "verbose": -1, "n_jobs": 1}
    if booster == "rf":
        options |= {"subsample": 0.7, "subsample_freq": 1}
    if task.startswith(("two", "three")):
        return lightgbm.LGBMClassifier(**options)
    if task == "ranker":
        return lightgbm.LGBMRanker(**options)
    return lightgbm.LGBMRegressor(**options, objective="regression" if task == "several" else task)


def xgboost_model(booster, task, trees, depth):
    import xgboost

    options = {"n_estimators": trees, "max_depth": depth, "booster": booster, "n_jobs": 1}
    if task == "forest":
        return xgboost.XGBRFClassifier(n_estimators=trees, max_depth=depth, n_jobs=1)
    if task.startswith(("two", "three")):
        return xgboost.XGBClassifier(**options)
    if task == "ranker":
        return xgboost.XGBRanker(**options, objective="rank:pairwise")
    return xgboost.XGBRegressor(**options, objective=task)


def make(name):
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    library, booster, rest = name.split(" ", 2)
    data = next(data for data in DATA if data in rest)
    extra = rest.rsplit(data, 1)[1].strip()
    task, size = rest.rsplit(data, 1)[0].strip().rsplit(" ", 1)
    trees, depth = map(int, size.split("x"))
    rng = np.random.default_rng(cases.seed_of(name))
    x = features(data, rng)
    y = target(task, x, rng)
    model = lightgbm_model(booster, task, trees, depth) if library == "lightgbm" else xgboost_model(booster, task, trees, depth)
    options = {"group": [SAMPLES // 4] * 4} if task == "ranker" else {}
    if extra == "categories":
        x[:, 0] = rng.integers(0, 7, SAMPLES)
        options["categorical_feature"] = [0]
    model.fit(x, y, **options)
    types = [("X", FloatTensorType([None, FEATURES]))]
    opsets = {"target_opset": 9 + cases.seed_of(name) % 7}
    if library == "lightgbm":
        made = onnxmltools.convert_lightgbm(model, initial_types=types, zipmap="ZipMap" in task, split=4 if extra == "split" else None, **opsets)
    else:
        made = onnxmltools.convert_xgboost(model, initial_types=types, **opsets)
    return cases.Case(made.SerializeToString(), [{"X": x[:40]}, {"X": x[40:41]}])
