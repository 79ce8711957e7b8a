"""Plans that several processes execute: python planned_processes.py REWRIGHT [--mpirun MPIRUN]"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import time
import unittest

import numpy
import onnx
import onnxruntime
from onnx import helper

import parallel_training
import training
from parallel_training import children, whole_checkpoint
from program import branches, tensor

ARGUMENTS = None
STRATEGIES = ["data", "zero", "tensor", "hybrid"]


SCHEDULES = ["gpipe", "1f1b", "interleaved", "chimera", "zb-h1", "zb-v"]


def machine(processes):
    devices = {"count": processes, "per_node": processes, "operations_per_second": 1e9, "bytes_per_second": 1e9, "memory": 16e9}
    return {"devices": devices, "links": {"node": {"latency": 1e-7, "bytes_per_second": 1e10, "shape": "switch"}}}


def feed_forward(width, inner):
    """x [N, width] -> inner -> width classes."""
    rng = numpy.random.default_rng(3)
    weights = [tensor(name, rng.normal(0, 0.05, shape).astype("float32")) for name, shape in (("w1", (width, inner)), ("w2", (inner, width)))]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w2"], ["y"], name="second"),
    ]
    given, result = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", width]) for name in "xy")
    graph = helper.make_graph(nodes, "feed_forward", [given], [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def deep(layers):
    """x [N, 4] -> as many layers of width 16 -> 3 classes."""
    rng = numpy.random.default_rng(5)
    weights, nodes, value = [], [], "x"
    for n in range(layers):
        shape = (4 if n == 0 else 16, 3 if n + 1 == layers else 16)
        weights += [tensor(f"w{n}", rng.normal(0, 0.5, shape).astype("float32")), tensor(f"b{n}", numpy.zeros(shape[1], "float32"))]
        result = "y" if n + 1 == layers else f"h{n}"
        nodes.append(helper.make_node("Gemm", [value, f"w{n}", f"b{n}"], [result if n + 1 == layers else f"a{n}"], name=f"layer{n}"))
        if n + 1 < layers:
            nodes.append(helper.make_node("Tanh", [f"a{n}"], [result], name=f"tanh{n}"))
        value = result
    given, result = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", size]) for name, size in (("x", 4), ("y", 3)))
    graph = helper.make_graph(nodes, "deep", [given], [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Planned(training.Fixture):
    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"
        for processes in (1, 2, 3, 4):
            (self.folder / f"machine{processes}").write_text(json.dumps(machine(processes)))

    def path(self, name):
        return str(self.folder / name)

    def plan(self, processes, *options, model="model.onnx", name="a.plan", status=0):
        command = [ARGUMENTS.rewright, "plan", self.path(model), "--machine", self.path(f"machine{processes}"), "-o", self.path(name)]
        result = subprocess.run([*command, "--quiet", "--budget", "20s", *options], capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, status, result.stderr)
        return self.path(name)

    def start(self, processes, *arguments, **more):
        command = [ARGUMENTS.mpirun, "-q", "--oversubscribe", "-n", str(processes), ARGUMENTS.rewright, *arguments]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, env=training.ENVIRONMENT, **more)

    def losses(self, output, *more, processes=1, **where):
        metrics = self.folder / "metrics"
        metrics.unlink(missing_ok=True)
        self.trained(output, *more, "--metrics", str(metrics), processes=processes, **where)
        return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]

    def require_close(self, many, one, what):
        self.assertEqual(len(many), len(one), what)
        for a, b in zip(one, many):
            self.assertLessEqual(abs(a - b), 1e-5 * abs(a), what)

    # ---- Running

    def branches(self, batch):
        onnx.save(branches(batch), self.path("branches.onnx"))
        x = numpy.random.default_rng(1).normal(size=(batch, 4, 16, 16)).astype("float32")
        numpy.save(self.path("x.npy"), x)
        return onnxruntime.InferenceSession(branches(batch).SerializeToString()).run(None, {"x": x})[0]

    def test_a_run_gives_what_one_process_gives(self):
        expected = self.branches(6)
        for processes, strategy in ((2, "data"), (2, "spatial"), (2, "tensor"), (3, "data"), (4, "spatial"), (4, "data"), (1, "auto")):
            plan = self.plan(processes, "--for", "inference", "--strategy", strategy, model="branches.onnx")
            run = ["run", self.path("branches.onnx"), "--plan", plan, "--input", f"x={self.path('x.npy')}", "--threads", "1"]
            result = self.start(processes, *run, "--output-dir", self.path("out"), "--json", self.path("facts"))
            self.assertEqual(result.returncode, 0, result.stderr)
            y = numpy.load(self.path("out/y.npy"))
            self.assertEqual(y.shape, expected.shape)
            self.assertLess(abs(y - expected).max(), 1e-5 * abs(expected).max(), (processes, strategy))
            self.assertEqual(json.loads((self.folder / "facts").read_text())["processes"], processes)

    def test_two_levels_give_what_one_process_gives(self):
        expected = self.branches(4)
        plan = self.plan(4, "--for", "inference", "--strategy", "data+spatial", "--groups", "2", model="branches.onnx")
        run = ["run", self.path("branches.onnx"), "--plan", plan, "--input", f"x={self.path('x.npy')}", "--threads", "1"]
        result = self.start(4, *run, "--output-dir", self.path("out"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(abs(numpy.load(self.path("out/y.npy")) - expected).max(), 1e-5 * abs(expected).max())
        options = ["--epochs", "2"]
        one = self.losses("one.onnx", *options)
        for strategy in ("data+tensor", "data+data", "zero+zero"):
            plan = self.plan(4, "--batch", "12", "--strategy", strategy, "--groups", "2")
            self.require_close(self.losses("many.onnx", *options, "--plan", plan, processes=4), one, strategy)

    def test_runs_and_steps_are_timed(self):
        self.branches(4)
        plans = [self.plan(2, "--for", "inference", "--strategy", "data", model="branches.onnx", name="run.plan")]
        plans.append(self.plan(2, "--batch", "12", "--strategy", "data", name="step.plan"))
        for plan, model in zip(plans, ("branches.onnx", "model.onnx")):
            options = ["--plan", plan, "--seconds", "0.2s", "--threads", "1", "--json", self.path("facts")]
            result = self.start(2, "bench", self.path(model), *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            facts = json.loads((self.folder / "facts").read_text())
            self.assertGreater(facts["models"][0]["median_ms"], 0)
            self.assertGreater(facts["bytes_sent"], 0)

    # ---- Training

    def test_every_strategy_trains_as_one_process(self):
        for optimizer in ("adam", "momentum"):
            options = ["--optimizer", optimizer, "--epochs", "2"]
            one = self.losses("one.onnx", *options)
            for number, strategy in enumerate(STRATEGIES):
                for processes in (2, 4) if optimizer == "adam" else (2 + 2 * (number % 2),):
                    plan = self.plan(processes, "--batch", "12", "--optimizer", optimizer, "--strategy", strategy)
                    many = self.losses("many.onnx", *options, "--plan", plan, processes=processes)
                    self.require_close(many, one, (strategy, processes))
            weights = [{w.name: onnx.numpy_helper.to_array(w) for w in onnx.load(self.path(f)).graph.initializer} for f in ("one.onnx", "many.onnx")]
            for name, value in weights[0].items():
                numpy.testing.assert_allclose(weights[1][name], value, rtol=2e-3, atol=2e-4, err_msg=name)

    def test_another_plan_on_other_processes_goes_on(self):
        options = ["--epochs", "3"]
        whole = self.losses("whole.onnx", *options)
        plans = {n: self.plan(n, "--batch", "12", "--strategy", s, name=f"{n}.plan") for n, s in ((2, "tensor"), (4, "zero"))}
        kept = [*options, "--checkpoint", str(self.state), "--save-every", "1"]
        # A run whose results cannot be written anywhere ends at once; one that is interrupted goes on elsewhere.
        job = self.launch(2, "many.onnx", *kept, "--plan", plans[2], "--metrics", self.path("metrics"))
        while job.poll() is None and not (self.state.exists() and whole_checkpoint(self.state) > 3):
            time.sleep(0.002)
        job.send_signal(signal.SIGTERM)
        job.communicate()
        at = whole_checkpoint(self.state)
        self.require_close([json.loads(line)["loss"] for line in (self.folder / "metrics").read_text().splitlines()][:at], whole[:at], "first")
        if at < len(whole):
            more = self.losses("many.onnx", *kept, "--resume", "--plan", plans[4], processes=4)
            self.require_close(more[-(len(whole) - at) :], whole[at:], "then")
        self.assertEqual(whole_checkpoint(self.state), len(whole))

    def test_what_one_process_has_no_memory_for_trains_by_a_plan(self):
        width, inner = 2048, 8192  # weights of 134 MB; with gradients and states 537 MB
        onnx.save(feed_forward(width, inner), self.path("large.onnx"))
        rng = numpy.random.default_rng(1)
        self.write("large", rng.normal(size=(24, width)).astype("float32"), rng.integers(0, width, 24))
        small = machine(4)
        small["devices"]["memory"] = 250e6
        (self.folder / "machine4").write_text(json.dumps(small))
        plan = self.plan(4, "--batch", "12", "--strategy", "tensor", model="large.onnx")
        options = ["--epochs", "1", "--metrics", self.path("metrics")]
        limit = 1_230_000_000  # of virtual memory, which includes libraries and the model's file

        def limited():
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        if subprocess.run([ARGUMENTS.rewright, "--version"], capture_output=True, preexec_fn=limited, check=False).returncode:
            self.skipTest("the program alone takes more, as with sanitizers")

        def train(*more, processes=1, limited=None):
            command = self.command("large_out.onnx", *options, *more, model="large.onnx", data="large")
            if processes > 1:
                command = [ARGUMENTS.mpirun, "-q", "--oversubscribe", "-n", str(processes), *command]
            environment = {**training.ENVIRONMENT, "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}
            return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, preexec_fn=limited)

        def losses():
            return [json.loads(line)["loss"] for line in (self.folder / "metrics").read_text().splitlines()]

        self.assertEqual(train().returncode, 0)
        one = losses()
        alone = train(limited=limited)
        self.assertEqual(alone.returncode, 4, alone.stderr)
        self.assertEqual(len(alone.stderr.splitlines()), 1)
        together = train("--plan", plan, processes=4, limited=limited)
        self.assertEqual(together.returncode, 0, together.stderr)
        self.require_close(losses(), one, "large")

    # ---- Pipelines

    def test_pipelines_train_run_and_are_timed(self):
        onnx.save(deep(8), self.path("deep.onnx"))
        update = ["--optimizer", "momentum"]  # Adam magnifies rounding
        options = [*update, "--epochs", "2"]
        one = self.losses("one.onnx", *options, model="deep.onnx")
        for processes in (2, 4):
            for schedule in SCHEDULES:
                plan = self.plan(processes, "--batch", "12", *update, *self.pipeline(schedule, processes), model="deep.onnx")
                many = self.losses("many.onnx", *options, "--plan", plan, processes=processes, model="deep.onnx")
                self.require_close(many, one, (schedule, processes))
        weights = [{w.name: onnx.numpy_helper.to_array(w) for w in onnx.load(self.path(f)).graph.initializer} for f in ("one.onnx", "many.onnx")]
        for name, value in weights[0].items():
            numpy.testing.assert_allclose(weights[1][name], value, rtol=2e-3, atol=2e-4, err_msg=name)
        result = self.start(4, "bench", self.path("deep.onnx"), "--plan", plan, "--seconds", "0.2s", "--threads", "1", "--json", self.path("facts"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(json.loads((self.folder / "facts").read_text())["bytes_sent"], 0)
        x = numpy.random.default_rng(4).normal(size=(12, 4)).astype("float32")
        numpy.save(self.path("x.npy"), x)
        expected = onnxruntime.InferenceSession(self.path("deep.onnx")).run(None, {"x": x})[0]
        for schedule, processes in (("1f1b", 2), ("interleaved", 2), ("chimera", 4), ("zb-v", 4)):
            plan = self.plan(processes, "--batch", "12", "--for", "inference", *self.pipeline(schedule, processes), model="deep.onnx")
            run = ["run", self.path("deep.onnx"), "--plan", plan, "--input", f"x={self.path('x.npy')}", "--threads", "1"]
            result = self.start(processes, *run, "--output-dir", self.path("out"))
            self.assertEqual(result.returncode, 0, result.stderr)
            numpy.testing.assert_allclose(numpy.load(self.path("out/y.npy")), expected, rtol=1e-4, atol=1e-5, err_msg=schedule)

    def test_pipelines_with_stale_weights_train(self):
        onnx.save(deep(8), self.path("deep.onnx"))
        for schedule in ("pipedream", "pipedream-2bw"):
            plan = self.plan(2, "--batch", "12", *self.pipeline(schedule, 2), model="deep.onnx", status=1)
            losses = self.losses("many.onnx", "--epochs", "12", "--plan", plan, processes=2, model="deep.onnx")
            self.assertLess(sum(losses[-8:]), 0.7 * sum(losses[:8]), schedule)

    def test_pipelines_go_on_from_checkpoints_of_others(self):
        onnx.save(deep(8), self.path("deep.onnx"))
        where = {"model": "deep.onnx"}
        update = ["--optimizer", "momentum"]  # Adam magnifies rounding
        options = [*update, "--checkpoint", str(self.state), "--save-every", "1"]
        whole = self.losses("whole.onnx", *update, "--epochs", "3", **where)
        plans = [(2, "1f1b"), (4, "chimera"), (1, None)]
        found = []
        for epochs, (processes, schedule) in enumerate(plans, 1):
            more = ["--plan", self.plan(processes, "--batch", "12", *update, *self.pipeline(schedule, processes), **where)] if schedule else []
            resume = ["--resume"] if epochs > 1 else []
            found += self.losses("many.onnx", *options, "--epochs", str(epochs), *more, *resume, processes=processes, **where)[-len(whole) // 3 :]
        self.require_close(found, whole, "pipelines")

    @staticmethod
    def pipeline(schedule, processes):
        return ["--strategy", f"pipeline:{schedule}", "--stages", str(processes), "--micro-batches", "4" if schedule != "zb-v" else "12"]

    # ---- What is refused

    def refused_by(self, processes, what, *arguments, status=3):
        result = self.start(processes, *arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("rewright: error: "), lines[0])
        self.assertIn(what, lines[0])

    def test_plans_that_do_not_fit_are_refused(self):
        self.branches(4)
        step = self.plan(2, "--batch", "12", "--strategy", "data", name="step.plan")
        run = self.plan(2, "--for", "inference", "--strategy", "spatial", model="branches.onnx", name="run.plan")
        train = self.command("refused.onnx")[1:]
        give = ["run", self.path("branches.onnx"), "--input", f"x={self.path('x.npy')}", "--output-dir", self.path("out")]
        self.refused_by(3, "for 2 processes, and 3 were started", *train, "--plan", step)
        self.refused_by(1, "for 2 processes, and 1 was started", *give, "--plan", run)
        self.refused_by(2, "the plan is for inference, not for training", *train, "--plan", run)
        self.refused_by(2, "the plan is for training, not for inference", *give, "--plan", step)
        other = self.plan(2, "--batch", "24", "--strategy", "data", name="other.plan")
        self.refused_by(2, "for batches of 24, not of 12", *train, "--plan", other)
        self.refused_by(2, "another model", *train, "--plan", step, "--optimizer", "sgd")
        self.refused_by(2, "--plan excludes --zero", *train, "--plan", step, "--zero", "1", status=2)
        self.refused_by(2, "--plan excludes --gradients", *train, "--plan", step, "--gradients", "bfloat16", status=2)
        self.refused_by(2, "--plan excludes --check-kernels", *give, "--plan", run, "--check-kernels", status=2)
        self.refused_by(2, "gone.plan", *give, "--plan", self.path("gone.plan"))
        facts = json.loads((self.folder / "run.plan").read_text())
        halos = [e for e in facts["exchanges"] if e["exchange"] == "halo"]
        self.assertTrue(halos)
        for name, change in (("short", {"before": 0}), ("without", None)):
            exchanges = [{**e, **change} if change else None for e in facts["exchanges"] if e["exchange"] == "halo"]
            others = [e for e in facts["exchanges"] if e["exchange"] != "halo"]
            (self.folder / name).write_text(json.dumps({**facts, "exchanges": others + [e for e in exchanges if e]}))
            self.refused_by(2, "not proved, and is not executed", *give, "--plan", self.path(name))
        (self.folder / "damaged").write_text(json.dumps(facts)[:300])
        self.refused_by(2, "no plan", *give, "--plan", self.path("damaged"))
        (self.folder / "few").write_text(json.dumps({**facts, "processes": 4}))
        self.refused_by(4, "is not executed", *give, "--plan", self.path("few"))
        numpy.save(self.path("x.npy"), numpy.zeros((5, 4, 16, 16), "float32"))
        self.refused_by(2, 'input "x": the plan is for float[4, 4, 16, 16]', *give, "--plan", run)
        self.assertFalse((self.folder / "out").exists())

    def test_a_process_that_is_killed_ends_all_and_leaves_a_whole_checkpoint(self):
        rng = random.Random(6)
        onnx.save(deep(8), self.path("deep.onnx"))
        plans = [("model.onnx", self.plan(2, "--batch", "12", "--strategy", "tensor"))] * 3
        plans += [("deep.onnx", self.plan(2, "--batch", "12", *self.pipeline("1f1b", 2), model="deep.onnx", name="pipeline.plan"))] * 3
        interrupted = 0
        for model, plan in plans:
            options = ["--quiet", "--epochs", "400", "--plan", plan, "--checkpoint", str(self.state), "--save-every", "5"]
            self.state.unlink(missing_ok=True)
            job = self.launch(2, "killed.onnx", *options, model=model)
            while job.poll() is None and not self.state.exists():
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.05))
            workers = [child for watcher in children(job.pid) for child in children(watcher)]
            if job.poll() is not None or not workers:
                job.communicate()
                continue
            os.kill(rng.choice(workers), signal.SIGKILL)
            self.one_line(job, "process ", " of 2 was ended by signal 9 (Killed)", "--resume")
            whole_checkpoint(self.state)
            interrupted += 1
        self.assertGreaterEqual(interrupted, 2)
        self.assertFalse((self.folder / "killed.onnx").exists())

    launch = parallel_training.ParallelTraining.launch
    one_line = parallel_training.ParallelTraining.one_line


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rewright")
    parser.add_argument("--mpirun", default="mpirun")
    ARGUMENTS, rest = parser.parse_known_args()
    training.ARGUMENTS = parallel_training.ARGUMENTS = ARGUMENTS
    unittest.main(argv=["planned_processes.py", *rest])
