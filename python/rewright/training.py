"""Trains a model's weights."""

import json
import os
import typing

from . import models
from ._native import _core
from .errors import UsageError
from .options import Options
from .waiting import in_background

_OPTIONS = Options(_core.training_options(), without=("data", "validate"))


class Step(typing.NamedTuple):
    """A completed step of training.

    step: its number, from 1, of `steps` in all.
    epoch: how many passes over the data were complete before it.
    loss, rate: of this step; skipped: the loss or a gradient was not finite, and nothing has changed.
    """

    step: int
    steps: int
    epoch: int
    loss: float
    rate: float
    examples_per_second: float
    skipped: bool


class Trained(models.MadeModel):
    """The result of a training.

    loss: of the last step; NaN if there was none.
    path: the file that was written, if one was asked for.
    """

    def __init__(self, trained, given, path):
        super().__init__(trained.graph, given, path)
        self._trained = trained
        self.loss = trained.loss

    def report(self, form="dict"):
        """The report: a "dict", or "json" as of `rewright train --json`."""
        if form == "json":
            return self._trained.facts
        if form != "dict":
            raise UsageError(f'there is no report as "{form}"', hint='there are "dict" and "json"')
        return json.loads(self._trained.facts)

    def __repr__(self):
        facts = self.report()
        held_out = facts.get("validation", {})
        judged = "".join(f", {name} {held_out[name]:.4g} on what was held out" for name in ("accuracy",) if name in held_out)
        return f"<rewright.Trained: {facts['steps']} steps, loss {self.loss:.4g}{judged}>"


def _given_data(option, data):
    """The data as options and as a dict of arrays."""
    if data is None:
        return [], {}
    if isinstance(data, (str, os.PathLike)):
        return [(option, os.fsdecode(data))], {}
    if hasattr(data, "items"):
        return [], dict(data)
    raise UsageError(
        f"data cannot be of type {type(data).__name__}",
        hint='give a path, or a dict with an array for each input and for "targets"',
    )


def _train(model, data, validate, output, progress, options, stop):
    files, arrays = _given_data("data", data)
    held_out_files, held_out = _given_data("validate", validate)
    output = None if output is None else os.fsdecode(output)
    tell = None if progress is None else lambda *facts: progress(Step(*facts))
    trained = _core.train(models.read(model), files + held_out_files + _OPTIONS.pairs(options), arrays, held_out, tell, stop)
    result = Trained(trained, models.kind_of(model), output)
    if output is not None and _core.is_first_process():
        result.save(output)
    return result


def train(model, data, *, validate=None, output=None, progress=None, **options):
    """Trains a copy of a model and returns it as a Trained. In a program that mpirun started, every process calls
    this, each takes its part of every batch, and all have the result; the first one writes files and tells `progress`. A process
    that fails then ends all of them, with a line on standard error.

    model: a file, the bytes of a model, an onnx.ModelProto, a rewright.graph.Graph or a rewright.Result. It is left as it is.
    data: a folder or file, as `rewright train --data`; or a dict with an array for each input of the model, and one for
        "targets", whose first axes count examples. Arrays that lie in order are read where they are.
    validate: data of the same form for judging the result; it is not trained on.
    output: the file to write the trained model to.
    progress: called in this thread with a rewright.Step for each step that has been made. If it returns False the training ends
        with what was trained so far; what it raises ends it as well, and is raised here. So does Ctrl-C. With `checkpoint` the
        state is kept then, and `resume=True` goes on.

    Raises rewright.Error for data that does not fit the model, and as rewright.optimize does.

    Options, as those of `rewright train`:
{options}
    """
    return _train(model, data, validate, output, progress, options, _core.Stop())


_OPTIONS.document(train)


async def train_async(model, data, *, validate=None, output=None, progress=None, **options):
    """train() without blocking the event loop. `progress` is called in the loop, and its answer is ignored: to end the
    work, cancel the task."""

    def work(tell, stop):
        return _train(model, data, validate, output, tell, options, stop)

    return await in_background(work, progress)
