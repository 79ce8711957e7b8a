"""Whether two runtimes computed the same: values of ONNX as Python has them (arrays, lists, maps, None)."""

import numpy as np

# Relative to an element's size, or to the usual size in its tensor where the element is smaller.
TOLERANCES = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-3, "float64": 1e-6}


def difference(expected, actual, numbers=True, of_largest=False):
    """The difference of two values, in a few words, or None. numbers=False: types and sizes alone, for random results. of_largest: errors
    relative to a tensor's largest element."""
    if expected is None or actual is None:
        return None if expected is None and actual is None else f"{kind(expected)} and {kind(actual)}"
    if isinstance(expected, (list, tuple)):
        return sequence_difference(expected, actual, numbers, of_largest)
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or list(expected) != list(actual):
            return f"{kind(expected)} and {kind(actual)} with other keys"
        return sequence_difference(list(expected.values()), list(actual.values()), numbers, of_largest)
    return array_difference(np.asarray(expected), np.asarray(actual), numbers, of_largest)


def sequence_difference(expected, actual, numbers, of_largest):
    if not isinstance(actual, (list, tuple)) or len(expected) != len(actual):
        return f"{kind(expected)} and {kind(actual)}"
    for index, (a, b) in enumerate(zip(expected, actual)):
        found = difference(a, b, numbers, of_largest)
        if found:
            return f"[{index}]: {found}"
    return None


def kind(value):
    if isinstance(value, (list, tuple, dict)):
        return f"{type(value).__name__} of {len(value)}"
    return "nothing" if value is None else f"{np.asarray(value).dtype}{list(np.shape(value))}"


def is_text(array):
    return array.dtype.kind in "OUS"


def array_difference(expected, actual, numbers, of_largest):
    if is_text(expected) and is_text(actual):
        same = expected.shape == actual.shape and (expected.astype(object) == actual.astype(object)).all()
        return None if same else "texts differ" if expected.shape == actual.shape else f"{kind(expected)} and {kind(actual)}"
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return f"{kind(expected)} and {kind(actual)}"
    if expected.size == 0 or not numbers:
        return None
    if expected.dtype.kind not in "fV" and str(expected.dtype) not in TOLERANCES:
        wrong = int((expected != actual).sum())
        return f"{wrong} of {expected.size} elements" if wrong else None
    tolerance = TOLERANCES.get(str(expected.dtype), 1e-1)
    return float_difference(expected.astype(np.float64), actual.astype(np.float64), tolerance, of_largest)


def float_difference(expected, actual, tolerance, of_largest):
    finite = np.isfinite(expected)
    special = ~finite | ~np.isfinite(actual)
    if not np.array_equal(expected[special], actual[special], equal_nan=True):
        where = np.argwhere(special & ~((expected == actual) | (np.isnan(expected) & np.isnan(actual))))[0]
        return f"{expected[tuple(where)]} and {actual[tuple(where)]} at {where.tolist()}"
    if not finite.any():
        return None
    wanted = np.abs(expected[finite])
    usual = np.median(wanted) + 1e-2 * wanted.max()
    unit = wanted.max() if of_largest else wanted + usual
    error = np.abs(expected[finite] - actual[finite]) / np.maximum(unit, 1e-6)
    return f"relative error {error.max():.1e}" if error.max() > tolerance else None
