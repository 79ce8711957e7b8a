"""Sessions by what they compute: a graph that is there already is not optimized a second time."""

import functools
import hashlib
import os
import tempfile
import threading
import weakref

import rewright
from rewright.optimization import check_names

from .account import LEAST_SHARE
from .session import Session, optimized

_alive = weakref.WeakValueDictionary()
_lock = threading.Lock()


def session(model, options, shapes, account=None, last=True):
    """A session for a serialized model. shapes: of the inputs with open sizes, by name, those to optimize for. account: of the time for
    it. last: no other session is to be made of the account's time in this call."""
    key = _key(model, options, shapes)
    with _lock:
        found = _alive.get(key)
    if found is None:
        found = _made(model, options, shapes, key, account, last)
        with _lock:
            found = _alive.setdefault(key, found)
    return found


def _made(model, options, shapes, key, account, last):
    kept = None if options.search is None else _kept(options, key)
    if options.search is None or kept is not None:
        return Session(kept or model, options)
    better = functools.partial(_search, model, options, shapes, key)
    if account is None:
        return Session(better(), options)
    if not last or not account.nothing_waits():
        check_names(dict(options.search))  # which the search would do later
        made = Session(model, options)
        account.wait(made, better)
        return made
    with account.search() as (seconds, in_budget):
        return Session(better(seconds, in_budget) if seconds >= LEAST_SHARE * account.seconds else model, options)


def _key(model, options, shapes):
    described = repr((options.search, options.device, options.threads, options.math, options.kernels, sorted(shapes.items()), rewright.__version__))
    return hashlib.sha256(hashlib.sha256(model).digest() + described.encode()).hexdigest()


def _path(options, key):
    return os.path.join(options.cache, f"{key}.onnx")


def _kept(options, key):
    """The optimized model of an earlier search, from the folder for them."""
    if options.cache is None or not os.path.exists(_path(options, key)):
        return None
    with open(_path(options, key), "rb") as file:
        return file.read()


def _search(model, options, shapes, key, seconds=None, had_time=True):
    """The optimized model. It is put into the folder, whole or not at all, if it had time: another process may have more for it."""
    best = optimized(model, options, shapes, seconds)
    if options.cache is None or not had_time:
        return best
    os.makedirs(options.cache, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=options.cache, suffix=".new", delete=False) as file:
        file.write(best)
    os.replace(file.name, _path(options, key))
    return best
