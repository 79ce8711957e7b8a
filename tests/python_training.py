#!/usr/bin/env python3
"""rewright.train: arrays and files, progress, ending early, processes of mpirun, and data that cannot be trained on.
Usage: python_training.py REWRIGHT BUILD_FOLDER [--mpirun MPIRUN] [UNITTEST-ARGUMENTS]"""

import asyncio
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

MPIRUN = None
if "--mpirun" in sys.argv:
    at = sys.argv.index("--mpirun")
    MPIRUN = sys.argv[at + 1]
    del sys.argv[at : at + 2]

from python_testing import PACKAGE, REWRIGHT, contents, main, model_of, value  # says where the package is

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import rewright

ENVIRONMENT = {**os.environ, "PYTHONPATH": PACKAGE, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def perceptron():
    """x [N, 4] -> 8 -> 3 classes."""
    rng = numpy.random.default_rng(1)
    weights = [numpy_helper.from_array(rng.standard_normal(shape).astype("float32"), name) for name, shape in (("w1", (4, 8)), ("w2", (8, 3)), ("b2", (3,)))]
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Gemm", ["b", "w2", "b2"], ["y"])]
    return model_of(nodes, [value("x", TensorProto.FLOAT, ["N", 4])], [value("y", TensorProto.FLOAT, ["N", 3])], weights)


def examples(count=96, seed=2):
    x = numpy.random.default_rng(seed).standard_normal((count, 4), numpy.float32)
    return {"x": x, "targets": x[:, :3].argmax(1)}


QUICKLY = {"batch": 12, "rate": 0.02, "threads": 1, "epochs": 2}


class Training(unittest.TestCase):
    def test_arrays(self):
        steps = []
        model, data, held_out = perceptron(), examples(), examples(48, 3)
        before = model.SerializeToString()
        trained = rewright.train(model, data, validate=held_out, progress=steps.append, **{**QUICKLY, "epochs": 20})
        self.assertEqual(model.SerializeToString(), before)
        onnx.checker.check_model(trained.model, full_check=True)
        self.assertEqual([step.step for step in steps], list(range(1, 161)))
        self.assertTrue(all(step.steps == 160 and not step.skipped for step in steps))
        self.assertEqual(steps[-1].loss, trained.loss)
        self.assertLess(trained.loss, steps[0].loss / 2)
        accuracy = (trained.session().run(None, {"x": held_out["x"]})[0].argmax(1) == held_out["targets"]).mean()
        self.assertGreater(accuracy, 0.8)
        facts = trained.report()
        self.assertAlmostEqual(facts["validation"]["accuracy"], accuracy)
        self.assertEqual((facts["steps"], facts["complete"], facts["processes"]), (160, True, 1))
        self.assertEqual(json.loads(trained.report("json")), facts)
        self.assertIn("160 steps", repr(trained))

    def test_files_and_arrays_are_the_same(self):
        data = examples()
        with tempfile.TemporaryDirectory() as folder:
            for name, array in data.items():
                numpy.save(os.path.join(folder, name + ".npy"), array)
            model, output = os.path.join(folder, "model.onnx"), pathlib.Path(folder) / "out.onnx"
            onnx.save(perceptron(), model)
            by_files = rewright.train(model, pathlib.Path(folder), output=output, **QUICKLY)
            self.assertEqual(by_files.model, str(output))
            by_arrays = rewright.train(contents(model), data, **QUICKLY)
            self.assertIsInstance(by_arrays.model, bytes)
            self.assertEqual(by_arrays.model, contents(output))
            program = subprocess.run(
                [REWRIGHT, "train", model, "--data", folder, "-o", folder + "/program.onnx", "--quiet"]
                + [text for name, value in QUICKLY.items() for text in (f"--{name}", str(value))],
                stdin=subprocess.DEVNULL, check=True,
            )
            self.assertEqual(program.returncode, 0)
            self.assertEqual(contents(folder + "/program.onnx"), contents(output))

    def test_memory_that_is_not_in_order(self):
        data = examples()
        turned = {"x": numpy.asfortranarray(data["x"]), "targets": numpy.repeat(data["targets"], 2)[::2]}
        one, other = (rewright.train(perceptron(), given, **QUICKLY).serialize() for given in (data, turned))
        self.assertEqual(one, other)

    def test_what_is_optimized_is_trained(self):
        result = rewright.optimize(perceptron(), device="cpu", estimate=True, check=0, for_training=True)
        self.assertLess(rewright.train(result, examples(), **{**QUICKLY, "epochs": 20}).loss, 0.6)

    def test_a_step_of_a_loop(self):
        """A Scan that sums up columns: trained by way of the operators that it stands for."""
        add = helper.make_graph(
            [helper.make_node("Add", ["sum", "row"], ["next"]), helper.make_node("Identity", ["next"], ["seen"])], "body",
            [value("sum", TensorProto.FLOAT, [3]), value("row", TensorProto.FLOAT, [3])],
            [value("next", TensorProto.FLOAT, [3]), value("seen", TensorProto.FLOAT, [3])],
        )
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node("Scan", ["zero", "a"], ["last", "y"], body=add, num_scan_inputs=1),
        ]
        weights = [numpy_helper.from_array(numpy.zeros((4, 3), numpy.float32), "w"), numpy_helper.from_array(numpy.zeros(3, numpy.float32), "zero")]
        model = model_of(nodes, [value("x", TensorProto.FLOAT, [12, 4])], [value("y", TensorProto.FLOAT, [12, 3])], weights)
        trained = rewright.train(model, examples(), frozen=["zero"], **QUICKLY)
        self.assertEqual([node.op_type for node in trained.model.graph.node], ["MatMul", "Scan"])
        w = next(w for w in trained.model.graph.initializer if w.name == "w")
        self.assertGreater(numpy.abs(numpy_helper.to_array(w)).max(), 0.01)


    def test_options_are_documented(self):
        for option in rewright.training._OPTIONS:
            self.assertIn(f"\n    {option}: ", rewright.train.__doc__)
        self.assertNotIn("\n    data: what", rewright.train.__doc__)


