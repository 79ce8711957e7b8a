"""Models that ONNX Runtime accepts: python as_onnxruntime.py REWRIGHT BUILD [UNITTEST-ARGUMENTS]

What exporters write and the specification leaves open, or forbids: axes of scalars, integers of 64 bits up to their ends, operators of
domains that only the model imports, empty weights. The interpreter, the cpu runtime and the optimized model must give what ONNX Runtime
gives, bit for bit where elements are integers. And what neither executes must be refused when a session is made.
"""

import unittest

import numpy
from beside_onnxruntime import Case, constant, of_type, onnxruntime, open_value
from onnx import TensorProto, helper
from python_testing import QUICK, main, model_of, value

import rewright

INT64 = numpy.iinfo(numpy.int64)
# Beside 2^53, beside the ends, and where halves of a product overflow.
EXTREME = numpy.array([0, 1, -1, 2, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, INT64.max, INT64.max - 1, INT64.min, INT64.min + 1, 3 << 33, 5], numpy.int64)


class Scalars(Case):
    def test_reductions(self):
        reductions = ("Sum", "Mean", "Max", "Min", "Prod", "SumSquare", "L1", "L2", "LogSum", "LogSumExp")
        for name in reductions:
            for axis in (0, -1):
                for keep in (0, 1):
                    with self.subTest(name=name, axis=axis, keepdims=keep):
                        x = {"x": numpy.array(3.5, numpy.float32)}
                        self.one(f"Reduce{name}", x, {"axes": numpy.array([axis])}, keepdims=keep, optimize=keep == 1)
                        if name not in ("Max", "Min"):
                            self.one(f"Reduce{name}", x, opset=11, axes=[axis], keepdims=keep, optimize=False)

    def test_places(self):
        for name in ("ArgMax", "ArgMin"):
            for axis in (0, -1):
                for keep in (0, 1):
                    self.one(name, {"x": numpy.array(-2, numpy.float32)}, axis=axis, keepdims=keep)

    def test_any_and_all(self):
        """The nodes that torch exports for any() and all()."""
        for name in ("ReduceMax", "ReduceMin"):
            nodes = [
                helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
                helper.make_node(name, ["i", "axes"], ["r"], keepdims=0),
                helper.make_node("Cast", ["r"], ["y"], to=TensorProto.BOOL),
            ]
            model = model_of(nodes, [open_value("x", TensorProto.BOOL)], [open_value("y", TensorProto.BOOL)], [constant("axes", numpy.array([-1]))], opset=20)
            for truth in (False, True):
                self.check(model, {"x": numpy.array(truth)})


