"""torch_geometric's layers on random graphs of an open number of nodes and edges, by the tracing exporter."""

import inspect

import torch

import cases

from . import torch_export

CHANNELS = 16
# Arguments of constructors without defaults.
VALUES = {
    **dict.fromkeys(("in_channels", "out_channels", "hidden_channels", "in_dim", "out_dim", "channels", "emb_dim", "num_features", "dim_in", "dim_out"), CHANNELS),
    **dict.fromkeys(("edge_dim", "dim", "K", "kernel_size", "num_layers", "heads", "num_heads", "num_relations", "num_types", "iterations", "walk_length", "num_bases", "num_stacks", "hops"), 2),
    **dict.fromkeys(("alpha", "theta", "eps", "lambda_"), 0.5),
    "nn": lambda: torch.nn.Linear(CHANNELS, CHANNELS),
    "mlp": lambda: torch.nn.Linear(CHANNELS, CHANNELS),
    "aggregators": ["mean", "min", "max", "std"],
    "scalers": ["identity", "amplification", "attenuation"],
    "deg": lambda: torch.tensor([1, 4, 8, 4, 2, 1]),
}
# Constructors that want more than their arguments without defaults.
OPTIONS = {"EdgeConv": {"nn": torch.nn.Linear(2 * CHANNELS, CHANNELS)}, "DynamicEdgeConv": {"nn": torch.nn.Linear(2 * CHANNELS, CHANNELS), "k": 4}}


def layers():
    from torch_geometric.nn import aggr, conv, norm

    found = {}
    for group, module in (("conv", conv), ("norm", norm), ("aggr", aggr)):
        for name in sorted(module.__all__ if hasattr(module, "__all__") else dir(module)):
            layer = getattr(module, name, None)
            if inspect.isclass(layer) and issubclass(layer, torch.nn.Module) and name not in ("MessagePassing", "Aggregation"):
                found[f"{group} {name}"] = layer
    return found


def names():
    return list(layers())


def built(layer):
    arguments = {}
    for key, parameter in list(inspect.signature(layer.__init__).parameters.items())[1:]:
        if parameter.default is not parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if key not in VALUES and key not in OPTIONS.get(layer.__name__, {}):
            raise cases.NotMade(f"argument {key}")
        value = VALUES.get(key)
        arguments[key] = value() if callable(value) else value
    return layer(**{**arguments, **OPTIONS.get(layer.__name__, {})}).eval()


class Layer(torch.nn.Module):
    """A layer called with its arguments by name; its first tensors are the results."""

    def __init__(self, layer, keys):
        super().__init__()
        self.layer, self.keys = layer, keys

    def forward(self, *tensors):
        results = self.layer(**dict(zip(self.keys, tensors)))
        results = results if isinstance(results, (tuple, list)) else [results]
        return tuple(result for result in results if isinstance(result, torch.Tensor))


def inputs_of(layer, size):
    """{argument: tensor} for those arguments of a call that have no default, and for edges' weights where a layer takes them."""
    nodes, edges = 20 + 13 * size, 60 + 31 * size
    tensors = {
        "x": torch.randn(nodes, CHANNELS),
        "edge_index": torch.randint(0, nodes, (2, edges)),
        "index": torch.sort(torch.randint(0, 5, (nodes,))).values,
        "edge_weight": torch.rand(edges),
        "edge_attr": torch.randn(edges, 2),
        "edge_type": torch.randint(0, 2, (edges,)),
        "pos": torch.randn(nodes, 2),
        "x_0": torch.randn(nodes, CHANNELS),
        "batch": torch.sort(torch.randint(0, 3, (nodes,))).values,
    }
    found = {}
    for key, parameter in inspect.signature(layer.forward).parameters.items():
        needed = parameter.default is parameter.empty or key in ("edge_weight", "index")
        if needed and key in tensors:
            found[key] = tensors[key]
        elif needed and parameter.default is parameter.empty:
            raise cases.NotMade(f"input {key}")
    return found


def make(name):
    torch.manual_seed(cases.seed_of(name))
    layer = built(layers()[name])
    sizes = [inputs_of(layer, size) for size in (0, 1)]
    keys = list(sizes[0])
    module = Layer(layer, keys)
    tensors = tuple(sizes[0].values())
    if not module(*tensors):
        raise cases.NotMade("no tensors in the results")
    is_edge = {"edge_index": 1, "edge_weight": 0, "edge_attr": 0, "edge_type": 0}
    axes = {key: {is_edge[key]: "edges"} if key in is_edge else {0: "nodes"} for key in keys}
    model = torch_export.traced(module, tensors, keys, dynamic_axes=axes)
    return cases.Case(model, [torch_export.feeds_of(model, keys, list(made.values())) for made in sizes])
