"""The cases of bench/classical_coverage: estimators with their default options, small data for them, and what the package itself computes."""

import functools

import numpy as np

from classical_models import WORDS, register_boosters

SAMPLES, COLUMNS = 200, 6
NEEDS_POSITIVE = ("MultinomialNB", "ComplementNB", "CategoricalNB", "TfidfTransformer", "GammaRegressor", "PoissonRegressor", "TweedieRegressor")
ONE_NUMBER = ("IsotonicRegression",)
SEVERAL_TARGETS = ("MultiTaskElasticNet", "MultiTaskElasticNetCV", "MultiTaskLasso", "MultiTaskLassoCV", "MultiOutputRegressor", "MultiOutputClassifier")
TARGET_TABLES = ("LinearRegression", "Ridge", "RandomForestRegressor", "DecisionTreeRegressor", "ExtraTreesRegressor", "KNeighborsRegressor", "MLPRegressor", "PLSRegression", "RandomForestClassifier", "DecisionTreeClassifier")
INNER = {
    "VotingClassifier": "classifiers",
    "VotingRegressor": "regressors",
    "StackingClassifier": "classifiers",
    "StackingRegressor": "regressors",
    "ColumnTransformer": "columns",
    "FeatureUnion": "scalers",
    "Pipeline": "steps",
}


class Case:
    """A model, inputs for it, and what the package computes of them."""

    def __init__(self, estimator, fit_on, target, draw, types, options=None):
        from skl2onnx import to_onnx

        self.estimator = estimator.fit(fit_on) if target is None else estimator.fit(fit_on, target)
        self.draw = draw
        self.model = to_onnx(estimator, initial_types=types, target_opset={"": 17, "ai.onnx.ml": 3}, options={id(estimator): options} if options else None)
        self.names = [name for name, _ in types]

    def feeds(self, rows):
        x = self.draw(rows, 7)
        return x if isinstance(x, dict) else {self.names[0]: x}

    def own(self, feeds):
        """The package's results in the order of the model's outputs; None where it has no such method."""
        x = next(iter(feeds.values()))
        if len(feeds) > 1:
            x = np.concatenate([column.astype(object) for column in feeds.values()], axis=1)
        if isinstance(x, np.ndarray) and x.dtype == object and x.ndim == 2 and x.shape[1] == 1 and not hasattr(self.estimator, "categories_"):
            x = x[:, 0]
        methods = [("predict", "predict_proba"), ("predict", "decision_function"), ("transform", None)]
        if hasattr(self.estimator, "predict"):
            if hasattr(self.estimator, "score_samples") and hasattr(self.estimator, "offset_"):
                methods = [("predict", "decision_function")]
            first, second = next((pair for pair in methods if all(name and hasattr(self.estimator, name) for name in pair)), ("predict", None))
        else:
            first, second = ("transform" if hasattr(self.estimator, "transform") else None), None
        return [self.computed(name, x) for name in (first, second)]

    def computed(self, method, x):
        try:
            return None if method is None else getattr(self.estimator, method)(x)
        except (AttributeError, ValueError):  # an estimator inside has no such method; the data has a category that is not known
            return None


def floats(rows, seed, kind, positive=False, whole=False, missing=0.0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, COLUMNS))
    if whole:
        x = rng.integers(0, 4, x.shape)
    x = (np.abs(x) + 0.1 if positive and not whole else x).astype(kind)
    if missing:
        x[rng.random(x.shape) < missing] = np.nan
    return x


def texts(rows, seed):
    rng = np.random.default_rng(seed)
    separators = np.array([" ", ", ", ". ", " - "])
    return np.array([["".join(word + rng.choice(separators) for word in rng.choice(WORDS, 9))] for _ in range(rows)], object)


def categories(rows, seed):
    return np.random.default_rng(seed).choice(np.array(["red", "green", "blue", "grün"], object), (rows, 2))


def scores(x):
    x = np.nan_to_num(np.asarray(x, float))
    return x @ np.arange(1, x.shape[1] + 1) / 4 + np.sin(2 * x[:, 0])


