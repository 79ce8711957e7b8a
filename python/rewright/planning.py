"""Plans for many processes: a model's work divided among the devices of a machine that need not be here."""

import json
import os
import tempfile

from . import models
from ._native import _core
from .errors import UsageError
from .options import Options

_OPTIONS = Options(_core.plan_options(), without=("machine", "for"))


class Plan:
    """A plan, which is proved: `mpirun -n N rewright train|run|bench MODEL --plan FILE` executes it.

    seconds: of a step, simulated; lower_bound: no plan takes less.
    strategy: how inputs and weights are held.
    processes: how many it is for.
    path: the file that was written, if one was asked for.
    """

    def __init__(self, planned, path):
        self._planned = planned
        self.path = path
        facts = self.report()
        self.seconds, self.lower_bound = facts["seconds"], facts["lower_bound"]
        self.strategy, self.processes = facts["strategy"], facts["processes"]

    def text(self):
        """The content of the plan's file."""
        return self._planned.text

    def save(self, path):
        """Writes the plan's file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._planned.text)

    def report(self, form="dict"):
        """The report: a "dict", or "json" as of `rewright plan --json`."""
        if form == "json":
            return self._planned.facts
        if form != "dict":
            raise UsageError(f'there is no report as "{form}"', hint='there are "dict" and "json"')
        return json.loads(self._planned.facts)

    def __repr__(self):
        return f"<rewright.Plan: {self.processes} processes, {self.strategy}, {self.seconds * 1e3:.4g} ms a step>"


def plan(model, machine, *, purpose="training", output=None, **options):
    """Divides a model's work among the processes of a machine, and returns a Plan. Each cut is proved.

    model: as rewright.optimize takes it.
    machine: the file of the machine, or a dict of what such a file has (docs/plans.md).
    purpose: what is planned: "training", or "inference".
    output: the file to write the plan to.

    Raises rewright.Error for a machine that cannot be, and where no plan fits into its memory.

    Options, as those of `rewright plan`:
{options}
    """
    output = None if output is None else os.fsdecode(output)
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(machine, dict):
            file = os.path.join(folder, "machine.json")
            with open(file, "w", encoding="utf-8") as written:
                json.dump(machine, written)
        else:
            file = os.fsdecode(machine)
        planned = _core.plan(models.read(model), [("machine", file), ("for", purpose), *_OPTIONS.pairs(options)], output or "")
    made = Plan(planned, output)
    if output is not None:
        made.save(output)
    return made


_OPTIONS.document(plan)


def check_plan(model, file):
    """Whether the plan in the file computes what the model computes: "" if that is proved, else what is wrong."""
    proved, reason = _core.check_plan(models.read(model), os.fsdecode(file))
    return "" if proved else reason
