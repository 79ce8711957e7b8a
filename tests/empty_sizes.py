"""All operators on sizes of 0 and 1: python empty_sizes.py REWRIGHT BUILD CASES [--every N] [--part K] [--optimize] [--write DIR]

CASES is a folder that onnx_cases.py wrote. Each case is ONNX's own, with one size that its tensors have turned into 0 or 1: in the
tensors alone; in the integers of its inputs, which shapes are made of, as well; and in its attributes, too. One axis of one input
alone is tried as well. Its inputs are given as inputs, or all but one of them as weights. The interpreter, the cpu runtime and, with
--optimize, the optimized model execute it, in processes that are watched: one that ends is a failure, and named by its case. Where ONNX
Runtime executes the model, types, sizes and elements must be its own, and refusing it is a failure. What it does not decide stands in
UNDECIDED, with the reason; there the cpu runtime must be as the interpreter. Prints what fails and exits 1 if anything does.

--every N tries each N-th case, from the --part K-th on. --write DIR writes the models as seeds for fuzzers, and executes nothing.
"""

import argparse
import collections
import multiprocessing
import os
import pathlib
import re
import sys
import traceback

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

RTOL, ATOL = 1e-3, 1e-4
LARGEST_TENSOR = 1 << 16
SECONDS = 60
# Operators whose elements ONNX Runtime does not determine.
RANDOM = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
EMPTY, ANY = True, False
# Cases without a verdict of ONNX Runtime: operators (some with their attributes, as with_attributes writes them), whether that is so for tensors without elements alone, what it says or we say, why.
UNDECIDED = [
    ("Reduce.*|ArgMax|ArgMin", EMPTY, ".*", "it gives tensors without elements their own sizes, and means of nothing are 0, not NaN"),
    ("Reduce.*|ArgMax|ArgMin", ANY, ".*axis -?[1-9] of a tensor of rank 0.*", "it takes any axis of a scalar"),
    ("QLinearMatMul|MatMulInteger|QLinearConv|ConvInteger", EMPTY, ".*", "it leaves a product over nothing unwritten"),
    ("Gemm", EMPTY, ".*", "it leaves out beta where a product is over nothing"),
    (".*Pool", ANY, ".*does not fit into.*", "a window that is larger than its input gives it no results, or one"),
    ("LayerNormalization", ANY, ".*does not broadcast.*", "it takes an empty or longer bias, and leaves it out"),
    ("DFT|STFT", EMPTY, ".*length is 0.*", "a transform of nothing has no frequencies"),
    ("RNN|GRU|LSTM", EMPTY, "is .*", "its last state of no steps is not the first one, and of no features it ends the process"),
    ("MatMul", EMPTY, ".*", "it leaves a product over nothing unwritten, and does not broadcast it"),
    ("Scan", EMPTY, ".*", "it leaves the state unwritten where there are no steps"),
    (".*Loss", EMPTY, "is .nan., expected .0.*", "the mean of no losses is 0, that of no elements NaN"),
    ("MeanVarianceNormalization", ANY, "is .*expected .nan.*", "it adds nothing to a deviation of 0, and divides by it"),
    ("Attention .*is_causal=1.*", ANY, "is .*", "one query of a causal attention sees all keys, and scores that are masked are not -inf"),
    ("ConvTranspose .*auto_pad=SAME.*", ANY, "has shape .*", "a window that is smaller than the step leaves SAME's last places out"),
    ("PRelu", ANY, "model: PRelu of .*does not broadcast to.*", "it broadcasts both ways, the specification the slope alone"),
    ("GroupNormalization", ANY, "model: .*(scale|b) has .*", "scales of one element, or of no axes, are broadcast"),
    ("GatherND", ANY, "model: .*batch axis .* has size .*", "it reads the indices of another batch"),
    ("MaxUnpool", ANY, ".*is outside of an axis.*", "it writes outside of its result"),
    ("NonMaxSuppression", EMPTY, ".*has 0 elements, 1 is needed", "it reads a number where there is none"),
    ("Loop|Scan", EMPTY, ".*the model says.*", "sizes that the body declares otherwise than it has them"),
    ("NonZero", ANY, "has shape \\(0, .*", "a scalar has one axis for it"),
    ("DynamicQuantizeLinear", EMPTY, ".*", "its scale of nothing is 1, the specification's 0"),
]