def classes(x, count, labels=None):
    number = np.digitize(scores(x), np.quantile(scores(x), [(i + 1) / count for i in range(count - 1)]))
    return number if labels is None else np.array(labels)[number]


def inner(kind):
    from sklearn import linear_model, preprocessing, tree

    return {
        "classifiers": [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(random_state=0, max_depth=4))],
        "regressors": [("a", linear_model.LinearRegression()), ("b", tree.DecisionTreeRegressor(random_state=0, max_depth=4))],
        "columns": [("a", preprocessing.StandardScaler(), [0, 1]), ("b", preprocessing.MinMaxScaler(), [2, 3])],
        "scalers": [("a", preprocessing.StandardScaler()), ("b", preprocessing.MinMaxScaler())],
        "steps": [("a", preprocessing.StandardScaler()), ("b", linear_model.LogisticRegression())],
    }[kind]


def built(kind):
    """An estimator with its default options; those that need others get them."""
    from sklearn import linear_model, tree

    name = kind.__name__
    if name in INNER:
        return kind(inner(INNER[name]))
    if name == "GridSearchCV":
        return kind(linear_model.LogisticRegression(), {"C": [0.1, 1.0]})
    if name == "MultiOutputRegressor" or name in ("RFE", "RFECV", "SelectFromModel"):
        return kind(linear_model.LinearRegression())
    if name in ("OneVsOneClassifier", "OneVsRestClassifier", "MultiOutputClassifier", "TunedThresholdClassifierCV"):
        return kind(linear_model.LogisticRegression())
    if name == "CastRegressor":
        return kind(tree.DecisionTreeRegressor(random_state=0))
    options = {"random_state": 0} if "random_state" in kind().get_params() else {}
    if name.startswith("LGBM"):
        options["verbose"] = -1
    if name == "RadiusNeighborsRegressor" or name == "RadiusNeighborsClassifier":
        options["radius"] = 6.0  # no row without neighbours
    return kind(**options)


def numeric_case(kind, element, count, targets=1, labels=None, missing=0.0):
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType

    estimator = built(kind)
    name = kind.__name__
    draw = functools.partial(floats, kind=element, positive=name in NEEDS_POSITIVE, whole=name == "CategoricalNB" or element == np.int64, missing=missing)
    x = draw(SAMPLES, 1)
    if getattr(estimator, "_estimator_type", None) == "classifier" or hasattr(kind, "predict_proba") or "Classifier" in name or name in ("Perceptron", "LinearSVC", "SVC", "NuSVC") or count > 2:
        target = classes(x, count, labels)
    else:
        target = scores(x)
        target = np.exp(target / 4) if name in NEEDS_POSITIVE else target
    if targets > 1:
        target = np.stack([target, target[::-1]], axis=1)
    types = {np.float32: FloatTensorType, np.float64: DoubleTensorType, np.int64: Int64TensorType}
    # ONNX has no maps of doubles.
    options = {"zipmap": False} if element == np.float64 and (hasattr(estimator, "predict_proba") or "Classifier" in name or name in ("SVC", "NuSVC", "LinearSVC")) else None
    return Case(estimator, x, target, draw, [("X", types[element]([None, COLUMNS]))], options)


def text_case(kind, **options):
    from skl2onnx.common.data_types import StringTensorType

    estimator = kind(**options)
    # ONNX Runtime refuses a locale that is not installed; this one is everywhere.
    return Case(estimator, texts(SAMPLES, 1)[:, 0], None, texts, [("X", StringTensorType([None, 1]))], {"locale": "C"})


def category_case(kind, **options):
    from skl2onnx.common.data_types import StringTensorType

    estimator = kind(**options)
    x = categories(SAMPLES, 1)
    return Case(estimator, x, (x[:, 0] == "red").astype(int) if kind.__name__ == "TargetEncoder" else None, categories, [("X", StringTensorType([None, 2]))])


def label_case(kind, draw, kinds):
    return Case(kind(), draw(SAMPLES, 1), None, draw, [("X", kinds([None]))])


