"""Optimization: from a model to the fastest equivalent one that was found for a device."""

import asyncio
import contextlib
import functools
import html
import json
import os
import tempfile

from . import models
from ._native import _core
from .errors import UsageError

_KINDS = {option["name"].replace("-", "_"): option for option in _core.optimization_options()}


def _sizes_text(name, sizes):
    return f"{name}={'x'.join(str(int(size)) for size in sizes)}"


def _texts(option, value):
    """An option's value as the command line has it: a text, or several."""
    if option["kind"] == "flag":
        return ["true" if value else "false"]
    if option["kind"] == "list":
        if isinstance(value, dict):
            return [_sizes_text(name, sizes) for name, sizes in value.items()]
        return [os.fsdecode(value)] if isinstance(value, (str, os.PathLike)) else [os.fsdecode(item) for item in value]
    if isinstance(value, os.PathLike):
        return [os.fsdecode(value)]
    return [str(value)]


def _options(given):
    """Keyword arguments as pairs of texts."""
    pairs = []
    for name, value in given.items():
        if name not in _KINDS:
            raise UsageError(f'there is no option "{name}"', hint=f"there are {', '.join(_KINDS)}")
        if value is not None:
            pairs += [(_KINDS[name]["name"], text) for text in _texts(_KINDS[name], value)]
    return pairs


class Result:
    """What an optimization found. Shows itself as a table and a picture in Jupyter.

    speedup: how many times as fast, as measured; 1 where nothing was.
    certificate: every rewrite applied, in JSON, for `rewright replay`.
    path: the file that was written, if one was asked for.
    """

    def __init__(self, optimized, given, path):
        self._optimized = optimized
        self._given = given
        self._core_graph = optimized.graph
        self.speedup = optimized.speedup
        self.certificate = optimized.certificate
        self.path = path

    @functools.cached_property
    def model(self):
        """The model, in the kind that was given: bytes for bytes, a rewright.graph.Graph for one, the path of the output for a
        path where one was asked for, an onnx.ModelProto otherwise."""
        if self._given == "bytes":
            return self.serialize()
        if self._given == "graph":
            from .graph import Graph

            return Graph(self._core_graph)
        if self._given == "path" and self.path is not None:
            return self.path
        return models.to_proto(self._core_graph)

    def serialize(self):
        """The model's bytes. Models of 2 GB and more have none: save them."""
        return self._core_graph.serialize()

    def save(self, path):
        """Writes the model: whole, or not at all. Weights over 1.9 GB go to a file beside it."""
        self._core_graph.write(os.fsdecode(path))

    def session(self, sess_options=None, **arguments):
        """A rewright.InferenceSession of the model."""
        from .session import InferenceSession

        return InferenceSession(self, sess_options, **arguments)

    def report(self, form="dict"):
        """What was done and what it gained.

        form: "dict", or "json", as `rewright optimize --json` has it; or "html", the page of `rewright optimize --report`, if
            rewright.optimize was asked for it by report=True or report=FILE.
        """
        if form == "dict":
            return json.loads(self._optimized.facts)
        if form == "json":
            return self._optimized.facts
        if form != "html":
            raise UsageError(f'there is no report as "{form}"', hint='there are "dict", "json" and "html"')
        if not self._optimized.page:
            raise UsageError("the page was not asked for", hint="rewright.optimize(..., report=True)")
        return self._optimized.page

    def __repr__(self):
        facts = self.report()
        nodes = facts["nodes"]
        return f"<rewright.Result: {self.speedup:.2f} times as fast, {nodes['before']} -> {nodes['after']} nodes, {facts['device']}>"

    def _repr_html_(self):
        return _page_of_cell(self.report())


def _bar(before, after, unit):
    """Two bars below each other, as SVG."""
    largest = max(before, after) or 1
    rows = []
    for i, (label, value, colour) in enumerate((("before", before, "#9aa5b1"), ("after", after, "#2f855a"))):
        width = 240 * value / largest
        y = 4 + 24 * i
        rows.append(
            f'<text x="0" y="{y + 13}" font-size="12" fill="currentColor">{label}</text>'
            f'<rect x="50" y="{y}" width="{width:.1f}" height="18" rx="2" fill="{colour}"/>'
            f'<text x="{54 + width:.1f}" y="{y + 13}" font-size="12" fill="currentColor">{value:.4g} {unit}</text>'
        )
    return f'<svg role="img" aria-label="time before and after" width="380" height="54">{"".join(rows)}</svg>'


