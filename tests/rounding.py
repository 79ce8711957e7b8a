"""Rounding errors of kernels: python rounding.py BUILD_FOLDER [NAME ...]

Each case of rounding_cases.py is an operator with long sums, or a function. The error of a session's result against NumPy in double
must be at most twice that of plain float libraries on the same numbers (the larger of ONNX Runtime's and NumPy's), in the root of the
mean square or of the worst element, with half a unit in the last place for the rounding of the result itself; four times where oneDNN
adds up more than a thousand terms in one chain, five times where Winograd's method computes it. Prints each; exits 1 if one rounds more.
"""

import os
import sys

sys.path.insert(0, os.path.join(sys.argv[1], "python"))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import rewright  # noqa: E402
from rounding_cases import cases  # noqa: E402

MOST = 2.0
IN_ONE_CHAIN = 4.0
TRANSFORMED = 5.0  # by Winograd's method: docs/cpu.md


def error(expected, actual, each):
    """The root mean square error, relative to that of the result; or the error of the worst element, relative to itself."""
    off = actual.astype(np.float64) - expected
    if each:
        return float((np.abs(off) / np.maximum(np.abs(expected), 1e-12)).max())
    return float(np.sqrt((off**2).mean() / (expected**2).mean()))


def main():
    failed = 0
    for name, nodes, inputs, weights, formula in cases():
        if sys.argv[2:] and not any(name.startswith(given) for given in sys.argv[2:]):
            continue
        graph = helper.make_graph(
            nodes,
            "rounding",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(a, n) for n, a in weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10).SerializeToString()
        settings = rewright.SessionOptions()
        settings.intra_op_num_threads = 1
        operands = [*inputs.values(), *weights.values()]
        expected = formula(*[a.astype(np.float64) if a.dtype == np.float32 else a for a in operands])
        each = name.endswith("each element")
        plain = error(expected, formula(*operands), each)
        peer = error(expected, onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)[0], each)
        ours = error(expected, rewright.InferenceSession(model, settings).run(None, inputs)[0], each)
        transformed = name.startswith("Conv ") and name.endswith("3x3, strides 1, dilations 1, groups 1")
        if name.startswith("Global"):  # ONNX Runtime adds up one element after the other
            peer = 0.0
        times = TRANSFORMED if transformed else IN_ONE_CHAIN if name.endswith("in one chain") else MOST
        allowed = times * max(plain, peer, 2.0**-25)
        failed += ours > allowed
        print(f"{'MORE' if ours > allowed else 'good'}  {name}: {ours:.1e}, ONNX Runtime {peer:.1e}, NumPy {plain:.1e}", flush=True)
    sys.exit(1 if failed else 0)


main()
