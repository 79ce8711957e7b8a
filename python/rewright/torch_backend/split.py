"""Chooses the nodes of a graph that leave torch, and cuts the graph into parts."""

import operator

import torch
from torch.fx.experimental.proxy_tensor import py_sym_types
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis
from torch.utils._sympy.symbol import SymT, symbol_is_type

aten = torch.ops.aten

# Steps that torch does without touching an element; also what the runtime would have to copy for.
_VIEWS = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    aten.t.default,
    aten.transpose.int,
    aten.permute.default,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.expand.default,
    aten.alias.default,
    aten.detach.default,
}

_TYPES = {
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
}

SIZE = "a size"  # the reason of a node that stays with torch because it is one
_UNSET = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")


def _values(node):
    return tree_leaves(node.meta.get("val"))


def _reason_of_value(value):
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            return f"a tensor on {value.device}"
        if value.layout is not torch.strided or value.is_quantized:
            return f"a tensor of layout {value.layout}"
        if value.dtype not in _TYPES:
            return f"a tensor of {value.dtype}"
        if any(isinstance(size, torch.SymInt) and _unbacked(size) for size in value.shape):
            return "a size that depends on contents of tensors"
    elif isinstance(value, (torch.SymFloat, torch.SymBool, float)):
        return "a number that depends on sizes"
    return None


def _unbacked(size):
    return any(symbol_is_type(symbol, SymT.UNBACKED_INT) for symbol in size.node.expr.free_symbols)


def _argument(node, name):
    """The value of an operator's argument, by default its default; None if there is no such argument."""
    for at, argument in enumerate(node.target._schema.arguments):
        if argument.name == name:
            return node.args[at] if at < len(node.args) else node.kwargs.get(name, argument.default_value)
    return None


def unsuitable(node):
    """Why a node stays with torch, whatever the exporter says; None if it need not."""
    target = node.target
    if any(isinstance(value, (*py_sym_types, int)) for value in _values(node)):
        return SIZE
    if node.op != "call_function" or not (target is operator.getitem or isinstance(target, torch._ops.OpOverload)):
        return "not an operator"
    if target is not operator.getitem:
        if "_scaled_dot_product" in target._schema.name and any(user.args[1] != 0 for user in node.users):
            return "more than the result is used"
        if torch.Tag.nondeterministic_seeded in target.tags and _argument(node, "dropout_p") != 0:
            return "random"
        if target._schema.is_mutable:
            return "changes its arguments"
        if target._schema.name.removeprefix("aten::") in _UNSET:
            return "contents are not set"
    if not any(isinstance(value, torch.Tensor) for value in _values(node)):
        return "no result"
    for value in (*_values(node), *(value for argument in node.all_input_nodes for value in _values(argument))):
        reason = _reason_of_value(value)
        if reason:
            return reason
    return None


def _views_at_the_border(graph, inside):
    """Views whose results only torch uses: torch makes them without a copy."""
    border = set()
    for node in reversed(graph.nodes):
        if node in inside and node.target in _VIEWS and all(user not in inside or user in border for user in node.users):
            border.add(node)
    return border


def _views_beside(graph, inside):
    """Views that are used inside and outside of parts are made twice: the outside's by torch, without a copy."""
    for node in reversed(graph.nodes):
        if node not in inside or node.target not in _VIEWS:
            continue
        outside = [user for user in node.users if user not in inside]
        if outside and len(outside) < len(node.users):
            with graph.inserting_after(node):
                twin = graph.node_copy(node)
            for user in outside:
                user.args, user.kwargs = torch.fx.map_arg((user.args, user.kwargs), lambda argument: twin if argument is node else argument)


class _Support(OperatorSupportBase):
    def __init__(self, nodes):
        self.nodes = nodes

    def is_node_supported(self, _, node):
        return node in self.nodes


def split(module, nodes, make):
    """Puts `nodes` of the module's graph into as few parts as their order allows and each part into what make(part, node) returns,
    a module called with the same arguments that returns a tuple; `node` is the call of the part in the graph. Changes the module."""
    nodes = {node for node in nodes if not all(user.target is operator.getitem and user not in nodes for user in node.users)}
    nodes -= _views_at_the_border(module.graph, nodes)
    _views_beside(module.graph, nodes)
    partitioner = CapabilityBasedPartitioner(module, _Support(nodes), allows_single_node_partition=True)
    partitions = [part for part in partitioner.propose_partitions() if any(_computes(node) for node in part.nodes)]
    torch.fx.passes.utils.fuser_utils.fuse_by_partitions(
        module, [part.nodes for part in partitions], prefix="rewright_", always_return_tuple=True
    )
    for node in list(module.graph.nodes):
        if node.op == "call_module" and node.target.startswith("rewright_"):
            part = module.get_submodule(node.target)
            _sizes_inside(node, part)
            setattr(module, node.target, make(part, node))
    module.graph.eliminate_dead_code(is_impure_node=_is_impure)
    module.recompile()
    return module


