"""What the training examples share: their command line, their folder, and running `rewright`, on one process or several."""

import argparse
import pathlib
import shutil
import subprocess
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Example:
    """`arguments` has what was asked for, `folder` is there and is the example's own."""

    def __init__(self, name, description, epochs, ranks=True, options=()):
        self.name = name
        parser = argparse.ArgumentParser(prog=f"examples/{name}/run", description=description)
        parser.add_argument("--epochs", type=int, default=epochs)
        parser.add_argument("--rewright", default=ROOT / "build/release/bin/rewright", type=pathlib.Path)
        parser.add_argument("--folder", default=ROOT / "build" / name, type=pathlib.Path)
        if ranks:
            parser.add_argument("--ranks", type=int, default=1, help="processes that share each batch")
        for option, settings in options:
            parser.add_argument(option, **settings)
        self.arguments = parser.parse_args()
        self.folder = self.arguments.folder
        if not self.arguments.rewright.exists():
            self.fail(f"{self.arguments.rewright} is not there; build first")
        self.folder.mkdir(parents=True, exist_ok=True)

    def fail(self, why):
        sys.exit(f"{self.name}: {why}")

    def rewright(self, *command, quiet=False):
        """Runs a command of `rewright` on as many processes as were asked for; ends the example if it fails."""
        launch = [self.arguments.rewright]
        if getattr(self.arguments, "ranks", 1) > 1:
            mpirun = shutil.which("mpirun") or self.fail("mpirun is not there; tools/setup installs it")
            launch = [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", self.arguments.ranks, *launch]
            command = [*command, "--threads", 1]
        status = subprocess.run([str(part) for part in [*launch, *command]], stdout=subprocess.DEVNULL if quiet else None).returncode
        if status != 0:
            self.fail(f"rewright {command[0]}: exit {status}")


def write_arrays(folder, **arrays):
    """A folder of arrays, as `rewright train --data` reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        numpy.save(folder / f"{name}.npy", array)
