"""Runs and times ONNX models in ONNX Runtime on behalf of the optimizer.

The wheel of ONNX Runtime ships no C++ headers, so the optimizer starts this program and talks to it: one JSON object a line
on standard input is a request, one a line on standard output its reply, in the same order. Models and tensors are exchanged
as files. A request that fails is answered by {"error": "..."}, and the program goes on; it ends when its input does.

Requests, with the default of each field that may be left out:

  {"op": "hello"}
      -> {"onnxruntime": VERSION, "numpy": VERSION, "cpu": NAME}

  {"op": "time_models", "paths": [...], "threads": 1, "min_seconds": 1.0, "max_seconds": 10.0, "warmup": 2,
   "min_rounds": 5, "feeds": NPZ or null, "inputs": {INPUT: NPY}, "shapes": {INPUT: [...]}, "seed": 0}
      Whole models, in turn: every round runs each model once, every other round in reverse order, until min_seconds have
      passed and min_rounds are done, or another round would end after max_seconds. Inputs come from the files where these have them by name;
      others are random, and the same for all the models that have an input of that name, type and shape.
      -> {"seconds": [[...] of each model], "median": [...]}: the times of a round stand at the same index

  {"op": "time_batch", "paths": [...], "threads": 1, "seconds_each": 0.02, "warmup": 1, "shapes": {}, "seed": 0,
   "most_seconds": null}
      Many small models, each for about seconds_each in all. After most_seconds no other model is begun.
      -> {"median": [... or null], "min": [... or null], "reasons": [null or why not], "overhead": SECONDS, "timed": N}
      timed: only the first N models were begun; of the others there is nothing in the lists.
      overhead is the least that a model that does next to nothing takes: the cost of a call, contained in each of the times.

  {"op": "run", "path": ..., "inputs": {INPUT: NPY}, "outputs_dir": ..., "threads": 1, "optimize": true}
      -> {"outputs": {OUTPUT: NPY}}

Times are of ONNX Runtime's CPU provider with all its graph optimizations, without spinning threads. On one thread they are the
thread's CPU time, which is the time by the clock while nothing else runs, and hardly changes when something does; on several threads
they are by the clock.
"""

import gc
import json
import os
import statistics
import sys
import time
import traceback

import numpy as np
import onnxruntime as ort

ELEMENT_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int8)": np.int8,
    "tensor(int16)": np.int16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(uint8)": np.uint8,
    "tensor(uint16)": np.uint16,
    "tensor(uint32)": np.uint32,
    "tensor(uint64)": np.uint64,
    "tensor(bool)": np.bool_,
}

SWEEPS = 3  # of time_batch

# Identity on one float, opset 13, serialized: what it takes is what a call costs.
EMPTY_MODEL = (
    b'\x08\x08:7\n\x10\n\x01x\x12\x01y"\x08Identity\x12\x01eZ\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01'
    b"b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\r"
)


