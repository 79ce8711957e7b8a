"""Workers and servers, threads without locks, and synchronous training that outlives its processes.

python asynchronous_training.py PROGRAM --mpirun MPIRUN
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

import training

ARGUMENTS = None
PATIENCE = 120  # seconds, after which a test fails


def children(process):
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []


def rank_of(process):
    variables = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return int(dict(v.split(b"=", 1) for v in variables if b"=" in v)[b"OMPI_COMM_WORLD_RANK"])


class AsynchronousTraining(training.Fixture):
    def setUp(self):
        super().setUp()
        self.facts, self.metrics = self.folder / "facts", self.folder / "metrics"
        self.written = ["--json", str(self.facts), "--metrics", str(self.metrics), "--validate", str(self.folder / "data")]

    def read_facts(self):
        return json.loads(self.facts.read_text())

    def launch(self, processes, *arguments):
        self.metrics.unlink(missing_ok=True)
        command = [ARGUMENTS.mpirun, "-q", "--oversubscribe", "-n", str(processes), *self.command(*arguments, *self.written)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=training.ENVIRONMENT)

    def wait_until(self, holds, job):
        deadline = time.monotonic() + PATIENCE
        while not holds():
            self.assertIsNone(job.poll(), "the job ended too early")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)

    def worker(self, job, rank):
        """The process of this rank, once it takes part in steps."""
        self.wait_until(lambda: self.metrics.exists() and self.metrics.read_text().count("\n") >= 3, job)
        return next(w for watcher in children(job.pid) for w in children(watcher) if rank_of(w) == rank)

    def finished(self, job):
        output, errors = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 0, errors)
        return output, errors

    def test_every_mode_trains(self):
        for mode, processes, more in (
            ("hogwild", 1, []),  # with the one thread of all commands here
            ("downpour", 3, []),
            ("downpour", 4, ["--servers", "2", "--max-staleness", "1", "--fetch", "2", "--push", "2"]),
            ("adam-differences", 3, ["--push", "3"]),
            ("elastic", 3, ["--push", "4"]),
        ):
            options = ["--mode", mode, "--epochs", "20", *more, *self.written]
            self.trained("out.onnx", *options, processes=processes)
            facts = self.read_facts()
            self.assertEqual((facts["steps"], facts["complete"]), (160, True))
            self.assertGreater(facts["validation"]["accuracy"], 0.8, mode)
            done = facts["asynchronous"]
            servers = int(more[1]) if "--servers" in more else 0 if mode == "hogwild" else 1
            self.assertEqual((done["mode"], done["servers"]), (mode, servers))
            self.assertEqual(done["workers"], processes - servers)
            self.assertEqual((done["workers_lost"], done["steps_again"]), (0, 0))
            self.assertGreater(done["updates_per_second"], 0)
            self.assertLessEqual(done["staleness"]["mean"], done["staleness"]["max"])
            if "--max-staleness" in more:
                self.assertLessEqual(done["staleness"]["max"], 1)

    def test_bad_options_are_refused_with_a_line(self):
        for what, more, processes in (
            ("would be servers", ["--mode", "downpour"], 1),
            ("1 is the least", ["--mode", "downpour", "--servers", "0"], 1),
            ("-1", ["--mode", "downpour", "--max-staleness=-1"], 1),
            ("--mode elastic excludes --plan", ["--mode", "elastic", "--plan", "some.plan"], 1),
            ("--mode synchronous excludes --servers", ["--servers", "2"], 1),
            ("--mode synchronous excludes --max-staleness", ["--max-staleness", "2"], 1),
            ("--mode hogwild excludes --checkpoint", ["--mode", "hogwild", "--checkpoint", "state"], 1),
            ("--mode sandblaster excludes --max-staleness", ["--mode", "sandblaster", "--max-staleness", "2"], 1),
            ("there is no mode", ["--mode", "asynchronous"], 1),
            ("--lost leave-out excludes --plan", ["--lost", "leave-out", "--plan", "some.plan"], 1),
        ):
            with self.subTest(more=more):
                result = self.train("refused.onnx", *more, processes=processes)
                self.assertEqual(result.returncode, 2, result.stderr)
                lines = result.stderr.splitlines()
                self.assertEqual(len(lines), 1, result.stderr)
                if "is the least" not in what:
                    self.assertIn(what, lines[0])

    def test_a_killed_worker_is_left_out(self):
        for mode in ("downpour", "adam-differences", "elastic"):
            job = self.launch(4, "out.onnx", "--mode", mode, "--epochs", "400")
            os.kill(self.worker(job, 3), signal.SIGKILL)
            output, errors = self.finished(job)
            self.assertIn("process 3 of 4 was ended by signal 9 (Killed); the others go on", errors)
            facts = self.read_facts()
            self.assertEqual((facts["steps"], facts["complete"]), (3200, True))
            self.assertEqual(facts["asynchronous"]["workers_lost"], 1)
            self.assertGreater(facts["validation"]["accuracy"], 0.8, mode)

    def test_a_killed_server_ends_the_run(self):
        for rank in (0, 1):
            job = self.launch(3, "none.onnx", "--mode", "downpour", "--servers", "2", "--epochs", "100000")
            os.kill(self.worker(job, rank), signal.SIGKILL)
            _, errors = job.communicate(timeout=PATIENCE)
            self.assertNotEqual(job.returncode, 0)
            self.assertIn(f"process {rank} of 3", errors)
            self.assertFalse((self.folder / "none.onnx").exists())

    def test_a_straggler_does_not_stop_the_others(self):
        job = self.launch(3, "out.onnx", "--mode", "downpour", "--epochs", "400")
        straggler = self.worker(job, 2)
        os.kill(straggler, signal.SIGSTOP)
        try:
            self.wait_until(lambda: self.facts.exists(), job)  # the last file
        finally:
            os.kill(straggler, signal.SIGCONT)
        self.finished(job)
        self.assertEqual(self.read_facts()["steps"], 3200)

    def test_synchronous_training_goes_on_without_killed_processes(self):
        options = ["--epochs", "100", "--shards", "12"]
        whole = self.trained("whole.onnx", *options)
        for victims, more in (([3], []), ([0], []), ([2, 1], []), ([1], ["--zero", "1"])):
            state = self.folder / "state"
            state.unlink(missing_ok=True)
            checkpoint = ["--checkpoint", str(state), "--save-every", "50"] if more else []
            job = self.launch(4, "again.onnx", *options, *more, *checkpoint, "--lost", "leave-out")
            for victim in victims:
                process = self.worker(job, victim)
                os.kill(process, signal.SIGSTOP)  # all wait for it, at some step
                os.kill(process, signal.SIGKILL)
                seen = self.metrics.read_text().count("\n")
                if len(victims) > 1 and victim == victims[0]:
                    self.wait_until(lambda: self.metrics.read_text().count("\n") > seen + 1, job)
            output, errors = self.finished(job)
            for victim in victims:
                self.assertIn(f"process {victim} of 4 was ended by signal 9", errors)
                self.assertIn(f"process {victim} of 4 has ended; ", output)
            self.assertIn("steps lost", output)
            if not more:
                self.assertIn("0 steps lost", output)
            # Shards are added in one order by any number of processes.
            self.assertEqual((self.folder / "again.onnx").read_bytes(), whole, (victims, more))
            self.assertEqual(self.read_facts()["steps"], 800)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rewright")
    parser.add_argument("--mpirun", default="mpirun")
    ARGUMENTS, rest = parser.parse_known_args()
    training.ARGUMENTS = ARGUMENTS
    unittest.main(argv=["asynchronous_training", "-v", *rest])
