"""Operators with long sums, and functions: the cases of rounding.py. Each is a name, nodes, inputs, weights, and the same in NumPy,
of any precision. Where the name ends in "each element", elements are compared by themselves.
"""

import math

import numpy as np
from onnx import helper

GENERATOR = np.random.default_rng(1)


def normal(*shape, mean=0.0, scale=1.0):
    return (mean + scale * GENERATOR.standard_normal(shape)).astype(np.float32)


def node(operator, *names, **attributes):
    return helper.make_node(operator, list(names[:-1]), [names[-1]], **attributes)


# ---- Formulas


def windows(x, w, strides, pads, dilations):
    """[N, C, H, W, kh, kw] of what a convolution reads."""
    x = np.pad(x, ((0, 0), (0, 0), (pads, pads), (pads, pads)))
    reach = [(k - 1) * dilations + 1 for k in w.shape[2:]]
    return np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))[:, :, ::strides, ::strides, ::dilations, ::dilations]


def convolution(x, w, strides=1, pads=0, dilations=1, group=1):
    parts = []
    for g in range(group):
        inputs, outputs = x.shape[1] // group, w.shape[0] // group
        v, k = x[:, g * inputs : (g + 1) * inputs], w[g * outputs : (g + 1) * outputs]
        v = windows(v, k, strides, pads, dilations)
        n, c, height, width, kh, kw = v.shape
        v = v.transpose(0, 2, 3, 1, 4, 5).reshape(n * height * width, c * kh * kw)
        parts.append((v @ k.reshape(len(k), -1).T).reshape(n, height, width, len(k)).transpose(0, 3, 1, 2))
    return np.concatenate(parts, 1)


def transposed_convolution(x, w, strides):
    n, c, height, width = x.shape
    spread = np.zeros((n, c, (height - 1) * strides + 1, (width - 1) * strides + 1), x.dtype)
    spread[:, :, ::strides, ::strides] = x
    return convolution(spread, np.ascontiguousarray(w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]), pads=w.shape[2] - 1)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x, scale, bias):
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + x.dtype.type(1e-5)) * scale + bias


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def normalized(x, axes, epsilon=1e-5):
    centered = x - x.mean(axes, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axes, keepdims=True) + x.dtype.type(epsilon))


def erf(x):
    return np.vectorize(math.erf)(x).astype(x.dtype)


def gelu(x):
    return x.dtype.type(0.5) * x * (1 + erf(x * x.dtype.type(math.sqrt(0.5))))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def swish(x):
    return x / (1 + np.exp(-x))


# ---- Cases


def products():
    for rows, depth, columns in ((1, 2048, 512), (3, 4096, 256), (16, 2048, 256), (128, 768, 512)):
        x, w = normal(rows, depth), normal(depth, columns)
        yield f"MatMul {rows}x{depth}x{columns}", [node("MatMul", "x", "w", "y")], {"x": x}, {"w": w}, np.matmul
        yield f"MatMul {rows}x{depth}x{columns}, computed", [node("MatMul", "x", "w", "y")], {"x": x, "w": w}, {}, np.matmul
        x = np.abs(x)
        yield f"MatMul {rows}x{depth}x{columns}, positive", [node("MatMul", "x", "w", "y")], {"x": x}, {"w": np.abs(w)}, np.matmul
    x, w, b = normal(32, 1000), normal(300, 1000), normal(300)
    yield "Gemm 32x1000x300", [node("Gemm", "x", "w", "b", "y", transB=1)], {"x": x}, {"w": w, "b": b}, lambda x, w, b: x @ w.T + b
    x, w = normal(6, 40, 700), normal(6, 700, 50)
    yield "MatMul 6 of 40x700x50", [node("MatMul", "x", "w", "y")], {"x": x, "w": w}, {}, np.matmul
    x, w = normal(8, 30, 16, 20), normal(8, 30, 16, 24)
    einsum = "abkc,abkd->acd"
    yield "Einsum over 480", [node("Einsum", "x", "w", "y", equation=einsum)], {"x": x, "w": w}, {}, lambda x, w: np.einsum(einsum, x, w, optimize=True)