class WideIntegers(Case):
    def test_filled(self):
        for number in (INT64.min, INT64.max, 2**53 + 1, -(2**53) - 1, 2**53, 7):
            self.one("ConstantOfShape", {"s": numpy.array([2, 3])}, value=constant("v", numpy.array([number])))
            self.one("ConstantOfShape", {}, {"s": numpy.array([2, 3])}, value=constant("v", numpy.array([number])))
        self.one("ConstantOfShape", {}, {"s": numpy.array([2])}, value=constant("v", numpy.array([2**64 - 1], numpy.uint64)))

    def test_as_scatter_reduce_is_exported(self):
        nodes = [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("ConstantOfShape", ["s"], ["c"], value=constant("v", numpy.array([INT64.min]))),
            helper.make_node("ScatterElements", ["c", "i", "u"], ["r"], axis=0, reduction="max"),
            helper.make_node("Max", ["r", "x"], ["y"]),
        ]
        i64 = TensorProto.INT64
        model = model_of(nodes, [value("x", i64, ["n"]), value("i", i64, ["m"]), value("u", i64, ["m"])], [value("y", i64, ["n"]), value("r", i64, ["n"])], opset=20)
        self.check(model, {"x": EXTREME[:4], "i": numpy.array([0, 2, 2]), "u": numpy.array([INT64.max, INT64.min + 1, INT64.min])})

    def test_elementwise(self):
        a, b = (g.copy() for g in numpy.meshgrid(EXTREME, EXTREME, indexing="ij"))
        for name in ("Add", "Sub", "Mul", "Min", "Max", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            with self.subTest(name=name):
                self.one(name, {"a": a, "b": b}, declared=True)
                self.one(name, {"a": a}, {"b": EXTREME}, declared=True)
                self.one(name, {}, {"a": a, "b": b})
        for name in ("Div", "Mod"):
            divisors = EXTREME[(EXTREME != 0) & (EXTREME != -1)]
            a, b = (g.copy() for g in numpy.meshgrid(EXTREME, divisors, indexing="ij"))
            with self.subTest(name=name):
                self.one(name, {"a": a, "b": b}, declared=True)
                self.one(name, {"a": a}, {"b": divisors}, declared=True)
        for name in ("Neg", "Abs", "Sign", "BitwiseNot"):
            x = EXTREME[EXTREME != INT64.min] if name == "Abs" else EXTREME
            with self.subTest(name=name):
                self.one(name, {"x": x}, declared=True)

    def test_what_bounds_moves_and_reduces(self):
        x = EXTREME.reshape(2, 7)
        self.one("Clip", {"x": x}, {"low": numpy.array(-(2**53) - 1), "high": numpy.array(2**53 + 1)}, declared=True)
        self.one("Clip", {"x": x}, {"low": numpy.array(INT64.min + 1), "high": numpy.array(INT64.max - 1)}, declared=True)
        self.one("Pad", {"x": x}, {"pads": numpy.array([0, 1, 1, 0]), "value": numpy.array(INT64.min)}, declared=True)
        self.one("Pad", {"x": x}, {"pads": numpy.array([0, 1, 1, 0]), "value": numpy.array(2**53 + 1)}, declared=True)
        self.one("Where", {"c": x > 0, "x": x}, {"y": numpy.array(INT64.max)}, declared=True)
        self.one("OneHot", {"i": numpy.array([0, 2])}, {"depth": numpy.array(3), "values": numpy.array([INT64.min, INT64.max])}, declared=True)
        self.one("CumSum", {"x": EXTREME}, {"axis": numpy.array(0)}, declared=True)
        self.one("TopK", {"x": EXTREME}, {"k": numpy.array([9])}, outputs=2, declared=True)
        self.one("ArgMax", {"x": EXTREME}, declared=True, axis=0)
        self.one("Unique", {"x": EXTREME}, outputs=4, declared=True)
        self.one("NonZero", {"x": x}, declared=True)
        for name in ("ReduceMax", "ReduceMin"):
            self.one(name, {"x": x}, {"axes": numpy.array([1])}, declared=True)
        for name in ("Transpose", "Identity", "Flatten"):
            self.one(name, {"x": x}, declared=True)
        for reduction in ("add", "max", "min", "mul"):
            self.one("ScatterElements", {"x": EXTREME, "i": numpy.array([1, 1, 3]), "u": EXTREME[-3:]}, declared=True, reduction=reduction)

    def test_sums_and_products(self):
        """ONNX Runtime 1.31 computes them in doubles; NumPy does not."""
        x = EXTREME.reshape(2, 7)
        for name, expected in (("ReduceSum", x.sum(axis=1)), ("ReduceProd", x[:, 1:3].prod(axis=1))):
            node = helper.make_node(name, ["x", "axes"], ["y"], keepdims=0)
            given = x if name == "ReduceSum" else x[:, 1:3]
            model = model_of([node], [value("x", TensorProto.INT64, given.shape)], [value("y", TensorProto.INT64, [2])], [constant("axes", numpy.array([1]))])
            for device in ("reference", "cpu"):
                found = rewright.InferenceSession(model.SerializeToString(), device=device).run(None, {"x": given})[0]
                numpy.testing.assert_array_equal(found, expected)

    def test_ranges(self):
        """ONNX Runtime 1.31 counts their elements in doubles; Python does not."""
        for bounds in ((2**53 + 1, 2**53 + 9, 2), (INT64.min, INT64.min + 3, 1), (INT64.max, INT64.max - 5, -2)):
            for known in (True, False):
                feeds = dict(zip("abc", map(numpy.array, map(int, bounds)), strict=True))
                weights = [constant(n, a) for n, a in feeds.items()] if known else []
                inputs = [] if known else [value(n, TensorProto.INT64, []) for n in feeds]
                data = model_of([helper.make_node("Range", list(feeds), ["y"])], inputs, [value("y", TensorProto.INT64, ["n"])], weights)
                for device in ("reference", "cpu"):
                    found = rewright.InferenceSession(data.SerializeToString(), device=device).run(None, {} if known else feeds)[0]
                    self.assertEqual(found.tolist(), list(range(*map(int, bounds))))

    def test_casts(self):
        exact = EXTREME[numpy.abs(EXTREME.astype(object)) <= 2**53]
        for to in (TensorProto.INT64, TensorProto.INT32, TensorProto.UINT64, TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.FLOAT):
            self.one("Cast", {"x": exact if to == TensorProto.DOUBLE else EXTREME}, declared=True, to=to)

    def test_constants_are_cast(self):
        x = numpy.linspace(-5, 5, 10, dtype=numpy.float32)
        for to in (TensorProto.FLOAT4E2M1, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT4, TensorProto.INT64):
            for shape in ((10,), (2, 5), (5, 1, 2)):
                node, weight = helper.make_node("Cast", ["x"], ["y"], to=to), constant("x", x.reshape(shape))
                data = model_of([node], [], [helper.make_empty_tensor_value_info("y")], [weight], opset=23).SerializeToString()
                expected, found = (rewright.InferenceSession(data, device=d).run(None, {})[0].astype(numpy.float32) for d in ("reference", "cpu"))
                numpy.testing.assert_array_equal(found, expected, f"{to} {shape}")

    def test_products(self):
        a, b = EXTREME.reshape(2, 7), EXTREME.reshape(7, 2)
        self.one("MatMul", {"a": a, "b": b}, declared=True)
        self.one("MatMul", {"a": a}, {"b": b}, declared=True)

    def test_unsigned(self):
        """Numbers from 2^63 on are larger than those below, in whatever asks for an order, a quotient or a real."""
        a = numpy.array([0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2, 10, 2**63 + 2**40], numpy.uint64)
        x, y = (g.ravel() for g in numpy.meshgrid(a, a))
        whole = numpy.where(y == 0, 1, y)
        reals = numpy.array([0, 1.5, 2.0**53, 2.0**63, 2.0**64 - 2.0**11, 1e19])
        expected = {
            ("Less", "x", "y"): x < y,
            ("LessOrEqual", "x", "y"): x <= y,
            ("Greater", "x", "y"): x > y,
            ("GreaterOrEqual", "x", "y"): x >= y,
            ("Max", "x", "y"): numpy.maximum(x, y),
            ("Min", "x", "y"): numpy.minimum(x, y),
            ("Div", "x", "whole"): x // whole,
            ("Mod", "x", "whole"): x % whole,
            ("Clip", "x", "low", "high"): numpy.clip(x, 5, 2**63 + 5),
            ("ReduceMax", "x"): x.max(keepdims=True),
            ("ReduceMin", "x"): x.min(keepdims=True),
            ("ArgMax", "x"): x.argmax(keepdims=True),
            ("ArgMin", "x"): x.argmin(keepdims=True),
            ("TopK", "x", "k"): numpy.sort(x)[::-1][:30],
            ("Cast", "x"): x.astype(numpy.float64),
            ("Cast", "reals"): reals.astype(numpy.uint64),
        }
        feeds = {"x": x, "y": y, "whole": whole, "reals": reals, "low": numpy.uint64(5), "high": numpy.uint64(2**63 + 5), "k": numpy.array([30])}
        for (type, *names), result in expected.items():
            with self.subTest(type=type, names=names):
                to = {"to": TensorProto.UINT64 if names == ["reals"] else TensorProto.DOUBLE} if type == "Cast" else {}
                outputs = ["z", "places"] if type == "TopK" else ["z"]
                node = helper.make_node(type, names, outputs, **to)
                inputs = [value(n, of_type(feeds[n]), numpy.shape(feeds[n])) for n in names]
                graph = helper.make_graph([node], "unsigned", inputs, [helper.make_empty_tensor_value_info(o) for o in outputs])
                data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
                for device in ("reference", "cpu"):
                    found = rewright.InferenceSession(data, device=device).run(None, {n: feeds[n] for n in names})[0]
                    numpy.testing.assert_array_equal(found, result, device)

    def test_chains_are_computed_in_integers(self):
        x = EXTREME
        nodes = [
            helper.make_node("Mul", ["x", "m"], ["p"]),
            helper.make_node("Mul", ["p", "m"], ["q"]),
            helper.make_node("Add", ["q", "a"], ["r"]),
            helper.make_node("Sub", ["r", "a"], ["s"]),
            helper.make_node("Max", ["s", "a"], ["y"]),
        ]
        weights = [constant("m", numpy.array(3 << 40)), constant("a", numpy.array(2**53 + 1))]
        model = model_of(nodes, [value("x", TensorProto.INT64, x.shape)], [value(n, TensorProto.INT64, x.shape) for n in "qsy"], weights, opset=20)
        self.check(model, {"x": x})


class Domains(Case):
    """Bodies and functions use a domain that the model imports."""

    def setUp(self):
        self.learned = helper.make_opsetid("ai.onnx.ml", 3)
        self.scaled = lambda x, y: helper.make_node("Scaler", [x], [y], domain="ai.onnx.ml", offset=[0.5], scale=[2.0])

    def model(self, nodes, inputs, functions=()):
        outputs = [open_value("y", TensorProto.FLOAT)]
        imports = [helper.make_opsetid("", 18), self.learned, helper.make_opsetid("local", 1)]
        graph = helper.make_graph(nodes, "domains", inputs, outputs)
        return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=9)

    def test_branches(self):
        def branch(name, node):
            return helper.make_graph([node], name, [], [open_value(node.output[0], TensorProto.FLOAT)])

        then, other = branch("then", self.scaled("x", "t")), branch("else", helper.make_node("Neg", ["x"], ["e"]))
        node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
        model = self.model([node], [value("c", TensorProto.BOOL, []), value("x", TensorProto.FLOAT, [2, 3])])
        for truth in (True, False):
            self.check(model, {"c": numpy.array(truth), "x": numpy.ones((2, 3), numpy.float32)})

    def function(self, nodes, imports):
        return helper.make_function("local", "twice", ["x"], ["y"], nodes, [helper.make_opsetid(*i) for i in imports])

    def test_functions(self):
        x = {"x": numpy.arange(6, dtype=numpy.float32).reshape(2, 3)}
        call = helper.make_node("twice", ["x"], ["y"], domain="local")
        nodes = [self.scaled("x", "s"), helper.make_node("Add", ["s", "s"], ["y"])]
        for imports in ([("", 18), ("ai.onnx.ml", 3)], [("", 18)]):
            data = self.model([call], [value("x", TensorProto.FLOAT, [2, 3])], [self.function(nodes, imports)]).SerializeToString()
            for session in (rewright.InferenceSession(data), rewright.optimize(data, **QUICK).session()):  # ONNX Runtime 1.31 refuses the second
                numpy.testing.assert_array_equal(session.run(None, x)[0], 4 * (x["x"] - 0.5))

    def test_loops_in_functions(self):
        body = helper.make_graph(
            [self.scaled("v", "w"), helper.make_node("Identity", ["k"], ["l"])],
            "body",
            [value("i", TensorProto.INT64, []), value("k", TensorProto.BOOL, []), open_value("v", TensorProto.FLOAT)],
            [value("l", TensorProto.BOOL, []), open_value("w", TensorProto.FLOAT)],
        )
        nodes = [
            helper.make_node("Constant", [], ["n"], value_int=3),
            helper.make_node("Constant", [], ["true"], value=constant("t", numpy.array(True))),
            helper.make_node("Loop", ["n", "true", "x"], ["y"], body=body),
        ]
        call = helper.make_node("twice", ["x"], ["y"], domain="local")
        model = self.model([call], [value("x", TensorProto.FLOAT, [2, 3])], [self.function(nodes, [("", 18), ("ai.onnx.ml", 3)])])
        self.check(model, {"x": numpy.ones((2, 3), numpy.float32)})