class Ending(unittest.TestCase):
    def test_progress_ends_it(self):
        trained = rewright.train(perceptron(), examples(), progress=lambda step: step.step < 20, **{**QUICKLY, "epochs": 100000})
        facts = trained.report()
        self.assertFalse(facts["complete"])
        self.assertGreaterEqual(facts["steps"], 20)

    def test_what_progress_raises_is_raised_and_the_state_is_kept(self):
        def fail(step):
            raise ZeroDivisionError(step.step)

        with tempfile.TemporaryDirectory() as folder:
            state = os.path.join(folder, "state")
            with self.assertRaises(ZeroDivisionError):
                rewright.train(perceptron(), examples(), progress=fail, checkpoint=state, **{**QUICKLY, "epochs": 100000})
            self.assertGreater(os.path.getsize(state), 0)

    def test_resuming_gives_the_same_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            state = {"checkpoint": os.path.join(folder, "state"), "resume": True, **QUICKLY, "epochs": 200}
            whole = rewright.train(perceptron(), examples(), **{**QUICKLY, "epochs": 200})
            first = rewright.train(perceptron(), examples(), progress=lambda step: step.step < 3, **state)
            again = rewright.train(perceptron(), examples(), **state)
            self.assertTrue(again.report()["complete"])
            self.assertLessEqual(first.report()["steps"], again.report()["steps"])
            self.assertEqual(again.serialize(), whole.serialize())

    def test_asyncio(self):
        async def training():
            steps = []
            trained = await rewright.train_async(perceptron(), examples(), progress=steps.append, **QUICKLY)
            await asyncio.sleep(0)
            self.assertEqual(len(steps), trained.report()["steps"])
            task = asyncio.create_task(rewright.train_async(perceptron(), examples(), **{**QUICKLY, "epochs": 1000000}))
            await asyncio.sleep(0.2)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(training())


