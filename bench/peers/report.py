"""The table of verdicts, and what stands behind those that are not the same."""

import collections
import math
import re

import common
import sources

NEWS = ("as reference", "differs", "crashed", "too slow", "refused")
APART = ("com.microsoft", "maps", "text")


def ran(rows):
    """Those that ONNX Runtime executes."""
    return [row for row in rows if row["verdict"] == "same" or row["verdict"] in NEWS]


def percent(part, whole):
    return f"{100 * part / whole:.1f}%" if whole else "-"


def mean_speed(rows):
    logs = [math.log(row["speed"]) for row in rows if "speed" in row]
    return f"{math.exp(sum(logs) / len(logs)):.2f}" if logs else "-"


def optimize_summary(rows):
    found = collections.Counter(row["optimize"][0] for row in rows if "optimize" in row)
    return ", ".join(f"{count} {verdict}" for verdict, count in found.most_common()) or "-"


def table_row(title, rows):
    here = ran(rows)
    same = sum(row["verdict"] == "same" for row in here)
    counts = [str(sum(row["verdict"] == verdict for row in rows)) for verdict in NEWS]
    return [title, str(len(here)), str(same), percent(same, len(here)), *counts, mean_speed(here), optimize_summary(here)]


def table(rows):
    header = ["source", "run by ONNX Runtime", "same", "", *NEWS, "speed", "`optimize`"]
    shown = []
    for source, found in rows.items():
        shown.append(table_row(source, [row for row in found if row.get("kind") not in APART]))
    everything = [row for found in rows.values() for row in found]
    shown.append(table_row("all", [row for row in everything if row.get("kind") not in APART]))
    for kind in APART:
        shown.append(table_row(f"apart: {kind}", [row for row in everything if row.get("kind") == kind]))
    return common.markdown_table(header, shown)


def pattern(reason):
    """A reason without names and numbers, so that equal kinds are equal."""
    reason = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", reason)
    reason = re.sub(r"\[[-\d, ]*\]", "[...]", reason)
    return re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "n", reason)


def grouped(rows, verdict):
    groups = collections.defaultdict(list)
    for source, found in rows.items():
        for row in found:
            if row["verdict"] == verdict:
                groups[pattern(row["reason"])].append((source, row))
    return sorted(groups.values(), key=len, reverse=True)


def listed(rows, verdict):
    text = ""
    for source, found in rows.items():
        for row in found:
            if row["verdict"] == verdict:
                text += f"- {source}, {row['name']}: {row['reason']}\n"
    return text or "None.\n"


def refusals(rows):
    text = ""
    for group in grouped(rows, "refused"):
        source, row = group[0]
        text += f"- {len(group)}: {row['reason'][:300]} ({source}, {row['name']})\n"
    return text or "None.\n"


def optimize_failures(rows):
    text = ""
    for source, found in rows.items():
        for row in found:
            if row.get("optimize", ["same"])[0] != "same":
                text += f"- {source}, {row['name']}: {': '.join(row['optimize'])}\n"
    return text or "None.\n"


def write(rows):
    worker = common.Worker()
    machine = common.machine(worker)
    worker.close()
    not_made = sum(row["verdict"] == "not made" for found in rows.values() for row in found)
    skipped = sum(row["verdict"] == "skipped" for found in rows.values() for row in found)
    names = "\n".join(f"- `{source}`: {title}" for source, title in sources.SOURCES.items())
    text = f"""# Models of other projects' libraries and exporters

`bench/peers/run`: models that other libraries and exporters make, executed by ONNX Runtime {machine["onnxruntime"]} and by
`rewright.InferenceSession` on the same inputs, one thread each, on {machine["cpu"]}, commit {machine["commit"]}, {machine["date"]}. Speed is ONNX Runtime's
time over ours, the geometric mean; most models are so small that it is the time of a call. `optimize`: on a sample, the rewritten
model in ONNX Runtime. {not_made} more cases are not made by their own library or exporter, {skipped} are refused by ONNX Runtime.
The load of the machine was {machine["load_average"]}: above 1, speeds are rough. Verdicts that were in the log before this run are of earlier builds;
`--again` takes all anew.

{names}

Counted apart: models with operators of com.microsoft, with maps (ZipMap) and with operators on texts.

{table(rows)}

## Other than ONNX Runtime's, and as a reference computes them

{listed(rows, "as reference")}
## Differs

{listed(rows, "differs")}
## Crashed

{listed(rows, "crashed")}
## Too slow

{listed(rows, "too slow")}
## Refused, by reason

{refusals(rows)}
## Not the same after `optimize`

{optimize_failures(rows)}"""
    kept = ("name", "verdict", "reason", "kind", "optimize")
    facts = {}
    for source, found in rows.items():
        counts = collections.Counter(row["verdict"] for row in found)
        news = [{key: row[key] for key in kept if key in row} for row in found if row["verdict"] in NEWS]
        facts[source] = {"counts": dict(counts), "not the same": news}
    common.write_results("peers", text, {**machine, "sources": facts})
