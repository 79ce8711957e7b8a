"""Rewright's CPU runtime, ONNX Runtime and OpenVINO on one model: times in turn, and a row of a table of ratios."""

import os
import statistics

import common

PEERS = ("onnxruntime", "openvino")
LARGEST_ERROR = 1e-4


def rewright_seconds(path, threads, seconds, folder):
    report = os.path.join(folder, "bench.json")
    options = ["--device", "cpu", "--threads", str(threads), "--seconds", f"{seconds}s", "--json", report, "--quiet"]
    status, message = common.rewright("bench", path, *options)
    if status != 0:
        raise RuntimeError(f"rewright bench: exit {status}: {message}")
    return 1e-3 * common.read_json(report)["models"][0]["median_ms"]


class Runtimes:
    """Asks each runtime for the median time of a model, in seconds; None where OpenVINO refuses the model and may do so."""

    def __init__(self, folder, seconds, may_refuse=False):
        self.folder, self.seconds, self.may_refuse = folder, seconds, may_refuse
        self.onnxruntime = common.Worker()
        self.openvino = common.Worker(os.path.join(common.ROOT, "bench", "openvino_worker.py"))
        self.openvino_version = "?"

    def ask_openvino(self, path, threads):
        try:
            reply = self.openvino.ask("time", path=path, threads=threads, seconds=self.seconds)
        except RuntimeError:
            if not self.may_refuse:
                raise
            return None
        self.openvino_version = reply["openvino"]
        return reply["median"]

    def ask_onnxruntime(self, path, threads):
        return self.onnxruntime.ask("time_models", paths=[path], threads=threads, min_seconds=self.seconds)["median"][0]

    def round(self, path, threads, forward, here):
        """One time of each; `again` is Rewright's second."""
        turns = [
            ("rewright", lambda: rewright_seconds(here, threads, self.seconds, self.folder)),
            ("onnxruntime", lambda: self.ask_onnxruntime(path, threads)),
            ("openvino", lambda: self.ask_openvino(path, threads)),
            ("again", lambda: rewright_seconds(here, threads, self.seconds, self.folder)),
        ]
        return {name: turn() for name, turn in (turns if forward else reversed(turns))}

    def close(self):
        self.onnxruntime.close()
        self.openvino.close()


def measure(path, threads, runtimes, rounds, here=None):
    """A row of the table; `here`: what Rewright runs in place of the model itself."""
    taken = [runtimes.round(path, threads, number % 2 == 0, here or path) for number in range(rounds)]
    own = [(times["rewright"] + times["again"]) / 2 for times in taken]
    peers = [peer for peer in PEERS if all(times[peer] is not None for times in taken)]
    row = {
        "threads": threads,
        "ms": {name: 1e3 * statistics.median(times[name] for times in taken) for name in ("rewright", *peers)},
        "same": common.speedup([times["again"] for times in taken], [times["rewright"] for times in taken]),
        "relative_error": common.error_here(path, here or path, runtimes.folder),
    }
    for peer in PEERS:
        row[f"over_{peer}"] = common.speedup([times[peer] for times in taken], own) if peer in peers else None
    row["over_better"] = common.speedup([min(times[peer] for peer in peers) for times in taken], own)
    return row


HEADER = [
    "",
    "threads",
    "Rewright, ms",
    "ONNX Runtime, ms",
    "OpenVINO, ms",
    "over ONNX Runtime",
    "over OpenVINO",
    "over the better",
    "A/A",
    "relative error",
]


def table_row(name, row):
    if "failed" in row:
        return [name, str(row["threads"]), row["failed"]] + [""] * 7
    times = [f"{row['ms'][key]:.{2 if row['ms'][key] >= 1 else 3}f}" if key in row["ms"] else "-" for key in ("rewright", *PEERS)]
    ratios = [common.with_spread(row[key]) for key in ("over_onnxruntime", "over_openvino", "over_better", "same")]
    return [name, str(row["threads"]), *times, *ratios, f"{row['relative_error']:.1e}"]


def about(runtimes):
    """The machine and the versions that the numbers are measured with; `load_average` is that of the beginning."""
    return {**common.machine(runtimes.onnxruntime), "openvino": runtimes.openvino_version}
