"""The time that the searches for one model may take: its graphs share it.

A model of which Python is left in between is many graphs, and nothing says in advance how many. Each search may take what those before
it have left. Where that is next to nothing it may take a small share still, since the last graph may be the one that matters; where
that was overdrawn as well, graphs run as they are.
"""

import contextlib
import sys
import threading
import time
import weakref

import torch

LEAST_SHARE = 0.05  # of the budget, for a search that finds nothing left
MOST = 1.1  # times the budget, after which nothing is searched: the search before may have taken longer than it was given


class Account:
    def __init__(self, seconds, clock=time.monotonic):
        self.seconds, self.clock = seconds, clock
        self.spent = 0.0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def search(self):
        """One search at a time: seconds for it, None for none. What passes until it ends is spent."""
        with self._lock:
            left = max(self.seconds - self.spent, LEAST_SHARE * self.seconds)
            start = self.clock()
            try:
                yield left if self.spent < MOST * self.seconds else None
            finally:
                self.spent += self.clock() - start


class Accounts:
    """By what was compiled, and how often it was compiled before: other sizes are another compilation, with time of its own."""

    def __init__(self):
        self._of = {}
        self._lock = threading.Lock()

    def of(self, function, again, seconds):
        with self._lock:
            for key, (reference, _) in list(self._of.items()):
                if reference is not None and reference() is None:
                    del self._of[key]
            key = (id(function), again, seconds)
            reference, account = self._of.get(key, (None, None))
            if account is None or (reference is not None and reference() is not function):
                account = Account(seconds)
                self._of[key] = (_reference(function), account)
            return account

    def clear(self):
        with self._lock:
            self._of.clear()


def _reference(function):
    try:
        return weakref.ref(function)
    except TypeError:
        return None


def compiled_now():
    """The object that torch.compile compiles, and how many times its frames were compiled before. (None, 0) if torch does not say.

    All graphs of a model come up in one call of it: the outermost that is under way.
    """
    function, frame = None, sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "compile_wrapper" and frame.f_globals.get("__name__") == "torch._dynamo.eval_frame":
            function = frame.f_locals.get("fn", function)
        frame = frame.f_back
    identity = torch._guards.CompileContext.current_compile_id()
    return function, getattr(identity, "frame_compile_id", None) or 0
