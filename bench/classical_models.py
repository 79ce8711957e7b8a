"""The models of bench/classical: pipelines of scikit-learn, LightGBM and XGBoost, trained on data that is made here, as ONNX.

Each maker returns an estimator that is not trained yet. Numbers are 20 columns of floats; `mixed` data has texts beside them, `texts` are
sentences of some words.
"""

import os

import common
import numpy as np

SAMPLES, COLUMNS = 2000, 20
WORDS = [f"{a}{b}" for a in ("ba", "ke", "li", "mo", "nu", "ra", "so", "ti") for b in ("bel", "dan", "fo", "gis", "kum", "lor", "mit", "nep", "rus", "tav")]
CITIES = ["Rome", "Oslo", "Kyiv", "Lima", "Bern", "Cairo"]


def numbers(rows, seed):
    return np.random.default_rng(seed).standard_normal((rows, COLUMNS)).astype(np.float32)


def mixed(rows, seed):
    rng = np.random.default_rng(seed)
    return {
        "a": rng.standard_normal((rows, 1)).astype(np.float32),
        "b": rng.standard_normal((rows, 1)).astype(np.float32),
        "city": rng.choice(np.array(CITIES, object), (rows, 1)),
        "kind": rng.integers(0, 12, (rows, 1)),
    }


def texts(rows, seed):
    rng = np.random.default_rng(seed)
    return np.array([[" ".join(rng.choice(WORDS, 12))] for _ in range(rows)], object)


def missing(rows, seed):
    x = numbers(rows, seed)
    x[np.random.default_rng(seed + 1).random(x.shape) < 0.1] = np.nan
    return x


def scores(x):
    """A number for each row, mostly linear in the columns."""
    if isinstance(x, dict):
        return x["a"][:, 0] + np.array([CITIES.index(c) % 3 for c in x["city"][:, 0]]) - 0.2 * x["kind"][:, 0]
    if x.dtype == object:
        return np.array([text[0].count("ba") - text[0].count("so") for text in x], float)
    weights = np.random.default_rng(0).standard_normal(COLUMNS)
    return np.nan_to_num(x) @ weights + 2 * np.sin(3 * np.nan_to_num(x[:, 0]))


def two(x):
    s = scores(x)
    return (s > np.median(s)).astype(np.int64)


def three(x):
    s = scores(x)
    return np.digitize(s, np.quantile(s, [0.33, 0.66]))


