"""Times an ONNX model in torch on a GPU: python torch_peer.py MODEL.onnx [--seconds S] [--device cuda]

The model's nodes become calls of torch's functions, once, so that eager mode pays for nothing but them. Modes: eager, eager in a CUDA
graph, torch.compile with reduce-overhead (CUDA graphs), and if asked for as it is by default and with max-autotune. Copies of inputs and outputs count, as they
do in Rewright's time. Writes one JSON object: median_ms by mode, null where a mode failed, with the reason.
"""

import argparse
import json
import os
import statistics
import sys
import time

import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def padded(x, pads, value=0.0):
    """ONNX's pads of the spatial axes, begins before ends; torch counts axes from the last one."""
    half = len(pads) // 2
    if all(p == 0 for p in pads):
        return x
    return F.pad(x, [p for a in reversed(range(half)) for p in (pads[a], pads[half + a])], value=value)


def convolution(a, constants):
    functions = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}

    def run(x, w, b=None):
        rank = w.dim() - 2
        pads = list(a.get("pads", [0] * (2 * rank)))
        even = pads[:rank] == pads[rank:]
        x = x if even else padded(x, pads)
        return functions[rank](x, w, b, a.get("strides", [1] * rank), pads[:rank] if even else 0, a.get("dilations", [1] * rank), a.get("group", 1))

    return run


def pool(a, average):
    def run(x):
        rank = len(a["kernel_shape"])
        pads = list(a.get("pads", [0] * (2 * rank)))
        kernel, strides = list(a["kernel_shape"]), list(a.get("strides", [1] * rank))
        if not average:
            return F.max_pool2d(padded(x, pads, float("-inf")), kernel, strides, ceil_mode=bool(a.get("ceil_mode", 0)))
        return F.avg_pool2d(x, kernel, strides, pads[:rank], bool(a.get("ceil_mode", 0)), bool(a.get("count_include_pad", 0)))

    return run


def axes_of(a, constants, at):
    if "axes" in a:
        return list(a["axes"])
    return constants[at].tolist() if at < len(constants) and constants[at] is not None else None


def gemm(a, _):
    def run(x, w, c=None):
        y = (x.t() if a.get("transA", 0) else x) @ (w.t() if a.get("transB", 0) else w)
        y = y if a.get("alpha", 1.0) == 1.0 else a["alpha"] * y
        return y if c is None else y + a.get("beta", 1.0) * c

    return run


def reduction(function):
    def make(a, constants):
        axes = axes_of(a, constants, 1)
        keep = bool(a.get("keepdims", 1))
        return lambda x, *_: function(x, axes if axes is not None else list(range(x.dim())), keep)

    return make


def sliced(a, constants):
    starts, ends = constants[1].tolist(), constants[2].tolist()
    axes = constants[3].tolist() if len(constants) > 3 and constants[3] is not None else list(range(len(starts)))
    steps = constants[4].tolist() if len(constants) > 4 and constants[4] is not None else [1] * len(starts)

    def run(x, *_):
        where = [slice(None)] * x.dim()
        for start, end, axis, step in zip(starts, ends, axes, steps):
            where[axis] = slice(start, min(end, x.shape[axis]), step)
        return x[tuple(where)]

    return run


