"""Models made faster, and run on torch's tensors: the one place that asks Rewright for anything."""

import torch

import rewright


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

    def run(self, tensors):
        """tensors: row-major, one for each input, in order. They are read where they are; the results are in memory of their own."""
        return [_tensor(array) for array in self.session.run(None, dict(zip(self.names, tensors, strict=True)))]


def _tensor(array):
    """A tensor in an array's memory. NumPy knows torch's bfloat16 only by the name of another package's type."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)
