"""Sessions by what they compute: a graph that is there already is not optimized a second time."""

import hashlib
import os
import tempfile
import threading
import weakref

import rewright

from .session import Session, optimized

_alive = weakref.WeakValueDictionary()
_lock = threading.Lock()


def session(model, options, shapes, account=None):
    """A session for a serialized model. shapes: of the inputs with open sizes, by name, those to optimize for. account: of the time for it."""
    key = _key(model, options, shapes)
    with _lock:
        found = _alive.get(key)
    if found is None:
        found = Session(_search(model, options, shapes, key, account), options)
        with _lock:
            found = _alive.setdefault(key, found)
    return found


def _key(model, options, shapes):
    described = repr((options.search, options.device, options.threads, options.math, options.kernels, sorted(shapes.items()), rewright.__version__))
    return hashlib.sha256(hashlib.sha256(model).digest() + described.encode()).hexdigest()


def _search(model, options, shapes, key, account):
    """The optimized model: from the folder of an earlier one, else by a search, and then it is put there, whole or not at all."""
    if options.search is None:
        return model
    if options.cache is None:
        return _searched(model, options, shapes, account)[0]
    path = os.path.join(options.cache, f"{key}.onnx")
    if os.path.exists(path):
        with open(path, "rb") as file:
            return file.read()
    best, had_time = _searched(model, options, shapes, account)
    if not had_time:  # another process may have more for it
        return best
    os.makedirs(options.cache, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=options.cache, suffix=".new", delete=False) as file:
        file.write(best)
    os.replace(file.name, path)
    return best


def _searched(model, options, shapes, account):
    """The optimized model, and whether there was as much time for it as a graph by itself has, or half of that."""
    if account is None:
        return optimized(model, options, shapes), True
    with account.search() as seconds:
        if seconds is None:
            return model, False
        return optimized(model, options, shapes, seconds), seconds >= 0.5 * account.seconds
