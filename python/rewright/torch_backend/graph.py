"""One graph of torch's: which of it leaves torch, and what that is made of."""

import contextlib
import copy
import logging
import operator
import weakref

import torch
from torch._dynamo.utils import counters
from torch._guards import TracingContext

from . import sessions
from .exporter import exporter
from .lowering import lowered, origin
from .part import Part
from .split import SIZE, sizes_from_inputs, split, unsuitable

aten = torch.ops.aten
log = logging.getLogger("rewright.torch_backend")

_MOST_SPLITS = 30


def compile_graph(module, inputs, *, options, kind, account=None, last=False):
    """Called by aot_autograd for each graph: functional, over aten's operators. kind: "inference", "forward" or "backward". last: no
    other graph of the model follows in the call."""
    counters["rewright"]["graphs"] += 1
    graph = Graph(options, kind, counters["rewright"]["graphs"], account, last)
    untouched = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    try:
        _allow_other_strides(module)
        sizes_from_inputs(module)
        parts = _boxed(graph.compiled(module, _fixed_inputs(module) if kind == "inference" else set()))
        return _or_torch(graph, parts, _boxed(untouched))
    except Exception as error:  # noqa: BLE001  (what a graph can hold is more than can be foreseen)
        log.warning("%s: stays with torch: %s: %s", graph.label, type(error).__name__, error, exc_info=log.isEnabledFor(logging.DEBUG))
        counters["rewright"]["graphs in torch"] += 1
        return _boxed(untouched)


def _allow_other_strides(module):
    """A session's result may have another memory layout than torch's while it traced, and is no view then."""
    for node in module.graph.nodes:
        if node.target in (aten.view.default, aten._unsafe_view.default):
            node.target = aten.reshape.default
    module.recompile()


def _boxed(module):
    """Called with a list that it empties, so that what a backward pass has used up is freed before its end."""
    module.graph.set_codegen(torch.fx.graph._BoxedCodeGen())
    module.recompile()
    forward = module.forward

    def run(arguments):
        return forward(arguments)

    run._boxed_call = True
    return run


def _or_torch(graph, parts, whole):
    """Torch's own graph once no part has a session: it frees what it has used up, where a part's arguments live until it ends."""

    def run(arguments):
        return (whole if graph.only_in_torch else parts)(arguments)

    run._boxed_call = True
    return run


def _fixed_inputs(module):
    """Placeholders that dynamo knows as parameters and buffers, but for those that the graph changes."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return set()
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    changed = set(metadata.mutated_inp_runtime_indices)
    fixed = (placeholders[i] for i in metadata.static_input_indices if i < len(placeholders) and i not in changed)
    return {node for node in fixed if isinstance(node.meta.get("val"), torch.Tensor)}


def _untranslatable(module, candidates):
    """Names of the candidates of which some part cannot be translated, each with the reason."""
    whole = lowered(module, exporter())
    parts = {node: unsuitable(node) for node in whole.graph.nodes if node.op == "call_function" and origin(node) in candidates}
    reasons = {node: reason for node, reason in parts.items() if reason not in (None, SIZE)}
    reasons.update(exporter().untranslatable(whole, {node for node, reason in parts.items() if reason is None}))
    return {origin(node): reason for node, reason in reasons.items()}


class Graph:
    """Shared by the parts of a graph."""

    def __init__(self, options, kind, number, account, last=False):
        self.options = options
        self.account = account or (lambda: None)
        self.last = last
        self.label = f"graph {number} ({kind})"
        self.splits = 0
        self.parts = 0
        self.made = weakref.WeakSet()  # all parts, also those within others; they have the graph
        self.not_run = 0  # of the parts
        self.only_in_torch = False  # did all parts give up?

    def compiled(self, module, fixed):
        """The module with its suitable nodes in parts. fixed: placeholders with parameters, buffers and constants."""
        reasons = {node: unsuitable(node) for node in module.graph.nodes if node.op == "call_function"}
        candidates = {node.name: node for node, reason in reasons.items() if reason is None}
        for name, reason in _untranslatable(module, candidates).items():
            reasons[candidates[name]] = reason
        inside = {node for node, reason in reasons.items() if reason is None}
        self._report(reasons, len(inside))
        return self._split(module, inside, fixed)

    def _split(self, module, inside, fixed):
        fixed = {node.name for node in fixed}

        def make(part, call):
            at = [i for i, node in enumerate(call.args) if node.op == "get_attr" or node.name in fixed]
            self.parts += 1
            self.not_run += 1
            made = Part(part, at, self.options, self, f"{self.label} part {self.parts}")
            self.made.add(made)
            return made

        return split(module, inside, make)

    def _report(self, reasons, inside):
        stays = {}
        for node, reason in reasons.items():
            if reason not in (None, SIZE) and node.target is not operator.getitem:
                stays.setdefault((str(node.target), reason), []).append(node.name)
        for (target, reason), names in sorted(stays.items()):
            log.info("%s: %s (%d times, first %s) stays with torch: %s", self.label, target, len(names), names[0], reason)
        if stays:
            counters["rewright"]["graphs in parts" if inside else "graphs in torch"] += 1
        else:
            counters["rewright"]["graphs whole"] += 1
        log.info("%s: %d of %d operators leave torch", self.label, inside, len(reasons))

    def count(self, what):
        counters["rewright"][what] += 1

    def gave_up(self):
        """Called by a part that stays with torch from now on."""
        self.only_in_torch = all(part.in_torch for part in self.made)

    def may_split(self):
        self.splits += 1
        return self.splits <= _MOST_SPLITS

    def without(self, part, node):
        """The module of a part, without one of its nodes."""
        inside = {other for other in part.module.graph.nodes if unsuitable(other) is None} - {node, *node.users}
        if part.module.graph.output_node() in node.users:
            inside.discard(node)
        return self._split(part.module, inside, {part.placeholders[at] for at in part.fixed})

    def session(self, model, shapes):
        return sessions.session(model, self.options, shapes, self.account(), last=self.last and self.not_run <= 1)

    def spending(self):
        """While a part of the model is being made."""
        account = self.account()
        return contextlib.nullcontext() if account is None else account.spending()

    def has_run(self):
        """Called by each part after its first run."""
        self.not_run -= 1
        account = self.account()
        if self.last and self.not_run <= 0 and account is not None:
            account.settle()