def make_session(model, threads, optimize=True):
    """A session for a model (a path, or its bytes) as all the timings here use it."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def input_shape(declared, given):
    """The sizes to use for an input: those given for it, and 1 for what the model leaves open."""
    if given is not None:
        return [int(size) for size in given]
    return [size if isinstance(size, int) and size >= 0 else 1 for size in declared]


def random_tensor(element_type, shape, generator):
    """Normal floats; integers 0 and 1, which are valid as indices, masks and token numbers alike."""
    if element_type == "tensor(string)":
        return generator.integers(0, 2, shape).astype(str).astype(object)  # words that a Cast can read as well
    if element_type not in ELEMENT_TYPES:
        raise ValueError(f"no random values for inputs of type {element_type}")
    dtype = ELEMENT_TYPES[element_type]
    if np.issubdtype(dtype, np.floating):
        return generator.standard_normal(shape, dtype=np.float32).astype(dtype)
    return generator.integers(0, 2, shape).astype(dtype)


def make_feeds(session, shapes, seed, given):
    """Inputs for a session. Each has a generator of its own, so equal inputs of two models get equal values."""
    feeds = {}
    for value in session.get_inputs():
        if given is not None and value.name in given:
            feeds[value.name] = given[value.name]
            continue
        generator = np.random.default_rng([seed, *value.name.encode()])
        feeds[value.name] = random_tensor(value.type, input_shape(value.shape, shapes.get(value.name)), generator)
    return feeds


class TimedModel:
    """A session with its inputs bound, so that a run costs as little beside the model as may be."""

    def __init__(self, model, threads, shapes, seed, given=None):
        self.session = make_session(model, threads)
        self.clock = time.thread_time if threads == 1 else time.perf_counter
        self.feeds = make_feeds(self.session, shapes, seed, given)
        types = [value.type for value in (*self.session.get_inputs(), *self.session.get_outputs())]
        self.binding = self.bind() if all(kind in ELEMENT_TYPES for kind in types) else None

    def bind(self):
        binding = self.session.io_binding()
        for name, value in self.feeds.items():
            value = np.asarray(value)  # np.ascontiguousarray would make a list of a scalar
            binding.bind_cpu_input(name, value if value.flags.c_contiguous else np.ascontiguousarray(value))
        for value in self.session.get_outputs():
            binding.bind_output(value.name)
        return binding

    def run_once(self):
        """Seconds of one run."""
        if self.binding is None:
            start = self.clock()
            self.session.run(None, self.feeds)
            return self.clock() - start
        start = self.clock()
        self.session.run_with_iobinding(self.binding)
        return self.clock() - start

    def run_for(self, seconds, warmup, least=3, most=2000):
        """The times of repeated runs, as many as fit into the time, but at least `least`."""
        for _ in range(warmup):
            self.run_once()
        times = []
        end = time.perf_counter() + seconds
        while len(times) < least or (time.perf_counter() < end and len(times) < most):
            times.append(self.run_once())
        return times


def hello(request):
    return {"onnxruntime": ort.__version__, "numpy": np.__version__, "cpu": cpu_name()}


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return os.uname().machine


def time_models(request):
    shapes, seed = request.get("shapes") or {}, request.get("seed", 0)
    given = dict(np.load(request["feeds"])) if request.get("feeds") else {}
    given.update((name, np.load(path)) for name, path in (request.get("inputs") or {}).items())
    models = [TimedModel(path, request.get("threads", 1), shapes, seed, given) for path in request["paths"]]
    for _ in range(request.get("warmup", 2)):
        for model in models:
            model.run_once()
    seconds = [[] for _ in models]
    start = last = time.perf_counter()
    while True:
        order = range(len(models)) if len(seconds[0]) % 2 == 0 else reversed(range(len(models)))
        for index in order:
            seconds[index].append(models[index].run_once())
        now = time.perf_counter()
        elapsed, last_round, last = now - start, now - last, now
        enough = elapsed >= request.get("min_seconds", 1.0) and len(seconds[0]) >= request.get("min_rounds", 5)
        if enough or elapsed + last_round > request.get("max_seconds", 10.0):
            return {"seconds": seconds, "median": [statistics.median(times) for times in seconds]}


def chunks(paths, most_bytes=256 << 20):
    """The paths in groups of models that may be in memory together."""
    group, size = [], 0
    for path in paths:
        bytes_here = os.path.getsize(path) if os.path.exists(path) else 0
        if group and size + bytes_here > most_bytes:
            yield group
            group, size = [], 0
        group.append(path)
        size += bytes_here
    if group:
        yield group


def time_batch(request):
    """In a few sweeps over the models, so that what disturbs the machine for a while disturbs no model alone."""
    reply = {"median": [], "min": [], "reasons": []}
    overhead = []
    most = request.get("most_seconds")
    end = None if most is None else time.perf_counter() + most
    for paths in chunks(request["paths"]):
        for times, reason in time_chunk(paths, request, overhead, end):
            reply["median"].append(statistics.median(times) if times else None)
            reply["min"].append(min(times) if times else None)
            reply["reasons"].append(reason)
    reply["overhead"] = min(overhead, default=0.0)
    reply["timed"] = len(reply["min"])
    return reply


def time_chunk(paths, request, overhead, end):
    """(times, None) or (None, why not) of each model begun before `end`; appends to the times of the model that does next to nothing."""

    def late():
        return end is not None and time.perf_counter() > end

    threads, shapes, seed = request.get("threads", 1), request.get("shapes") or {}, request.get("seed", 0)
    share = request.get("seconds_each", 0.02) / SWEEPS
    empty = TimedModel(EMPTY_MODEL, threads, {}, seed)
    empty.run_for(0, warmup=10)
    models, times, reasons = {}, [[] for _ in paths], [None] * len(paths)
    warm, begun = {}, 0
    for index, path in enumerate(paths):
        if late():
            break
        begun += 1
        try:
            models[index] = TimedModel(path, threads, shapes, seed)
            warm[index] = models[index].run_for(0, request.get("warmup", 1), least=1)
        except Exception as error:  # ONNX Runtime raises a dozen types, and one bad model must not end the batch
            models.pop(index, None)
            reasons[index] = one_line(error)
    for _ in range(SWEEPS):
        overhead += empty.run_for(0.002, warmup=1)
        for index, model in models.items():
            times[index] += warm[index] if late() else model.run_for(share, warmup=0, least=1)
    return list(zip(times, reasons))[:begun]


def run(request):
    session = make_session(request["path"], request.get("threads", 1), request.get("optimize", True))
    feeds = {name: np.load(path) for name, path in request.get("inputs", {}).items()}
    names = [value.name for value in session.get_outputs()]
    os.makedirs(request["outputs_dir"], exist_ok=True)
    files = {}
    for index, (name, value) in enumerate(zip(names, session.run(names, feeds))):
        if not isinstance(value, np.ndarray):
            raise ValueError(f'output "{name}" is not a tensor')
        files[name] = os.path.join(request["outputs_dir"], f"output_{index}.npy")
        np.save(files[name], value.astype(str) if value.dtype == object else value)
    return {"outputs": files}


OPERATIONS = {"hello": hello, "time_models": time_models, "time_batch": time_batch, "run": run}


def one_line(error):
    text = " ".join(str(error).split())
    return text or type(error).__name__


def answer(line):
    """The reply to one request, an error's included."""
    try:
        request = json.loads(line)
        operation = OPERATIONS.get(request.get("op"))
        if operation is None:
            raise ValueError(f"unknown operation {request.get('op')!r}")
        return operation(request)
    except Exception as error:
        if os.environ.get("REWRIGHT_WORKER_TRACE"):
            traceback.print_exc()
        return {"error": one_line(error)}


def main():
    # Replies have a descriptor of their own; whatever a library prints goes to standard error.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        if not line.strip():
            continue
        reply = json.dumps(answer(line))
        gc.collect()
        try:
            replies.write(reply + "\n")
            replies.flush()
        except BrokenPipeError:
            return


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