def sizes_from_inputs(module):
    """Sizes that are read off results inside of the graph are computed from those of its inputs instead, so that no part has to end for
    them. Changes the module."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    first = next(node for node in module.graph.nodes if node.op != "placeholder")
    symbols = _Symbols(module.graph, placeholders, torch.fx.proxy.GraphAppendingTracer(module.graph))
    for node in list(module.graph.nodes):
        if node.target is not aten.sym_size.int or node.args[0] in placeholders or not isinstance(node.meta.get("val"), torch.SymInt):
            continue
        with module.graph.inserting_before(first):
            made = symbols.size(node.meta["val"])
        if made is not None:
            for user in list(node.users):
                user.args, user.kwargs = torch.fx.map_arg((user.args, user.kwargs), lambda argument: made if argument is node else argument)
            module.graph.erase_node(node)
    module.recompile()


def _computes(node):
    return node.target is not operator.getitem and node.target not in _VIEWS


def _is_impure(node):
    return node.op in ("placeholder", "output") or (node.op == "call_function" and node.is_impure())


def _sizes_inside(call, part):
    """Sizes that come into a part are computed in it, from the shapes of its tensors as far as these have them."""
    placeholders = [node for node in part.graph.nodes if node.op == "placeholder"]
    sized = [node for node in placeholders if isinstance(node.meta.get("val"), torch.SymInt)]
    if not sized:
        return
    tensors = [node for node in placeholders if isinstance(node.meta.get("val"), torch.Tensor)]
    first = next(node for node in part.graph.nodes if node.op != "placeholder")
    tracer = torch.fx.proxy.GraphAppendingTracer(part.graph)
    symbols = _Symbols(part.graph, tensors, tracer)
    dropped = set()
    for node in sized:
        with part.graph.inserting_before(first):
            made = symbols.size(node.meta["val"])
        if made is not None:
            for user in list(node.users):
                user.args, user.kwargs = torch.fx.map_arg((user.args, user.kwargs), lambda argument: made if argument is node else argument)
            dropped.add(node)
    call.args = tuple(argument for argument, node in zip(call.args, placeholders) if node not in dropped)
    for node in dropped:
        part.graph.erase_node(node)
    part.graph.eliminate_dead_code(is_impure_node=_is_impure)
    part.recompile()


class _Symbols:
    """Nodes for expressions over the sizes of tensors."""

    def __init__(self, graph, inputs, tracer):
        self.graph, self.tracer = graph, tracer
        self.at, self.made = {}, {}
        for node in inputs:
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt) and value.node.expr.is_symbol:
                self.made[value.node.expr] = node
            for axis, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
                if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                    self.at.setdefault(size.node.expr, (node, axis))

    def size(self, value):
        """A node or a number, or None if a symbol of it is no tensor's size, or it cannot be written as nodes."""
        expression = value.node.expr
        if expression.is_number:
            return int(expression)
        if expression in self.made:
            return self.made[expression]
        if not expression.free_symbols <= self.at.keys() | self.made.keys():
            return None
        for symbol in sorted(expression.free_symbols, key=str):
            if symbol not in self.made:
                tensor, axis = self.at[symbol]
                self.made[symbol] = self.graph.call_function(aten.sym_size.int, (tensor, axis))
                self.made[symbol].meta["val"] = tensor.meta["val"].shape[axis]
        if expression not in self.made:
            environment = {symbol: torch.fx.Proxy(self.made[symbol], self.tracer) for symbol in expression.free_symbols}
            before = set(self.graph.nodes)
            try:
                self.made[expression] = sympy_interp(PythonReferenceAnalysis, environment, expression).node
            except torch.fx.proxy.TraceError:  # functions that decide by their argument, as a factor's product cut off to an integer
                for node in reversed(self.graph.nodes):
                    if node not in before:
                        self.graph.erase_node(node)
                self.made[expression] = None
                return None
            for node in self.graph.nodes:
                if node not in before:
                    node.meta["val"] = value  # only that it is an integer matters
        return self.made[expression]