class Variant:
    def __init__(self, name, model, inputs):
        self.name, self.model, self.inputs = name, model, inputs
        self.ends_peer = False  # ONNX Runtime's process, that is


def read_case(folder):
    """A case's model and inputs; None where these are not tensors of numbers, or large."""
    model = onnx.load(folder / "model.onnx")
    values = []
    for i, declared in enumerate(model.graph.input):
        if declared.type.WhichOneof("value") != "tensor_type":
            return None
        file = folder / "test_data_set_0" / f"input_{i}.pb"
        tensor = TensorProto.FromString(file.read_bytes())
        if np.prod(tensor.dims, dtype=np.int64) > LARGEST_TENSOR:
            return None
        values.append(tensor)
    if model.graph.initializer or any(node.op_type in RANDOM for node in model.graph.node):
        return None
    return model, values


def resized(array, axis, size):
    return np.take(array, range(size), axis=axis) if array.shape[axis] >= size else array


def set_attributes(model, old, new):
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.INT and attribute.i == old:
                attribute.i = new
            elif attribute.type == onnx.AttributeProto.INTS:
                attribute.ints[:] = [new if i == old else i for i in attribute.ints]


def changed_cases(name, model, tensors):
    """(name, model, arrays by input), each different."""
    arrays = [numpy_helper.to_array(tensor) for tensor in tensors]
    sizes = sorted({size for array in arrays for size in array.shape})
    seen = set()

    def give(label, changed, values, attributes=None):
        copy = onnx.ModelProto()
        copy.CopyFrom(changed)
        if attributes:
            set_attributes(copy, *attributes)
        key = copy.SerializeToString() + b"".join(repr((v.shape, v.tobytes() if v.dtype != object else v.tolist())).encode() for v in values)
        if key in seen:
            return None
        seen.add(key)
        return label, copy, values

    for old in sizes:
        for new in (0, 1):
            if old == new:
                continue
            cut = []
            for array in arrays:
                for axis, size in enumerate(array.shape):
                    if size == old:
                        array = resized(array, axis, new)
                cut.append(array)
            whole = [np.where(a == old, np.array(new, a.dtype), a) if a.dtype in (np.int64, np.int32) and a.ndim <= 1 else a for a in cut]
            yield give(f"{name} {old}->{new}", model, cut)
            yield give(f"{name} {old}->{new} contents", model, whole)
            yield give(f"{name} {old}->{new} attributes", model, whole, (old, new))
    for i, array in enumerate(arrays):
        for axis in range(array.ndim):
            for new in (0, 1):
                if array.shape[axis] > new:
                    yield give(f"{name} input {i} axis {axis} {new}", model, [*arrays[:i], resized(array, axis, new), *arrays[i + 1 :]])
        if array.shape and array.size:
            yield give(f"{name} input {i} scalar", model, [*arrays[:i], array.ravel()[0:1].reshape(()), *arrays[i + 1 :]])


def variants_of(folder):
    case = read_case(folder)
    if case is None:
        return
    model, tensors = case
    for changed in filter(None, changed_cases(folder.name, model, tensors)):
        label, base, arrays = changed
        protos = [numpy_helper.from_array(a, v.name) for a, v in zip(arrays, base.graph.input)]
        for proto, given in zip(protos, tensors):
            if proto.data_type != given.data_type:  # types that NumPy lacks
                break
        else:
            yield from with_weights(label, base, arrays, protos)


def with_weights(label, base, arrays, protos):
    """All inputs given, and all but one of them as weights."""
    for i, proto in enumerate(protos):
        shape = base.graph.input[i].type.tensor_type.shape
        shape.Clear()
        for size in proto.dims:
            shape.dim.add().dim_value = size
    # The sizes that the case declares for its results hold no more.
    for output in base.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    names = [v.name for v in base.graph.input]
    choices = [()] + ([tuple(j for j in range(len(names)) if j != i) for i in range(len(names))] if len(names) > 1 else [(0,)])
    for weights in choices:
        model = onnx.ModelProto()
        model.CopyFrom(base)
        del model.graph.input[:]
        for i, declared in enumerate(base.graph.input):
            if i in weights:
                model.graph.initializer.append(protos[i])
            else:
                model.graph.input.append(declared)
        kept = {names[i]: arrays[i] for i in range(len(names)) if i not in weights}
        yield Variant(f"{label} weights {','.join(map(str, weights)) or 'none'}", model, kept)



