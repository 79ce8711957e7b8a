"""Rewrite rules: the shipped ones and those of files, to look at, to compare and to prove.

    for rule in rewright.rules.load():
        print(rule.name, rule.conditions)
    print(rewright.rules.show("conv_add"))
    rewright.verify("my.rules")
"""

import json
import os

from ._native import _core
from .errors import UsageError

Rule = _core.Rule


def load(files=()):
    """The rules of files, in order; the shipped ones without any.

    files: a path, or several; "generated" and "handwritten" are parts of the shipped rules. Each Rule has a name, a description,
    its algebra, its conditions, for_training (bool) and dot (a drawing, as text for Graphviz).
    """
    files = [files] if isinstance(files, (str, os.PathLike)) else files
    return _core.read_rules([os.fsdecode(file) for file in files])


def parse(text, name="text"):
    """The rules of a text in algebra. `name` is what errors call it."""
    return _core.parse_rules(text, name)


def facts(rule):
    """The facts of a rule, as in `rewright rules list --json`: a dict with its name, math, origin, status, hash, ..."""
    return json.loads(rule.facts)


def names(files=()):
    """The names of rules, as of load."""
    return [rule.name for rule in load(files)]


def show(name, files=()):
    """A rule's algebra, by its name."""
    for rule in load(files):
        if rule.name == name:
            return rule.algebra
    raise UsageError(f'there is no rule "{name}"', hint="rewright.rules.names() has them all")


def diff(first, second):
    """The differences of two sets of rules, by name: a dict of only_first, only_second, changed (lists of names) and renamed (pairs of
    names of the same rule). Each is a path, paths, or a list of rules."""
    return _core.difference(_rules_of(first), _rules_of(second))


def save(rules, file, format="binary"):
    """Writes rules: as "binary", "text" (Protobuf's), or "algebra", which keeps no proofs."""
    _core.write_rules(list(rules), os.fsdecode(file), format)


def _rules_of(given):
    if isinstance(given, _core.Rule):
        return [given]
    if isinstance(given, (str, os.PathLike)):
        return load(given)
    given = list(given)
    if all(isinstance(rule, _core.Rule) for rule in given):
        return given
    return load(given)


class Verdict:
    """The result of verifying a rule.

    verdict: "proved", "refuted", "undecided" or "invalid".
    conditions: those added because the rule holds only with them.
    counterexample, question, error: the reason for each of the last three verdicts; None otherwise.
    suggested_conditions: with which it would be proved.
    """

    def __init__(self, text):
        known = json.loads(text)
        self.facts = known
        self.name = known["name"]
        self.verdict = known["verdict"]
        self.conditions = known["conditions"]
        self.seconds = known["seconds"]
        self.counterexample = known.get("counterexample")
        self.question = known.get("question")
        self.error = known.get("error")
        self.suggested_conditions = known.get("suggested_conditions", [])

    def __repr__(self):
        return f"<rewright.rules.Verdict: {self.name} {self.verdict}>"


class Verification(list):
    """A Verdict for each rule, in order. `proved` has the rules that were proved, ready for rewright.optimize(rules=...)."""

    def __init__(self, verified):
        super().__init__(Verdict(text) for text in verified.facts)
        self.proved = verified.proved


def verify(rules=(), *, infer_conditions=False, certificates=None, seed=0, threads=0, progress=None):
    """Proves rules for all sizes, or refutes them with a counterexample; returns a Verification.

    rules: a path, paths, or rules; the shipped ones without any. Malformed rules in a file are an Error.
    infer_conditions: add to a rule that does not hold the conditions under which it does, where they are found.
    certificates: a folder for the proofs, a file a proved rule.
    progress: called now and then with the last rule's name and how much is done (0 to 1); False, or an exception, ends the work.
        False ends it with rewright.CancelledError.
    """
    found = load() if isinstance(rules, tuple) and not rules else _rules_of(rules)
    if certificates is not None:
        os.makedirs(certificates, exist_ok=True)
    folder = "" if certificates is None else os.fsdecode(certificates)
    return Verification(_core.verify_rules(found, infer_conditions, folder, seed, threads, progress, _core.Stop()))
