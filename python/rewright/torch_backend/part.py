"""A part of a graph: runs in a session, or in torch where that cannot be."""

import logging
import re
import threading

import torch

from . import account
from . import exporter as exporters
from .constants import Constant
from .lowering import lowered
from .orders import inverse, order_of, permute
from .session import is_usage

log = logging.getLogger("rewright.torch_backend")

_MOST_SESSIONS = 16  # of a part with different constants, as for a block that a network repeats
_MOST_CHANGES = 1  # of a parameter, before it becomes an input


class _Bound:
    """A session whose model has some of the arguments inside. constants: these, by position. orders: of all arguments."""

    def __init__(self, session, constants, orders):
        self.session = session
        self.checked = 0  # which of the session's models its results were compared for
        self.orders = orders
        self.constants = {at: Constant(tensor) for at, tensor in constants.items()}

    def fits(self, arguments):
        return all(constant.holds(arguments[at]) for at, constant in self.constants.items())

    def changed(self, arguments):
        """Positions of constants that are the same tensors with other contents."""
        return [at for at, constant in self.constants.items() if constant.is_of(arguments[at]) and not constant.holds(arguments[at])]

    def is_dead(self):
        """Whether no call can fit any more."""
        return any(constant.reference() is None for constant in self.constants.values())

    def run(self, arguments):
        return self.session.run([_plain(*given) for at, given in enumerate(zip(arguments, self.orders)) if at not in self.constants])


def _plain(value, order):
    """A tensor that others can read: no gradient, no lazy negation, row-major. order: of the axes as torch had them while it traced."""
    if not isinstance(value, torch.Tensor):
        return torch.tensor(value)
    if value.requires_grad:
        value = value.detach()
    if order is not None:
        value = value.permute(order)
    return value.resolve_neg().contiguous()


