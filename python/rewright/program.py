"""The command line, as installed with the package: `rewright` and `python -m rewright`."""

import os
import sys


def path():
    """The path of the program."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native", "rewright")


def main():
    """Becomes the program, with the arguments of this process."""
    program = path()
    os.environ.setdefault("REWRIGHT_PYTHON", sys.executable)  # tokenizers are libraries of Python
    try:
        os.execv(program, ["rewright", *sys.argv[1:]])
    except OSError as error:
        print(f"rewright: error: {program}: cannot be run: {error.strerror} (install the package again)", file=sys.stderr)
    return 4
