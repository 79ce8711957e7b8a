"""Gradients as torch computes them: python gradients_beside_torch.py REWRIGHT

Each case is a model with ONNX's operator Gradient over a weighted sum of a node's result, executed by `rewright run`, and the same
function differentiated by torch.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import torch
import torchvision
from onnx import helper, numpy_helper
from torch.nn import functional

RTOL, ATOL = 2e-4, 2e-5
TRAINING = "ai.onnx.preview.training"
random = numpy.random.default_rng(1)


def values(*sizes):
    return numpy.asarray(0.7 * random.standard_normal(sizes), numpy.float32)


class Case:
    """Nodes that compute y from real inputs x0, x1, ..., with constants by name; `peer` does so from torch's tensors."""

    def __init__(self, name, nodes, inputs, peer, constants=None, opset=22):
        self.name, self.nodes, self.inputs, self.peer = name, nodes, inputs, peer
        self.constants, self.opset = constants or {}, opset


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs, outputs, **attributes)


def single(operator, inputs, peer, constants=None, opset=22, name=None, **attributes):
    names = [f"x{n}" for n in range(len(inputs))] + list(constants or {})
    return Case(name or operator, [node(operator, names, ["y"], **attributes)], inputs, peer, constants, opset)


def recurrent(operator, order, torch_function, **attributes):
    """torch's weights are the inputs; the model gets them in ONNX's order."""
    length, batch, width, hidden, gates = 5, 3, 4, 6, len(order)
    x, w, r, b = values(length, batch, width), values(gates * hidden, width), values(gates * hidden, hidden), values(2, gates * hidden)
    rows = numpy.concatenate([numpy.arange(k * hidden, (k + 1) * hidden) for k in order]).astype(numpy.int64)
    axis = numpy.array([0], numpy.int64)
    nodes = [
        node("Gather", ["x1", "rows"], ["w1"]),
        node("Unsqueeze", ["w1", "axis"], ["w"]),
        node("Gather", ["x2", "rows"], ["r1"]),
        node("Unsqueeze", ["r1", "axis"], ["r"]),
        node("Gather", ["x3", "rows"], ["b1"], axis=1),
        node("Reshape", ["b1", "flat"], ["b"]),
        node(operator, ["x0", "w", "r", "b"], ["y"], hidden_size=hidden, **attributes),
    ]

    def peer(x, w, r, b):
        states = torch.zeros(1, batch, hidden)
        states = (states, states) if operator == "LSTM" else states
        result, *_ = torch_function(x, states, [w, r, b[0], b[1]], True, 1, 0.0, True, False, False)
        return result.reshape(length, 1, batch, hidden)

    constants = {"rows": rows, "axis": axis, "flat": numpy.array([1, -1], numpy.int64)}
    return Case(operator, nodes, [x, w, r, b], peer, constants)


def grids():
    for mode, torch_mode in (("linear", "bilinear"), ("cubic", "bicubic"), ("nearest", "nearest")):
        for padding in ("zeros", "border", "reflection"):
            for aligned in (False, True):
                yield single(
                    "GridSample",
                    [values(2, 3, 5, 4), 1.3 * values(2, 3, 4, 2)],
                    lambda x, g, m=torch_mode, p=padding, a=aligned: functional.grid_sample(x, g, m, p, a),
                    name=f"GridSample {mode} {padding} {aligned}",
                    mode=mode,
                    padding_mode=padding,
                    align_corners=int(aligned),
                )


