"""Shared by the benchmarks: the Python environment, the ONNX Runtime helper, ratios with their spread, tables."""

import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BINARY = os.environ.get("REWRIGHT_BINARY") or os.path.join(ROOT, "build", "release", "bin", "rewright")
RESULTS = os.path.join(ROOT, "bench", "results")


def cache_folder():
    return os.environ.get("REWRIGHT_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "rewright")


def environment_python():
    return os.environ.get("REWRIGHT_PYTHON") or os.path.join(cache_folder(), "python", "bin", "python")


def use_environment():
    """Goes on in the interpreter of tools/setup if this one lacks ONNX Runtime."""
    try:
        import onnxruntime  # noqa: F401  (only whether it is there)

        return
    except ImportError:
        pass
    python = environment_python()
    if not os.path.exists(python) or os.environ.get("REWRIGHT_BENCH_RESTARTED"):
        sys.exit(f"{os.path.basename(sys.argv[0])}: no ONNX Runtime here; tools/setup --peers installs it")
    os.environ["REWRIGHT_BENCH_RESTARTED"] = "1"
    os.execv(python, [python, *sys.argv])


def by_mpirun(processes, command):
    """The command that runs it in so many processes."""
    mpirun = shutil.which("mpirun") or sys.exit(f"{os.path.basename(sys.argv[0])}: mpirun is not there; tools/setup installs it")
    return [mpirun, "-q", "--allow-run-as-root", "--oversubscribe", "-n", str(processes), *command]


class Worker:
    """A client of python/ort_worker.py, or of another program with requests and replies of a line each."""

    def __init__(self, script=os.path.join(ROOT, "python", "ort_worker.py"), python=sys.executable):
        self.name = os.path.basename(script)
        self.process = subprocess.Popen([python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, operation, **fields):
        self.process.stdin.write(json.dumps({"op": operation, **fields}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        reply = json.loads(line) if line else {"error": f"{self.name} ended"}
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def rewright(*arguments, timeout=600):
    """Runs the program; returns (exit status, last line of its standard error)."""
    try:
        result = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return 124, f"stopped after {timeout} s"
    lines = result.stderr.strip().splitlines()
    return result.returncode, lines[-1] if lines else ""


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def spread(values):
    """Median, and the quantiles 0.1 and 0.9."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {"median": statistics.median(ordered), "low": ordered[round(0.1 * last)], "high": ordered[round(0.9 * last)]}


def speedup(before, after):
    """The speed of `after` relative to `before`: ratios of the times of the same round."""
    return spread([slow / fast for slow, fast in zip(before, after)])


def random_inputs(session, seed):
    """Inputs for a model with fixed sizes: normal reals, integers and truth values 0 and 1."""
    import numpy as np

    generator = np.random.default_rng(seed)
    inputs = {}
    for value in session.get_inputs():
        name = value.type.removeprefix("tensor(").removesuffix(")")
        element = np.dtype({"float": "float32", "double": "float64"}.get(name, name))
        if element.kind == "f":
            inputs[value.name] = generator.standard_normal(value.shape, dtype=np.float32).astype(element)
        else:
            inputs[value.name] = generator.integers(0, 2, value.shape).astype(element)
    return inputs


def relative_error(expected, actual):
    """The largest difference over the outputs, each relative to its largest finite element; infinite where only one side is finite, or
    infinities differ."""
    import numpy as np

    worst = 0.0
    for want, got in zip(expected, actual):
        want, got = np.asarray(want, np.float64), np.asarray(got, np.float64)
        finite = np.isfinite(want)
        if want.shape != got.shape or not np.array_equal(want[~finite], got[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
            return float("inf")
        if finite.any():
            worst = max(worst, float(np.abs(want - got)[finite].max() / max(np.abs(want[finite]).max(), 1e-30)))
    return worst


def run_here(path, inputs, folder, *options):
    """The report of a run in Rewright's CPU runtime."""
    import numpy as np

    report = os.path.join(folder, "run.json")
    command = ["run", path, "--output-dir", folder, "--device", "cpu", "--json", report, "--quiet", *options]
    for index, (name, value) in enumerate(inputs.items()):
        file = os.path.join(folder, f"input_{index}.npy")
        np.save(file, value)
        command += ["--input", f"{name}={file}"]
    status, message = rewright(*command)
    if status != 0:
        raise RuntimeError(f"run: exit {status}: {message}")
    return read_json(report)


def outputs_here(path, inputs, names, folder, options=("--threads", "1")):
    """Outputs of a model in Rewright's CPU runtime, in the order of names."""
    import numpy as np

    files = {output["name"]: output["file"] for output in run_here(path, inputs, folder, *options)["outputs"]}
    return [np.load(files[name]) for name in names]


def roofline_share(path, threads, folder):
    """The share of a model's time in Rewright's CPU runtime that its operations at the peak rate, or its bytes at the memory's bandwidth,
    would take, whichever is larger for each step."""
    import onnxruntime

    inputs = random_inputs(onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]), seed=0)
    with tempfile.TemporaryDirectory(dir=folder) as outputs:
        return run_here(path, inputs, outputs, "--threads", str(threads), "--profile")["roofline"]["share"]


def error_here(original, path, folder, options=("--threads", "1")):
    """The largest relative error of a model in Rewright's CPU runtime against the original in ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(original, providers=["CPUExecutionProvider"])
    inputs = random_inputs(session, seed=0)
    names = [value.name for value in session.get_outputs()]
    expected = session.run(names, inputs)
    with tempfile.TemporaryDirectory(dir=folder) as outputs:
        return relative_error(expected, outputs_here(path, inputs, names, outputs, options))


def compare_in_onnxruntime(reference, other, runs=3):
    """The largest relative error of one model against another, both in ONNX Runtime, on random inputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    sessions = [onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]) for path in (reference, other)]
    worst = 0.0
    for seed in range(runs):
        inputs = random_inputs(sessions[0], seed)
        worst = max(worst, relative_error(*(session.run(None, inputs) for session in sessions)))
    return worst


def machine(worker):
    """The machine and the versions that the numbers were measured with."""
    hello = worker.ask("hello")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "cpu": hello["cpu"],
        "cores": os.cpu_count(),
        "onnxruntime": hello["onnxruntime"],
        "commit": commit.stdout.strip(),
        "date": datetime.date.today().isoformat(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def markdown_table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(" --- " if i == 0 else " ---: " for i in range(len(header))) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def with_spread(ratio):
    return "-" if ratio is None else f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def write_results(name, text, facts):
    os.makedirs(RESULTS, exist_ok=True)
    for extension, content in (("md", text), ("json", json.dumps(facts, indent=2) + "\n")):
        path = os.path.join(RESULTS, f"{name}.{extension}")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(path + ".new", path)