def makers():
    """name: (family, estimator, data, target)."""
    import lightgbm
    import xgboost
    from sklearn import compose, decomposition, ensemble, feature_extraction, gaussian_process, impute, linear_model, naive_bayes, neighbors, neural_network, preprocessing, svm, tree
    from sklearn import cluster, discriminant_analysis
    from sklearn.pipeline import make_pipeline, make_union

    def columns(last):
        parts = [("numbers", preprocessing.StandardScaler(), [0, 1]), ("texts", preprocessing.OneHotEncoder(), [2]), ("kinds", preprocessing.OneHotEncoder(), [3])]
        return make_pipeline(compose.ColumnTransformer(parts), last)

    def scaled(last):
        return make_pipeline(preprocessing.StandardScaler(), last)

    logistic = linear_model.LogisticRegression
    trees = {
        "decision tree, three classes": (tree.DecisionTreeClassifier(random_state=0), numbers, three),
        "random forest, two classes": (ensemble.RandomForestClassifier(100, random_state=0), numbers, two),
        "random forest, three classes": (ensemble.RandomForestClassifier(100, random_state=0), numbers, three),
        "random forest, regression": (ensemble.RandomForestRegressor(100, random_state=0), numbers, scores),
        "random forest, depth 6": (ensemble.RandomForestClassifier(100, max_depth=6, random_state=0), numbers, two),
        "extra trees, regression": (ensemble.ExtraTreesRegressor(100, random_state=0), numbers, scores),
        "gradient boosting, two classes": (ensemble.GradientBoostingClassifier(random_state=0), numbers, two),
        "gradient boosting, three classes": (ensemble.GradientBoostingClassifier(random_state=0), numbers, three),
        "gradient boosting, regression": (ensemble.GradientBoostingRegressor(random_state=0), numbers, scores),
        "AdaBoost": (ensemble.AdaBoostClassifier(random_state=0), numbers, two),
        "isolation forest": (ensemble.IsolationForest(random_state=0), numbers, two),
        "bagged trees": (ensemble.BaggingRegressor(random_state=0), numbers, scores),
        "scaler, random forest": (scaled(ensemble.RandomForestClassifier(100, random_state=0)), numbers, two),
        "imputer, gradient boosting": (make_pipeline(impute.SimpleImputer(), ensemble.GradientBoostingRegressor(random_state=0)), missing, scores),
        "LightGBM, two classes": (lightgbm.LGBMClassifier(verbose=-1), numbers, two),
        "LightGBM, three classes": (lightgbm.LGBMClassifier(verbose=-1), numbers, three),
        "LightGBM, regression": (lightgbm.LGBMRegressor(verbose=-1), numbers, scores),
        "LightGBM, missing values": (lightgbm.LGBMRegressor(verbose=-1, n_estimators=300), missing, scores),
        "XGBoost, two classes": (xgboost.XGBClassifier(), numbers, two),
        "XGBoost, three classes": (xgboost.XGBClassifier(), numbers, three),
        "XGBoost, regression": (xgboost.XGBRegressor(), numbers, scores),
        "columns, random forest": (columns(ensemble.RandomForestClassifier(100, random_state=0)), mixed, two),
    }
    linear = {
        "logistic regression, two classes": (logistic(), numbers, two),
        "logistic regression, three classes": (logistic(), numbers, three),
        "linear regression": (linear_model.LinearRegression(), numbers, scores),
        "scaler, logistic regression": (scaled(logistic()), numbers, two),
        "PCA, logistic regression": (make_pipeline(decomposition.PCA(8), logistic()), numbers, two),
        "scaler, PCA, linear regression": (make_pipeline(preprocessing.StandardScaler(), decomposition.PCA(8), linear_model.LinearRegression()), numbers, scores),
        "two scalers, ridge": (make_pipeline(make_union(preprocessing.StandardScaler(), preprocessing.MinMaxScaler()), linear_model.Ridge()), numbers, scores),
        "polynomial features, linear regression": (make_pipeline(preprocessing.PolynomialFeatures(2), linear_model.LinearRegression()), numbers, scores),
        "power transformer, logistic regression": (make_pipeline(preprocessing.PowerTransformer(), logistic()), numbers, two),
        "bins, logistic regression": (make_pipeline(preprocessing.KBinsDiscretizer(5, encode="onehot-dense", quantile_method="averaged_inverted_cdf"), logistic()), numbers, two),
        "discriminant analysis": (discriminant_analysis.LinearDiscriminantAnalysis(), numbers, three),
        "naive Bayes": (naive_bayes.GaussianNB(), numbers, three),
        "columns, logistic regression": (columns(logistic()), mixed, two),
        "TF-IDF, logistic regression": (make_pipeline(feature_extraction.text.TfidfVectorizer(), logistic()), texts, two),
    }
    others = {
        "SVC": (svm.SVC(), numbers, two),
        "SVC, probabilities": (svm.SVC(probability=True), numbers, three),
        "SVR": (svm.SVR(), numbers, scores),
        "one-class SVM": (svm.OneClassSVM(), numbers, two),
        "neighbours, classes": (neighbors.KNeighborsClassifier(), numbers, two),
        "neighbours, regression": (neighbors.KNeighborsRegressor(), numbers, scores),
        "Gaussian process": (gaussian_process.GaussianProcessRegressor(alpha=1.0, optimizer=None), numbers, scores),
        "k-means": (cluster.KMeans(8, n_init=1, random_state=0), numbers, two),
        "perceptron of two layers": (neural_network.MLPClassifier((50,), max_iter=40), numbers, two),
    }
    return {name: (family, *maker) for family, table in (("trees", trees), ("linear", linear), ("others", others)) for name, maker in table.items()}