def cases():
    yield recurrent("RNN", [0], torch.rnn_tanh)
    yield recurrent("GRU", [1, 0, 2], torch.gru, linear_before_reset=1)
    yield recurrent("LSTM", [0, 3, 1, 2], torch.lstm)
    yield from grids()
    volume = [values(1, 2, 3, 4, 3), values(1, 2, 2, 3, 3)]
    yield single("GridSample", volume, lambda x, g: functional.grid_sample(x, g, align_corners=False), name="GridSample 3-D")
    image = values(2, 4, 7, 6)
    around = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    filters = [image, values(6, 2, 3, 3), values(6)]
    yield single("Conv", filters, lambda x, w, b: functional.conv2d(x, w, b, 2, 1, 1, 2), group=2, **around)
    yield single(
        "ConvTranspose",
        [image, values(4, 3, 3, 2), values(3)],
        lambda x, w, b: functional.conv_transpose2d(x, w, b, (2, 1), (1, 0), (1, 0)),
        strides=[2, 1],
        pads=[1, 0, 1, 0],
        output_padding=[1, 0],
    )
    yield single("MaxPool", [image], lambda x: functional.max_pool2d(x, 3, 2, 1), kernel_shape=[3, 3], **around)
    inside = lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
    yield single("AveragePool", [image], inside, kernel_shape=[3, 3], **around)
    yield single("LayerNormalization", [values(3, 5, 8), values(8), values(8)], lambda x, s, b: functional.layer_norm(x, (8,), s, b))
    yield single("GroupNormalization", [image, values(4), values(4)], lambda x, s, b: functional.group_norm(x, 2, s, b), num_groups=2)
    yield single("InstanceNormalization", [image, values(4), values(4)], lambda x, s, b: functional.instance_norm(x, weight=s, bias=b))
    yield single("RMSNormalization", [values(3, 5, 8), values(8)], lambda x, s: functional.rms_norm(x, (8,), s, 1e-5), opset=23)
    yield single("Softmax", [values(3, 7)], lambda x: torch.softmax(x, 1), axis=1)
    yield single("Gelu", [values(3, 7)], functional.gelu)
    equation = "bij,bjk,k->ki"
    factors = [values(2, 3, 4), values(2, 4, 5), values(5)]
    yield single("Einsum", factors, lambda a, b, c: torch.einsum(equation, a, b, c), equation=equation)
    for mode, torch_mode in (("linear", "bilinear"), ("cubic", "bicubic")):
        resize = [node("Resize", ["x0", "", "", "sizes"], ["y"], mode=mode)]
        yield Case(
            f"Resize {mode}",
            resize,
            [image],
            lambda x, m=torch_mode: functional.interpolate(x, (10, 9), mode=m, align_corners=False),
            {"sizes": numpy.array([2, 4, 10, 9], numpy.int64)},
        )
    yield single("CumProd", [values(3, 5)], lambda x: torch.cumprod(x, 1), {"axis": numpy.array(1, numpy.int64)}, opset=26)
    places = numpy.array([[0, 2, 1, 0], [1, 1, 0, 2]], numpy.int64)
    for reduction, torch_reduction in (("mul", "prod"), ("max", "amax"), ("min", "amin"), ("add", "sum")):
        yield Case(
            f"ScatterElements {reduction}",
            [node("ScatterElements", ["x0", "places", "x1"], ["y"], reduction=reduction)],
            [values(3, 4), values(2, 4)],
            lambda x, u, r=torch_reduction: x.scatter_reduce(0, torch.from_numpy(places), u, r),
            {"places": places},
        )
    largest = [node("TopK", ["x0", "k"], ["y", "i"])]
    yield Case("TopK", largest, [values(3, 7)], lambda x: torch.topk(x, 3)[0], {"k": numpy.array([3], numpy.int64)})
    query = [values(2, 3, 5, 4), values(2, 3, 6, 4), values(2, 3, 6, 4)]
    yield single("Attention", query, functional.scaled_dot_product_attention, opset=23)
    block = {"image": numpy.array([5, 6], numpy.int64), "block": numpy.array([2, 3], numpy.int64)}
    folded = lambda x: functional.fold(x, (5, 6), (2, 3), stride=(1, 2), padding=(0, 1))
    yield single("Col2Im", [values(2, 12, 12)], folded, block, strides=[1, 2], pads=[0, 1, 0, 1])

    def spectrum(x, w):
        return torch.view_as_real(torch.stft(x, 8, 4, 8, w, False, return_complex=True)).transpose(1, 2)

    frames = [node("STFT", ["x0", "step", "x1"], ["y"])]
    yield Case("STFT", frames, [values(2, 20), values(8)], spectrum, {"step": numpy.array(4, numpy.int64)})
    yield from at_run_time()
    yield from regions()
    yield from matrices()


