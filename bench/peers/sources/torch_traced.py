"""torch's operators by the tracing exporter; of the second sample of each, all sizes are open."""

import cases

from . import torch_export, torch_samples


def names():
    return torch_samples.names()


def make(name):
    module, tensors = torch_samples.module(name)
    inputs = [f"x{i}" for i in range(len(tensors))]
    axes = None
    if name.endswith("1"):
        axes = {key: {axis: f"{key}_{axis}" for axis in range(tensor.dim())} for key, tensor in zip(inputs, tensors) if tensor.dim()}
    opset = 20 if cases.seed_of(name) % 2 else 17
    model = torch_export.traced(module, tensors, inputs, dynamic_axes=axes, opset=opset)
    return cases.Case(model, [torch_export.feeds_of(model, inputs, tensors)])
