"""What workers share that answer each line of JSON on standard input by one on standard output (common.Worker asks them)."""

import json
import os
import re
import sys


def peak_bytes():
    """Of this process."""
    with open("/proc/self/status", encoding="ascii") as file:
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])


def serve(answer):
    """`answer`: from a request to its reply. What it throws is told to the one who asked."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies, flush=True)
