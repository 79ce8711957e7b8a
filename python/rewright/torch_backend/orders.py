"""The order of a tensor's axes in memory, where it is not row-major: transposed weights, images with channels last.

A session reads and computes row-major tensors. What torch has in another order is given to it as the row-major tensor that lies there,
with its axes permuted, and permuted back in the graph, where kernels read it as it is; results likewise. Nothing is copied for it.
"""

import torch

from .lowering import OF, origin


def order_of(value):
    """The axes of a tensor in the order they have in memory, None for row-major or for what is not dense."""
    sizes = [_hint(size) for size in value.shape]
    strides = [_hint(stride) for stride in value.stride()]
    axes = sorted((axis for axis in range(len(sizes)) if sizes[axis] != 1), key=lambda axis: -strides[axis])
    if axes == sorted(axes):
        return None
    dense = 1
    for axis in reversed(axes):
        if strides[axis] != dense:
            return None
        dense *= sizes[axis]
    return [axis for axis in range(len(sizes)) if sizes[axis] == 1] + axes


def inverse(order):
    return sorted(range(len(order)), key=order.__getitem__)


def permute(module, inputs, outputs):
    """Permutes the inputs and results of a module's graph, which have these orders. Changes the module."""
    graph = module.graph
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for node, order in zip(placeholders, inputs, strict=True):
        if order is None:
            continue
        value, users = node.meta["val"], list(node.users)
        node.meta["val"] = value.permute(order)
        if users:
            with graph.inserting_after(placeholders[-1]):
                back = _permuted(graph, node, inverse(order), value, origin(users[0]))
            for user in users:
                user.replace_input_with(node, back)
    last = graph.output_node()
    results = list(last.args[0])
    with graph.inserting_before(last):
        for at, order in enumerate(outputs):
            if order is not None:
                results[at] = _permuted(graph, results[at], order, results[at].meta["val"].permute(order), origin(results[at]))
    last.args = (tuple(results),)
    module.recompile()


def _permuted(graph, node, order, value, of):
    made = graph.call_function(torch.ops.aten.permute.default, (node, order))
    made.meta.update({"val": value, OF: of})
    return made


def _hint(size):
    return size if isinstance(size, int) else size.node.hint
