"""Files after a failed or interrupted write are the old ones or the new ones: python interrupted_writes.py REWRIGHT [--seed 1]

Whether there is no space, or the program is killed or interrupted at a random moment: the output is the old file or the whole
new one, never a part of it.
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

import onnx

OLD_CONTENT = b"what was here before"


class Output:
    """An output file that exists before the program runs, in a folder of its own."""

    def __init__(self, folder, name):
        self.folder = pathlib.Path(folder) / name
        self.folder.mkdir()
        self.path = self.folder / "out.onnx"
        self.path.write_bytes(OLD_CONTENT)

    def is_old(self):
        return self.path.read_bytes() == OLD_CONTENT

    def is_whole(self):
        try:
            onnx.checker.check_model(onnx.load(self.path))
        except Exception as error:  # whatever ONNX objects to
            print(f"{self.path}: {error}")
            return False
        return True

    def others(self):
        return sorted(p.name for p in self.folder.iterdir() if p != self.path)


def refuse_space():
    """Writing past 64 KiB of a file fails, as on a full disk (and does not kill)."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))


def no_space(command, folder):
    output = Output(folder, "no_space")
    result = subprocess.run(
        [*command, output.path], preexec_fn=refuse_space, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    errors = result.stderr.splitlines()
    if result.returncode != 4 or len(errors) != 1 or not errors[0].startswith("rewright: error: "):
        return f"no space: exit status {result.returncode}, standard error {result.stderr!r}"
    if not output.is_old() or output.others():
        return f"no space: the old file is {'there' if output.is_old() else 'gone'}, beside it {output.others()}"
    return None


def interrupted(command, folder, which, moment, number):
    output = Output(folder, f"{which.name}-{number}")
    process = subprocess.Popen(
        [*command, output.path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(moment)
    process.send_signal(which)
    status = process.wait(timeout=120)
    if not output.is_old() and not output.is_whole():
        return f"{which.name} after {moment:.3f} s: half a file"
    if status == 0 and output.is_old():
        return f"{which.name} after {moment:.3f} s: exit status 0, but nothing was written"
    if status == 0 and output.others():
        return f"{which.name} after {moment:.3f} s: left {output.others()} behind"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rewright")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tries", type=int, default=12)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    problems = []
    with tempfile.TemporaryDirectory(prefix="interrupted-") as folder:
        model = pathlib.Path(folder) / "squeezenet.onnx"
        build = [arguments.rewright, "models", "build", "squeezenet", "--quiet", "-o"]
        optimize = [arguments.rewright, "optimize", model, "--quiet", "--budget", "1s", "--device", "cpu", "-o"]
        subprocess.run([*build, model], check=True, stdout=subprocess.DEVNULL)
        problems.append(no_space(build, folder))
        for name, command, signals in (
            ("build", build, [signal.SIGKILL, signal.SIGINT]),
            ("optimize", optimize, [signal.SIGINT, signal.SIGKILL]),
        ):
            (pathlib.Path(folder) / name).mkdir()
            whole = Output(pathlib.Path(folder) / name, "whole")
            start = time.monotonic()
            subprocess.run([*command, whole.path], check=True, stdout=subprocess.DEVNULL)
            duration = time.monotonic() - start
            if not whole.is_whole():
                problems.append(f"{name}: not a model, though nothing disturbed it")
            for number in range(arguments.tries):
                # Most of the writing is at the end.
                moment = duration * (1 - rng.random() ** 2)
                which = signals[number % len(signals)]
                problems.append(interrupted(command, pathlib.Path(folder) / name, which, moment, number))
    problems = [problem for problem in problems if problem]
    print("\n".join(problems) or "every output was the old file or the whole new one")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
