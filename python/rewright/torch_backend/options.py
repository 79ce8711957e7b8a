"""The options of torch.compile(..., backend="rewright", options={...})."""

import dataclasses
import re
from typing import Optional

import torch

_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_NO_SEARCH = (None, 0, "0", "0s")


@dataclasses.dataclass(frozen=True)
class Options:
    """Options for compiling graphs.

    check: compare the first results of every part with torch's.
    freeze: without gradients, parameters are constants of the graph.
    cache: a folder for optimized graphs.
    threads: as many as torch has, where nothing is said.
    device, math, kernels: of sessions and of the search.
    search: further options of rewright.optimize; None for no search.
    """

    check: bool = True
    freeze: bool = True
    cache: Optional[str] = None
    threads: int = dataclasses.field(default_factory=torch.get_num_threads)
    device: str = "cpu"
    math: str = "reassociate"
    kernels: str = "estimated"
    search: Optional[tuple] = None

    def budget_seconds(self):
        """The budget of the searches for all graphs of a model; None if it is no time, which the first search reports then."""
        written = re.fullmatch(r"(\d+\.?\d*|\.\d+)([a-z]*)", str(dict(self.search)["budget"]).strip())
        if written is None or written[2] not in _UNITS:
            return None
        return float(written[1]) * _UNITS[written[2]]

    @staticmethod
    def of(given):
        """From torch's dictionary: what is not one of ours is an option of rewright.optimize. TypeError where it makes no sense."""
        search = {"budget": "10s", **(given or {})}
        own = {field.name: search.pop(field.name) for field in dataclasses.fields(Options) if field.name in search}
        for name in ("check", "freeze"):
            if not isinstance(own.get(name, True), bool):
                raise TypeError(f'rewright: option "{name}" is {own[name]!r}; it is True or False')
        if search["budget"] not in _NO_SEARCH:
            return Options(**own, search=tuple(sorted(search.items())))
        del search["budget"]
        if search:
            raise TypeError(f'rewright: option "{min(search)}" is for a search, and "budget" says that there is none')
        return Options(**own)