def _page_of_cell(facts):
    """A small table and a picture."""
    measured = facts["measured_ms"]
    time = measured if measured["before"] > 0 else facts["predicted_ms"]
    rules = {}
    for rule in facts["search"]["rules_applied"]:
        rules[rule["rule"]] = rules.get(rule["rule"], 0) + 1
    most = sorted(rules.items(), key=lambda item: -item[1])
    applied = ", ".join(f"{html.escape(name)} &times; {count}" for name, count in most[:5]) + (", ..." if len(most) > 5 else "")
    rows = {
        "model": html.escape(facts["input"]),
        "device": html.escape(facts["device"]),
        "speedup": f"{facts['speedup']:.2f}" if time is measured else "not measured",
        "nodes": f"{facts['nodes']['before']} &rarr; {facts['nodes']['after']}",
        "rewrites": f"{sum(rules.values())}" + (f": {applied}" if applied else ""),
        "outcome": html.escape(facts["outcome"]),
    }
    table = "".join(f'<tr><th style="text-align:left">{name}</th><td style="text-align:left">{value}</td></tr>' for name, value in rows.items())
    picture = _bar(time["before"], time["after"], "ms" if time is measured else "ms, predicted")
    return f"<div><table>{table}</table>{picture}</div>"


def _kind_of(model):
    if isinstance(model, (str, os.PathLike)):
        return "path"
    if isinstance(model, (bytes, bytearray, memoryview)):
        return "bytes"
    return "proto" if hasattr(model, "SerializeToString") else "graph"


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


@contextlib.contextmanager
def _rules_in_files(options):
    """Options with the rules that are given as objects in a file."""
    rules = options.get("rules")
    if isinstance(rules, _core.Rule):
        rules = [rules]
    if rules is None or isinstance(rules, (str, os.PathLike)) or not any(isinstance(rule, _core.Rule) for rule in rules):
        yield options
        return
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "given.rules")
        _core.write_rules([rule for rule in rules if isinstance(rule, _core.Rule)], file, "binary")
        yield {**options, "rules": [file, *(rule for rule in rules if not isinstance(rule, _core.Rule))]}


def _optimize(model, output, certificate, report, progress, options, stop):
    graph = models.read(model)
    output = None if output is None else os.fsdecode(output)
    with _rules_in_files(options) as told:
        # A page is made where it is asked for: True, or a file to write it to.
        optimized = _core.optimize(graph, _options(told), output or "", bool(report), progress, stop)
    result = Result(optimized, _kind_of(model), output)
    if output is not None:
        result.save(output)
    if certificate is not None:
        _write(certificate, result.certificate)
    if report and report is not True:
        _write(report, optimized.page)
    return result


def optimize(model, *, output=None, certificate=None, report=None, progress=None, **options):
    """Finds the fastest model that was seen to compute the same, and returns a Result.

    model: a file, the bytes of a model, an onnx.ModelProto or a rewright.graph.Graph. It is left as it is.
    output: the file to write the result to.
    certificate: the file to write the applied rewrites to, for `rewright replay`.
    report: the file to write a page to, of what changed and what it gained; True to have it by Result.report("html").
    progress: called now and then, in this thread, with what is being done, how much of that (0 to 1) and how many times as fast
        the best graph so far is predicted to be. If it returns False the search ends with the best so far; what it raises ends
        the work, and is raised here. So does Ctrl-C.

    Raises rewright.Error for a model that is broken, for an option that there is not, and for what is missing here.

    Options, as those of `rewright optimize`. Shapes may be a dict of sizes by names, rules may be rewright.rules.Rule:
{options}
    """
    return _optimize(model, output, certificate, report, progress, options, _core.Stop())


def _option_line(name, option):
    kind = {"flag": "True or False", "list": f"{option['type']}, or several"}.get(option["kind"], option["type"])
    initial = f" (default: {option['initial']})" if option["initial"] and option["kind"] != "flag" else ""
    return f"    {name}: {option['description']}; {kind}{initial}"


if optimize.__doc__:  # not with python -OO
    optimize.__doc__ = optimize.__doc__.replace("{options}", "\n".join(_option_line(*item) for item in _KINDS.items()))


async def optimize_async(model, *, output=None, certificate=None, report=None, progress=None, **options):
    """As optimize, without holding up the event loop. `progress` is called in the loop; its answer counts for nothing: to end
    the work, cancel the task."""
    loop = asyncio.get_running_loop()
    stop = _core.Stop()

    def tell(*facts):
        loop.call_soon_threadsafe(progress, *facts)

    work = functools.partial(_optimize, model, output, certificate, report, tell if progress else None, options, stop)
    future = loop.run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.request()
        await asyncio.wait([future])  # nothing of ours goes on behind the caller's back
        future.exception()  # what it ended with counts for nothing
        raise
