"""Two models proved equal, or the first place where they differ.

    proving = rewright.prove("model.onnx", "faster.onnx")
    proving.verdict, proving.places
"""

import contextlib
import dataclasses
import json
import os
import tempfile

from ._native import _core


@dataclasses.dataclass(frozen=True)
class Place:
    """Nodes or values of the two models: the first that differ, or a pair that stayed open, and why."""

    a: str
    b: str
    verdict: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Proving:
    """The result of proving two models equal.

    verdict: "proved", "refuted" or "undecided"; bool(proving) is true for the first.
    places: Place objects. constants: of constants that are roundings, by name, the largest relative difference.
    counterexample: a folder of inputs on which the models differ, or None. reduced: the files of the smallest models that differ.
    facts: everything, as `rewright prove --json` writes it.
    """

    verdict: str
    reason: str
    places: tuple
    constants: dict
    counterexample: object
    reduced: tuple
    seconds: float
    facts: dict

    def __bool__(self):
        return self.verdict == "proved"


@contextlib.contextmanager
def _as_file(model):
    """A path, the bytes of a model, or an object with SerializeToString, as a file."""
    if isinstance(model, (str, os.PathLike)):
        yield os.fsdecode(model)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model if isinstance(model, (bytes, bytearray)) else model.SerializeToString())
        yield path


def _folder(path):
    return "" if path is None else os.fsdecode(path)


def prove(a, b, *, map=None, tolerance=1e-6, certificate=None, reduce=None, counterexample=None, seed=0, runs=3, threads=0, budget=600.0,
          progress=None):
    """Proves that b computes what a computes, for all inputs and sizes; returns a Proving.

    a, b: paths, bytes of models, or ModelProto.
    map: names of inputs and outputs of a, and their names in b.
    tolerance: relative difference up to which a constant of float is a rounding of what a computes.
    certificate: a folder for the proof, which check_proof follows. reduce: a folder for the smallest models that differ.
    counterexample: a folder for inputs on which they differ.
    runs: random inputs on which both are run. budget: seconds after which what is open stays so.
    progress: called now and then with a text and how much is done (0 to 1); False, or an exception, ends the work.
    """
    with _as_file(a) as first, _as_file(b) as second:
        text = _core.prove(first, second, dict(map or {}), tolerance, _folder(certificate), _folder(reduce), _folder(counterexample), seed,
                           runs, threads, float(budget), progress, _core.Stop())
    facts = json.loads(text)
    places = tuple(Place(p["a"], p["b"], p["verdict"], p["reason"]) for p in facts["places"])
    constants = {c["name"]: c["max_rel_error"] for c in facts["constants"]}
    return Proving(facts["verdict"], facts["reason"], places, constants, facts["counterexample"] or None, tuple(facts.get("reduced", ())),
                   facts["seconds"], facts)


def check_proof(a, b, certificate, *, solver="", tolerance=1e-6):
    """Follows the proof in a folder, and searches nothing: True if it proves a and b equal. Raises BadInputError if it is damaged.

    tolerance: a proof whose constants may differ by more is refused.
    solver: a program that answers questions in SMT-LIB ("z3 -in"), in place of the one inside.
    """
    return json.loads(_core.check_equality(os.fsdecode(a), os.fsdecode(b), os.fsdecode(certificate), solver, tolerance, _core.Stop()))["accepted"]
