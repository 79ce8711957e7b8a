"""A wrong kernel of a library is noticed: by --check-kernels of `run` and `bench`, by `optimize`, and by the sweep of kernels."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

program, sweep, library, build = sys.argv[1:5]
generator = np.random.default_rng(1)
X = (1, 64, 14, 14)


def model(path, channels):
    """Two 1x1 convolutions, the first with a bias and so many channels, and products whose weights are one matrix."""

    def weight(name, *shape):
        array = generator.standard_normal(shape).astype(np.float32) / np.sqrt(shape[1] if len(shape) > 1 else 1)
        return numpy_helper.from_array(array.astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="first"),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["s"], name="second"),
        helper.make_node("MatMul", ["s", "left"], ["m"]),
        helper.make_node("MatMul", ["m", "right"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "planted",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 8, 14, 14))],
        [
            weight("w", channels, 64, 1, 1),
            weight("b", channels),
            weight("v", 8, channels, 1, 1),
            weight("left", 14, 4096),
            weight("right", 4096, 14),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run(*command, planted, status=0):
    environment = dict(os.environ, LD_PRELOAD=library) if planted else os.environ
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment)
    if done.returncode != status:
        sys.exit(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def names_the_kernel(text):
    return re.search(r"oneDNN \d+\.\d+\.\d+ \(", text) and "400x64x1x1" in text and "1x400x14x14" in text


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    large, few = folder / "large.onnx", folder / "few.onnx"
    model(large, 400)
    model(few, 40)
    np.save(folder / "x.npy", generator.standard_normal(X).astype(np.float32))

    def results(name, *options, planted):
        report = folder / "report.json"
        done = run(program, "run", name, "--input", f"x={folder}/x.npy", "--output-dir", folder / "out", "--threads", 1, "--json",
                   report, *options, planted=planted)  # fmt: skip
        return np.load(folder / "out" / "y.npy"), json.loads(report.read_text()), done

    right, _, _ = results(large, planted=False)
    wrong, _, _ = results(large, planted=True)
    assert np.abs(wrong - right).max() > 0.1 * np.abs(right).max(), "nothing was planted"

    # Noticed, named, and computed by something else. Where all is right, nothing is said.
    found, report, done = results(large, "--check-kernels", planted=True)
    assert np.abs(found - right).max() < 1e-4 * np.abs(right).max()
    assert len(report["kernels"]["faults"]) == 1 and names_the_kernel(report["kernels"]["faults"][0]), report["kernels"]
    assert names_the_kernel(done.stderr) and "generated code takes its place" in done.stderr, done.stderr
    for name, planted in ((large, False), (few, True)):
        _, report, done = results(name, "--check-kernels", planted=planted)
        assert report["kernels"]["faults"] == [] and "warning" not in done.stderr, done.stderr
        assert report["kernels"]["checked"] == report["kernels"]["steps"] > 0, report["kernels"]

    done = run(program, "bench", large, "--check-kernels", "--seconds", "0.1s", "--threads", 1, planted=True)
    assert names_the_kernel(done.stderr), done.stderr

    # From Python, as a warning.
    script = """if True:
        import sys, warnings
        sys.path.insert(0, sys.argv[1])
        import numpy, rewright
        options = rewright.SessionOptions()
        options.check_kernels, options.intra_op_num_threads = True, 1
        session = rewright.InferenceSession(sys.argv[2], options)
        for planted in (True, False):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                y, = session.run(None, {"x": numpy.load(sys.argv[3])})
            assert len(told) == planted, [str(w.message) for w in told]
            assert numpy.abs(y - numpy.load(sys.argv[4])).max() < 1e-3
        assert session.checked_kernels["checked"] == session.checked_kernels["steps"] > 0
    """
    np.save(folder / "right.npy", right)
    run(sys.executable, "-B", "-c", script, os.path.join(build, "python"), large, folder / "x.npy", folder / "right.npy",
        planted=True)  # fmt: skip

    # Both graphs compute the same, as neither relies on the kernel.
    done = run(program, "optimize", large, "-o", folder / "faster.onnx", "--threads", 1, "--budget", "20s", "--json",
               folder / "optimize.json", planted=True)  # fmt: skip
    report = json.loads((folder / "optimize.json").read_text())
    assert report["check"]["runs"] > 0 and report["check"]["ok"] and report["speedup"] > 1, report["check"]
    assert len(report["check"]["kernels"]) > 0 and names_the_kernel(report["check"]["kernels"][0]), report["check"]
    assert names_the_kernel(done.stderr), done.stderr

    # The sweep meets it among some dozens of cases.
    assert "0 of wrong results" in run(sweep, "--cases", 60, "--small", "--family", "convolution", planted=False).stdout
    done = run(sweep, "--cases", 60, "--small", "--family", "convolution", planted=True, status=1)
    assert "oneDNN" in done.stdout, done.stdout

    # So does the comparison with ONNX Runtime.
    beside = [sys.executable, "-B", pathlib.Path(__file__).with_name("kernel_sweep.py"), sweep, build, "--cases", 60, "--small", "--family"]
    done = run(*beside, "convolution", "--keep", folder, planted=True, status=1)
    assert "times the bound off ONNX Runtime" in done.stdout, done.stdout

    # An element behind a result meets a guarded page, or what was written in front of it.
    environment = dict(os.environ, LD_PRELOAD=library, PLANTED="beyond")
    command = [sweep, "--cases", "30", "--first", "6", "--small", "--family", "convolution"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    text = done.stdout + done.stderr
    assert done.returncode != 0 and ("writes beside a storage" in text or "touches memory outside of its storages" in text), text