def difference(expected, found):
    """Empty if they agree."""
    if isinstance(expected, list) or expected is None:
        if not isinstance(found, type(expected)) or (expected is not None and len(expected) != len(found)):
            return f"is {type(found).__name__}, expected {type(expected).__name__}"
        return next(filter(None, map(difference, expected or [], found or [])), "")
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.shape != found.shape:
        return f"has shape {found.shape}, expected {expected.shape}"
    if expected.dtype == np.uint8 and found.dtype.kind in "fV" and found.dtype.itemsize == 1:
        expected = expected.view(found.dtype)  # floats of 8 bits are bytes to ONNX Runtime
    if expected.dtype.kind != found.dtype.kind or (expected.dtype != found.dtype and expected.dtype.kind not in "OUS"):
        return f"is {found.dtype}, expected {expected.dtype}"
    if expected.dtype.kind in "OUS":
        return "" if expected.tolist() == found.tolist() else f"is {found.tolist()}, expected {expected.tolist()}"
    if expected.dtype.kind in "iub":
        return "" if np.array_equal(expected, found) else f"is {found.ravel()[:8]}, expected {expected.ravel()[:8]}"
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    e, f = expected.astype(wide), found.astype(wide)
    coarse = expected.dtype.itemsize < 4
    largest = np.abs(e[np.isfinite(e)]).max(initial=1)
    if np.allclose(f, e, rtol=2e-2 if coarse else RTOL, atol=2e-2 if coarse else ATOL * largest, equal_nan=True):
        return ""
    return f"is {f.ravel()[:8]}, expected {e.ravel()[:8]}"


class Slip(Exception):
    """Something else than the library's own exception."""


class Runs:
    """Executes variants; what it finds of a way is (way, kind, text). Kinds: same, refused and differs (as ONNX Runtime has it), both refuse,
    undecided (ONNX Runtime refuses it, or is listed above), apart (the cpu runtime is not as the interpreter)."""

    def __init__(self, package, optimize):
        sys.path.insert(0, package)
        import onnxruntime
        import rewright

        self.rewright, self.optimize = rewright, optimize
        self.options = onnxruntime.SessionOptions()
        self.options.log_severity_level = 4
        self.options.intra_op_num_threads = 1
        self.runtime = onnxruntime
        self.own = rewright.SessionOptions()
        self.own.intra_op_num_threads = 1

    def peer(self, data, inputs):
        try:
            return self.runtime.InferenceSession(data, self.options, providers=["CPUExecutionProvider"]).run(None, inputs), ""
        except Exception as error:  # several unrelated types
            return None, str(error)

    def executed(self, data, inputs, device):
        try:
            return self.rewright.InferenceSession(data, self.own, device=device).run(None, inputs), ""
        except self.rewright.Error as error:
            return None, str(error)
        except Exception as error:
            raise Slip(f"raises {type(error).__name__}: {error}") from error

    def optimized(self, data, inputs):
        try:
            result = self.rewright.optimize(data, device="cpu", estimate=True, check=0, budget=1, threads=1)
        except self.rewright.Error as error:
            return None, str(error)
        return self.executed(result.serialize(), inputs, "cpu")

    def __call__(self, variant, begun):
        data = variant.model.SerializeToString()
        begun("onnxruntime")
        expected, objection = (None, "ends the process") if variant.ends_peer else self.peer(data, variant.inputs)
        begun("reference")
        judge, refusal = self.executed(data, variant.inputs, "reference")
        found = [self.judged("reference", variant, expected, objection, judge, refusal)]
        begun("cpu")
        results, refusal = self.executed(data, variant.inputs, "cpu")
        found.append(self.judged("cpu", variant, expected, objection, results, refusal))
        if (judge is None) != (results is None):
            found.append(("cpu", "apart", refusal or "takes what the interpreter refuses"))
        elif judge is not None and (wrong := difference(list(judge), list(results))):
            found.append(("cpu", "apart", wrong))
        if self.optimize and expected is not None:
            begun("optimize")
            found.append(self.judged("optimize", variant, expected, objection, *self.optimized(data, variant.inputs)))
        return found

    @staticmethod
    def judged(way, variant, expected, objection, results, refusal):
        if expected is None:
            return way, "both refuse" if results is None else "undecided", objection
        wrong = "" if results is None else difference(list(expected), list(results))
        if results is not None and not wrong:
            return way, "same", ""
        kind = "refused" if results is None else "differs"
        return way, "undecided" if is_undecided(variant, refusal or wrong) else kind, refusal or wrong


