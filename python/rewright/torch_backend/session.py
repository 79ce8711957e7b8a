"""Models made faster, and run on torch's tensors: the one place that asks Rewright for anything."""

import logging

import torch

import rewright

log = logging.getLogger("rewright.torch_backend")

_BFLOAT16 = "tensor(bfloat16)"


def optimized(model, options, shapes, seconds=None):
    """A serialized model, rewritten. shapes: of the inputs with open sizes, by name, those to optimize for. seconds: of the budget."""
    given = dict(options.search)
    if seconds is not None:
        given["budget"] = f"{seconds:.3f}s"
    if shapes:
        given.setdefault("shape", shapes)
    # Against torch, on the first call, is checked what the search would be checked for: results on random inputs.
    given.setdefault("check", 0 if options.check else 1)
    return rewright.optimize(model, device=options.device, threads=options.threads, math=options.math, kernels=options.kernels, **given).serialize()


class Session:
    """model: serialized. Another that computes the same may take its place later."""

    def __init__(self, model, options):
        self.options = options
        self.opened = 0  # how many models it has run
        self.settle = None  # what searches for all of the models that wait for it, if this one does
        self.took = 0.0  # seconds of the first run
        self._open(model)

    def _open(self, model):
        options, settings = self.options, rewright.SessionOptions()
        settings.intra_op_num_threads = options.threads
        settings.math = options.math
        settings.kernels = options.kernels
        session = rewright.InferenceSession(model, settings, device=options.device)
        names = [value.name for value in session.get_inputs()]
        self._state = session, names, [value.type != _BFLOAT16 for value in session.get_outputs()]
        self.opened += 1

    def improve(self, better, *given):
        """Runs better(*given), a model, from now on. If there is none, all stays as it is."""
        try:
            self._open(better(*given))
        except rewright.Error as error:
            if is_usage(error):
                raise
            log.warning("a graph runs as it is: %s", error)

    def run(self, tensors):
        """tensors: row-major, one for each input, in order. They are read where they are; the results are in memory of their own."""
        session, names, known = self._state
        given = dict(zip(names, map(_array, tensors), strict=True))
        return [_tensor(array, one) for array, one in zip(session.run(None, given), known, strict=True)]


def is_usage(error):
    """Whether an error says that the user's options are wrong."""
    return str(getattr(error, "code", "")).lower().endswith("usage")


def _array(tensor):
    """What a session reads the tensor's memory from. Torch's way to NumPy takes a tenth of the time of its way to DLPack, 1 us to 10 us."""
    return tensor if tensor.dtype is torch.bfloat16 else tensor.numpy()


def _tensor(array, known):
    """A tensor in an array's memory. known: NumPy knows its type. bfloat16 it knows by the name of another package's type alone."""
    return torch.from_numpy(array) if known else torch.from_numpy(array.view("int16")).view(torch.bfloat16)
