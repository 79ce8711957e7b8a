"""The worker that executes cases: in ONNX Runtime, here, and on demand what `rewright optimize` makes of them in ONNX Runtime.

A request: {"path", "timing", "optimize"}. The reply: {"verdict", "reason", "speed", "kind", "optimize"}.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import common  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(common.BINARY)), "python"))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnx.reference  # noqa: E402
import onnxruntime  # noqa: E402

import cases  # noqa: E402
import compare  # noqa: E402
import lines  # noqa: E402
import noise  # noqa: E402
import rewright  # noqa: E402

MEMORY = 12 << 30
MOST_ROUNDS = 15
TIMING_SECONDS = 0.3
RANDOM = ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
MAPS = ("ZipMap", "DictVectorizer", "CastMap")
TEXT = ("StringNormalizer", "TfIdfVectorizer", "Tokenizer", "StringSplit", "StringConcat", "RegexFullMatch")


def nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from nodes(inner)


def operators(model):
    """(domain, operator) of all nodes, those inside of nodes and functions as well."""
    found = {(node.domain, node.op_type) for node in nodes(model.graph)}
    for function in model.functions:
        found |= {(node.domain, node.op_type) for node in function.node}
    return found


def kind(used):
    """Models that are counted apart: operators that ONNX does not define, maps and texts."""
    foreign = {domain for domain, _ in used} - {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.training"}
    if "com.microsoft" in foreign:
        return "com.microsoft"
    if any(operator in MAPS for _, operator in used):
        return "maps"
    return "text" if any(operator in TEXT for _, operator in used) else "onnx"


def first_line(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:400]


def session(package, path):
    options = package.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return package.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def copied(results):
    """ONNX Runtime's results may lie in memory that the next run writes."""
    return [value.copy() if isinstance(value, np.ndarray) else value for value in results]


def speed(theirs, ours, feeds):
    """Their time over ours, the median of alternating rounds."""
    ratios = []
    start = time.perf_counter()
    while len(ratios) < MOST_ROUNDS and (len(ratios) < 3 or time.perf_counter() - start < TIMING_SECONDS):
        times = []
        for one in (theirs, ours):
            begin = time.perf_counter()
            one.run(None, feeds)
            times.append(time.perf_counter() - begin)
        ratios.append(times[0] / times[1])
    return statistics.median(ratios)


def differing_output(names, expected, actual, numbers, of_largest=False):
    for name, a, b in zip(names, expected, actual):
        found = compare.difference(a, b, numbers, of_largest)
        if found:
            return f"{name}: {found}"
    return None


def optimized(path, all_feeds, all_expected, names, numbers):
    """(verdict, reason) of `rewright optimize`, executed by ONNX Runtime."""
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "optimized.onnx")
        command = [common.BINARY, "optimize", path, "-o", target, "--no-timing", "--budget", "3s", "--threads", "1", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            words = done.stderr.strip().splitlines()
            return ["crashed" if done.returncode < 0 or done.returncode > 4 else "refused", f"status {done.returncode}: {words[-1] if words else ''}"]
        rewritten = session(onnxruntime, target)
        for feeds, expected in zip(all_feeds, all_expected):
            found = differing_output(names, expected, rewritten.run(None, feeds), numbers)
            if found:
                return ["differs", found]
    return ["same", ""]


def judged(path, all_feeds, all_actual, names):
    """Another runtime with the results of this one, where these differ from ONNX Runtime's; None if there is none."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    judges = {
        "ONNX Runtime without its optimizations": lambda: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]),
        "ONNX's reference implementation": lambda: onnx.reference.ReferenceEvaluator(path),
    }
    for judge, make in judges.items():
        try:
            session_of_judge = make()
            # Deep networks may carry roundings of small elements further than single operators do.
            differing = (differing_output(names, session_of_judge.run(None, f), actual, True, of_largest=True) for f, actual in zip(all_feeds, all_actual))
            if not any(differing):
                return judge
        except Exception:  # the reference does not know all operators and types
            continue
    return None


def without_noise(model, path):
    """The path of the model with the same numbers for every runtime in place of random ones, or None where that cannot be."""
    try:
        onnx.save(noise.fixed(model, RANDOM), path.removesuffix(".onnx") + ".fixed.onnx")
    except noise.NotFixed:
        return None
    return path.removesuffix(".onnx") + ".fixed.onnx"


def execute(request, replies):
    path = request["path"] + ".onnx"
    feeds = cases.load_feeds(request["path"])
    model = onnx.load(path, load_external_data=False)
    used = operators(model)
    is_random = any(operator in RANDOM for _, operator in used)
    given, fixed = path, without_noise(model, path) if is_random else None
    path, is_random = fixed or path, is_random and not fixed
    del model
    facts = {"kind": kind(used), "operators": sorted(f"{d}.{o}" if d else o for d, o in used)}
    replies.stage("ONNX Runtime")
    try:
        theirs = session(onnxruntime, path)
        names = [output.name for output in theirs.get_outputs()]
        expected = [copied(theirs.run(None, inputs)) for inputs in feeds]
        again = theirs.run(None, feeds[0])
    except Exception as error:  # of several unrelated types
        return {**facts, "verdict": "skipped", "reason": first_line(error)}
    numbers = not is_random and not differing_output(names, expected[0], again, True)
    replies.stage("session")
    try:
        ours = session(rewright, path)
        replies.stage("run")
        if fixed:
            session(rewright, given).run(None, feeds[0])
        actual = [ours.run(None, inputs) for inputs in feeds]
    except Exception as error:
        return {**facts, "verdict": "refused", "reason": first_line(error)}
    replies.stage("comparison")
    for wanted, got in zip(expected, actual):
        found = differing_output(names, wanted, got, numbers)
        if found:
            replies.stage("reference")
            judge = judged(path, feeds, actual, names)
            if judge:
                return {**facts, "verdict": "as reference", "reason": f"{found}; as {judge}"}
            return {**facts, "verdict": "differs", "reason": found}
    replies.stage("timing")
    facts["verdict"], facts["reason"] = "same", ""
    if request["timing"]:
        facts["speed"] = speed(theirs, ours, feeds[0])
    if request["optimize"]:
        replies.stage("optimize")
        facts["optimize"] = optimized(path, feeds, expected, names, numbers)
    return facts


def main():
    replies = lines.Replies(MEMORY)
    for request in lines.requests():
        replies.reply(execute(request, replies))


if __name__ == "__main__":
    main()