def label_cases():
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType
    from sklearn import preprocessing

    def words(rows, seed):
        return categories(rows, seed)[:, 0]

    def numbers(rows, seed):
        return np.random.default_rng(seed).integers(0, 5, rows)

    for kind in (preprocessing.LabelEncoder, preprocessing.LabelBinarizer):
        yield f"{kind.__name__}, integers", lambda kind=kind: label_case(kind, numbers, Int64TensorType)
        yield f"{kind.__name__}, texts", lambda kind=kind: label_case(kind, words, StringTensorType)


def dictionaries():
    """A vectorizer of dictionaries, before a model too."""
    from skl2onnx.common.data_types import DictionaryType, FloatTensorType, StringTensorType
    from sklearn import feature_extraction

    def draw(rows, seed):
        rng = np.random.default_rng(seed)
        return [{"a": float(rng.normal()), "b": float(rng.normal())} for _ in range(rows)]

    case = Case(feature_extraction.DictVectorizer(), draw(SAMPLES, 1), None, lambda rows, seed: draw(rows, seed), [("X", DictionaryType(StringTensorType([1]), FloatTensorType([1])))])
    case.feeds = lambda rows: {"X": draw(rows, 7)[0]}
    case.own = lambda feeds: [case.estimator.transform([feeds["X"]])]
    return case


def mixed_case(last):
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
    from sklearn import compose, impute, pipeline, preprocessing

    import classical_models

    parts = [
        ("numbers", pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler()), [0, 1]),
        ("texts", preprocessing.OneHotEncoder(handle_unknown="ignore"), [2]),
        ("kinds", preprocessing.OneHotEncoder(handle_unknown="ignore"), [3]),
    ]
    x = classical_models.mixed(SAMPLES, 1)
    kinds = {"f": FloatTensorType, "i": Int64TensorType, "O": StringTensorType}
    types = [(name, kinds[column.dtype.kind]([None, 1])) for name, column in x.items()]
    return Case(pipeline.make_pipeline(compose.ColumnTransformer(parts), last), classical_models.as_table(x), classical_models.two(x), classical_models.mixed, types)


def pipelines(seed):
    """Random chains of transformers and a model."""
    from sklearn import decomposition, ensemble, feature_selection, linear_model, naive_bayes, neighbors, pipeline, preprocessing, svm, tree

    import lightgbm
    import xgboost

    firsts = [preprocessing.StandardScaler, preprocessing.MinMaxScaler, preprocessing.MaxAbsScaler, preprocessing.RobustScaler, preprocessing.Normalizer, preprocessing.Binarizer, preprocessing.PowerTransformer, preprocessing.PolynomialFeatures, lambda: preprocessing.QuantileTransformer(n_quantiles=10), lambda: preprocessing.KBinsDiscretizer(encode="onehot-dense")]
    seconds = [decomposition.PCA, lambda: feature_selection.SelectKBest(k=4), feature_selection.VarianceThreshold, lambda: decomposition.TruncatedSVD(4), preprocessing.StandardScaler]
    lasts = [linear_model.LogisticRegression, linear_model.LinearRegression, svm.SVC, svm.SVR, lambda: ensemble.RandomForestClassifier(10, random_state=0), lambda: ensemble.GradientBoostingRegressor(n_estimators=20), naive_bayes.GaussianNB, neighbors.KNeighborsClassifier, lambda: tree.DecisionTreeClassifier(random_state=0), lambda: lightgbm.LGBMClassifier(verbose=-1, n_estimators=20), lambda: xgboost.XGBRegressor(n_estimators=20), linear_model.SGDClassifier]
    rng = np.random.default_rng(seed)

    def make(first, second, last):
        from skl2onnx.common.data_types import FloatTensorType

        draw = functools.partial(floats, kind=np.float32)
        x = draw(SAMPLES, 1)
        estimator = pipeline.make_pipeline(first(), second(), last())
        return Case(estimator, x, classes(x, 3), draw, [("X", FloatTensorType([None, COLUMNS]))])

    for number in range(60):
        parts = [chosen[int(rng.integers(len(chosen)))] for chosen in (firsts, seconds, lasts)]
        name = ", ".join(type(part()).__name__ for part in parts)
        yield f"pipeline {number}: {name}", functools.partial(make, *parts)


