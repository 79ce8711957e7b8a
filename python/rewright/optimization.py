"""Optimization: from a model to the fastest equivalent one that was found for a device."""

import contextlib
import html
import json
import os
import tempfile
import warnings

from . import models, program
from ._native import _core
from .errors import UsageError
from .options import Options
from .waiting import in_background

_OPTIONS = Options(_core.optimization_options())


class Result(models.MadeModel):
    """The result of an optimization. In Jupyter it is shown as a table and an image.

    speedup: how many times as fast, as measured; 1 where nothing was.
    certificate: every rewrite applied, in JSON, for `rewright replay`.
    path: the file that was written, if one was asked for.
    """

    def __init__(self, optimized, given, path):
        super().__init__(optimized.graph, given, path)
        self._optimized = optimized
        self.speedup = optimized.speedup
        self.certificate = optimized.certificate

    def report(self, form="dict"):
        """The report: rewrites, times and gains.

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
    """A small table and an image."""
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
    image = _bar(time["before"], time["after"], "ms" if time is measured else "ms, predicted")
    return f"<div><table>{table}</table>{image}</div>"


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


def _faults(facts):
    """Lines about what was left out, or not done, since it could not be seen to compute the same, or may be asked otherwise."""
    check = facts["check"]
    for fault in check["differs"]:
        yield fault["message"]
    for node in facts["not_standard"]:
        yield f"node {node['node']!r} ({node['operator']}) has no form in ONNX's own operators: {node['reason']}"
    if not facts["changed"] and check["runs"] == 0 and facts["outcome"].startswith("the given graph"):
        yield f"{facts['outcome']} ({check['reason']})"
    if facts["kept_inputs"]:
        yield f"{len(facts['kept_inputs'])} weights are inputs as well, which a caller may give: they were not folded (fix_inputs=True makes constants of them)"


def _program():
    """The program that times graphs in processes of their own; none where it cannot be started."""
    path = program.path()
    return path if os.access(path, os.X_OK) else ""


def _optimize(model, output, certificate, report, progress, options, stop):
    graph = models.read(model)
    output = None if output is None else os.fsdecode(output)
    with _rules_in_files(options) as told:
        # A page is made where it is asked for: True, or a file to write it to.
        optimized = _core.optimize(graph, _OPTIONS.pairs(told), output or "", bool(report), progress, stop, _program())
    result = Result(optimized, models.kind_of(model), output)
    for line in _faults(result.report()):
        warnings.warn(line, stacklevel=3)
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

    Options, as those of `rewright optimize`. Shapes may be a dict of sizes by names ({"x": (1, 3, 224, 224)}), each of them one shape, a
    list of several, or a dict of shapes and their weights; rules may be rewright.rules.Rule:
{options}
    """
    return _optimize(model, output, certificate, report, progress, options, _core.Stop())


_OPTIONS.document(optimize)


def check_names(options):
    """UsageError for a name that is no option of optimize()."""
    _OPTIONS.pairs(options)


async def optimize_async(model, *, output=None, certificate=None, report=None, progress=None, **options):
    """optimize() without blocking the event loop. `progress` is called in the loop, and its answer is ignored: to end
    the work, cancel the task."""

    def work(tell, stop):
        return _optimize(model, output, certificate, report, tell, options, stop)

    return await in_background(work, progress)
