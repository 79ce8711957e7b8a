"""Runs of the generator that must give the same file: python generator_runs.py REWRIGHT [--mpirun MPIRUN]

However many processes there are, and wherever the run is killed or interrupted and continued.
"""

import argparse
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

OPERATORS, COUNT = "linear", 2
DEEP = {"operators": "Relu,Neg,concat(axis=0)", "count": 4}  # looked for among classes, too
failures = []


def check(condition, what):
    print(("ok   " if condition else "FAIL ") + what)
    if not condition:
        failures.append(what)


class Generator:
    def __init__(self, rewright, mpirun, folder):
        self.rewright, self.mpirun, self.folder = rewright, mpirun, pathlib.Path(folder)

    def command(self, output, *options, processes=1, operators=OPERATORS, count=COUNT):
        start = [] if processes == 1 else [self.mpirun, "--allow-run-as-root", "--oversubscribe", "-n", str(processes)]
        return [*start, self.rewright, "generate", "-o", str(self.folder / output), "--operators", operators,
                "--max-operators", str(count), "--unproved", "--quiet", "--threads", "1", *options]

    def run(self, output, *options, **more):
        return subprocess.run(self.command(output, *options, **more), capture_output=True, text=True, timeout=300)

    def bytes(self, output):
        path = self.folder / output
        return path.read_bytes() if path.exists() else None

    def refused(self, status, text, *options, what, limit=None, operators=OPERATORS):
        def restrict():
            if limit:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        run = subprocess.run(self.command("refused.rules", *options, operators=operators), capture_output=True, text=True,
                             timeout=300, preexec_fn=restrict)
        lines = run.stderr.strip().splitlines()
        check(run.returncode == status and len(lines) == 1 and text in lines[0] and self.bytes("refused.rules") is None,
              f"{what}: {run.returncode} {run.stderr.strip()}")


def wait_for_saves(process, state, count):
    """Returns when the state has been saved so often since now, or the process has ended."""

    def saved():
        try:
            found = (pathlib.Path(state) / "state").stat()
            return found.st_ino, found.st_mtime_ns, found.st_size
        except FileNotFoundError:
            return None

    last = saved()
    while count > 0 and process.poll() is None:
        time.sleep(0.0005)
        now = saved()
        if now not in (None, last):
            last, count = now, count - 1


def same_bytes(generator, name, rng, mpirun, **more):
    """By one process, by several, and killed three times, then continued to the end."""
    first = generator.run(name + "one.rules", **more)
    expected = generator.bytes(name + "one.rules")
    check(first.returncode == 0 and expected, f"{name} one process {first.stderr}")

    for processes in (2, 3) if mpirun else ():
        run = generator.run(f"{name}{processes}.rules", processes=processes, **more)
        check(run.returncode == 0 and generator.bytes(f"{name}{processes}.rules") == expected,
              f"{name} {processes} processes {run.stderr[-500:]}")

    state = generator.folder / (name + "state")
    keep = ["--resume", str(state), "--save-every", "0"]
    for kill in range(3):
        process = subprocess.Popen(generator.command(name + "killed.rules", *keep, **more))
        wait_for_saves(process, state, rng.randint(1, 15))
        process.kill()
        check(process.wait() == -signal.SIGKILL and generator.bytes(name + "killed.rules") is None, f"{name} kill {kill + 1}")
    run = generator.run(name + "killed.rules", *keep, **more)
    check(run.returncode == 0 and generator.bytes(name + "killed.rules") == expected,
          f"{name} killed three times and continued {run.stderr}")
    return expected, keep


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("rewright")
    arguments.add_argument("--mpirun")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        generator = Generator(options.rewright, options.mpirun, folder)
        same_bytes(generator, "deep", rng, options.mpirun, **DEEP)
        expected, keep = same_bytes(generator, "", rng, options.mpirun)

        if options.mpirun:
            run = generator.run("refused.rules", *keep, processes=2)
            check(run.returncode == 2 and "of 1 processes, and there are 2" in run.stderr, "another number of processes")

        # Interrupted: rules are written, and the state can be continued.
        state = str(generator.folder / "interrupted")
        process = subprocess.Popen(generator.command("part.rules", "--resume", state, "--save-every", "0"), stderr=subprocess.PIPE)
        wait_for_saves(process, state, 10)
        process.send_signal(signal.SIGINT)
        check(process.wait(timeout=120) == 0 and generator.bytes("part.rules") is not None, "interrupted")
        run = generator.run("whole.rules", "--resume", state)
        check(run.returncode == 0 and generator.bytes("whole.rules") == expected, f"interrupted and continued {run.stderr}")

        # Impossible options.
        generator.refused(2, "the state of another run", "--resume", state, operators="Add", what="another run")
        manifest = generator.folder / "interrupted" / "state"
        whole = manifest.read_bytes()
        manifest.write_bytes(whole[:-30])
        generator.refused(3, "damaged", "--resume", state, what="damaged state")
        check(manifest.read_bytes() == whole[:-30], "the damaged state stays")
        generator.refused(4, "--memory", "--memory", "10M", what="impossible memory")
        generator.refused(4, "cannot be written", "--resume", str(generator.folder / "full"), "--save-every", "0", limit=2000,
                          what="no space for the state")
        generator.refused(4, "", "--resume", "/proc/nothing", what="no right to write")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
