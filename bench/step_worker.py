"""Runs sessions of language models in Rewright or ONNX Runtime, for bench/language: a line of JSON for each request, and one as the reply.

  {"op": "open", "engine": "rewright" or "onnxruntime", "file": model, "sizes": of the cache, "threads": N, "package": Rewright's folder}
      -> {"seconds": of loading}
  {"op": "run", "length": new tokens, "past": positions before them, "seed": N, "keep": file for all outputs, or null}
      -> {"ms": of the run, "peak_bytes": of the process}
  {"op": "read", "bytes": N, "threads": N} -> {"gb_per_s": of reading that many bytes again and again}

Each engine in a process of its own, so that its threads wait, or spin, beside nobody else's.
"""

import os
import sys
import threading
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
from json_worker import peak_bytes, serve  # noqa: E402


def clock_of(threads):
    """Of a single thread only its own time counts; of several the time that passes, in which they wait for each other."""
    return time.thread_time if threads == 1 else time.perf_counter


class Steps:
    """A session, and random inputs for it: the same for the same seed."""

    def __init__(self, request):
        if request["engine"] == "onnxruntime":
            import onnxruntime as package
        else:
            sys.path.insert(0, request["package"])
            import rewright as package
        options = package.SessionOptions()
        options.intra_op_num_threads = request["threads"]
        options.log_severity_level = 4
        self.session = package.InferenceSession(request["file"], options, providers=["CPUExecutionProvider"])
        self.sizes = request["sizes"]
        self.clock = clock_of(request["threads"])

    def feeds(self, length, past, seed):
        random = np.random.default_rng(seed)
        values = {"input_ids": random.integers(0, self.sizes["vocabulary"], (1, length)), "attention_mask": np.ones((1, past + length), np.int64),
                  "position_ids": np.arange(past, past + length)[None]}  # fmt: skip
        names = [value.name for value in self.session.get_inputs()]
        for name in names:
            if name.startswith("past"):
                values[name] = random.standard_normal((1, self.sizes["heads"], past, self.sizes["head"]), dtype=np.float32)
        return {name: values[name] for name in names}

    def run(self, length, past, seed, keep):
        inputs = self.feeds(length, past, seed)
        start = self.clock()
        outputs = self.session.run(["logits"] if keep is None else None, inputs)
        ms = 1e3 * (self.clock() - start)
        if keep is not None:
            np.savez(keep, *outputs)
        return {"ms": ms, "peak_bytes": peak_bytes()}


def reading_speed(count, threads):
    """The best of some rounds, in each of which every thread reads its part."""
    parts = [np.ones(count // 8 // threads, np.float32) for _ in range(2 * threads)]
    best, clock = float("inf"), clock_of(threads)
    for _ in range(15):
        readers = [threading.Thread(target=np.dot, args=parts[2 * i : 2 * i + 2]) for i in range(1, threads)]
        start = clock()
        for reader in readers:
            reader.start()
        np.dot(*parts[:2])
        for reader in readers:
            reader.join()
        best = min(best, clock() - start)
    return sum(part.nbytes for part in parts) / best / 1e9


STEPS = None


def answer(request):
    global STEPS
    if request["op"] == "open":
        start = time.perf_counter()
        STEPS = Steps(request)
        return {"seconds": time.perf_counter() - start}
    if request["op"] == "read":
        return {"gb_per_s": reading_speed(request["bytes"], request["threads"])}
    return STEPS.run(request["length"], request["past"], request["seed"], request["keep"])


if __name__ == "__main__":
    serve(answer)