def at_run_time():
    """Operators with sizes, or branches, that depend on elements."""
    zero = {"zero": numpy.array(0, numpy.float32)}
    mask = node("Greater", ["x1", "zero"], ["mask"])
    picked = [mask, node("Compress", ["x0", "mask"], ["y"], axis=0)]
    yield Case("Compress", picked, [values(6, 3), values(6)], lambda x, c: x[c > 0], zero)
    picked = [mask, node("Compress", ["x0", "mask"], ["e"]), node("ReduceMean", ["e"], ["m"]), node("Mul", ["e", "m"], ["y"])]
    yield Case("Compress flat", picked, [values(2, 6), values(12)], lambda x, c: x.flatten()[c > 0] * x.flatten()[c > 0].mean(), zero)
    yield single("Unique", [values(3, 4)], lambda x: torch.sort(x.flatten())[0])
    entries = [node("Unique", ["x0"], ["e", "", "inverse", ""], axis=0), node("Gather", ["e", "inverse"], ["y"])]

    def entries_of_torch(x):
        _, inverse = torch.unique(x, return_inverse=True, dim=0)
        return x[torch.argsort(inverse)][inverse]

    yield Case("Unique inverse", entries, [values(5, 3)], entries_of_torch)
    graphs = [
        helper.make_graph([node("Mul", ["x0", "x1"], ["t"]), node("Tanh", ["t"], ["then"])], "then", [], [outcome("then")]),
        helper.make_graph([node("Exp", ["x0"], ["e"]), node("Mul", ["e", "x2"], ["else"])], "else", [], [outcome("else")]),
    ]
    branches = [
        node("Greater", ["x2", "zero"], ["condition"]),
        node("If", ["condition"], ["y"], then_branch=graphs[0], else_branch=graphs[1]),
    ]
    for number in (0.8, -0.8):
        inputs = [values(3, 4), values(4), numpy.array(number, numpy.float32)]
        yield Case("If", branches, inputs, lambda x, w, c: torch.tanh(x * w) if c > 0 else torch.exp(x) * c, zero)


def outcome(name):
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3, 4])


def regions():
    places = numpy.array([[0.3, 0.6, 4.1, 5.2], [1.2, 2.1, 2.3, 2.9], [-3.4, -2.2, 9.7, 8.3], [2, 1, 30.5, 21]], numpy.float32)
    which = numpy.array([0, 1, 1, 0], numpy.int64)
    boxes = torch.from_numpy(numpy.concatenate([which[:, None], places], 1).astype(numpy.float32))
    for mode, aligned in (("half_pixel", True), ("output_half_pixel", False)):
        for ratio in (0, 2):
            yield single(
                "RoiAlign",
                [values(2, 3, 7, 6)],
                lambda x, a=aligned, r=ratio: torchvision.ops.roi_align(x, boxes, (3, 2), 0.7, r or -1, a),
                {"places": places, "which": which},
                name=f"RoiAlign {mode} {ratio}",
                coordinate_transformation_mode=mode,
                sampling_ratio=ratio,
                output_height=3,
                output_width=2,
                spatial_scale=0.7,
            )

    # A box, and the elements of which the largest is taken, have whole sizes.
    yield single(
        "MaxRoiPool",
        [values(2, 3, 7, 6)],
        lambda x: torchvision.ops.roi_pool(x, boxes, (3, 2), 0.7),
        {"rois": boxes.numpy()},
        pooled_shape=[3, 2],
        spatial_scale=0.7,
    )


