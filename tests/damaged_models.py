"""Optimizes damaged copies of a model: python damaged_models.py REWRIGHT MODEL [--copies 300] [--seed 1] [--jobs N] [--budget 2s]

Each copy is cut, has bits or bytes changed, or has bytes inserted, at random places. `rewright optimize` must end with 0 and a
whole model, or with 3 and one line on standard error and the output file as it was; never crash, take over 60 s or over 2 GB, or
leave a temporary file. The copies depend on the seed alone; one that fails is kept, and its path is printed.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading

import onnx

TIME_LIMIT_S = 60
MEMORY_LIMIT = 2 << 30
OLD_CONTENT = b"what was here before"


def cut(data, rng):
    if rng.random() < 0.5:
        return data[: rng.randrange(len(data))]
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randrange(1, 1 << rng.randrange(1, 16)) :]


def flip(data, rng):
    damaged = bytearray(data)
    for _ in range(1 << rng.randrange(0, 8)):
        position = rng.randrange(len(damaged))
        if rng.random() < 0.5:
            damaged[position] ^= 1 << rng.randrange(8)
        else:
            damaged[position] = rng.randrange(256)
    return bytes(damaged)


def insert(data, rng):
    position = rng.randrange(len(data))
    count = 1 << rng.randrange(0, 10)
    if rng.random() < 0.5:
        inserted = rng.randbytes(count)
    else:
        source = rng.randrange(len(data))
        inserted = data[source : source + count]
    return data[:position] + inserted + data[position:]


def interface(model):
    return [v.name for v in model.graph.input], [v.name for v in model.graph.output]


def violation(status, errors, source, folder):
    """How the outcome of a run violates the contract, or None."""
    target = folder / "out.onnx"
    left = sorted(p.name for p in folder.iterdir() if p.name not in ("in.onnx", "out.onnx"))
    if left:
        return f"left {left} behind"
    if status == 0:
        try:
            model = onnx.load(target)
            onnx.checker.check_model(model)
        except Exception as error:  # whatever ONNX objects to
            return f"exit 0, but the result is not a model: {error}"
        if interface(model) != interface(onnx.load_from_string(source)):
            return "exit 0, but inputs or outputs have other names"
        return None
    if status != 3:
        return f"exit status {status}: {errors.strip()[-300:]}"
    if errors.count("\n") != 1 or not errors.startswith("rewright: error: "):
        return f"exit 3, but standard error is not one line: {errors[-300:]!r}"
    if target.read_bytes() != OLD_CONTENT:
        return "exit 3, but the old file is gone"
    return None


def run(command, folder):
    """Runs a command and returns its status, standard error and peak of resident memory."""
    with open(folder / "stderr", "w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, stdin=subprocess.DEVNULL)
        timer = threading.Timer(TIME_LIMIT_S, process.kill)
        timer.start()
        _, wait_status, usage = os.wait4(process.pid, 0)
        timed_out = not timer.is_alive()
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(wait_status)
        errors.seek(0)
        text = errors.read()
    (folder / "stderr").unlink()
    return process.returncode, text, usage.ru_maxrss * 1024, timed_out


def try_copy(arguments, data, index):
    rng = random.Random(f"{arguments.seed}/{index}")
    source = rng.choice([cut, flip, insert])(data, rng)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"damaged-{index}-"))
    (folder / "in.onnx").write_bytes(source)
    (folder / "out.onnx").write_bytes(OLD_CONTENT)
    command = [arguments.rewright, "optimize", folder / "in.onnx", "-o", folder / "out.onnx", "--quiet", "--threads", "1"]
    command += ["--device", "cpu", "--budget", arguments.budget] + (["--shape", arguments.shape] if arguments.shape else [])
    status, errors, peak, timed_out = run(command, folder)
    if timed_out:
        problem = f"still running after {TIME_LIMIT_S} s"
    elif peak > MEMORY_LIMIT:
        problem = f"{peak >> 20} MB of memory"
    else:
        problem = violation(status, errors, source, folder)
    if problem is None:
        shutil.rmtree(folder)
    else:
        print(f"copy {index}: {problem}\n  kept: {folder / 'in.onnx'}", flush=True)
    return status if problem is None else "broken"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rewright")
    parser.add_argument("model")
    parser.add_argument("--shape", help="as for `rewright optimize`: NAME=1x3x48x192")
    parser.add_argument("--copies", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", default="2s")
    arguments = parser.parse_args()
    path = pathlib.Path(arguments.model)
    data = path.read_bytes()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = collections.Counter(pool.map(lambda i: try_copy(arguments, data, i), range(arguments.copies)))
    print(f"{arguments.copies} damaged copies of {path.name}: {outcomes[0]} optimized, {outcomes[3]} refused, {outcomes['broken']} broken")
    return 1 if outcomes["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