def cases(seed):
    """(name, a function that makes the case) of all."""
    import lightgbm
    import xgboost
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from sklearn import linear_model
    from sklearn.feature_extraction import text as text_module

    register_boosters()
    others = ("CountVectorizer", "TfidfVectorizer", "DictVectorizer", "FeatureHasher", "LabelEncoder", "LabelBinarizer", "_ConstantPredictor", "KernelCenterer", "OneHotEncoder", "TargetEncoder")
    kinds = sorted((kind for kind in sklearn_operator_name_map if kind.__name__ not in others and kind.__module__.startswith(("sklearn", "skl2onnx"))), key=lambda kind: kind.__name__)
    for kind in [*kinds, lightgbm.LGBMClassifier, lightgbm.LGBMRegressor, lightgbm.LGBMRanker, xgboost.XGBClassifier, xgboost.XGBRegressor, xgboost.XGBRFClassifier, xgboost.XGBRFRegressor]:
        name = kind.__name__
        targets = 2 if name in SEVERAL_TARGETS else 1
        elements = (np.float32, np.float64)
        for element in elements:
            yield f"{name}, {np.dtype(element).name}", functools.partial(numeric_case, kind, element, 2, targets)
        yield f"{name}, int64", functools.partial(numeric_case, kind, np.int64, 2, targets)
        if "Classifier" in name or name.endswith(("NB", "SVC")) or "Regression" in name or "DiscriminantAnalysis" in name:
            yield f"{name}, three classes", functools.partial(numeric_case, kind, np.float32, 3, targets)
            yield f"{name}, texts as classes", functools.partial(numeric_case, kind, np.float32, 3, targets, ["no", "perhaps", "yes"])
            yield f"{name}, two texts as classes", functools.partial(numeric_case, kind, np.float32, 2, targets, ["no", "yes"])
        if name in TARGET_TABLES:
            yield f"{name}, two targets", functools.partial(numeric_case, kind, np.float32, 2, 2)
        if name in ("SimpleImputer", "KNNImputer") or name.startswith(("LGBM", "XGB", "Hist")):
            yield f"{name}, missing values", functools.partial(numeric_case, kind, np.float32, 2, 1, None, 0.15)
    for kind in (text_module.CountVectorizer, text_module.TfidfVectorizer):
        for words, options in {"": {}, ", two words": {"ngram_range": (1, 2)}, ", stop words": {"stop_words": ["bafo", "likum"]}, ", as written": {"lowercase": False}, ", characters": {"analyzer": "char", "ngram_range": (1, 3)}, ", logarithms": {"binary": True}, ", pattern": {"token_pattern": "[a-z]+"}}.items():
            yield f"{kind.__name__}{words}", functools.partial(text_case, kind, **options)
    from sklearn import preprocessing

    for kind in (preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder, preprocessing.TargetEncoder):
        yield f"{kind.__name__}, texts", functools.partial(category_case, kind)
    for drop in ("first", "if_binary"):
        yield f"OneHotEncoder, without {drop}", functools.partial(category_case, preprocessing.OneHotEncoder, drop=drop)
    yield "OneHotEncoder, int64", functools.partial(numeric_case, preprocessing.OneHotEncoder, np.int64, 2)
    yield "TargetEncoder, int64", functools.partial(numeric_case, preprocessing.TargetEncoder, np.int64, 2)
    yield from label_cases()
    yield "DictVectorizer", dictionaries
    yield "columns, LogisticRegression", functools.partial(mixed_case, linear_model.LogisticRegression())
    yield "columns, LGBMClassifier", functools.partial(mixed_case, lightgbm.LGBMClassifier(verbose=-1))
    yield from pipelines(seed)