def convolutions():
    shapes = [  # inputs, outputs, pixels, window, strides, dilations, groups
        (64, 64, 28, 3, 1, 1, 1), (256, 64, 14, 3, 1, 1, 1), (512, 64, 14, 3, 1, 1, 1), (64, 64, 28, 3, 2, 1, 1), (512, 128, 14, 1, 1, 1, 1),
        (32, 32, 28, 5, 1, 1, 1), (32, 32, 28, 7, 1, 1, 1), (16, 16, 28, 11, 1, 1, 1), (64, 64, 28, 3, 1, 1, 64), (64, 64, 28, 3, 1, 1, 16),
        (128, 128, 14, 3, 2, 1, 4), (64, 64, 14, 3, 1, 2, 1), (16, 64, 28, 3, 1, 1, 1), (256, 64, 28, 5, 1, 1, 1), (256, 32, 28, 7, 1, 1, 1),
    ]  # fmt: skip
    for inputs, outputs, pixels, window, strides, dilations, group in shapes:
        pads = (window - 1) * dilations // 2
        x, w = np.maximum(normal(1, inputs, pixels, pixels), 0), normal(outputs, inputs // group, window, window)
        attributes = {"strides": [strides] * 2, "dilations": [dilations] * 2, "pads": [pads] * 4, "group": group}
        name = f"Conv {inputs} to {outputs} on {pixels}x{pixels}, {window}x{window}, strides {strides}, dilations {dilations}, groups {group}"
        yield name, [node("Conv", "x", "w", "y", **attributes)], {"x": x}, {"w": w}, lambda x, w, a=(strides, pads, dilations, group): convolution(x, w, *a)
    x, w = normal(1, 128, 14, 14), normal(128, 64, 4, 4)
    yield "ConvTranspose 128 to 64", [node("ConvTranspose", "x", "w", "y", strides=[2, 2])], {"x": x}, {"w": w}, lambda x, w: transposed_convolution(x, w, 2)
    x, w = normal(1, 96, 16, 16), normal(96, 3, 5, 5)
    yield "ConvTranspose 96 to 3", [node("ConvTranspose", "x", "w", "y", strides=[2, 2])], {"x": x}, {"w": w}, lambda x, w: transposed_convolution(x, w, 2)
    x, w, b = normal(1, 512, 8, 6), normal(512, 128, 4, 4), normal(128)
    transposed = [node("ConvTranspose", "x", "w", "b", "c", strides=[2, 2]), node("Relu", "c", "y")]
    yield "ConvTranspose 512 to 128, bias, Relu", transposed, {"x": x}, {"w": w, "b": b}, lambda x, w, b: np.maximum(transposed_convolution(x, w, 2) + b[:, None, None], 0)
    # As networks have them: depthwise convolutions before 1x1, batch norms behind.
    x = np.maximum(normal(1, 256, 14, 14), 0)
    weights = {"d": normal(256, 1, 3, 3), "w": normal(40, 256, 1, 1)}
    separable = [node("Conv", "x", "d", "t", pads=[1] * 4, group=256), node("Conv", "t", "w", "y")]
    yield "Conv 256 by channel, then to 40", separable, {"x": x}, weights, lambda x, d, w: convolution(convolution(x, d, pads=1, group=256), w)
    weights = {"w": normal(64, 256, 3, 3), "scale": normal(64), "shift": normal(64), "mean": normal(64, scale=30), "var": np.abs(normal(64, mean=2000, scale=300))}
    normed = [node("Conv", "x", "w", "c", strides=[2, 2], pads=[1] * 4), node("BatchNormalization", "c", "scale", "shift", "mean", "var", "y")]

    def norm(x, w, scale, shift, mean, var):
        a, b, m, v = (t[:, None, None] for t in (scale, shift, mean, var))
        return (convolution(x, w, 2, 1) - m) / np.sqrt(v + x.dtype.type(1e-5)) * a + b

    yield "Conv 256 to 64, 3x3, strides 2, BatchNormalization, in one chain", normed, {"x": x}, weights, norm
    x = np.maximum(normal(1, 256, 14, 14), 0)
    weights = {f"w{i}": normal(64, 256, 1, 1) for i in range(4)}
    added = [node("Conv", "x", f"w{i}", f"c{i}") for i in range(4)] + [node("Add", "c0", "c1", "s1"), node("Add", "s1", "c2", "s2"), node("Add", "s2", "c3", "y")]
    yield "Conv 256 to 64, 1x1, four that are added", added, {"x": x}, weights, lambda x, *w: sum(convolution(x, one) for one in w)
    x, w = normal(1, 64, 6, 14, 14), normal(32, 64, 3, 3, 3)

    def in_space(x, w):
        v = np.lib.stride_tricks.sliding_window_view(x, (3, 3, 3), (2, 3, 4)).transpose(0, 2, 3, 4, 1, 5, 6, 7)
        return (v.reshape(-1, 64 * 27) @ w.reshape(32, -1).T).reshape(1, *v.shape[1:4], 32).transpose(0, 4, 1, 2, 3)

    yield "Conv 64 to 32 in three axes, in one chain", [node("Conv", "x", "w", "y")], {"x": x}, {"w": w}, in_space


def reductions():
    for shape, axes in (((8, 6400), (1,)), ((6400, 40), (0,)), ((4, 3000, 30), (1,)), ((3, 40, 50, 60), (1, 2)), ((2, 200000), (1,)), ((40, 50, 16), (0, 1))):
        for operator, reduce in (("ReduceSum", lambda x, a: x.sum(a)), ("ReduceSumSquare", lambda x, a: (x * x).sum(a)), ("ReduceMean", lambda x, a: x.mean(a)), ("ReduceL1", lambda x, a: np.abs(x).sum(a))):  # fmt: skip
            inputs = {"x": normal(*shape, mean=1)}
            nodes = [node(operator, "x", "axes", "y", keepdims=0)]
            yield f"{operator} {shape}, {axes}", nodes, inputs, {"axes": np.array(axes)}, lambda x, _, f=reduce, a=axes: f(x, a)
    yield "ReduceSum (6400, 16), (0,), one number", [node("ReduceSum", "x", "axes", "y")], {"x": np.full((6400, 16), 0.1, np.float32)}, {"axes": np.array([0])}, lambda x, _: x.sum(0, keepdims=True)
    x = normal(8, 6400)
    yield "ReduceL2 (8, 6400)", [node("ReduceL2", "x", "axes", "y")], {"x": x}, {"axes": np.array([1])}, lambda x, _: np.sqrt((x * x).sum(1, keepdims=True))
    yield "ReduceLogSumExp (8, 6400)", [node("ReduceLogSumExp", "x", "axes", "y")], {"x": x}, {"axes": np.array([1])}, lambda x, _: np.log(np.exp(x).sum(1, keepdims=True))
    x = normal(8, 3000, mean=1)
    yield "CumSum (8, 3000)", [node("CumSum", "x", "axis", "y")], {"x": x}, {"axis": np.array(1)}, lambda x, _: x.cumsum(1)


def rows():
    for shape, axis in (((16, 512), -1), ((3, 50000), -1), ((3000, 20), 0)):
        yield f"Softmax {shape}, {axis}", [node("Softmax", "x", "y", axis=axis)], {"x": normal(*shape)}, {}, lambda x, a=axis: softmax(x, a)
    for width in (768, 8192, 100000):
        weights = {"scale": normal(width), "bias": normal(width)}
        yield f"LayerNormalization {width}", [node("LayerNormalization", "x", "scale", "bias", "y")], {"x": normal(4, width, mean=0.5)}, weights, layer_norm
    yield "LogSoftmax (16, 5000)", [node("LogSoftmax", "x", "y")], {"x": normal(16, 5000)}, {}, lambda x: np.log(softmax(x))
    x = normal(2, 32, 40, 40, mean=0.5)
    weights = {"scale": normal(32), "bias": normal(32)}
    nodes = [node("InstanceNormalization", "x", "scale", "bias", "y")]
    yield "InstanceNormalization 40x40", nodes, {"x": x}, weights, lambda x, a, b: normalized(x, (2, 3)) * a[:, None, None] + b[:, None, None]
    nodes = [node("GroupNormalization", "x", "scale", "bias", "y", num_groups=4)]
    grouped = lambda x, a, b: normalized(x.reshape(2, 4, -1), (2,)).reshape(x.shape) * a[:, None, None] + b[:, None, None]  # noqa: E731
    yield "GroupNormalization 8x40x40", nodes, {"x": x}, weights, grouped
    x, weights = normal(6, 2048), {"two": np.float32(2), "axes": np.array([-1]), "tiny": np.float32(1e-6), "scale": normal(2048)}
    nodes = [node("Pow", "x", "two", "s"), node("ReduceMean", "s", "axes", "m"), node("Add", "m", "tiny", "e"), node("Sqrt", "e", "r"), node("Div", "x", "r", "n"), node("Mul", "n", "scale", "y")]
    yield "root mean square norm 2048", nodes, {"x": x}, weights, lambda x, _, __, tiny, scale: x / np.sqrt((x * x).mean(-1, keepdims=True) + tiny) * scale


def pools():
    x = normal(1, 32, 100, 100, mean=1)
    yield "GlobalAveragePool 100x100", [node("GlobalAveragePool", "x", "y")], {"x": x}, {}, lambda x: x.mean((2, 3), keepdims=True)
    pool = node("AveragePool", "x", "y", kernel_shape=[25, 25], strides=[25, 25])
    yield "AveragePool 25x25", [pool], {"x": x}, {}, lambda x: x.reshape(1, 32, 4, 25, 4, 25).mean((3, 5))
    # Behind a convolution channels stand last.
    x, w = np.abs(normal(1, 64, 26, 26)), np.abs(normal(96, 64, 1, 1))
    nodes = [node("Conv", "x", "w", "c", strides=[2, 2]), node("GlobalAveragePool", "c", "y")]
    yield "GlobalAveragePool 13x13 behind Conv", nodes, {"x": x}, {"w": w}, lambda x, w: convolution(x, w, 2).mean((2, 3), keepdims=True)
    nodes = [node("Conv", "x", "w", "c"), node("AveragePool", "c", "y", kernel_shape=[5, 5])]
    yield "AveragePool 5x5 behind Conv", nodes, {"x": x}, {"w": w}, lambda x, w: windows(convolution(x, w), np.zeros((1, 1, 5, 5)), 1, 0, 1).mean((4, 5))


def attention():
    q, k, v = (normal(1, 4, n, 64) for n in (40, 1500, 1500))
    scores = [node("Transpose", "k", "t", perm=[0, 1, 3, 2]), node("MatMul", "q", "t", "s"), node("Mul", "s", "factor", "m")]
    attention = [*scores, node("Softmax", "m", "p", axis=-1), node("MatMul", "p", "v", "y")]
    yield "attention, 1500 keys", attention, {"q": q, "k": k, "v": v}, {"factor": np.float32(0.125)}, lambda q, k, v, f: softmax(q @ k.swapaxes(-1, -2) * f) @ v


def functions():
    line = np.linspace(-12, 12, 40000).astype(np.float32)
    plain = {
        "Exp": np.exp, "Sigmoid": sigmoid, "Tanh": np.tanh, "Softplus": softplus, "Mish": lambda x: x * np.tanh(softplus(x)),
        "Atan": np.arctan, "Sinh": np.sinh, "Cosh": np.cosh, "Asinh": np.arcsinh,
        "Elu": lambda x: np.where(x > 0, x, np.expm1(x)), "Softsign": lambda x: x / (1 + np.abs(x)),
    }  # fmt: skip
    positive = {"Log": np.log, "Sqrt": np.sqrt, "Reciprocal": lambda x: 1 / x}
    for operator, function in plain.items():
        yield f"{operator}, each element", [node(operator, "x", "y")], {"x": line}, {}, function
    for operator, function in positive.items():
        yield f"{operator}, each element", [node(operator, "x", "y")], {"x": np.exp(line)}, {}, function
    # Zeros and cancellation, and Erf, whose elements are off by up to 4.5 units of the last place: relative to the results.
    hard_swish = lambda x: x * np.clip(x * x.dtype.type(np.float32(1 / 6)) + x.dtype.type(0.5), 0, 1)  # noqa: E731
    for operator, function in {"Sin": np.sin, "Cos": np.cos, "Gelu": gelu, "HardSwish": hard_swish, "Erf": erf}.items():
        yield operator, [node(operator, "x", "y")], {"x": line}, {}, function
    swish_nodes = [node("Sigmoid", "x", "s"), node("Mul", "x", "s", "y")]
    yield "Swish, each element", swish_nodes, {"x": line}, {}, swish
    base, power = np.exp(line / 4), normal(40000)
    yield "Pow, each element", [node("Pow", "x", "p", "y")], {"x": base, "p": power}, {}, np.power


def functions_behind():
    """Behind a convolution and a product with the identity as weights."""
    identity = np.zeros((32, 32, 3, 3), np.float32)
    identity[range(32), range(32), 1, 1] = 1
    line = np.linspace(-30, 30, 32 * 32 * 32).astype(np.float32).reshape(1, 32, 32, 32)
    functions = {"Softplus": softplus, "Mish": lambda x: x * np.tanh(softplus(x)), "Tanh": np.tanh}
    for operator, function in functions.items():
        nodes = [node("Conv", "x", "w", "c", strides=[2, 2], pads=[1] * 4), node(operator, "c", "y")]
        yield f"{operator} behind Conv, each element", nodes, {"x": line}, {"w": identity}, lambda x, _, f=function: f(x[:, :, ::2, ::2])


    square, rows = np.eye(64, dtype=np.float32), np.linspace(-30, 30, 256 * 64).astype(np.float32).reshape(256, 64)
    for operator, function in {"Sigmoid": sigmoid, "Tanh": np.tanh}.items():
        nodes = [node("MatMul", "x", "w", "c"), node(operator, "c", "y")]
        yield f"{operator} behind MatMul, each element", nodes, {"x": rows}, {"w": square}, lambda x, _, f=function: f(x)
    nodes = [node("MatMul", "x", "w", "c"), node("Gelu", "c", "y")]
    yield "Gelu behind MatMul", nodes, {"x": rows}, {"w": square}, lambda x, _: gelu(x)
    for before, weights, x in (("Conv", identity, line), ("MatMul", square, rows)):
        attributes = {"strides": [2, 2], "pads": [1] * 4} if before == "Conv" else {}
        nodes = [node(before, "x", "w", "c", **attributes), node("Sigmoid", "c", "s"), node("Mul", "c", "s", "y")]
        taken = (lambda x: x[:, :, ::2, ::2]) if before == "Conv" else (lambda x: x)
        yield f"Swish behind {before}, each element", nodes, {"x": x}, {"w": weights}, lambda x, _, t=taken: swish(t(x))


def cases():
    for family in (products, convolutions, reductions, rows, pools, attention, functions, functions_behind):
        yield from family()