def longer_pipelines():
    """Pipelines of several transformers, in the form of makers()."""
    import lightgbm
    import xgboost
    from sklearn import compose, decomposition, discriminant_analysis, ensemble, feature_selection, impute, linear_model, neural_network, pipeline, preprocessing, random_projection, svm, tree

    def chain(*steps):
        return pipeline.make_pipeline(*steps)

    scalers = preprocessing.StandardScaler, preprocessing.MinMaxScaler, preprocessing.RobustScaler, preprocessing.MaxAbsScaler
    logistic = linear_model.LogisticRegression
    found = {
        "three scalers, linear regression": (chain(*(kind() for kind in scalers[:3]), linear_model.LinearRegression()), scores),
        "scaler, PCA, logistic regression": (chain(scalers[0](), decomposition.PCA(8), logistic()), two),
        "scaler, all components, ridge": (chain(scalers[0](), decomposition.PCA(), linear_model.Ridge()), scores),
        "scaler, PCA of PCA, ridge": (chain(scalers[0](), decomposition.PCA(16), decomposition.PCA(8), linear_model.Ridge()), scores),
        "truncated SVD, linear regression": (chain(scalers[0](), decomposition.TruncatedSVD(10), linear_model.LinearRegression()), scores),
        "projection, logistic regression": (chain(random_projection.GaussianRandomProjection(16, random_state=0), logistic()), two),
        "range, scaler, SVM": (chain(scalers[1](), scalers[0](), svm.LinearSVR()), scores),
        "scaler, selection, regression": (chain(scalers[0](), feature_selection.SelectKBest(feature_selection.f_regression, k=8), linear_model.LinearRegression()), scores),
        "selection, scaler, PCA, regression": (chain(feature_selection.SelectKBest(feature_selection.f_regression, k=12), scalers[2](), decomposition.PCA(6), linear_model.LinearRegression()), scores),
        "scaler, discriminants, regression": (chain(scalers[0](), decomposition.PCA(10), scalers[0](), linear_model.LinearRegression()), scores),
        "scaler, PCA, perceptron": (chain(scalers[0](), decomposition.PCA(10), neural_network.MLPRegressor(hidden_layer_sizes=(50,), max_iter=40, random_state=0)), scores),
        "scaler, PCA, discriminant analysis": (chain(scalers[0](), decomposition.PCA(10), discriminant_analysis.LinearDiscriminantAnalysis()), three),
        "whitening, ridge classifier": (chain(scalers[3](), decomposition.PCA(10, whiten=True), linear_model.RidgeClassifier()), two),
    }

    def best(k):
        return feature_selection.SelectKBest(feature_selection.f_classif, k=k)

    forest = ensemble.RandomForestClassifier(100, random_state=0)
    apart = compose.ColumnTransformer([("first", scalers[0](), list(range(8))), ("some", scalers[1](), [9, 12, 15])])
    trees = {
        "range, decision tree": (chain(scalers[1](), tree.DecisionTreeClassifier(random_state=0)), numbers, three),
        "selection, decision tree": (chain(best(8), tree.DecisionTreeClassifier(random_state=0)), numbers, three),
        "selection, random forest": (chain(best(8), forest), numbers, two),
        "scaler, selection, random forest": (chain(scalers[0](), best(8), forest), numbers, two),
        "columns scaled apart, random forest": (chain(apart, forest), numbers, two),
        "columns scaled apart, decision tree": (chain(apart, tree.DecisionTreeClassifier(random_state=0)), numbers, three),
        "imputer, LightGBM": (chain(impute.SimpleImputer(), lightgbm.LGBMClassifier(verbose=-1)), missing, two),
        "imputer, scaler, LightGBM": (chain(impute.SimpleImputer(), scalers[0](), lightgbm.LGBMRegressor(verbose=-1)), missing, scores),
        "imputer, scaler, selection, XGBoost": (chain(impute.SimpleImputer(), scalers[2](), best(10), xgboost.XGBClassifier(n_estimators=50)), missing, two),
        "imputer, scaler, decision tree": (chain(impute.SimpleImputer(), scalers[0](), tree.DecisionTreeRegressor(random_state=0)), missing, scores),
    }
    linear = {name: ("linear", estimator, numbers, target) for name, (estimator, target) in found.items()}
    return {**linear, **{name: ("trees", *maker) for name, maker in trees.items()}}


def register_boosters():
    import lightgbm
    import xgboost
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes as of_classes, calculate_linear_regressor_output_shapes as of_numbers

    maps = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    update_registered_converter(lightgbm.LGBMClassifier, "LGBMClassifier", of_classes, convert_lightgbm, options=maps)
    update_registered_converter(lightgbm.LGBMRegressor, "LGBMRegressor", of_numbers, convert_lightgbm, options={"split": None})
    update_registered_converter(xgboost.XGBClassifier, "XGBClassifier", of_classes, convert_xgboost, options=maps)
    update_registered_converter(xgboost.XGBRegressor, "XGBRegressor", of_numbers, convert_xgboost)


def as_table(x):
    """What scikit-learn reads."""
    if isinstance(x, dict):
        return np.concatenate([column.astype(object) for column in x.values()], axis=1)
    return x[:, 0] if x.dtype == object else x


def make(estimator, data, target, path):
    """Trains the estimator and writes it as ONNX; classes' scores are a table."""
    import warnings

    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    warnings.filterwarnings("ignore")
    register_boosters()
    x = data(SAMPLES, 1)
    estimator.fit(as_table(x), target(x))
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    options = {id(last): {"zipmap": False}} if hasattr(last, "predict_proba") or type(last).__name__ == "SVC" else {}
    # ONNX Runtime refuses a locale that is not installed; this one is everywhere.
    options.update({id(step): {"locale": "C"} for _, step in getattr(estimator, "steps", []) if type(step).__name__.endswith("Vectorizer")})
    kinds = {"f": FloatTensorType, "i": Int64TensorType, "O": StringTensorType}
    inputs = x if isinstance(x, dict) else {"X": x}
    types = [(name, kinds[column.dtype.kind]([None, column.shape[1]])) for name, column in inputs.items()]
    model = to_onnx(estimator, initial_types=types, options=options, target_opset={"": 17, "ai.onnx.ml": 3})
    with open(path + ".new", "wb") as file:
        file.write(model.SerializeToString())
    os.replace(path + ".new", path)


def model_path(name):
    folder = os.path.join(common.cache_folder(), "bench-classical-models")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name.replace(", ", "_").replace(" ", "_") + ".onnx")


def compare(expected, found):
    """(rows with another label, the largest relative error of scores)."""
    labels, error = 0, 0.0
    for want, got in zip(expected, found, strict=True):
        want, got = np.asarray(want), np.asarray(got)
        if want.dtype.kind in "iOSU":
            labels += int((want.astype(str) != got.astype(str)).sum()) if want.shape == got.shape else want.size
        else:
            error = max(error, common.relative_error([want], [got]))
    return labels, error


def feeds(data, rows):
    x = data(rows, 2)
    return x if isinstance(x, dict) else {"X": x}