class Loops(Case):
    """Results that loops without iterations stack have the types of their bodies."""

    def body(self, type):
        add = helper.make_node("Add", ["v", "v"], ["w"])
        parts = [helper.make_node("Identity", ["w"], ["s"]), helper.make_node("Cast", ["w"], ["t"], to=TensorProto.INT64)]
        results = [value("w", type, [2, 3]), value("s", type, [2, 3]), value("t", TensorProto.INT64, [2, 3])]
        return [add, *parts], results

    def test_loop(self):
        nodes, results = self.body(TensorProto.DOUBLE)
        nodes.append(helper.make_node("Identity", ["k"], ["l"]))
        inputs = [value("i", TensorProto.INT64, []), value("k", TensorProto.BOOL, []), value("v", TensorProto.DOUBLE, [2, 3])]
        body = helper.make_graph(nodes, "body", inputs, [value("l", TensorProto.BOOL, []), *results])
        loop = helper.make_node("Loop", ["n", "go", "x"], ["y", "s", "t"], body=body)
        inputs = [value("n", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("x", TensorProto.DOUBLE, [2, 3])]
        model = model_of([loop], inputs, [helper.make_empty_tensor_value_info(n) for n in "yst"], opset=20)
        for n, go in ((0, True), (2, False), (2, True)):
            self.check(model, {"n": numpy.array(n), "go": numpy.array(go), "x": numpy.ones((2, 3))})

    def test_scan(self):
        nodes, results = self.body(TensorProto.FLOAT)
        nodes[0] = helper.make_node("Add", ["v", "e"], ["w"])
        inputs = [value("v", TensorProto.FLOAT, [2, 3]), value("e", TensorProto.FLOAT, [2, 3])]
        body = helper.make_graph(nodes, "body", inputs, results)
        scan = helper.make_node("Scan", ["x", "z"], ["y", "s", "t"], body=body, num_scan_inputs=1, scan_output_axes=[0, 1])
        inputs = [value("x", TensorProto.FLOAT, [2, 3]), value("z", TensorProto.FLOAT, ["n", 2, 3])]
        model = model_of([scan], inputs, [helper.make_empty_tensor_value_info(n) for n in "yst"], opset=20)
        feeds = {n: {"x": numpy.ones((2, 3), numpy.float32), "z": numpy.ones((n, 2, 3), numpy.float32)} for n in (0, 1, 3)}
        for n in (1, 3):
            self.check(model, feeds[n])
        for device in ("reference", "cpu"):  # ONNX Runtime 1.31 takes no scan of nothing
            y, s, t = rewright.InferenceSession(model.SerializeToString(), device=device).run(None, feeds[0])
            numpy.testing.assert_array_equal(y, feeds[0]["x"])
            self.assertEqual((s.shape, s.dtype, t.shape, t.dtype), ((0, 2, 3), numpy.float32, (2, 0, 3), numpy.int64))

    def test_scan_of_batches(self):
        """Before opset 9: a batch axis first, and a length for each batch, behind which results are zeros."""
        nodes, results = self.body(TensorProto.FLOAT)
        nodes[0] = helper.make_node("Add", ["v", "e"], ["w"])
        nodes.pop()
        inputs = [value("v", TensorProto.FLOAT, [2, 3]), value("e", TensorProto.FLOAT, [2, 3])]
        body = helper.make_graph(nodes, "body", inputs, results[:2])
        inputs = [value("x", TensorProto.FLOAT, ["b", 2, 3]), value("z", TensorProto.FLOAT, ["b", "n", 2, 3])]
        outputs = [helper.make_empty_tensor_value_info(n) for n in "ys"]
        whole = model_of([helper.make_node("Scan", ["", "x", "z"], ["y", "s"], body=body, num_scan_inputs=1)], inputs, outputs, opset=8)
        scan = helper.make_node("Scan", ["lengths", "x", "z"], ["y", "s"], body=body, num_scan_inputs=1)
        cut = model_of([scan], [value("lengths", TensorProto.INT64, ["b"]), *inputs], outputs, opset=8)
        random = numpy.random.default_rng(0)
        for lengths, steps in (((3, 3), 3), ((0, 0), 0), ((1, 3), 3), ((4, 2), 5), ((0, 2), 3)):
            shapes = {"x": (2, 2, 3), "z": (2, steps, 2, 3)}
            feeds = {name: random.normal(size=shape).astype(numpy.float32) for name, shape in shapes.items()}
            if steps > 0:  # ONNX Runtime leaves the state unwritten where there are none, and takes no length of 0
                self.check(whole, feeds)
            if 0 not in lengths:
                self.check(cut, {"lengths": numpy.array(lengths), **feeds})
            for device in ("reference", "cpu"):
                given = {"lengths": numpy.array(lengths), **feeds}
                y, s = rewright.InferenceSession(cut.SerializeToString(), device=device).run(None, given)
                self.assertEqual(s.shape, (2, steps, 2, 3))
                sums = feeds["x"][:, None] + numpy.cumsum(feeds["z"], axis=1)
                for b, length in enumerate(lengths):
                    numpy.testing.assert_allclose(y[b], sums[b, length - 1] if length else feeds["x"][b], 1e-5)
                    numpy.testing.assert_allclose(s[b, :length], sums[b, :length], 1e-5)
                    self.assertFalse(s[b, length:].any())


class EmptyWeights(Case):
    """Empty adapters: weights of sizes [0, n] and [n, 0]."""

    def test_products(self):
        random = numpy.random.default_rng(0)
        x = random.normal(size=(3, 4)).astype(numpy.float32)
        empty = numpy.zeros((0, 4), numpy.float32)
        for weight in (empty, empty.T.copy()):
            x_of_weight = {"x": numpy.zeros((3, weight.shape[0]), numpy.float32)}
            self.one("MatMul", x_of_weight, {"w": weight})
            self.one("Gemm", x_of_weight, {"w": weight, "c": numpy.ones(weight.shape[1], numpy.float32)})
            self.one("Einsum", x_of_weight, {"w": weight}, equation="ij,jk->ik")
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["base"]),
            helper.make_node("MatMul", ["x", "down"], ["inner"]),
            helper.make_node("MatMul", ["inner", "up"], ["added"]),
            helper.make_node("Add", ["base", "added"], ["y"]),
        ]
        weights = [constant("w", random.normal(size=(4, 5)).astype(numpy.float32)), constant("down", empty.T.copy()), constant("up", numpy.zeros((0, 5), numpy.float32))]
        f32 = TensorProto.FLOAT
        self.check(model_of(nodes, [value("x", f32, [3, 4])], [value("y", f32, [3, 5])], weights, opset=20), {"x": x})

    def test_an_empty_list_of_pieces_is_none(self):
        for opset, size in ((13, 4), (13, 0), (18, 6), (18, 0)):
            with self.subTest(opset=opset, size=size):
                x = {"x": numpy.arange(2 * size, dtype=numpy.float32).reshape(2, size)}
                self.one("Split", x, {"sizes": numpy.zeros(0, numpy.int64)}, outputs=2, opset=opset, axis=1)
                self.one("Split", x | {"sizes": numpy.zeros(0, numpy.int64)}, outputs=2, opset=opset, axis=1, optimize=False)

    def test_an_empty_list_of_lengths_is_none(self):
        """Each part of the sequence is a single row then."""
        for size in (0, 3):
            parts = helper.make_node("SplitToSequence", ["x", "lengths"], ["parts"])
            nodes = [parts, helper.make_node("SequenceLength", ["parts"], ["y"])]
            inputs = [value("x", TensorProto.FLOAT, [size, 2]), value("lengths", TensorProto.INT64, [0])]
            model = model_of(nodes, inputs, [value("y", TensorProto.INT64, [])], opset=20)
            self.check(model, {"x": numpy.ones((size, 2), numpy.float32), "lengths": numpy.zeros(0, numpy.int64)})

    def test_indices_without_entries(self):
        """Each names the whole of its batch."""
        x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
        for batch_dims, shape in ((0, (4, 0)), (0, (0, 0)), (1, (2, 0)), (1, (2, 3, 0))):
            with self.subTest(batch_dims=batch_dims, shape=shape):
                self.one("GatherND", {"x": x}, {"indices": numpy.zeros(shape, numpy.int64)}, declared=True, batch_dims=batch_dims)

    def test_range_of_zeros(self):
        for x in (numpy.zeros(5), [0.0], [0, 1e-3], [-2, 0], [-1, 4]):
            self.one("DynamicQuantizeLinear", {"x": numpy.float32(x)}, outputs=3)

    def test_slices_of_open_sizes(self):
        """Sizes of an input, and sizes that depend on elements. Either may be 0."""
        ends = (-(2**40), -3, -2, -1, 0, 1, 2, 3, 2**40)
        cases = [(start, end, step) for step in (1, 2, -1, -2) for start in ends for end in ends]
        nodes, weights = [helper.make_node("Compress", ["x", "kept"], ["c"], axis=0)], []
        for n, case in enumerate(cases):
            weights += [constant(f"{name}{n}", numpy.array([k])) for name, k in zip(("start", "end", "step"), case)]
            weights.append(constant(f"axis{n}", numpy.array([0])))
            for x in "xc":
                nodes.append(helper.make_node("Slice", [x, f"start{n}", f"end{n}", f"axis{n}", f"step{n}"], [f"{x}{n}"]))
                nodes.append(helper.make_node("Shape", [f"{x}{n}"], [f"{x}{n}_shape"]))
        parts = [f"{x}{n}" for x in "xc" for n in range(len(cases))]
        nodes.append(helper.make_node("Concat", parts, ["y"], axis=0))
        nodes.append(helper.make_node("Concat", [f"{part}_shape" for part in parts], ["shapes"], axis=0))
        inputs = [value("x", TensorProto.FLOAT, ["n"]), value("kept", TensorProto.BOOL, ["k"])]
        outputs = [value("y", TensorProto.FLOAT, ["m"]), value("shapes", TensorProto.INT64, [len(parts)])]
        model = model_of(nodes, inputs, outputs, weights, opset=20)
        for n in (4, 1, 0):
            for kept in (n, 1, 0):
                with self.subTest(n=n, kept=kept):
                    feeds = {"x": numpy.arange(n, dtype=numpy.float32), "kept": numpy.arange(n) < kept}
                    self.check(model, feeds, optimize=n > 0)

    def test_transforms_of_nothing(self):
        for opset in (17, 20):
            for parts in (1, 2):
                for inverse in (0, 1):
                    with self.subTest(opset=opset, parts=parts, inverse=inverse):
                        x = {"x": numpy.zeros((2, 0, parts), numpy.float32)}
                        self.one("DFT", x, opset=opset, inverse=inverse)
                        self.one("DFT", x, opset=opset, inverse=inverse, declared=True)

    def test_transforms_back_to_nothing(self):
        x = {"x": numpy.zeros((2, 1, 2), numpy.float32)}
        self.one("DFT", x, inverse=1, onesided=1, declared=True)

    def test_recurrent(self):
        """Without features. ONNX Runtime 1.31 ends the process."""
        random = numpy.random.default_rng(1)
        for type, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
            for features, hidden, steps, batch in ((0, 2, 4, 2), (3, 2, 0, 2), (3, 2, 4, 0), (1, 1, 1, 1)):
                weights = [constant(n, random.normal(size=(1, gates * hidden, k)).astype(numpy.float32)) for n, k in (("w", features), ("r", hidden))]
                x = random.normal(size=(steps, batch, features)).astype(numpy.float32)
                node = helper.make_node(type, ["x", "w", "r"], ["y", "h"], hidden_size=hidden)
                outputs = [helper.make_empty_tensor_value_info(n) for n in ("y", "h")]
                data = model_of([node], [value("x", TensorProto.FLOAT, x.shape)], outputs, weights, opset=20).SerializeToString()
                expected, found = (rewright.InferenceSession(data, device=d).run(None, {"x": x}) for d in ("reference", "cpu"))
                for e, f in zip(expected, found, strict=True):
                    numpy.testing.assert_allclose(f, e, 1e-5, 1e-6, err_msg=f"{type} {features} {steps} {batch}")


