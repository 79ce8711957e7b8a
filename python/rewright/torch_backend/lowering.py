"""Graphs as they are translated: operators that have no translation taken apart, conversions of types made explicit.

Only what leaves torch is taken apart. What stays there runs torch's own operators, which take as long as without a compiler; their parts
would take longer (a resampling in gathers, a gradient of weights as a convolution).
"""

import contextlib
import operator

import torch
from torch._decomp.decompositions import upsample_compute_output_size
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten

OF = "rewright_of"  # in the notes of a node: the name of the one that it was made for
_PARTS = "rewright_parts"
_KEYS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)


def origin(node):
    """The name of the node that a node of a lowered graph was made for."""
    return node.meta.get(OF, node.name)


def lowered(module, exporter):
    """The module's graph with all operators in the exporter's table of decompositions taken apart, and with conversions of types."""
    lowering = _Lowering(module, exporter.decompositions)
    made = lowering.module()
    exporter.promote(made)
    for node in reversed(made.graph.nodes):  # conversions belong to what reads them
        if OF not in node.meta:
            node.meta[OF] = next((origin(user) for user in node.users), node.name)
    return made


class _Lowering:
    def __init__(self, module, table):
        self.source, self.table = module, table
        self.graph = torch.fx.Graph()
        self.attributes = {}
        self.values = {}  # by node of the source: a node, a constant, or a list of them
        self.lists = set()  # nodes whose value is such a list

    def module(self):
        for node in self.source.graph.nodes:
            if node.target is operator.getitem and node.args[0] in self.lists:
                self.values[node] = self.values[node.args[0]][node.args[1]]
                continue
            parts = self._parts(node)
            if parts is None:
                self.values[node] = self._copy(node, self.values, node, self.source)
            else:
                self._inline(node, *parts)
        return torch.fx.GraphModule(self.attributes, self.graph)

    def _parts(self, node):
        """The graph that the node's operator is taken apart into, and the nodes that are its inputs; None if it is left as it is."""
        if node.op != "call_function" or node.target not in self.table:
            return None
        inputs = node.all_input_nodes
        if any(not isinstance(of.meta.get("val"), (torch.Tensor, torch.SymInt, int)) for of in inputs):
            return None
        if _PARTS not in node.meta:
            node.meta[_PARTS] = _taken_apart(node, inputs, self.table)
        return None if node.meta[_PARTS] is None else (node.meta[_PARTS], inputs)

    def _inline(self, node, parts, inputs):
        placeholders = [inner for inner in parts.graph.nodes if inner.op == "placeholder"]
        values = dict(zip(placeholders, (self.values[of] for of in inputs), strict=True))
        for inner in parts.graph.nodes:
            if inner.op == "output":
                result = torch.fx.map_arg(inner.args[0], values.__getitem__)
                self.values[node] = result
                if isinstance(result, (list, tuple)):
                    self.lists.add(node)
            elif inner.op != "placeholder":
                values[inner] = self._copy(inner, values, node, parts)

    def _copy(self, node, values, of, owner):
        made = self.graph.node_copy(node, values.__getitem__)
        if node.op == "get_attr":
            made.target = node.target if owner is self.source else f"{of.name}_{node.target}"
            self.attributes[made.target] = operator.attrgetter(node.target)(owner)
        made.meta.pop(_PARTS, None)
        made.meta[OF] = of.name
        return made


def _taken_apart(node, inputs, table):
    def call(*given):
        of = dict(zip(inputs, given))
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), of.__getitem__)
        return node.target(*args, **kwargs)

    values = [of.meta["val"] for of in inputs]
    mode = detect_fake_mode(values) or contextlib.nullcontext()
    try:
        with torch.no_grad(), mode, enable_python_dispatcher():
            return make_fx(call, decomposition_table=table)(*values)
    except Exception:  # noqa: BLE001  (what cannot be taken apart has no translation, which is reported then)
        return None


def _whole(packet):
    """What interpolate calls (overload "vec": a size or factors), as one call of the resampling itself. Torch's own one in C++ does the
    same, but not with sizes that are symbols."""

    def resampling(input, output_size, *given, **named):  # noqa: A002  (torch's name)
        *corners, factors = (*given, *(named[name] for name in ("align_corners", "scale_factors") if name in named))
        sizes = upsample_compute_output_size(input.size(), output_size, factors)
        return packet.default(input, sizes, *corners, *(factors or [None] * len(sizes)))

    return resampling


@contextlib.contextmanager
def whole_resamplings():
    """Resamplings come out of a trace as they are. Torch takes them apart by kernels in Python, which no table of decompositions turns off."""
    hidden = {}
    for name in dir(aten):
        if "upsample" not in name:
            continue
        packet = getattr(aten, name)
        for which in packet.overloads():
            overload = getattr(packet, which)
            kernels = {key: overload.py_kernels[key] for key in _KEYS if key in overload.py_kernels}
            if kernels:
                hidden[overload] = kernels, _whole(packet) if which == "vec" else None
    try:
        for overload, (kernels, whole) in hidden.items():
            for key in kernels:
                if whole is None:
                    del overload.py_kernels[key]
                else:
                    overload.py_kernels[key] = whole
            overload._dispatch_cache.clear()
        yield
    finally:
        for overload, (kernels, _) in hidden.items():
            overload.py_kernels.update(kernels)
            overload._dispatch_cache.clear()
