"""Trains on several processes: strategies, what is cut into parts, and processes that die.

python parallel_training.py PROGRAM [--mpirun MPIRUN] [--kills N] [--job-kills N]
"""

import argparse
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import time
import unittest

import training

ARGUMENTS = None
STRATEGIES = ["engine", "parameter-server", "naive", "ring", "tree", "butterfly", "recursive-doubling", "hierarchical:2"]


def children(process):
    return [int(p) for p in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def whole_checkpoint(path):
    """The step that a checkpoint is of; fails where it is not whole."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    facts = header.pop("__metadata__")
    assert max(tensor["data_offsets"][1] for tensor in header.values()) == len(data) - 8 - length
    return int(facts["step"])


class ParallelTraining(training.Fixture):
    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"

    def losses(self, output, *more, processes):
        metrics = self.folder / "metrics"
        metrics.unlink(missing_ok=True)
        self.trained(output, *more, "--metrics", str(metrics), processes=processes)
        return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]

    def launch(self, processes, *arguments, model="model.onnx", **more):
        command = self.command(*arguments, model=model)
        if processes > 1:
            command = [ARGUMENTS.mpirun, "-q", "--oversubscribe", "-n", str(processes), *command]
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=training.ENVIRONMENT, **more
        )

    def one_line(self, process, *what):
        _, errors = process.communicate(timeout=120)
        lines = errors.splitlines()
        self.assertEqual(len(lines), 1, errors)
        self.assertTrue(lines[0].startswith("rewright: error: "), lines[0])
        for part in what:
            self.assertIn(part, lines[0])

    def test_every_strategy_trains_as_one_process(self):
        for processes in (2, 3):
            options = ["--optimizer", "momentum", "--epochs", "2"]
            one = self.losses("one.onnx", *options, "--shards", str(processes), processes=1)
            ways = [["--allreduce", name] for name in STRATEGIES] + [["--zero", str(stage)] for stage in (1, 2, 3)]
            for way in ways if processes == 3 else ways[1::3]:
                many = self.losses("many.onnx", *options, *way, "--bucket", "100", "--check-every", "3", processes=processes)
                self.assertEqual(len(many), len(one))
                for a, b in zip(one, many):
                    self.assertLess(abs(a - b), 1e-5 * abs(a), way)

    def test_statistics_of_the_whole_batch_are_those_of_one_process(self):
        options = ["--optimizer", "momentum", "--epochs", "2"]
        one = self.losses("one.onnx", *options, processes=1)
        apart = self.losses("apart.onnx", *options, processes=3)
        self.assertGreater(max(abs(a - b) for a, b in zip(one, apart)), 1e-3)
        for way in ([], ["--zero", "3"], ["--allreduce", "tree", "--bucket", "64"]):
            many = self.losses("many.onnx", *options, "--batch-norm", "batch", *way, processes=3)
            self.assertEqual(len(many), len(one))
            for a, b in zip(one, many):
                self.assertLess(abs(a - b), 1e-5 * abs(a), way)
        options += ["--batch-norm", "batch", "--shards", "6"]
        whole = self.trained("one.onnx", *options)
        for processes in (2, 3):
            self.assertEqual(self.trained("many.onnx", *options, processes=processes), whole)
        self.refused("memory budget", *options, "--memory-budget", "1M", status=2)

    def test_in_order_everything_gives_the_same_bits(self):
        options = ["--shards", "12", "--epochs", "2"]
        one = self.trained("one.onnx", *options)
        for way in (["--zero", "1"], ["--zero", "2", "--bucket", "0"], ["--zero", "3", "--bucket", "64"]):
            self.assertEqual(self.trained("many.onnx", *options, *way, processes=3), one, way)
        half = [*options, "--gradients", "bfloat16"]
        self.assertEqual(self.trained("one.onnx", *half), self.trained("many.onnx", *half, "--zero", "2", processes=2))
        self.assertNotEqual((self.folder / "many.onnx").read_bytes(), one)

    def test_clipped_or_rounded_at_random_it_does_as_well(self):
        for more in (["--clip", "0.1"], ["--weights", "bfloat16", "--rounding", "stochastic"]):
            options = ["--shards", "12", "--epochs", "2", *more]
            one = self.trained("one.onnx", *options)
            self.assertNotEqual(one, self.trained("other.onnx", "--shards", "12", "--epochs", "2"))
            for way in (["--zero", "1"], ["--zero", "3", "--bucket", "64"]):
                self.assertEqual(self.trained("many.onnx", *options, *way, processes=3), one, way)

    def test_a_process_that_is_killed_loses_nothing_before_the_last_checkpoint(self):
        rng = random.Random(4)
        options = ["--epochs", "40", "--shards", "12", "--checkpoint", str(self.state), "--save-every", "5", "--resume"]
        whole = self.trained("whole.onnx", *options)
        self.state.unlink()
        interrupted = 0
        for n in range(ARGUMENTS.job_kills):
            processes = rng.choice([2, 3, 4])
            before = whole_checkpoint(self.state) if self.state.exists() else 0
            if before > 200:  # of 320: there must be something left to be killed at
                self.state.unlink()
                before = 0
            job = self.launch(processes, "again.onnx", *options, "--zero", str(n % 4))
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and job.poll() is None:
                if self.state.exists() and whole_checkpoint(self.state) > before:
                    break
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.05))
            watchers = children(job.pid)
            workers = [child for watcher in watchers for child in children(watcher)]
            if job.poll() is not None or not workers:
                job.communicate()
                continue
            saved = whole_checkpoint(self.state)
            os.kill(rng.choice(workers), signal.SIGKILL)
            self.one_line(job, "process ", f" of {processes} was ended by signal 9 (Killed)", "--resume")
            self.assertGreaterEqual(whole_checkpoint(self.state), saved)
            interrupted += 1
        self.assertGreaterEqual(interrupted, ARGUMENTS.job_kills // 2)
        print(f"{interrupted} jobs of 2 to 4 processes had a process killed")
        self.assertEqual(self.trained("again.onnx", *options, processes=2), whole)

    def test_a_process_that_is_told_to_end_ends_all_with_what_is_trained(self):
        options = ["--epochs", "100000", "--checkpoint", str(self.state), "--save-every", "2"]
        job = self.launch(2, "ended.onnx", *options)
        while not self.state.exists() and job.poll() is None:
            time.sleep(0.01)
        first = children(children(job.pid)[0])[0]  # below its watcher
        os.kill(first, signal.SIGTERM)
        _, errors = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, errors)
        self.assertTrue((self.folder / "ended.onnx").exists())

    def test_a_program_that_is_killed_leaves_a_whole_checkpoint(self):
        rng = random.Random(5)
        options = ["--epochs", "60", "--shards", "2", "--checkpoint", str(self.state), "--save-every", "1", "--resume"]
        start = time.monotonic()
        whole = self.trained("whole.onnx", *options)
        seconds = time.monotonic() - start
        self.state.unlink()
        interrupted, resumed = 0, 0
        for _ in range(4 * ARGUMENTS.kills):
            if interrupted == ARGUMENTS.kills:
                break
            if self.state.exists() and whole_checkpoint(self.state) > 360:  # of 480
                self.state.unlink()
            going_on = self.state.exists()
            process = self.launch(1, "again.onnx", *options)
            time.sleep(seconds * rng.uniform(0.05, 0.6))
            process.kill()
            if process.wait() == -signal.SIGKILL:
                interrupted += 1
                resumed += going_on
            process.stderr.close()
            if self.state.exists():
                whole_checkpoint(self.state)
        self.assertEqual(interrupted, ARGUMENTS.kills)
        print(f"{interrupted} runs killed, {resumed} of them had gone on from a checkpoint")
        self.assertEqual(self.trained("again.onnx", *options), whole)
        self.assertEqual(list(self.folder.glob("again*")), [self.folder / "again.onnx"])

    def test_a_full_disk_is_said_and_leaves_the_last_checkpoint(self):
        options = ["--shards", "12", "--checkpoint", str(self.state), "--save-every", "2"]
        for processes in (1, 2):
            self.state.unlink(missing_ok=True)
            job = self.launch(processes, "full.onnx", *options, "--epochs", "100000")
            while not self.state.exists() and job.poll() is None:
                time.sleep(0.01)
            workers = [child for watcher in children(job.pid) for child in children(watcher)] if processes > 1 else [job.pid]
            for worker in workers:
                resource.prlimit(worker, resource.RLIMIT_FSIZE, (300, 300))
            self.one_line(job, "state", "File too large")
            self.assertNotEqual(job.returncode, 0)
            whole_checkpoint(self.state)
        self.assertFalse((self.folder / "full.onnx").exists())

    def test_processes_that_do_not_fit_each_other_say_so(self):
        launch = [ARGUMENTS.mpirun, "-q", "--oversubscribe"]

        def differing(*more, model="model.onnx"):
            second = self.command("b.onnx", *more, model=model)
            command = [*launch, "-n", "2", *self.command("a.onnx"), ":", "-n", "1", *second]
            return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=training.ENVIRONMENT)

        self.one_line(differing("--seed", "24"), "process 2", "another seed", "24, not 0")
        self.one_line(differing("--zero", "1"), "process 2", "another exchange of gradients")
        self.one_line(differing(model="gone.onnx"), "process 2 of 3", "gone.onnx")

    def test_options_that_do_not_go_together_are_refused(self):
        self.refused("no all-reduce", "--allreduce", "cube", status=2)
        self.refused("--shards", "--allreduce", "ring", "--shards", "2", status=2)
        self.one_line(self.launch(2, "refused.onnx", "--allreduce", "tree", "--zero", "1"), "ring")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rewright")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--kills", type=int, default=5, help="of a program alone")
    parser.add_argument("--job-kills", type=int, default=3, help="of one process of several")
    ARGUMENTS, rest = parser.parse_known_args()
    training.ARGUMENTS = ARGUMENTS
    unittest.main(argv=["parallel_training.py", *rest])
