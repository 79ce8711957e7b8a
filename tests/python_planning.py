"""rewright.plan: python python_planning.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import json
import os
import subprocess
import tempfile
import unittest

import numpy
import python_testing as shared
import rewright
from onnx import TensorProto, helper, numpy_helper, save

MACHINE = {
    "devices": {"count": 4, "per_node": 2, "operations_per_second": 1e12, "bytes_per_second": 1e11, "memory": 16e9},
    "links": {
        "node": {"latency": 1e-6, "bytes_per_second": 1e10, "shape": "switch"},
        "cluster": {"latency": 1e-6, "bytes_per_second": 1e10, "shape": "switch"},
    },
}


def dense():
    rng = numpy.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.normal(0, 0.1, shape).astype("float32"), name) for name, shape in (("a", (64, 256)), ("b", (256, 16)))]
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("MatMul", ["h", "b"], ["y"])]
    return shared.model_of(nodes, [shared.value("x", TensorProto.FLOAT, ["N", 64])], [shared.value("y", TensorProto.FLOAT, ["N", 16])], weights)


class Planning(unittest.TestCase):
    def test_a_plan_is_that_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            model, machine, ours, theirs = (os.path.join(folder, name) for name in ("m.onnx", "machine.json", "ours", "theirs"))
            save(dense(), model)
            with open(machine, "w", encoding="utf-8") as file:
                json.dump(MACHINE, file)
            plan = rewright.plan(dense(), MACHINE, output=ours, batch=256, strategy="data+tensor")
            command = [shared.REWRIGHT, "plan", model, "--machine", machine, "--batch", "256", "--strategy", "data+tensor", "-o", theirs, "--quiet"]
            subprocess.run(command, check=True)
            with open(ours, encoding="utf-8") as a, open(theirs, encoding="utf-8") as b:
                self.assertEqual(a.read(), b.read())
            self.assertEqual((plan.processes, plan.strategy, plan.path), (4, "data+tensor", ours))
            self.assertLessEqual(plan.lower_bound, plan.seconds)
            self.assertTrue(plan.report()["proved"])
            self.assertEqual(rewright.check_plan(model, ours), "")
            inference = rewright.plan(model, machine, purpose="inference", batch=256)
            self.assertIn("data", inference.report()["strategies"])

    def test_bad_input(self):
        with self.assertRaisesRegex(rewright.UsageError, "there is no strategy"):
            rewright.plan(dense(), MACHINE, batch=256, strategy="fast")
        with self.assertRaisesRegex(rewright.Error, "batch"):
            rewright.plan(dense(), MACHINE)
        with self.assertRaisesRegex(rewright.UsageError, "there is no option"):
            rewright.plan(dense(), MACHINE, batch=256, colour="red")
        with self.assertRaisesRegex(rewright.BadInputError, "per_node"):
            rewright.plan(dense(), {**MACHINE, "devices": {**MACHINE["devices"], "per_node": 3}}, batch=256)


if __name__ == "__main__":
    unittest.main(argv=["python_planning.py", *shared.sys.argv[3:]])