class WithoutDefinition(unittest.TestCase):
    """A node that nothing executes is refused when a session is made."""

    def refused(self, nodes, functions=(), inputs=()):
        imports = [helper.make_opsetid("", 18), helper.make_opsetid("elsewhere", 1), helper.make_opsetid("local", 1)]
        graph = helper.make_graph(nodes, "unknown", [open_value("x", TensorProto.FLOAT), *inputs], [open_value("y", TensorProto.FLOAT)])
        model = helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=9).SerializeToString()
        for device in ("reference", "cpu"):
            with self.assertRaisesRegex(rewright.UnsupportedError, "Unheard"):
                rewright.InferenceSession(model, device=device)
        if onnxruntime is not None:
            with self.assertRaises(Exception):  # noqa: B017: of several types
                onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])

    def test_node(self):
        self.refused([helper.make_node("Unheard", ["x"], ["y"], domain="elsewhere")])
        self.refused([helper.make_node("Unheard", ["x"], ["y"])])

    def test_behind_others(self):
        unheard = helper.make_node("Unheard", ["n"], ["z"], domain="elsewhere")
        self.refused([helper.make_node("NonZero", ["x"], ["n"]), unheard, helper.make_node("Neg", ["z"], ["y"])])

    def test_in_a_branch(self):
        branches = {
            name: helper.make_graph([helper.make_node(type, ["x"], [name], domain=domain)], name, [], [open_value(name, TensorProto.FLOAT)])
            for name, type, domain in (("t", "Unheard", "elsewhere"), ("e", "Neg", ""))
        }
        node = helper.make_node("If", ["c"], ["y"], then_branch=branches["t"], else_branch=branches["e"])
        self.refused([node], inputs=[value("c", TensorProto.BOOL, [])])

    def test_in_a_function(self):
        inner = helper.make_node("Unheard", ["x"], ["y"], domain="elsewhere")
        function = helper.make_function("local", "f", ["x"], ["y"], [inner], [helper.make_opsetid("elsewhere", 1)])
        self.refused([helper.make_node("f", ["x"], ["y"], domain="local")], [function])


if __name__ == "__main__":
    main()
