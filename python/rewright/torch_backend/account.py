"""The time that one model may take to be compiled: its graphs share it.

What torch and the translation take counts, and searches have the rest. A model of which Python is left in between is many graphs, and
nothing says beforehand how many. So their sessions run as they are at first. When the last graph of a call has run, or one runs a second
time, all that wait are searched: those that take longer have more of the time, and where there is little of it, they alone.
"""

import contextlib
import dis
import os
import sys
import threading
import time
import weakref

import torch
from torch._dynamo import callback_handler
from torch._dynamo.utils import get_metrics_context

LEAST_SHARE = 0.05  # of the budget: a shorter search measures nothing
BEYOND = 0.1  # of the budget, for searches where all of it went elsewhere: the graph that takes longest may be worth it
MOST_BEYOND = 2.0  # seconds

clock = time.monotonic


class Account:
    def __init__(self, seconds):
        self.seconds = seconds
        self.graphs = 0
        self.beyond = min(BEYOND * seconds, MOST_BEYOND)
        self._spent, self._open, self._since = 0.0, 0, 0.0
        self._waiting = []
        self._lock = threading.Lock()
        self._searching = threading.RLock()

    def spent(self):
        with self._lock:
            return self._spent + (clock() - self._since if self._open else 0.0)

    def start(self, since=None):
        """What passes from here (or since then) until as many stops is spent."""
        with self._lock:
            if self._open == 0:
                self._since = clock() if since is None else since
            self._open += 1

    def stop(self):
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._spent += clock() - self._since

    @contextlib.contextmanager
    def spending(self):
        self.start()
        try:
            yield
        finally:
            self.stop()

    def nothing_waits(self):
        return not self._waiting

    def wait(self, session, better):
        """better(seconds, had_time): the session's model after a search. had_time: with half of all the time that there is for searches."""
        session.settle = self.settle
        with self._lock:
            self._waiting.append((weakref.ref(session), better))

    @contextlib.contextmanager
    def search(self):
        """One search at a time: seconds for all that is to be searched now, and whether they are the budget's. What searches take beyond
        it is not given again."""
        with self._searching, self.spending():
            left = self.seconds - self.spent()
            start = clock()
            try:
                yield max(left, self.beyond), left >= self.beyond
            finally:
                self.beyond = max(self.beyond - max(clock() - start - max(left, 0.0), 0.0), 0.0)

    def settle(self):
        """Searches for the sessions that wait."""
        with self.search() as (room, in_budget):
            with self._lock:
                waiting, self._waiting = self._waiting, []
            found = [(session, better) for session, better in ((reference(), better) for reference, better in waiting) if session is not None]
            for session, _ in found:
                session.settle = None
            end = clock() + room
            found.sort(key=lambda pair: -pair[0].took)
            for at, (session, better) in enumerate(found):
                left = end - clock()
                if left < LEAST_SHARE * self.seconds:
                    break
                whole = sum(other.took for other, _ in found[at:])
                share = session.took / whole if whole > 0 else 1 / (len(found) - at)
                seconds = max(share * left, LEAST_SHARE * self.seconds)
                session.improve(better, seconds, in_budget and seconds >= 0.5 * room)


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


class _Compilation:
    """What torch compiles at this time, if anything: a graph's account is known only when torch has traced it, and bears all of it."""

    def __init__(self):
        self.since, self.account = None, None

    def begin(self, _=None):
        self.since, self.account = clock(), None

    def end(self, _=None):
        if self.account is not None:
            self.account.stop()
        self.since, self.account = None, None

    def charge(self, account):
        if self.begin not in callback_handler.start_callbacks:  # the first one of all, or of those after a reset
            callback_handler.register_start_callback(self.begin)
            callback_handler.register_end_callback(self.end)
            self.begin()
            self.since -= _seconds_compiling()
        if self.since is not None and self.account is None:
            self.account = account
            account.start(self.since)


def _seconds_compiling():
    """Since when torch compiles, by its own measurements; 0 if it does not say."""
    context = get_metrics_context()
    since = getattr(context, "_start_time_ns", 0) if context.in_progress() else 0
    return max((time.time_ns() - since) / 1e9, 0.0) if since else 0.0


compilation = _Compilation()


def compiled_now():
    """The object that torch.compile compiles, and how many times its frames were compiled before. (None, 0) if torch does not say.

    All graphs of a model come up in one call of it: the outermost that is under way.
    """
    function, frame = None, sys._getframe(1)
    while frame is not None:
        if _is_of_torch_compile(frame):
            function = frame.f_locals.get("fn", function)
        frame = frame.f_back
    identity = torch._guards.CompileContext.current_compile_id()
    return function, getattr(identity, "frame_compile_id", None) or 0


def _is_of_torch_compile(frame):
    return frame.f_code.co_name == "compile_wrapper" and frame.f_globals.get("__name__") == "torch._dynamo.eval_frame"


_TORCH = os.path.dirname(torch.__file__) + os.sep


def more_follows():
    """Whether functions of the model that is being compiled go on after the one that torch compiles now."""
    frame, callers, found = sys._getframe(1), [], 0
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch._dynamo.convert_frame":
            callers, found = [], 0
        if _is_of_torch_compile(frame):
            found = len(callers)
        callers.append(frame)
        frame = frame.f_back
    return any(not frame.f_code.co_filename.startswith(_TORCH) and not _returns_next(frame) for frame in callers[:found])


def _returns_next(frame):
    """Whether all that a function does after the call that it is in is to return the result."""
    following = (step.opname for step in dis.get_instructions(frame.f_code) if step.offset > frame.f_lasti)
    return next(following, "") == "RETURN_VALUE"
