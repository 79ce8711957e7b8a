"""Models made faster, and run on torch's tensors: the one place that asks Rewright for anything."""

import torch

import rewright

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
    """model: serialized."""

    def __init__(self, model, options):
        settings = rewright.SessionOptions()
        settings.intra_op_num_threads = options.threads
        settings.math = options.math
        settings.kernels = options.kernels
        self.session = rewright.InferenceSession(model, settings, device=options.device)
        self.names = [value.name for value in self.session.get_inputs()]
        self.known = [value.type != _BFLOAT16 for value in self.session.get_outputs()]

    def run(self, tensors):
        """tensors: row-major, one for each input, in order. They are read where they are; the results are in memory of their own."""
        given = dict(zip(self.names, map(_array, tensors), strict=True))
        return [_tensor(array, known) for array, known in zip(self.session.run(None, given), self.known, strict=True)]


def _array(tensor):
    """What a session reads the tensor's memory from. Torch's way to NumPy takes a tenth of the time of its way to DLPack, 1 us to 10 us."""
    return tensor if tensor.dtype is torch.bfloat16 else tensor.numpy()


def _tensor(array, known):
    """A tensor in an array's memory. known: NumPy knows its type. bfloat16 it knows by the name of another package's type alone."""
    return torch.from_numpy(array) if known else torch.from_numpy(array.view("int16")).view(torch.bfloat16)
