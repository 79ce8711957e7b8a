"""Nodes of which only some outputs are wanted: python absent_outputs.py REWRIGHT CASES

CASES is a folder that onnx_cases.py wrote. Each of its one-node cases with several outputs is run once for each output and for each
set of outputs that lacks one, the others unread or, where the operator allows it, absent; with inputs as inputs and, so that the node is computed when the session is made,
as constants. Interpreter and cpu runtime must give ONNX's results.
"""

import glob
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper


def wanted_sets(count):
    """Of this many outputs: each alone, and all but each."""
    alone = [{o} for o in range(count)]
    return alone + [set(range(count)) - one for one in alone if count > 2]


def may_be_absent(model, output):
    node = model.graph.node[0]
    version = next((i.version for i in model.opset_import if i.domain == node.domain), 1)
    formal = onnx.defs.get_schema(node.op_type, version, node.domain).outputs
    return output < len(formal) and formal[output].option == onnx.defs.OpSchema.FormalParameterOption.Optional


def write(folder, case, model, wanted, constant):
    """The case with these outputs."""
    graph = model.graph
    data = os.path.join(case, "test_data_set_0")
    target = os.path.join(folder, "test_data_set_0")
    node = graph.node[0]
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    new = changed.graph
    for o in range(len(node.output)):
        if o not in wanted and may_be_absent(model, o):
            new.node[0].output[o] = ""
    kept = [(i, value) for i, value in enumerate(graph.output) if value.name in {node.output[o] for o in wanted}]
    if not kept:
        return
    inputs = []
    for i, value in enumerate(graph.input):
        with open(os.path.join(data, f"input_{i}.pb"), "rb") as file:
            inputs.append((value, file.read()))
    del new.output[:], new.input[:]
    new.output.extend(value for _, value in kept)
    as_constants = constant and all(value.type.WhichOneof("value") == "tensor_type" for value, _ in inputs)
    os.makedirs(target)
    for k, (value, content) in enumerate(inputs):
        if as_constants:
            tensor = onnx.TensorProto.FromString(content)
            tensor.name = value.name
            new.initializer.append(tensor)
        else:
            new.input.append(value)
            with open(os.path.join(target, f"input_{k}.pb"), "wb") as file:
                file.write(content)
    for k, (i, _) in enumerate(kept):
        os.symlink(os.path.abspath(os.path.join(data, f"output_{i}.pb")), os.path.join(target, f"output_{k}.pb"))
    if as_constants:  # a node that depends on no constant: with nothing left to compute there would be no plan
        if not any(imported.domain == "" for imported in changed.opset_import):
            changed.opset_import.append(helper.make_opsetid("", 22))
        new.node.append(helper.make_node("Neg", ["unrelated"], ["other"]))
        new.input.append(helper.make_tensor_value_info("unrelated", onnx.TensorProto.FLOAT, [1]))
        new.output.append(helper.make_tensor_value_info("other", onnx.TensorProto.FLOAT, [1]))
        for prefix, k, value in (("input", 0, 1), ("output", len(kept), -1)):
            with open(os.path.join(target, f"{prefix}_{k}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(np.array([value], np.float32)).SerializeToString())
    onnx.save(changed, os.path.join(folder, "model.onnx"))


def main():
    program, cases = sys.argv[1:]
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in sorted(os.path.dirname(path) for path in glob.glob(os.path.join(cases, "*", "model.onnx"))):
            model = onnx.load(os.path.join(case, "model.onnx"))
            if len(model.graph.node) != 1 or len(model.graph.node[0].output) < 2:
                continue
            for wanted in wanted_sets(len(model.graph.node[0].output)):
                for constant in (False, True):
                    name = f"{os.path.basename(case)}.{'.'.join(map(str, sorted(wanted)))}{'.constant' if constant else ''}"
                    write(os.path.join(folder, name), case, model, wanted, constant)
                    count += 1
        for device in ("reference", "cpu"):
            result = subprocess.run([program, "conformance", folder, "--device", device], capture_output=True, text=True, check=False)
            print(f"{device}, {count} cases:", result.stdout.strip())
            if result.returncode != 0:
                sys.exit(f"exit {result.returncode}: {result.stderr[-2000:]}")


if __name__ == "__main__":
    main()
