"""Writes cases for the kernels of a device: python device_cases.py REWRIGHT CASES OUT_DIR [--nodes 4] [--models 200] [--seed 1]

CASES is a folder that onnx_cases.py wrote, OUT_DIR gets folders of the same layout (`rewright conformance OUT_DIR`): of each of ONNX
Runtime's own operators some random nodes (contrib_cases.py), and random models (random_models.py), in which operators follow each other, so
that kernels compute groups of them. ONNX Runtime gives the expected results. A model whose results change visibly with the last digits of its inputs is left out, and one for
which the interpreter gives others: it could not tell right from wrong.
"""

import argparse
import glob
import json
import os
import random
import shutil
import subprocess

import numpy as np
import onnx
from contrib_case import DOMAIN, Case
from contrib_cases import OPERATORS
from onnx import numpy_helper
from program import declare_outputs
from random_models import ATOL, RTOL, distance, random_model, session, shaken_runs

STEADY = 0.1  # of what the tolerances allow: by how much the last digits of inputs may change a result


def write(folder, model, inputs, outputs, atol, rtol):
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    for prefix, values, infos in (("input", inputs, model.graph.input), ("output", outputs, model.graph.output)):
        for index, (value, info) in enumerate(zip(values, infos)):
            with open(os.path.join(data, f"{prefix}_{index}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(np.asarray(value), info.name).SerializeToString())
    with open(os.path.join(folder, "tolerance.json"), "w") as file:
        json.dump({"atol": atol, "rtol": rtol}, file)


def write_node(folder, name, seed):
    """False where ONNX Runtime refuses the node."""
    case = Case(name, seed, "" if name == "SimplifiedLayerNormalization" else DOMAIN)
    OPERATORS[name](case)
    model = case.model()
    try:
        outputs = session(model.SerializeToString()).run(None, case.feeds())
    except Exception:  # the runtime throws several unrelated types
        return False
    declare_outputs(model, outputs)
    largest = max((float(np.abs(v.astype(np.float64)).max(initial=0)) for v in outputs), default=0)
    atol = 1.01 if case.tolerance == "quantum" else case.tolerance * max(1.0, largest)
    write(folder, model, [case.feeds()[i.name] for i in model.graph.input], outputs, atol, 0.0)
    return True


def write_model(folder, cases, seed):
    """False where the last digits of inputs decide about a result."""
    rng = random.Random(seed)
    model, inputs, _ = random_model(rng, cases, rng.randint(2, 10))
    runtime = session(model.SerializeToString())
    outputs = runtime.run(None, inputs)
    if any(distance(e, a) > STEADY for run in shaken_runs(runtime, None, inputs) for e, a in zip(outputs, run)):
        return False
    largest = max((float(np.abs(v[np.isfinite(v)]).max(initial=0)) for v in outputs if v.dtype.kind == "f"), default=0)
    write(folder, model, [inputs[i.name] for i in model.graph.input], outputs, ATOL + RTOL * largest, RTOL)
    return True


def leave_out_undecided(program, folder):
    """Removes the cases of which the interpreter's results are others, and returns their names."""
    report = os.path.join(folder, "report.json")
    subprocess.run([program, "conformance", folder, "--device", "reference", "--json", report, "--quiet"], check=False)
    with open(report) as file:
        names = [case["name"] for case in json.load(file)["cases"] if case["status"] != "passed"]
    os.remove(report)
    for name in names:
        shutil.rmtree(os.path.join(folder, name))
    return names


def main():
    parser = argparse.ArgumentParser(description="Writes cases for the kernels of a device.")
    parser.add_argument("rewright")
    parser.add_argument("cases")
    parser.add_argument("out_dir")
    parser.add_argument("--nodes", type=int, default=4, help="of each of ONNX Runtime's own operators")
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first node and model; the next have the next")
    arguments = parser.parse_args()
    cases = sorted(os.path.dirname(path) for path in glob.glob(os.path.join(arguments.cases, "*", "model.onnx")))
    seeds = range(arguments.seed, arguments.seed + max(arguments.nodes, arguments.models))
    nodes = sum(write_node(os.path.join(arguments.out_dir, f"{name}_{seed}"), name, seed) for name in OPERATORS for seed in seeds[: arguments.nodes])
    models = sum(write_model(os.path.join(arguments.out_dir, f"model_{seed}"), cases, seed) for seed in seeds[: arguments.models])
    left_out = leave_out_undecided(arguments.rewright, arguments.out_dir)
    print(f"{nodes} nodes and {models} models; left out where the interpreter's results are others: {', '.join(left_out) or 'none'}")


if __name__ == "__main__":
    main()
