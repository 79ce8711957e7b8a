"""Times ONNX models in OpenVINO: one JSON object a line on standard input is a request, one a line on standard output its reply.

  {"op": "time", "path": MODEL, "threads": 1, "seconds": 1.0} -> {"median": SECONDS} or {"error": "..."}

Sessions are kept, so that only the first request for a model and a number of threads compiles it. Floats stay floats
(INFERENCE_PRECISION_HINT), latency is what OpenVINO optimizes for. Times are as in python/ort_worker.py: on one thread the CPU time that
the process takes, else the time by the clock.
"""

import json
import os
import statistics
import sys
import time

import numpy as np
import openvino

WARMUP = 3
LEAST_RUNS = 5


class TimedModel:
    def __init__(self, core, path, threads):
        options = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        model = core.compile_model(core.read_model(path), "CPU", options)
        self.request = model.create_infer_request()
        self.clock = time.process_time if threads == 1 else time.perf_counter
        for number, port in enumerate(model.inputs):
            shape = [size.get_length() if size.is_static else 1 for size in port.partial_shape]
            element_type = port.element_type.to_dtype()
            generator = np.random.default_rng(number)
            if np.issubdtype(element_type, np.floating):
                value = generator.standard_normal(shape, dtype=np.float32).astype(element_type)
            else:
                value = generator.integers(0, 2, shape).astype(element_type)
            self.request.set_input_tensor(number, openvino.Tensor(value))
        for _ in range(WARMUP):
            self.request.infer()

    def median(self, seconds):
        times = []
        end = time.perf_counter() + seconds
        while len(times) < LEAST_RUNS or time.perf_counter() < end:
            start = self.clock()
            self.request.infer()
            times.append(self.clock() - start)
        return statistics.median(times)


def main():
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever the library prints goes to standard error
    core = openvino.Core()
    kept = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = request["path"], request["threads"]
        try:
            if key not in kept:
                kept = {key: TimedModel(core, *key)}
            reply = {"median": kept[key].median(request["seconds"])}
        except Exception as error:  # of OpenVINO's own types; a model that it refuses must not end the comparison
            reply = {"error": " ".join(str(error).split())[:300]}
        reply.setdefault("openvino", openvino.__version__.split("-")[0])
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
