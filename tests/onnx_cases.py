"""Writes ONNX's own node tests as folders: python onnx_cases.py OUT_DIR [--kind node|simple|all]

The layout is ONNX's: OUT_DIR/CASE/model.onnx, OUT_DIR/CASE/test_data_set_N/input_K.pb and output_K.pb (tensors, sequences
and optionals). A case's tolerances, where they are not ONNX's usual ones, are in OUT_DIR/CASE/tolerance.json. The folder is
complete when OUT_DIR/VERSION exists; a folder that is complete for this version of ONNX is left as it is.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

USUAL_RTOL, USUAL_ATOL = 1e-3, 1e-7


def to_proto(value, declared):
    """A test's value, an array or a list or nothing or already a proto, as the proto that its declared type asks for."""
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    kind = declared.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value, declared.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, declared.name)
    if kind == "map_type":
        return numpy_helper.from_dict(value, declared.name)
    return numpy_helper.from_array(np.asarray(value), declared.name)


def write_values(folder, prefix, values, declared):
    for index, (value, value_info) in enumerate(zip(values, declared)):
        with open(os.path.join(folder, f"{prefix}_{index}.pb"), "wb") as file:
            file.write(to_proto(value, value_info).SerializeToString())


def write_case(folder, case):
    os.makedirs(folder)
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(case.model.SerializeToString())
    if (case.rtol, case.atol) != (USUAL_RTOL, USUAL_ATOL):
        with open(os.path.join(folder, "tolerance.json"), "w", encoding="utf-8") as file:
            json.dump({"rtol": case.rtol, "atol": case.atol}, file)
    for index, (inputs, outputs) in enumerate(case.data_sets):
        data = os.path.join(folder, f"test_data_set_{index}")
        os.makedirs(data)
        write_values(data, "input", inputs, case.model.graph.input)
        write_values(data, "output", outputs, case.model.graph.output)


def collect(kind):
    from onnx.backend.test.case import model, node

    cases = []
    if kind in ("node", "all"):
        cases += node.collect_testcases(None)
    if kind in ("simple", "all"):
        cases += [case for case in model.collect_testcases() if case.kind == "simple"]
    return cases


def write_all(folder, kind):
    """Writes all the cases; returns how many, and those that ONNX itself could not make, with the reason."""
    failed = {}
    cases = collect(kind)
    for case in cases:
        try:
            write_case(os.path.join(folder, case.name), case)
        except Exception as error:  # whatever ONNX raises for one case must not lose the others
            failed[case.name] = str(error)
            shutil.rmtree(os.path.join(folder, case.name), ignore_errors=True)
    return len(cases) - len(failed), failed


def main():
    parser = argparse.ArgumentParser(description="Writes ONNX's node tests as folders.")
    parser.add_argument("out_dir")
    parser.add_argument("--kind", choices=("node", "simple", "all"), default="node")
    arguments = parser.parse_args()
    version = f"{onnx.__version__} {arguments.kind}"
    stamp = os.path.join(arguments.out_dir, "VERSION")
    if os.path.exists(stamp) and open(stamp, encoding="utf-8").read().strip() == version:
        print(f"{arguments.out_dir}: already complete for ONNX {version}")
        return
    warnings.simplefilter("ignore")
    parent = os.path.dirname(os.path.abspath(arguments.out_dir))
    os.makedirs(parent, exist_ok=True)
    temporary = tempfile.mkdtemp(prefix=".onnx_cases.", dir=parent)
    try:
        written, failed = write_all(temporary, arguments.kind)
        with open(os.path.join(temporary, "VERSION"), "w", encoding="utf-8") as file:
            file.write(version + "\n")
        if os.path.exists(arguments.out_dir):
            if os.listdir(arguments.out_dir) and not os.path.exists(stamp):
                sys.exit(f"onnx_cases: {arguments.out_dir} exists and is not a folder of test cases")
            shutil.rmtree(arguments.out_dir)
        os.chmod(temporary, 0o755)
        os.rename(temporary, arguments.out_dir)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    print(f"{arguments.out_dir}: {written} cases of ONNX {version}")
    for name, reason in failed.items():
        print(f"  not made: {name}: {reason}")


if __name__ == "__main__":
    main()