class Part(torch.nn.Module):
    """module: a graph that returns a tuple, which torch runs; a session runs what it is lowered to. fixed: positions of arguments that are parameters, buffers or constants of the graph."""

    def __init__(self, module, fixed, options, shared, label):
        super().__init__()
        self.module, self.options, self.shared, self.label = module, options, shared, label
        self.lowered = lowered(module, exporters.exporter())
        self.placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        given = [node.meta["val"] for node in self.placeholders]
        self.orders = [order_of(value) if isinstance(value, torch.Tensor) else None for value in given]
        orders = [order_of(node.meta["val"]) for node in module.graph.output_node().args[0]]
        permute(self.lowered, self.orders, orders)
        self.back = [order and inverse(order) for order in orders]
        self.fixed = set(fixed) if options.freeze else set()
        self.changes = dict.fromkeys(self.fixed, 0)
        self.sessions = []
        self.in_torch = False
        self.lock = threading.Lock()

    def forward(self, *arguments):
        bound = self._bound(arguments)
        if bound is None and not self.in_torch:
            with self.lock:
                bound = self._bound(arguments)
                if bound is None and not self.in_torch:
                    return self._first(arguments)
        if self.in_torch:
            return self.module(*arguments)
        if bound.session.settle is not None:  # a second run: no graph came that is known to be the last
            bound.session.settle()
        if bound.checked != bound.session.opened:
            return self._checked(bound, arguments)
        try:
            return self._ordered(bound.run(arguments))
        except Exception as error:  # noqa: BLE001  (sizes that a session cannot work on, or too little memory for its way to do it)
            log.warning("%s: stays with torch from now on: %s", self.label, _line(error))
            self._give_up()
            return self.module(*arguments)

    def _bound(self, arguments):
        return next((bound for bound in self.sessions if bound.fits(arguments)), None)

    def _ordered(self, results):
        """Torch's results as torch has them in memory, which what follows may rely on."""
        return tuple(result if back is None else result.permute(back) for result, back in zip(results, self.back))

    def _first(self, arguments):
        with self.shared.spending():
            results = self._made(arguments)
        self.shared.has_run()
        return results

    def _made(self, arguments):
        self._forget_changed(arguments)
        try:
            bound = self._bind(arguments)
            results = self._run(bound, arguments)
        except Exception as error:  # noqa: BLE001
            if is_usage(error):
                raise
            self.shared.count("parts in torch")
            return self._without(error, arguments)
        expected = self._compared(bound, results, arguments)
        if expected is not None:
            return expected
        self.shared.count("parts")
        self.sessions.append(bound)
        return results

    def _run(self, bound, arguments):
        start = account.clock()
        results = self._ordered(bound.run(arguments))
        bound.session.took = account.clock() - start
        return results

    def _checked(self, bound, arguments):
        """The first run of another model in the session."""
        try:
            results = self._run(bound, arguments)
        except Exception as error:  # noqa: BLE001
            log.warning("%s: stays with torch from now on: %s", self.label, _line(error))
            self._give_up()
            return self.module(*arguments)
        expected = self._compared(bound, results, arguments)
        return results if expected is None else expected

    def _compared(self, bound, results, arguments):
        """None if the results are right; else torch's, which has the part from now on."""
        bound.checked = bound.session.opened
        if not self.options.check:
            return None
        with torch.no_grad():
            expected = self.module(*arguments)
        reason = difference(results, expected)
        if not reason:
            return None
        log.error("%s: stays with torch: its results differ: %s", self.label, reason)
        self.shared.count("parts that differed")
        self._give_up()
        return expected

    def _forget_changed(self, arguments):
        for bound in list(self.sessions):
            changed = bound.changed(arguments)
            if changed or bound.is_dead():
                self.sessions.remove(bound)
            for at in changed:
                self.changes[at] += 1
        often = {at for at in self.fixed if self.changes[at] > _MOST_CHANGES}
        if len(self.sessions) >= _MOST_SESSIONS:
            often = self.fixed
            self.sessions.clear()
        if often:
            log.info("%s: %d parameters change between calls: they are inputs from now on", self.label, len(often))
            self.fixed = self.fixed - often

    def _bind(self, arguments):
        constants = {at: arguments[at] for at in sorted(self.fixed) if not arguments[at].is_inference()}
        names = {self.placeholders[at].name: tensor.permute(self.orders[at]) if self.orders[at] else tensor for at, tensor in constants.items()}
        try:
            model = exporters.exporter().model(self.lowered, names)
        except exporters.TooLarge:
            log.info("%s: parameters are inputs: they are too large for one file", self.label)
            self.fixed, constants = set(), {}
            model = exporters.exporter().model(self.lowered, {})
        return _Bound(self.shared.session(model, self._shapes(arguments)), constants, self.orders)

    def _shapes(self, arguments):
        """The sizes of this call for the inputs with open sizes, by name."""
        shapes = {}
        for node, argument, order in zip(self.placeholders, arguments, self.orders):
            if isinstance(argument, torch.Tensor) and any(not isinstance(size, int) for size in node.meta["val"].shape):
                shapes[node.name] = list(argument.permute(order).shape if order else argument.shape)
        return shapes

    def _without(self, error, arguments):
        """Leaves to torch the node that an error is about, else the whole part."""
        nodes = {node.name: node for node in self.module.graph.nodes}
        named = [name for name in re.findall(r"([A-Za-z_]\w*)/\d+", str(error)) if name in nodes]
        if named and self.shared.may_split():
            log.warning("%s: %s stays with torch: %s", self.label, named[0], _line(error))
            smaller = self.shared.without(self, nodes[named[0]])
            self._give_up()
            self.module = smaller
        else:
            log.warning("%s: stays with torch: %s", self.label, _line(error))
            self._give_up()
        return self.module(*arguments)

    def _give_up(self):
        self.sessions.clear()
        self.in_torch = True
        self.shared.gave_up()


def _line(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"


def difference(results, expected):
    """The difference beyond rounding, None if there is none. Errors count relative to the largest element of the result."""
    for i, (got, want) in enumerate(zip(results, expected, strict=True)):
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"result {i} is {got.dtype} {list(got.shape)}, not {want.dtype} {list(want.shape)}"
        if want.numel() == 0:
            continue
        if not want.dtype.is_floating_point:
            if not torch.equal(got, want):
                return f"result {i}: {int((got != want).sum())} of {want.numel()} elements"
            continue
        a, b = got.double(), want.double()
        same = (a == b) | (a.isnan() & b.isnan())
        if bool(same.all()):
            continue
        finite = b[b.isfinite()]
        scale = float(finite.abs().max()) if finite.numel() else 0.0
        error = float(torch.where(same, torch.zeros_like(a), (a - b).abs()).nan_to_num(float("inf")).max())
        allowed = {torch.float64: 1e-7, torch.float32: 1e-3}.get(want.dtype, 3e-2) * scale + 1e-6
        if not error <= allowed:
            return f"result {i}: by {error:.3g}, where its largest element is {scale:.3g}"
    return None
