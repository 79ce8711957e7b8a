"""Options of the program's commands as keyword arguments."""

import numbers
import os

from .errors import UsageError


def _shape_text(shape):
    return shape if isinstance(shape, str) else "x".join(str(int(size)) for size in shape)


def _sizes_text(name, sizes):
    """One shape, a list of several, or a dict of their weights. A shape is a tuple, or a text as the command line has it."""
    if isinstance(sizes, dict):
        shapes = [f"{_shape_text(shape)}*{weight}" for shape, weight in sizes.items()]
    elif not isinstance(sizes, str) and any(isinstance(shape, (str, tuple, list)) for shape in sizes):
        shapes = [_shape_text(shape) for shape in sizes]
    else:
        shapes = [_shape_text(sizes)]
    return f"{name}={','.join(shapes)}"


def _is_path(value):
    return isinstance(value, (str, os.PathLike))


def _texts(option, value):
    """An option's value as the command line has it: a text, or several."""
    if option["kind"] == "flag":
        return ["true" if value else "false"]
    if option["kind"] == "list":
        if isinstance(value, dict):
            return [_sizes_text(name, sizes) for name, sizes in value.items()]
        items = [value] if _is_path(value) or isinstance(value, numbers.Integral) else value
        return [str(item) if isinstance(item, numbers.Integral) else os.fsdecode(item) for item in items]
    if isinstance(value, os.PathLike):
        return [os.fsdecode(value)]
    if isinstance(value, (list, tuple)):
        return [",".join(str(item) for item in value)]
    return [str(value)]


class Options:
    """A command's options by their names in Python, but for those of `without`, which it takes in another way."""

    def __init__(self, described, without=()):
        self._described = {option["name"].replace("-", "_"): option for option in described if option["name"] not in without}

    def __iter__(self):
        return iter(self._described)

    def pairs(self, given):
        """Keyword arguments as pairs of texts."""
        pairs = []
        for name, value in given.items():
            if name not in self._described:
                raise UsageError(f'there is no option "{name}"', hint=f"there are {', '.join(self._described)}")
            if value is not None:
                option = self._described[name]
                pairs += [(option["name"], text) for text in _texts(option, value)]
        return pairs

    def document(self, function):
        """Writes the options to where the function's docstring says {options}."""
        if function.__doc__:  # not with python -OO
            before = function.__doc__.partition("{options}")[0]
            margin = "\n" + before[before.rfind("\n") + 1 :]
            lines = margin.join(_line(name, option) for name, option in self._described.items())
            function.__doc__ = function.__doc__.replace("{options}", lines)


def _line(name, option):
    kind = {"flag": "True or False", "list": f"{option['type']}, or several"}.get(option["kind"], option["type"])
    initial = f" (default: {option['initial']})" if option["initial"] and option["kind"] != "flag" else ""
    return f"    {name}: {option['description']}; {kind}{initial}"