class Refused(unittest.TestCase):
    def refused(self, kind, said, data, **options):
        with self.assertRaisesRegex(kind, said):
            rewright.train(perceptron(), data, **{**QUICKLY, **options})

    def test_data(self):
        data = examples()
        bad = data["x"].copy()
        bad[17, 2] = numpy.nan
        for said, given in (
            ("targets", {"x": data["x"]}),
            ('no data for the input', {"targets": data["targets"]}),
            ("z: the model has no input of this name", {**data, "z": data["x"]}),
            ("example 17", {**data, "x": bad}),
            ("class 7", {**data, "targets": data["targets"] + 5 * (data["targets"] == 2)}),
            ("examples", {**data, "x": data["x"][:50]}),
            ("x", {**data, "x": data["x"].astype(numpy.float64)}),
            ("x", {**data, "x": data["x"][:, :3]}),
            ("no/such", "/no/such/data"),
        ):
            self.refused(rewright.BadInputError, said, given)
        self.refused(rewright.BadInputError, "targets", data, validate={"x": data["x"]})
        self.refused(rewright.UsageError, "cannot be of type int", 7)
        self.refused(rewright.UsageError, "no data", None)

    def test_options(self):
        for said, options in (
            ('no option "speed"', {"speed": 1}),
            ("option loss", {"loss": "perplexity"}),
            ("option rate", {"rate": -1}),
            ("tpu", {"device": "tpu"}),
            ("--checkpoint", {"resume": True}),
        ):
            self.refused(rewright.UsageError, said, examples(), **options)
        self.refused(rewright.MissingError, "/no/such", examples(), metrics="/no/such/metrics")


PROGRAM = """
import sys, numpy, rewright
folder = sys.argv[1]
x = numpy.random.default_rng(2).standard_normal((96, 4), numpy.float32)
data = {"x": x, "targets": x[:, :3].argmax(1)}
steps = []
for again in range(2):  # MPI is started once
    trained = rewright.train(folder + "/model.onnx", data, validate=data, output=folder + "/processes.onnx", progress=steps.append,
                             batch=12, rate=0.02, threads=1, epochs=2, shards=2)
    sys.stdout.write(f"{trained.report()['processes']} {len(steps)} {trained.report()['validation']['examples']} {hash(trained.serialize())}\\n")
    sys.stdout.flush()
if len(sys.argv) > 2:
    x[3] = numpy.nan
    rewright.train(folder + "/model.onnx", data, batch=12, threads=1)
"""


@unittest.skipUnless(MPIRUN, "no mpirun")
class Processes(unittest.TestCase):
    def launch(self, folder, *more):
        onnx.save(perceptron(), os.path.join(folder, "model.onnx"))
        program = os.path.join(folder, "program.py")
        pathlib.Path(program).write_text(PROGRAM, encoding="utf-8")
        return subprocess.run(
            [MPIRUN, "--oversubscribe", "-n", "2", sys.executable, program, folder, *more], env={**ENVIRONMENT, "PYTHONHASHSEED": "0"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
        )

    def test_two_processes_train_as_one(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.launch(folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = sorted(line.split() for line in done.stdout.splitlines())
            self.assertEqual(len(lines), 4, done.stdout)
            self.assertEqual({(line[0], line[2], line[3]) for line in lines}, {("2", "96", lines[0][3])})
            self.assertEqual([int(line[1]) for line in lines].count(0), 2)  # the first process alone is told of steps
            one = rewright.train(perceptron(), examples(), **QUICKLY, shards=2)
            self.assertEqual(contents(os.path.join(folder, "processes.onnx")), one.serialize())

    def test_what_fails_ends_all_with_a_line(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.launch(folder, "fail")
            self.assertNotEqual(done.returncode, 0)
            said = [line for line in done.stderr.splitlines() if line.startswith("rewright: error: ")]
            self.assertEqual(len(said), 1, done.stderr)
            self.assertIn("example 3", said[0])


if __name__ == "__main__":
    main()
