"""torch.compile(model, backend="rewright"): networks of torch in Rewright's CPU runtime. docs/torch.md has the options and the limits.

Torch finds `compile` by its entry point; importing rewright imports neither this nor torch. What stays with torch, and why, is logged by
"rewright.torch_backend" (TORCH_LOGS="+rewright.torch_backend" shows all of it).
"""

import contextlib
import functools
import logging

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters

from .account import Accounts, compilation, compiled_now, more_follows
from .options import Options

log = logging.getLogger("rewright.torch_backend")
_accounts = Accounts()


def compile(module, inputs, *, options=None):  # noqa: A001  (what torch calls it)
    """The compiler that torch.compile calls for each graph of dynamo's.

    options: "check", "freeze", "cache" and "threads" as in Options; all others go to rewright.optimize. TypeError for a wrong value.
    """
    options = Options.of(options)
    try:
        from .graph import compile_graph
        from .lowering import whole_resamplings
    except ImportError as error:
        log.warning("graphs stay with torch: its ONNX exporter cannot be used: %s", error)
        counters["rewright"]["graphs in torch"] += 1
        return module.forward
    seconds = None if options.search is None else options.budget_seconds()
    account = None if seconds is None else _account(seconds)
    compile_part = functools.partial(compile_graph, options=options, account=account)
    reason = getattr(module, "compile_subgraph_reason", None)
    ends = reason is not None and not reason.graph_break and not more_follows()
    compiler = aot_autograd(
        fw_compiler=functools.partial(compile_part, kind="forward"),
        # Backward passes come in the opposite order.
        bw_compiler=functools.partial(compile_part, kind="backward", last=account is not None and account().graphs == 1),
        inference_compiler=functools.partial(compile_part, kind="inference", last=ends),
        decompositions={},  # torch's own operators, for what stays there
    )
    # Gradients of resamplings have no translation, but those of their parts do.
    with contextlib.nullcontext() if torch.is_grad_enabled() else whole_resamplings():
        return compiler(module, inputs)


def _account(seconds):
    """The account of the model that is being compiled at this time: a graph compiled for one model may run for another of its class."""
    function, again = compiled_now()
    account = _accounts.of(function, again, seconds)
    account.graphs += 1
    compilation.charge(account)
    return lambda: _accounts.of(compiled_now()[0] or function, again, seconds)


compile.reset = _accounts.clear  # called by torch._dynamo.reset()
