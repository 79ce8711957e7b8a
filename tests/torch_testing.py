"""Shared by the tests of the backend of torch.compile: the package under test, and what they compare and count."""

import pathlib
import sys
import tempfile
import tomllib

PACKAGE = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, PACKAGE)


def declare_entry_points():
    """The entry points of an installed package, from pyproject.toml."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        groups = tomllib.load(file)["project"]["entry-points"]
    folder = tempfile.TemporaryDirectory()
    facts = pathlib.Path(folder.name) / "rewright-0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: rewright\nVersion: 0\n")
    lines = [f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in names.items()) for group, names in groups.items()]
    (facts / "entry_points.txt").write_text("\n".join(lines))
    sys.path.insert(0, folder.name)
    return folder


ENTRY_POINTS = declare_entry_points()

import torch  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402


def compiled(module, dynamic=None, **options):
    """With no search, unless options say so: what is searched for has its own tests."""
    torch._dynamo.reset()
    counters.clear()
    return torch.compile(module, backend="rewright", dynamic=dynamic, options={"budget": None, **options})


def counted(what):
    return counters["rewright"][what]


def error(results, expected):
    """The largest difference, relative to the largest element."""
    return float((results - expected).abs().max() / (expected.abs().max() + 1e-12))
