"""torch.testing's own samples of every operator's inputs, as modules whose tensors are inputs."""

import itertools
import random

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree

import cases

DTYPES = {"float32": torch.float32, "int64": torch.int64, "bool": torch.bool, "float16": torch.float16, "int32": torch.int32, "float64": torch.float64}
SAMPLES = 2  # of each operator and type
MOST_SAMPLES = 200  # some operators have tens of thousands


def full_name(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


OPERATORS = {full_name(op): op for op in op_db}


def names():
    found = []
    for name, op in OPERATORS.items():
        for title, dtype in DTYPES.items():
            if dtype in op.dtypes:
                found += [f"{name} {title} {index}" for index in range(SAMPLES)]
    return found


class Operator(torch.nn.Module):
    """An operator of the tensors of one sample; everything else of the sample is fixed."""

    def __init__(self, op, sample):
        super().__init__()
        self.op = op
        self.leaves, self.structure = _pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.places = [place for place, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]

    def tensors(self):
        return tuple(self.leaves[place].detach().clone() for place in self.places)

    def forward(self, *tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        first, arguments, options = _pytree.tree_unflatten(leaves, self.structure)
        results = self.op(first, *arguments, **options)
        return tuple(leaf for leaf in _pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor))


def module(name):
    """(module, its input tensors) of a name."""
    title, dtype, index = name.rsplit(" ", 2)
    torch.manual_seed(cases.seed_of(name))
    op = OPERATORS[title]
    samples = list(itertools.islice(op.sample_inputs("cpu", DTYPES[dtype], requires_grad=False), MOST_SAMPLES))
    order = random.Random(cases.seed_of(f"{title} {dtype}")).sample(range(len(samples)), len(samples))
    if int(index) >= len(order):
        raise cases.NotMade("no more samples")
    made = Operator(op.op, samples[order[int(index)]])
    tensors = made.tensors()
    if not tensors:
        raise cases.NotMade("no tensors in the sample")
    with torch.no_grad():
        if not made(*tensors):
            raise cases.NotMade("no tensors in the results")
    return made.eval(), tensors