def split(a, constants):
    sizes = a.get("split") or (constants[1].tolist() if len(constants) > 1 and constants[1] is not None else None)

    def run(x, *_):
        axis = a.get("axis", 0)
        return torch.split(x, sizes if sizes else x.shape[axis] // a["outputs"], axis)

    return run


def gather(a, _):
    def run(x, i):
        axis = a.get("axis", 0) % x.dim()
        return torch.index_select(x, axis, i.reshape(-1)).reshape(*x.shape[:axis], *i.shape, *x.shape[axis + 1 :])

    return run


def simple(function):
    return lambda a, constants: function


OPERATORS = {
    "Add": simple(torch.add), "Sub": simple(torch.sub), "Mul": simple(torch.mul), "Div": simple(torch.div), "Pow": simple(torch.pow),
    "Relu": simple(torch.relu), "Sigmoid": simple(torch.sigmoid), "Tanh": simple(torch.tanh), "Erf": simple(torch.erf), "Sqrt": simple(torch.sqrt),
    "Exp": simple(torch.exp), "Neg": simple(torch.neg), "Identity": simple(lambda x: x), "MatMul": simple(torch.matmul),
    "Where": simple(torch.where), "GlobalAveragePool": simple(lambda x: x.mean(list(range(2, x.dim())), True)),
    "Conv": convolution, "Gemm": gemm, "Gather": gather, "Slice": sliced, "Split": split,
    "MaxPool": lambda a, c: pool(a, False), "AveragePool": lambda a, c: pool(a, True),
    "ReduceMean": reduction(lambda x, axes, keep: x.mean(axes, keep)), "ReduceSum": reduction(lambda x, axes, keep: x.sum(axes, keep)),
    "Clip": lambda a, c: lambda x, *_: torch.clamp(x, a.get("min", c[1].item() if len(c) > 1 and c[1] is not None else None), a.get("max", c[2].item() if len(c) > 2 and c[2] is not None else None)),
    "Softmax": lambda a, c: lambda x: torch.softmax(x, a.get("axis", -1)),
    "Gelu": lambda a, c: lambda x: F.gelu(x, approximate=a.get("approximate", b"none").decode()),
    "HardSigmoid": lambda a, c: lambda x: torch.clamp(a.get("alpha", 0.2) * x + a.get("beta", 0.5), 0, 1),
    "LayerNormalization": lambda a, c: lambda x, s, b=None: F.layer_norm(x, s.shape, s, b, a.get("epsilon", 1e-5)),
    "BatchNormalization": lambda a, c: lambda x, s, b, m, v: F.batch_norm(x, m, v, s, b, False, 0.0, a.get("epsilon", 1e-5)),
    "Concat": lambda a, c: lambda *x: torch.cat(x, a["axis"]),
    "Transpose": lambda a, c: lambda x: x.permute(a["perm"]) if "perm" in a else x.permute(*reversed(range(x.dim()))),
    "Flatten": lambda a, c: lambda x: x.reshape(-1 if a.get("axis", 1) == 0 else int(torch.Size(x.shape[: a.get("axis", 1)]).numel()), -1),
    "Reshape": lambda a, c: lambda x, *_: x.reshape([x.shape[i] if s == 0 else s for i, s in enumerate(c[1].tolist())]),
    "Squeeze": lambda a, c: lambda x, *_: x.squeeze(tuple(axes_of(a, c, 1))) if axes_of(a, c, 1) else x.squeeze(),
    "Unsqueeze": lambda a, c: lambda x, *_: [x := x.unsqueeze(i) for i in sorted(axes_of(a, c, 1))][-1],
    "Cast": lambda a, c: lambda x: x.to({1: torch.float32, 7: torch.int64, 6: torch.int32, 9: torch.bool, 10: torch.float16}[a["to"]]),
}  # fmt: skip


class Network(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        graph = model.graph
        constants = {t.name: numpy_helper.to_array(t).copy() for t in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                constants[node.output[0]] = numpy_helper.to_array(attributes(node)["value"]).copy()
        self.names = {}
        for number, (name, value) in enumerate(constants.items()):
            self.register_buffer(f"c{number}", torch.from_numpy(value.reshape(value.shape)))
            self.names[name] = f"c{number}"
        self.inputs = [i for i in graph.input if i.name not in constants]
        self.outputs = [o.name for o in graph.output]
        self.calls = []
        last = {}
        for node in graph.node:
            if node.op_type == "Constant":
                continue
            if node.op_type not in OPERATORS:
                raise SystemExit(f"torch_peer: no {node.op_type} here")
            a = attributes(node)
            a["outputs"] = len(node.output)
            known = [torch.from_numpy(constants[i]) if i in constants else None for i in node.input]
            for i in node.input:
                last[i] = len(self.calls)
            self.calls.append((OPERATORS[node.op_type](a, known), list(node.input), list(node.output)))
        self.dead = [[i for i, at in last.items() if at == n and i not in self.outputs] for n in range(len(self.calls))]

    def forward(self, *inputs):
        values = {i.name: x for i, x in zip(self.inputs, inputs)}
        values.update({name: getattr(self, buffer) for name, buffer in self.names.items()})
        for (call, arguments, results), dead in zip(self.calls, self.dead):
            got = call(*[values[i] if i else None for i in arguments])
            for name, value in zip(results, got if isinstance(got, (tuple, list)) else (got,)):
                values[name] = value
            for name in dead:
                values.pop(name, None)
        return tuple(values[o] for o in self.outputs)


def whole_run(run, host, device):
    """Inputs from pinned memory, outputs back to it."""

    def once():
        outputs = run(*[x.to(device, non_blocking=True) for x in host])
        return [o.to("cpu") for o in outputs]

    for _ in range(5):
        once()
    return once


def median_ms(once, seconds):
    for _ in range(5):
        once()
    times = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times) < 5:
        start = time.perf_counter()
        once()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def in_cuda_graph(network, host, device):
    inputs = [x.to(device) for x in host]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            network(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = network(*inputs)

    def run(*given):
        for to, x in zip(inputs, given):
            to.copy_(x)
        graph.replay()
        return outputs

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tf32", action="store_true", help="round factors to TF32, as --math fast would")
    parser.add_argument("--modes", default="eager,graph,reduce-overhead", help="also default, max-autotune")
    parser.add_argument("--gate", metavar="FILE", help="when all is compiled, make FILE.ready and measure once FILE is there")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.tf32
    network = Network(onnx.load(arguments.model)).eval().to(arguments.device)
    torch.manual_seed(1)
    host = []
    for i in network.inputs:
        sizes = [d.dim_value or 1 for d in i.type.tensor_type.shape.dim]
        x = torch.rand(sizes) if i.type.tensor_type.elem_type == 1 else torch.randint(0, 2, sizes)
        host.append(x.pin_memory() if arguments.device != "cpu" else x)
    report = {"torch": torch.__version__, "device": torch.cuda.get_device_name() if arguments.device != "cpu" else "cpu", "median_ms": {}, "reasons": {}}
    runs = {}
    with torch.inference_mode():
        for mode in arguments.modes.split(","):
            try:
                run = network
                if mode == "graph":
                    run = in_cuda_graph(network, host, arguments.device)
                elif mode != "eager":
                    run = torch.compile(network, mode=None if mode == "default" else mode)
                runs[mode] = whole_run(run, host, arguments.device)
            except Exception as error:  # noqa: BLE001  (a mode that fails is a result)
                report["median_ms"][mode] = None
                report["reasons"][mode] = f"{type(error).__name__}: {error}"[:300]
        if arguments.gate:
            open(arguments.gate + ".ready", "w").close()
            while not os.path.exists(arguments.gate):
                time.sleep(0.05)
        for mode, once in runs.items():
            report["median_ms"][mode] = median_ms(once, arguments.seconds)
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
