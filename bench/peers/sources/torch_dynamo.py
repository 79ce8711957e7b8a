"""torch's operators by the exporter that stands on torch.export."""

import cases

from . import torch_export, torch_samples


def names():
    return [name for name in torch_samples.names() if name.endswith("0")]


def make(name):
    module, tensors = torch_samples.module(name)
    inputs = [f"x{i}" for i in range(len(tensors))]
    model = torch_export.dynamo(module, tensors, inputs)
    return cases.Case(model, [torch_export.feeds_of(model, inputs, tensors)])
