#!/usr/bin/env python3
"""Strings are elements like others: what moves, chooses and compares them gives what ONNX Runtime gives, after `optimize` too.
Usage: strings.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import os
import subprocess
import tempfile
import unittest

from python_testing import QUICK, REWRIGHT, main, model_of, value  # says where the package is

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import rewright

WORDS = numpy.array(["", "a", "b", "Stra\u00dfe", "\u8a9e", "10", "a b", "\U0001f642"], object)


def constant(name, array):
    array = numpy.asarray(array)
    if array.dtype == object:
        return helper.make_tensor(name, TensorProto.STRING, array.shape, [text.encode() for text in array.ravel()])
    return numpy_helper.from_array(array, name)


def in_onnxruntime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)


class RandomGraph:
    """Operators on strings, each on what was there before it; shapes are known, so that each fits."""

    def __init__(self, seed, length):
        self.rng = numpy.random.default_rng(seed)
        self.nodes, self.weights, self.shapes = [], [], {}
        self.truths = []
        first = tuple(int(size) for size in self.rng.integers(1, 4, 3))
        self.feeds = {name: self.texts(first) for name in ("x", "z")}
        for name in self.feeds:
            self.shapes[name] = first
        self.add_weight(self.texts(first), first)
        for _ in range(length):
            self.grow()

    def texts(self, shape):
        return self.rng.choice(WORDS, shape)

    def add_weight(self, array, shape=None):
        name = f"w{len(self.weights)}"
        self.weights.append(constant(name, array))
        if shape is not None:
            self.shapes[name] = shape
        return name

    def ints(self, array):
        return self.add_weight(numpy.asarray(array, numpy.int64))

    def node(self, op, inputs, shape, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        if shape is not None:
            self.shapes[names[0]] = tuple(shape)
        return names

    def grow(self):
        rng = self.rng
        x = str(rng.choice(list(self.shapes)))
        shape = self.shapes[x]
        count, rank = int(numpy.prod(shape)), len(shape)
        axis = int(rng.integers(rank)) if rank else 0
        kinds = ["Identity", "Flatten", "Unsqueeze", "Expand", "Equal", "Size"]
        if rank and count and count < 200 and rank < 5:
            kinds += ["Transpose", "Concat", "Slice", "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"]
            kinds += ["Reshape", "Tile", "Split", "Squeeze", "Where", "If", "Compress", "OneHot"]
        kind = str(rng.choice(kinds))
        if kind == "Identity":
            self.node(kind, [x], shape)
        elif kind == "Reshape":
            to = [count] if rng.integers(2) else [1, count, 1]
            self.node(kind, [x, self.ints(to)], to)
        elif kind == "Flatten":
            before = int(numpy.prod(shape[:axis]))
            self.node(kind, [x], [before, int(numpy.prod(shape[axis:]))], axis=axis)
        elif kind == "Unsqueeze":
            self.node(kind, [x, self.ints([axis])], shape[:axis] + (1,) + shape[axis:])
        elif kind == "Expand":
            self.node(kind, [x, self.ints([2, *([1] * rank)])], (2, *shape))
        elif kind == "Equal":
            other = self.add_weight(self.texts(shape[-1:]))
            self.truths.append((self.node(kind, [x, other], None)[0], shape))
        elif kind == "Size":
            self.node(str(rng.choice(["Size", "Shape"])), [x], None)
        elif kind == "Transpose":
            perm = [int(a) for a in rng.permutation(rank)]
            self.node(kind, [x], [shape[a] for a in perm], perm=perm)
        elif kind == "Concat":
            same = [name for name, other in self.shapes.items() if other == shape]
            self.node(kind, [x, str(rng.choice(same))], shape[:axis] + (2 * shape[axis],) + shape[axis + 1 :], axis=axis)
        elif kind == "Slice":
            backwards = bool(rng.integers(2))
            start, end, step = (shape[axis], -shape[axis] - 1, -1) if backwards else (0, (shape[axis] + 1) // 2, 1)
            size = shape[axis] if backwards else (shape[axis] + 1) // 2
            self.node(kind, [x, *map(self.ints, ([start], [end], [axis], [step]))], shape[:axis] + (size,) + shape[axis + 1 :])
        elif kind == "Gather":
            # By the last axis alone: of more than one string an index ONNX Runtime copies the first.
            picked = rng.integers(-shape[-1], shape[-1], (2, 2))
            self.node(kind, [x, self.ints(picked)], (*shape[:-1], 2, 2), axis=-1)
        elif kind == "GatherElements":
            self.node(kind, [x, self.ints(rng.integers(0, shape[axis], shape))], shape, axis=axis)
        elif kind == "GatherND":
            rows = numpy.stack([rng.integers(0, size, 3) for size in shape], 1)
            self.node(kind, [x, self.ints(rows)], (3,))
        elif kind == "ScatterElements":
            places = numpy.argsort(rng.random(shape), axis)
            self.node(kind, [x, self.ints(places), self.add_weight(self.texts(shape))], shape, axis=axis)
        elif kind == "ScatterND":
            row = [[int(rng.integers(shape[0]))]]
            self.node(kind, [x, self.ints(row), self.add_weight(self.texts((1, *shape[1:])))], shape)
        elif kind == "Tile":
            repeats = rng.integers(1, 3, rank)
            self.node(kind, [x, self.ints(repeats)], [int(s * r) for s, r in zip(shape, repeats)])
        elif kind == "Split":
            first = shape[axis] // 2
            self.node(kind, [x, self.ints([first, shape[axis] - first])], shape[:axis] + (first,) + shape[axis + 1 :], 2, axis=axis)
        elif kind == "Squeeze":
            ones = [a for a, size in enumerate(shape) if size == 1]
            if ones:
                self.node(kind, [x, self.ints(ones)], [size for size in shape if size != 1])
        elif kind == "Where":
            fitting = [name for name, other in self.truths if other == shape]
            mask = fitting[0] if fitting else self.add_weight(rng.integers(0, 2, shape).astype(bool))
            self.node(kind, [mask, x, self.add_weight(self.texts(shape[-1:]))], shape)
        elif kind == "If":
            branch = lambda name, node: helper.make_graph([node], name, [], [value("r", TensorProto.STRING, None)])  # noqa: E731
            taken = branch("then", helper.make_node("Identity", [x], ["r"]))
            other = branch("else", helper.make_node("Transpose", [x], ["r"]))
            chosen = bool(rng.integers(2))
            condition = self.node("Equal", [self.add_weight(numpy.array("a", object)), self.add_weight(numpy.array("a" if chosen else "b", object))], None)
            self.node(kind, condition, shape if chosen else shape[::-1], then_branch=taken, else_branch=other)
        elif kind == "Compress":
            wanted = rng.integers(0, 2, shape[axis]).astype(bool)
            wanted[0] = True
            size = int(wanted.sum())
            self.node(kind, [x, self.add_weight(wanted)], shape[:axis] + (size,) + shape[axis + 1 :], axis=axis)
        elif kind == "OneHot":
            values = self.add_weight(numpy.array(["off", "on"], object))
            self.node(kind, [self.ints(rng.integers(0, 3, 2)), self.ints(3), values], (2, 3))

    def model(self):
        outputs = [value(name, TensorProto.UNDEFINED, None) for node in self.nodes for name in node.output]
        for output in outputs:
            output.ClearField("type")
        inputs = [value(name, TensorProto.STRING, list(array.shape)) for name, array in self.feeds.items()]
        return model_of(self.nodes, inputs, outputs, self.weights, opset=19)


class Strings(unittest.TestCase):
    def same(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for mine, theirs in zip(found, expected):
            if isinstance(theirs, list):
                self.same(mine, theirs)
                continue
            self.assertEqual((mine.dtype, mine.shape), (theirs.dtype, theirs.shape))
            numpy.testing.assert_array_equal(mine, theirs)

    def both(self, model, feeds):
        expected = in_onnxruntime(model, feeds)
        for device in ("cpu", "reference"):
            self.same(rewright.InferenceSession(model, device=device).run(None, feeds), expected)
        return expected

    def test_random_graphs(self):
        for seed in range(60):
            graph = RandomGraph(seed, 12)
            with self.subTest(seed=seed, operators=[node.op_type for node in graph.nodes]):
                self.both(graph.model(), graph.feeds)

    def test_optimized_graphs(self):
        changed = 0
        for seed in range(100, 115):
            graph = RandomGraph(seed, 10)
            model = graph.model()
            for options in (QUICK, {**QUICK, "device": "onnxruntime", "check": 1}) if seed < 102 else (QUICK,):
                with self.subTest(seed=seed, operators=[node.op_type for node in graph.nodes], options=options):
                    result = rewright.optimize(model, **options)
                    written = result.model
                    changed += len(written.graph.node) != len(model.graph.node)
                    self.same(in_onnxruntime(written, graph.feeds), in_onnxruntime(model, graph.feeds))
        self.assertGreater(changed, 3)

    def test_constants_are_outputs(self):
        texts = numpy.array([["a", ""], ["\u00e4", "b"]], object)
        nodes = [
            helper.make_node("Constant", [], ["c"], value=constant("", texts)),
            helper.make_node("Constant", [], ["d"], value_string="one"),
            helper.make_node("Constant", [], ["e"], value_strings=["one", "two"]),
            helper.make_node("Gather", ["w", "i"], ["g"], axis=1),
        ]
        outputs = [value(name, TensorProto.STRING, shape) for name, shape in (("w", [2, 2]), ("c", [2, 2]), ("d", []), ("e", [2]), ("g", [2]))]
        model = model_of(nodes, [], outputs, [constant("w", texts), constant("i", numpy.array(1))])
        found = self.both(model, {})
        self.assertEqual([array.tolist() for array in found[:3]], [texts.tolist(), texts.tolist(), "one"])
        written = rewright.optimize(model, **QUICK).model
        self.same(in_onnxruntime(written, {}), found)

    def test_numbers_are_written_and_read(self):
        rng = numpy.random.default_rng(1)
        reals = numpy.concatenate([rng.normal(size=50) * 10.0 ** rng.integers(-12, 12, 50), [0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 1e30]])
        for type in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.INT64, TensorProto.UINT64, TensorProto.BOOL):
            dtype = helper.tensor_dtype_to_np_dtype(type)
            with numpy.errstate(over="ignore", invalid="ignore"):
                x = (reals if numpy.issubdtype(dtype, numpy.floating) else rng.integers(-1000, 1000, 30)).astype(dtype)
            with self.subTest(TensorProto.DataType.Name(type)):
                written = helper.make_node("Cast", ["x"], ["s"], to=TensorProto.STRING)
                read = helper.make_node("Cast", ["s"], ["y"], to=type)
                types = [value("s", TensorProto.STRING, [len(x)]), value("y", type, [len(x)])]
                self.both(model_of([written, read], [value("x", type, [len(x)])], types), {"x": x})
        read = helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT)
        model = model_of([read], [value("s", TensorProto.STRING, ["n"])], [value("y", TensorProto.FLOAT, ["n"])])
        self.both(model, {"s": numpy.array(["1", "-5.7", "1e3", "NaN", "nan", "INF", "+inf", "-INF", " 7", "12abc", "0x10"], object)})
        with self.assertRaisesRegex(rewright.Error, '"abc" does not begin with a number'):
            rewright.InferenceSession(model).run(None, {"s": ["abc"]})

    def test_rows_of_strings(self):
        x = numpy.array([["a", "b"], ["c", "d"]], object)
        model = model_of(
            [helper.make_node("Gather", ["x", "i"], ["y"])],
            [value("x", TensorProto.STRING, [2, 2])],
            [value("y", TensorProto.STRING, [3, 2])],
            [constant("i", numpy.array([1, 0, -1]))],
        )
        for device in ("cpu", "reference"):
            self.same(rewright.InferenceSession(model, device=device).run(None, {"x": x}), [x[[1, 0, -1]]])

    def test_pads(self):
        """ONNX Runtime has no Pad of strings."""
        x = numpy.array([["a", "b"], ["c", "d"]], object)
        pads = constant("p", numpy.array([1, 0, 0, 1]))
        for fill in ("", "?"):
            node = helper.make_node("Pad", ["x", "p", "f"] if fill else ["x", "p"], ["y"])
            weights = [pads, constant("f", numpy.array(fill, object))] if fill else [pads]
            model = model_of([node], [value("x", TensorProto.STRING, [2, 2])], [value("y", TensorProto.STRING, [3, 3])], weights)
            for device in ("cpu", "reference"):
                y = rewright.InferenceSession(model, device=device).run(None, {"x": x})[0]
                self.assertEqual(y.tolist(), [[fill] * 3, ["a", "b", fill], ["c", "d", fill]])

    def test_unique_sequences_and_loops(self):
        x = WORDS[[3, 1, 1, 0, 4, 3]]
        node = helper.make_node("Unique", ["x"], ["y", "first", "which", "count"])
        outputs = [value("y", TensorProto.STRING, None)] + [value(name, TensorProto.INT64, None) for name in ("first", "which", "count")]
        inputs = [value("x", TensorProto.STRING, [6])]
        self.both(model_of([node], inputs, outputs), {"x": x})
        nodes = [
            helper.make_node("SplitToSequence", ["x"], ["s"]),
            helper.make_node("SequenceAt", ["s", "i"], ["a"]),
            helper.make_node("SequenceInsert", ["s", "x"], ["t"]),
            helper.make_node("ConcatFromSequence", ["t"], ["y"], axis=0),
        ]
        outputs = [value("a", TensorProto.STRING, None), value("y", TensorProto.STRING, None)]
        self.both(model_of(nodes, inputs, outputs, [constant("i", numpy.array(2))]), {"x": x})
        body = helper.make_graph(
            [
                helper.make_node("Identity", ["go"], ["still"]),
                helper.make_node("Concat", ["all", "x"], ["more"], axis=0),
                helper.make_node("Gather", ["x", "n"], ["one"]),
            ],
            "body",
            [value("n", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("all", TensorProto.STRING, None)],
            [value("still", TensorProto.BOOL, []), value("more", TensorProto.STRING, None), value("one", TensorProto.STRING, None)],
        )
        loop = helper.make_node("Loop", ["trips", "", "x"], ["y", "each"], body=body)
        outputs = [value("y", TensorProto.STRING, None), value("each", TensorProto.STRING, None)]
        self.both(model_of([loop], inputs, outputs, [constant("trips", numpy.array(3))]), {"x": x})

    def test_kinds_of_arrays(self):
        node = helper.make_node("Identity", ["x"], ["y"])
        session = rewright.InferenceSession(model_of([node], [value("x", TensorProto.STRING, ["n"])], [value("y", TensorProto.STRING, ["n"])]))
        for given, expected in (
            (numpy.array(["a", "\u00e4"]), ["a", "\u00e4"]),
            (numpy.array([b"a", b"bc"]), ["a", "bc"]),
            (numpy.array([b"ab", b"c\0"], "V3"), ["ab\0", "c\0\0"]),
            (numpy.array(["a\0", "b"], object), ["a\0", "b"]),
            (["a", "b"], ["a", "b"]),
        ):
            y = session.run(None, {"x": given})[0]
            self.assertEqual((y.dtype, y.tolist()), (numpy.dtype(object), expected))

    def test_a_million_strings(self):
        """Their operators cost no more a string than some dozens of those on numbers."""
        nodes = [helper.make_node("Gather", ["x", "i"], ["g"]), helper.make_node("Concat", ["g", "x"], ["y"], axis=0)]
        size = 1_000_000
        model = model_of(
            nodes,
            [value("x", TensorProto.STRING, [size]), value("i", TensorProto.INT64, [size])],
            [value("y", TensorProto.STRING, [2 * size])],
        )
        x = numpy.array([f"word {i}" for i in range(size)], object)
        i = numpy.random.default_rng(0).integers(0, size, size)
        y = rewright.InferenceSession(model).run(None, {"x": x, "i": i})[0]
        self.assertTrue((y[:size] == x[i]).all() and (y[size:] == x).all())

    def test_the_program(self):
        graph = RandomGraph(4, 8)
        model = graph.model()
        with tempfile.TemporaryDirectory() as folder:
            path = lambda name: os.path.join(folder, name)  # noqa: E731
            onnx.save(model, path("model.onnx"))
            given = []
            for name, array in graph.feeds.items():
                numpy.save(path(f"{name}.npy"), array.astype(str))
                given += ["--input", f"{name}={path(name)}.npy"]
            run = lambda *arguments: subprocess.run([REWRIGHT, *arguments], check=True, capture_output=True, text=True)  # noqa: E731
            run("run", path("model.onnx"), *given, "--output-dir", path("out"))
            names = [name for node in model.graph.node for name in node.output]
            for name, expected in zip(names, in_onnxruntime(model, graph.feeds)):
                if expected.dtype == object:
                    found = onnx.load_tensor(path(f"out/{name}.pb"))
                    self.assertEqual([text.decode() for text in found.string_data], expected.ravel().tolist())
                else:
                    numpy.testing.assert_array_equal(numpy.load(path(f"out/{name}.npy")), expected)
            run("optimize", path("model.onnx"), "-o", path("faster.onnx"), "--device", "cpu", "--estimate", "--check", "2")
            run("compare", path("model.onnx"), path("faster.onnx"), "--runs", "2")


if __name__ == "__main__":
    main()
