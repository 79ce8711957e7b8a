"""Processes that work on one request after another, a line of JSON each, and may be killed by what they work on.

A worker says what it is about to do (`Replies.stage`) and then its reply; the parent learns of a crash or of a passed time limit, at
which stage it was, and starts another process for the next request.
"""

import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time


LONGEST_WAIT = 10


class Replies:
    """The worker's side. Whatever libraries print goes to standard error."""

    def __init__(self, memory):
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self.file = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def stage(self, name):
        self._write({"stage": name})

    def reply(self, fields):
        self._write({"reply": fields})

    def _write(self, fields):
        self.file.write(json.dumps(fields) + "\n")
        self.file.flush()


def requests():
    for line in sys.stdin:
        yield json.loads(line)


class Ended(Exception):
    """The worker ended, or was ended at the time limit. `how`: "crashed" or "too slow"; `stage`: what it was doing."""

    def __init__(self, how, stage, detail):
        super().__init__(f"{how} ({stage}): {detail}")
        self.how, self.stage, self.detail = how, stage, detail


class Worker:
    """The parent's side: starts a program when it is first asked, and again after it ended."""

    def __init__(self, script, *arguments, environment=None):
        self.command = [sys.executable, script, *arguments]
        self.environment = {**os.environ, **(environment or {})}
        self.process = None
        self.buffer = b""

    def ask(self, request, seconds):
        """The reply. The limit is CPU time, so that a busy machine does not decide; a worker that sleeps has LONGEST_WAIT times as long."""
        if self.process is None:
            self._start()
        stage = "start"
        limit = (self._cpu_seconds() + seconds, time.monotonic() + LONGEST_WAIT * seconds)
        try:
            self.process.stdin.write((json.dumps(request) + "\n").encode())
            self.process.stdin.flush()
            while True:
                message = self._read(limit)
                if message is None:
                    raise Ended("too slow", stage, f"stopped after {seconds} s")
                if "reply" in message:
                    return message["reply"]
                stage = message["stage"]
        except (EOFError, BrokenPipeError):
            status = self.process.wait()
            raise Ended("crashed", stage, self._last_words(status)) from None
        finally:
            if sys.exc_info()[0] is not None:
                self.close()

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.errors.close()
            self.process = None

    def _start(self):
        self.errors = tempfile.TemporaryFile()
        self.buffer = b""
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=self.environment, start_new_session=True
        )

    def _cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(") ", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # its own and that of its ended children

    def _read(self, limit):
        """The next message, or None when the limits (CPU time, time of day) are passed."""
        while b"\n" not in self.buffer:
            if self._cpu_seconds() > limit[0] or time.monotonic() > limit[1]:
                return None
            if not select.select([self.process.stdout], [], [], 1)[0]:
                continue
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                raise EOFError
            self.buffer += part
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def _last_words(self, status):
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - 2000))
        text = self.errors.read().decode(errors="replace").strip().splitlines()
        how = signal.Signals(-status).name if status < 0 else f"exit {status}"
        return f"{how}: {text[-1]}" if text else how
