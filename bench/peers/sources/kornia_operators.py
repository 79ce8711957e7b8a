"""kornia's functions on images, by the tracing exporter where their place in the list is even and by the dynamo exporter where it is odd.

A function is taken if each of its arguments without a default has a name that VALUES knows.
"""

import inspect

import torch

import cases

from . import torch_export

MODULES = ("color", "enhance", "filters", "feature", "geometry.transform", "geometry.linalg", "geometry.conversions", "geometry.subpix", "losses", "metrics", "morphology", "contrib")
BATCH, SIDE = 2, 24


def image():
    return torch.rand(BATCH, 3, SIDE, SIDE)


def matrix(rows):
    return torch.eye(3)[:rows].repeat(BATCH, 1, 1) + 0.05 * torch.randn(BATCH, rows, 3)


def points():
    return torch.rand(BATCH, 7, 2) * SIDE


# Argument -> what makes its value. Tensors are inputs of the model.
VALUES = {
    **dict.fromkeys(("image", "input", "img", "img1", "img2", "src", "tensor", "x", "images", "patch", "patch_src", "pred", "data", "features", "rgb"), image),
    **dict.fromkeys(("target", "other", "src1", "src2", "dst", "template", "guidance", "template_image"), image),
    **dict.fromkeys(("kernel_size", "window_size", "box_size"), lambda: 3),
    **dict.fromkeys(("sigma",), lambda: (1.5, 1.5)),
    **dict.fromkeys(("sigma_color", "alpha", "gamma", "brightness_factor", "contrast_factor", "factor", "gain"), lambda: 0.7),
    **dict.fromkeys(("sigma_space",), lambda: (1.5, 1.5)),
    **dict.fromkeys(("kernel",), lambda: torch.ones(3, 3)),
    **dict.fromkeys(("max_val", "max_value"), lambda: 1.0),
    **dict.fromkeys(("angle", "angles"), lambda: torch.rand(BATCH) * 90),
    **dict.fromkeys(("mean",), lambda: torch.tensor([0.4, 0.5, 0.6])),
    **dict.fromkeys(("std",), lambda: torch.tensor([0.2, 0.3, 0.25])),
    **dict.fromkeys(("size", "dsize", "crop_size"), lambda: (20, 28)),
    **dict.fromkeys(("M", "H", "homography"), lambda: None),
    **dict.fromkeys(("translation",), lambda: torch.rand(BATCH, 2) * 4),
    **dict.fromkeys(("scale_factor",), lambda: torch.rand(BATCH, 2) + 0.5),
    **dict.fromkeys(("shear",), lambda: torch.rand(BATCH, 2) * 0.2),
    **dict.fromkeys(("center",), lambda: torch.full((BATCH, 2), SIDE / 2)),
    **dict.fromkeys(("points", "points_1", "points_2", "pts", "pts1", "pts2"), points),
    **dict.fromkeys(("quaternion", "quaternions"), lambda: torch.nn.functional.normalize(torch.randn(BATCH, 4), dim=-1)),
    **dict.fromkeys(("axis_angle", "rotation_vector"), lambda: torch.randn(BATCH, 3)),
    **dict.fromkeys(("rotation_matrix",), lambda: torch.linalg.qr(torch.randn(BATCH, 3, 3))[0]),
    **dict.fromkeys(("block_size", "ksize", "levels", "bits", "radius", "angle_bins", "num_bins"), lambda: 3),
}


def functions():
    """{name: function}, each once, in the order of the modules."""
    import importlib

    found, seen = {}, set()
    for title in MODULES:
        module = importlib.import_module(f"kornia.{title}")
        for name in sorted(getattr(module, "__all__", dir(module))):
            function = getattr(module, name, None)
            if inspect.isfunction(function) and not name.startswith("_") and function not in seen:
                seen.add(function)
                found[f"{title}.{name}"] = function
    return found


def names():
    return list(functions())


class Function(torch.nn.Module):
    """A function of the tensors among its arguments."""

    def __init__(self, function, arguments):
        super().__init__()
        self.function, self.arguments = function, arguments
        self.keys = [key for key, value in arguments.items() if isinstance(value, torch.Tensor)]

    def forward(self, *tensors):
        results = self.function(**{**self.arguments, **dict(zip(self.keys, tensors))})
        results = results if isinstance(results, (tuple, list)) else [results]
        return tuple(result for result in results if isinstance(result, torch.Tensor))


def arguments_of(function):
    arguments = {}
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or (parameter.default is not parameter.empty and key != "dsize"):
            continue
        if key not in VALUES:
            raise cases.NotMade(f"argument {key}")
        rows = 2 if "affine" in function.__name__ else 3
        arguments[key] = VALUES[key]() if key not in ("M", "H", "homography") else matrix(rows)
    return arguments


def make(name):
    torch.manual_seed(cases.seed_of(name))
    every = functions()
    module = Function(every[name], arguments_of(every[name]))
    tensors = tuple(module.arguments[key] for key in module.keys)
    if not tensors or not module(*tensors):
        raise cases.NotMade("no tensors")
    batched = [key for key, tensor in zip(module.keys, tensors) if tensor.ndim == 4]
    if list(every).index(name) % 2 == 0:
        axes = {key: {0: "batch", 2: "height", 3: "width"} for key in batched}
        model = torch_export.traced(module, tensors, module.keys, dynamic_axes=axes)
    else:
        model = torch_export.dynamo(module, tensors, module.keys)
    return cases.Case(model, [torch_export.feeds_of(model, module.keys, tensors)])