def with_attributes(node):
    """Attention is_causal=1 scale=0.5"""
    values = ((a.name, onnx.helper.get_attribute_value(a)) for a in node.attribute)
    return " ".join([node.op_type, *(f"{name}={v.decode() if isinstance(v, bytes) else v}" for name, v in values if isinstance(v, (int, float, bytes)))])


def is_undecided(variant, text):
    graph = variant.model.graph
    empty = any(v.size == 0 for v in variant.inputs.values()) or any(0 in t.dims for t in graph.initializer)
    return any(
        any(re.fullmatch(operators, said_of) for said_of in (node.op_type, with_attributes(node))) and (empty or not needs_empty) and re.fullmatch(said, " ".join(text.split()))
        for operators, needs_empty, said, _ in UNDECIDED
        for node in graph.node
    )


def work(package, optimize, variants, queue):
    """In a process of its own: says what is begun and what was found."""
    try:
        runs = Runs(package, optimize)
        for number, variant in variants:
            try:
                found = runs(variant, lambda way, n=number: queue.put((n, way)))
            except Slip as slip:
                found = [("any", "crash", str(slip))]
            queue.put((number, found, None))
    except BaseException:  # noqa: BLE001: a fault of this script must not look like one of the library
        queue.put((None, None, traceback.format_exc()))


class Watched:
    """Goes through variants in a process, and in another one after each that ends it."""

    def __init__(self, package, optimize):
        self.package, self.optimize = package, optimize

    def __call__(self, variants):
        context = multiprocessing.get_context("fork")
        left = list(variants)
        while left:
            queue = context.SimpleQueue()
            process = context.Process(target=work, args=(self.package, self.optimize, left, queue))
            process.start()
            way, position = "start", 0
            while position < len(left):
                if not self.wait(queue, process):
                    break
                message = queue.get()
                if len(message) == 2:
                    way = message[1]
                    continue
                if message[2] is not None:
                    raise RuntimeError(message[2])
                yield left[position][1], message[1]
                position += 1
            if position < len(left):
                crash = f"takes more than {SECONDS} s" if process.is_alive() else f"ends the process, with status {process.exitcode}"
                process.kill()
                if way == "onnxruntime":
                    left[position][1].ends_peer = True
                else:
                    yield left[position][1], [(way, "crash", crash)]
                    position += 1
            process.join()
            left = left[position:]

    @staticmethod
    def wait(queue, process):
        """Is there a message? Not if the process has ended, or does not say anything for long."""
        for _ in range(SECONDS * 10):
            if queue._reader.poll(0.1):
                return True
            if not process.is_alive():
                return queue._reader.poll(0)
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rewright")
    parser.add_argument("build")
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--only", default="", help="cases whose names begin with this")
    parser.add_argument("--optimize", action="store_true")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    folders = sorted(f for f in options.cases.iterdir() if (f / "model.onnx").exists() and f.name.startswith(options.only))
    variants = [v for folder in folders[options.part :: options.every] for v in variants_of(folder)]
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        for number, variant in enumerate(variants):
            (options.write / f"empty_{number}.onnx").write_bytes(variant.model.SerializeToString())
        return
    counts, failures = collections.Counter(), 0
    for variant, found in Watched(os.path.join(options.build, "python"), options.optimize)(enumerate(variants)):
        for way, kind, text in found:
            counts[way, kind] += 1
            if kind in ("crash", "refused", "differs", "apart") or options.verbose:
                failures += kind in ("crash", "refused", "differs", "apart")
                print(f"{variant.name}: {way}: {kind}: {' '.join(text.split())[:300]}", flush=True)
    for (way, kind), count in sorted(counts.items()):
        print(f"{way}: {kind}: {count}")
    print(f"{len(variants)} models of {len(folders[options.part :: options.every])} cases, {failures} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