def matrices():
    yield single("Det", [values(3, 4, 4)], torch.linalg.det)
    singular = values(5, 4) @ values(4, 5)
    yield single("Det", [singular], torch.linalg.det, name="Det of rank n - 1")
    steps = numpy.arange(-10, 14, dtype=numpy.int8).reshape(2, 4, 3)
    zeros = numpy.array([1, -2, 0, 3], numpy.int8)
    quantized = torch.from_numpy(steps.astype(numpy.float32)) - torch.from_numpy(zeros.astype(numpy.float32))[:, None]
    dequantized = [node("DequantizeLinear", ["steps", "x0", "zeros"], ["y"], axis=1)]
    yield Case("DequantizeLinear", dequantized, [values(4)], lambda s: quantized * s[:, None], {"steps": steps, "zeros": zeros})

    def written(cache, update):
        result = cache.clone()
        for batch, start in enumerate((2, 0)):
            result[batch, :, start : start + 3] = update[batch]
        return result

    where = {"where": numpy.array([2, 0], numpy.int64)}
    yield single("TensorScatter", [values(2, 3, 5, 2), values(2, 3, 3, 2)], written, where, opset=24)


def model_of(case, weights, second):
    """The gradients in all inputs; with `second` those of the sum of the first gradient's squares."""
    names = [f"x{n}" for n in range(len(case.inputs))]
    nodes = [*case.nodes, node("Mul", ["y", "weights"], ["weighted"]), node("ReduceSum", ["weighted"], ["sum"], keepdims=0)]
    gradients = [f"g{n}" for n in range(len(names))]
    nodes.append(helper.make_node("Gradient", names, gradients, domain=TRAINING, xs=names, y="sum"))
    if second:
        nodes += [node("Mul", ["g0", "g0"], ["squares"]), node("ReduceSum", ["squares"], ["length"], keepdims=0)]
        gradients = [f"h{n}" for n in range(len(names))]
        nodes.append(helper.make_node("Gradient", names, gradients, domain=TRAINING, xs=names, y="length"))
    constants = {**case.constants, "weights": weights}
    graph = helper.make_graph(
        nodes,
        "gradients",
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, v.shape) for n, v in zip(names, case.inputs)],
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in gradients],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", case.opset), helper.make_opsetid(TRAINING, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), gradients


def expected(case, weights, second):
    inputs = [torch.from_numpy(x).clone().requires_grad_() for x in case.inputs]
    total = (case.peer(*inputs) * torch.from_numpy(weights)).sum()
    gradients = torch.autograd.grad(total, inputs, create_graph=second, allow_unused=True)
    if second:
        gradients = torch.autograd.grad((gradients[0] ** 2).sum(), inputs, allow_unused=True)
    return [numpy.zeros_like(x) if g is None else g.detach().numpy() for g, x in zip(gradients, case.inputs)]


SECOND = {"Softmax", "Gelu", "LayerNormalization", "Einsum", "Conv", "CumProd", "GroupNormalization", "Det", "If", "Compress flat"}


def check(rewright, case, second, folder):
    with torch.no_grad():
        shape = case.peer(*[torch.from_numpy(x) for x in case.inputs]).shape
    weights = values(*shape)
    model, names = model_of(case, weights, second)
    path = folder / "model.onnx"
    onnx.save(model, path)
    command = [rewright, "run", str(path), "--quiet", "--threads", "1", "--output-dir", str(folder)]
    for n, x in enumerate(case.inputs):
        numpy.save(folder / f"x{n}.npy", x)
        command += ["--input", f"x{n}={folder / f'x{n}.npy'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stderr.strip()
    for name, right in zip(names, expected(case, weights, second)):
        found = numpy.load(folder / f"{name}.npy")
        if found.shape != right.shape or not numpy.allclose(found, right, RTOL, ATOL):
            return f"{name} differs by {numpy.abs(found - right).max() if found.shape == right.shape else found.shape}"
    return None


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            for second in [False, True][: 1 + (case.name in SECOND)]:
                problem = check(sys.argv[1], case, second, pathlib.Path(folder))
                print(f"{case.name}{' (second)' if second else ''}: {problem or 'the same'}")
                failed += problem is not None
    sys.exit(f"{failed} differ" if failed else 0)


if __name__ == "__main__":
    main()
