"""Rounding errors of kernels: python rounding.py BUILD_FOLDER [NAME ...]

Each case is one operator with long sums, or a function behind a convolution. The error of a session's result against NumPy in double must be at
most twice that of plain float libraries on the same numbers (the larger of ONNX Runtime's and NumPy's), in the root of the mean
square, with half a unit in the last place for the rounding of the result itself; five times where Winograd's method computes it.
Prints each; exits 1 if one rounds more.
"""

import os
import sys

sys.path.insert(0, os.path.join(sys.argv[1], "python"))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import rewright  # noqa: E402

MOST = 2.0
TRANSFORMED = 5.0  # by Winograd's method: docs/cpu.md
GENERATOR = np.random.default_rng(1)


def normal(*shape, mean=0.0, scale=1.0):
    return (mean + scale * GENERATOR.standard_normal(shape)).astype(np.float32)


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


def cases():
    """Name, nodes, inputs, weights, and the same in NumPy, of any precision."""

    def node(operator, *names, **attributes):
        return helper.make_node(operator, list(names[:-1]), [names[-1]], **attributes)

    for rows, depth, columns in ((1, 2048, 512), (3, 4096, 256), (16, 2048, 256), (128, 768, 512)):
        x, w = normal(rows, depth), normal(depth, columns)
        yield f"MatMul {rows}x{depth}x{columns}", [node("MatMul", "x", "w", "y")], {"x": x}, {"w": w}, np.matmul
        yield f"MatMul {rows}x{depth}x{columns}, computed", [node("MatMul", "x", "w", "y")], {"x": x, "w": w}, {}, np.matmul
        x = np.abs(x)
        yield f"MatMul {rows}x{depth}x{columns}, positive", [node("MatMul", "x", "w", "y")], {"x": x}, {"w": np.abs(w)}, np.matmul
    shapes = [  # inputs, outputs, pixels, window, strides, dilations, groups
        (64, 64, 28, 3, 1, 1, 1), (256, 64, 14, 3, 1, 1, 1), (512, 64, 14, 3, 1, 1, 1), (64, 64, 28, 3, 2, 1, 1), (512, 128, 14, 1, 1, 1, 1),
        (32, 32, 28, 5, 1, 1, 1), (32, 32, 28, 7, 1, 1, 1), (16, 16, 28, 11, 1, 1, 1), (64, 64, 28, 3, 1, 1, 64), (64, 64, 28, 3, 1, 1, 16),
        (128, 128, 14, 3, 2, 1, 4), (64, 64, 14, 3, 1, 2, 1), (16, 64, 28, 3, 1, 1, 1),
    ]  # fmt: skip
    for inputs, outputs, pixels, window, strides, dilations, group in shapes:
        pads = (window - 1) * dilations // 2
        x, w = np.maximum(normal(1, inputs, pixels, pixels), 0), normal(outputs, inputs // group, window, window)
        attributes = {"strides": [strides] * 2, "dilations": [dilations] * 2, "pads": [pads] * 4, "group": group}
        name = f"Conv {inputs} to {outputs} on {pixels}x{pixels}, {window}x{window}, strides {strides}, dilations {dilations}, groups {group}"
        yield name, [node("Conv", "x", "w", "y", **attributes)], {"x": x}, {"w": w}, lambda x, w, a=(strides, pads, dilations, group): convolution(x, w, *a)
    x, w = normal(1, 128, 14, 14), normal(128, 64, 4, 4)
    yield "ConvTranspose 128 to 64", [node("ConvTranspose", "x", "w", "y", strides=[2, 2])], {"x": x}, {"w": w}, lambda x, w: transposed_convolution(x, w, 2)
    for shape, axes in (((8, 6400), (1,)), ((6400, 40), (0,)), ((4, 3000, 30), (1,)), ((3, 40, 50, 60), (1, 2)), ((2, 200000), (1,)), ((40, 50, 16), (0, 1))):
        for operator, reduce in (("ReduceSum", lambda x, a: x.sum(a)), ("ReduceSumSquare", lambda x, a: (x * x).sum(a)), ("ReduceMean", lambda x, a: x.mean(a)), ("ReduceL1", lambda x, a: np.abs(x).sum(a))):  # fmt: skip
            inputs = {"x": normal(*shape, mean=1)}
            nodes = [node(operator, "x", "axes", "y", keepdims=0)]
            yield f"{operator} {shape}, {axes}", nodes, inputs, {"axes": np.array(axes)}, lambda x, _, f=reduce, a=axes: f(x, a)
    yield "ReduceSum (6400, 16), (0,), one number", [node("ReduceSum", "x", "axes", "y")], {"x": np.full((6400, 16), 0.1, np.float32)}, {"axes": np.array([0])}, lambda x, _: x.sum(0, keepdims=True)
    for shape, axis in (((16, 512), -1), ((3, 50000), -1), ((3000, 20), 0)):
        yield f"Softmax {shape}, {axis}", [node("Softmax", "x", "y", axis=axis)], {"x": normal(*shape)}, {}, lambda x, a=axis: softmax(x, a)
    for width in (768, 8192, 100000):
        weights = {"scale": normal(width), "bias": normal(width)}
        yield f"LayerNormalization {width}", [node("LayerNormalization", "x", "scale", "bias", "y")], {"x": normal(4, width, mean=0.5)}, weights, layer_norm
    x = normal(1, 32, 100, 100, mean=1)
    yield "GlobalAveragePool 100x100", [node("GlobalAveragePool", "x", "y")], {"x": x}, {}, lambda x: x.mean((2, 3), keepdims=True)
    pool = node("AveragePool", "x", "y", kernel_shape=[25, 25], strides=[25, 25])
    yield "AveragePool 25x25", [pool], {"x": x}, {}, lambda x: x.reshape(1, 32, 4, 25, 4, 25).mean((3, 5))
    q, k, v = (normal(1, 4, n, 64) for n in (40, 1500, 1500))
    scores = [node("Transpose", "k", "t", perm=[0, 1, 3, 2]), node("MatMul", "q", "t", "s"), node("Mul", "s", "factor", "m")]
    attention = [*scores, node("Softmax", "m", "p", axis=-1), node("MatMul", "p", "v", "y")]
    yield "attention, 1500 keys", attention, {"q": q, "k": k, "v": v}, {"factor": np.float32(0.125)}, lambda q, k, v, f: softmax(q @ k.swapaxes(-1, -2) * f) @ v
    identity = np.zeros((32, 32, 3, 3), np.float32)
    identity[range(32), range(32), 1, 1] = 1
    line = np.linspace(-30, 30, 32 * 32 * 32).astype(np.float32).reshape(1, 32, 32, 32)
    functions = {"Softplus": softplus, "Mish": lambda x: x * np.tanh(softplus(x)), "Tanh": np.tanh}
    for operator, function in functions.items():
        nodes = [node("Conv", "x", "w", "c", strides=[2, 2], pads=[1] * 4), node(operator, "c", "y")]
        yield f"{operator} behind Conv, each element", nodes, {"x": line}, {"w": identity}, lambda x, _, f=function: f(x[:, :, ::2, ::2])


def error(expected, actual, each):
    """The root mean square error, relative to that of the result; or the error of the worst element, relative to itself."""
    off = actual.astype(np.float64) - expected
    if each:
        return float((np.abs(off) / np.maximum(np.abs(expected), 1e-12)).max())
    return float(np.sqrt((off**2).mean() / (expected**2).mean()))


def main():
    failed = 0
    for name, nodes, inputs, weights, formula in cases():
        if sys.argv[2:] and not any(name.startswith(given) for given in sys.argv[2:]):
            continue
        graph = helper.make_graph(
            nodes,
            "rounding",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(a, n) for n, a in weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10).SerializeToString()
        settings = rewright.SessionOptions()
        settings.intra_op_num_threads = 1
        operands = [*inputs.values(), *weights.values()]
        expected = formula(*[a.astype(np.float64) if a.dtype == np.float32 else a for a in operands])
        each = name.endswith("each element")
        plain = error(expected, formula(*operands), each)
        peer = error(expected, onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)[0], each)
        ours = error(expected, rewright.InferenceSession(model, settings).run(None, inputs)[0], each)
        transformed = name.startswith("Conv ") and name.endswith("3x3, strides 1, dilations 1, groups 1")
        if name.startswith("Global"):  # ONNX Runtime adds up one element after the other
            peer = 0.0
        allowed = (TRANSFORMED if transformed else MOST) * max(plain, peer, 2.0**-25)
        failed += ours > allowed
        print(f"{'MORE' if ours > allowed else 'good'}  {name}: {ours:.1e}, ONNX Runtime {peer:.1e}, NumPy {plain:.1e}", flush=True)
    sys.exit(1 if failed else 0)


main()
