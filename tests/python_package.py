#!/usr/bin/env python3
"""The Python package, as it stands in the build folder.
Usage: python_package.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import asyncio
import gc
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest

REWRIGHT, BUILD = sys.argv[1:3]
PACKAGE = os.path.join(BUILD, "python")
sys.path.insert(0, PACKAGE)

import ml_dtypes
import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import rewright

# What is decided without a clock.
QUICK = {"device": "cpu", "estimate": True, "check": 0}


def value(name, type, shape):
    return helper.make_tensor_value_info(name, type, shape)


def model_of(nodes, inputs, outputs, initializers=(), opset=21, **about):
    graph = helper.make_graph(nodes, "small", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **about)


def one_node(op_type, type=TensorProto.FLOAT, shape=(4, 8), outputs=None, **attributes):
    node = helper.make_node(op_type, ["x"], ["y"], **attributes)
    return model_of([node], [value("x", type, shape)], [value("y", outputs or type, shape)])


def convolutions(rng, layers=3):
    """Convolutions with batch normalizations, which are folded into them."""
    nodes, weights, last = [], [], "x"
    for i in range(layers):
        for name, shape in {f"w{i}": (8, 8, 3, 3), f"s{i}": (8,), f"b{i}": (8,), f"m{i}": (8,), f"v{i}": (8,)}.items():
            weights.append(numpy_helper.from_array(rng.uniform(0.5, 1, shape).astype(numpy.float32), name))
        nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("BatchNormalization", [f"c{i}", f"s{i}", f"b{i}", f"m{i}", f"v{i}"], [f"n{i}"]))
        nodes.append(helper.make_node("Relu", [f"n{i}"], [f"r{i}"]))
        last = f"r{i}"
    nodes[-1].output[0] = "y"
    size = [1, 8, 10, 10]
    return model_of(nodes, [value("x", TensorProto.FLOAT, size)], [value("y", TensorProto.FLOAT, size)], weights)


def random_model(rng):
    """A few operators, each on what was there before it; all sizes but the first known."""
    names, nodes, weights = ["x"], [], []
    for i in range(rng.integers(2, 9)):
        kind = rng.choice(["Add", "Mul", "Sub", "Max", "MatMul", "Relu", "Sigmoid", "Tanh", "Softmax", "Gemm", "LayerNormalization", "Concat"])
        first, second = rng.choice(names, 2)
        if kind in ("MatMul", "Gemm"):
            weights.append(numpy_helper.from_array(rng.standard_normal((6, 6)).astype(numpy.float32) / 3, f"w{i}"))
            nodes.append(helper.make_node(kind, [first, f"w{i}"], [f"v{i}"]))
        elif kind == "LayerNormalization":
            weights.append(numpy_helper.from_array(rng.uniform(0.5, 2, 6).astype(numpy.float32), f"w{i}"))
            nodes.append(helper.make_node(kind, [first, f"w{i}"], [f"v{i}"]))
        elif kind == "Concat":  # and back to the size that all have
            weights.append(numpy_helper.from_array(numpy.array([0]), f"a{i}"))
            weights.append(numpy_helper.from_array(numpy.array([6]), f"e{i}"))
            weights.append(numpy_helper.from_array(numpy.array([1]), f"x{i}"))
            nodes.append(helper.make_node(kind, [first, second], [f"j{i}"], axis=1))
            nodes.append(helper.make_node("Slice", [f"j{i}", f"a{i}", f"e{i}", f"x{i}"], [f"v{i}"]))
        else:
            nodes.append(helper.make_node(kind, [first] if kind in ("Relu", "Sigmoid", "Tanh", "Softmax") else [first, second], [f"v{i}"]))
        names.append(f"v{i}")
    outputs = sorted({names[-1], rng.choice(names[1:])})
    return model_of(
        nodes, [value("x", TensorProto.FLOAT, ["N", 6])], [value(name, TensorProto.FLOAT, ["N", 6]) for name in outputs], weights
    )


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def in_new_process(code, *arguments):
    environment = {**os.environ, "PYTHONPATH": PACKAGE}
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, check=False)


class Package(unittest.TestCase):
    def test_import_loads_little(self):
        done = in_new_process("import rewright, sys; print(sorted({name.split('.')[0] for name in sys.modules}))")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("onnx", "asyncio", "torch", "onnxruntime"):
            self.assertNotIn(f"'{name}'", done.stdout)

    def test_names_are_there(self):
        for name in rewright.__all__:
            if name != "torch_backend":
                self.assertIsNotNone(getattr(rewright, name), name)
        with self.assertRaises(AttributeError):
            rewright.nothing

    def test_program(self):
        said = in_new_process("import rewright.program, sys; sys.argv = ['rewright', '--version']; sys.exit(rewright.program.main())")
        self.assertIn(f"rewright {rewright.__version__}", said.stdout)
        failed = subprocess.run(
            [sys.executable, "-m", "rewright", "show", "/no/such.onnx"],
            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": PACKAGE}, check=False,
        )
        self.assertEqual(failed.returncode, 3)
        self.assertIn("/no/such.onnx", failed.stderr)

    def test_subinterpreter_is_refused(self):
        code = f"""
import _xxsubinterpreters as interpreters
inner = interpreters.create()
interpreters.run_string(inner, '''
import sys
sys.path.insert(0, {PACKAGE!r})
try:
    import rewright
except ImportError as error:
    print("refused:", error)
''')
"""
        done = in_new_process(code)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("refused: rewright does not work in a subinterpreter", done.stdout)


class Errors(unittest.TestCase):
    def test_parts(self):
        with self.assertRaises(rewright.BadInputError) as caught:
            rewright.InferenceSession("/no/such.onnx")
        self.assertIsInstance(caught.exception, rewright.Error)
        self.assertEqual(caught.exception.code, "bad_input")
        self.assertIn("/no/such.onnx", caught.exception.where)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(again), str(again)), (type(caught.exception), str(caught.exception)))

    def test_usage(self):
        with self.assertRaisesRegex(rewright.UsageError, "no option \"speed\""):
            rewright.optimize(one_node("Relu"), speed=1)
        with self.assertRaisesRegex(rewright.UsageError, "soon"):
            rewright.optimize(one_node("Relu"), budget="soon")
        with self.assertRaisesRegex(rewright.UsageError, "tpu"):
            rewright.InferenceSession(one_node("Relu"), device="tpu")
        with self.assertRaisesRegex(rewright.UsageError, "cannot be of type int"):
            rewright.optimize(7)

    def test_broken_bytes(self):
        with self.assertRaises(rewright.BadInputError):
            rewright.InferenceSession(b"no model")

    def test_feeds(self):
        session = rewright.InferenceSession(one_node("Relu"))
        x = numpy.zeros((4, 8), numpy.float32)
        for feeds, said in (
            ({}, 'input "x": is not given'),
            ({"x": x.astype(numpy.float64)}, '"x"'),
            ({"x": x[:2]}, '"x"'),
            ({"x": x, "z": x}, 'no input "z"'),
            ({"x": None}, '"x"'),
            ({"x": [[x], 1]}, '"x"'),
            ({"x": numpy.zeros((4, 8), "datetime64[s]")}, "datetime64"),
        ):
            with self.assertRaisesRegex(rewright.Error, said):
                session.run(None, feeds)
        with self.assertRaisesRegex(rewright.Error, 'no output "z"'):
            session.run(["z"], {"x": x})
        with self.assertRaises(TypeError):
            session.run([1], {"x": x})
        with self.assertRaises(TypeError):
            session.run(None, 7)


class Optimization(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = convolutions(numpy.random.default_rng(0))

    def assert_smaller(self, optimized):
        self.assertLess(len(optimized.graph.node), len(self.model.graph.node))
        onnx.checker.check_model(optimized, full_check=True)

    def test_models_come_back_as_they_are_given(self):
        with tempfile.TemporaryDirectory() as folder:
            given, written = os.path.join(folder, "given.onnx"), os.path.join(folder, "written.onnx")
            onnx.save(self.model, given)
            self.assert_smaller(rewright.optimize(given, **QUICK).model)
            self.assert_smaller(rewright.optimize(self.model, **QUICK).model)
            self.assert_smaller(onnx.ModelProto.FromString(rewright.optimize(self.model.SerializeToString(), **QUICK).model))
            self.assert_smaller(rewright.optimize(rewright.graph.read(self.model), **QUICK).model.to_proto())
            result = rewright.optimize(given, output=written, **QUICK)
            self.assertEqual(result.model, written)
            self.assert_smaller(onnx.load(written))
            self.assertEqual(result.serialize(), contents(written))

    def test_certificate_is_replayed(self):
        with tempfile.TemporaryDirectory() as folder:
            given, certificate, written, replayed = (os.path.join(folder, name) for name in ("in.onnx", "c.json", "a.onnx", "b.onnx"))
            onnx.save(self.model, given)
            result = rewright.optimize(given, output=written, certificate=certificate, **QUICK)
            self.assertEqual(contents(certificate).decode(), result.certificate)
            subprocess.run([REWRIGHT, "replay", given, certificate, "-o", replayed, "--quiet"], check=True)
            self.assertEqual(contents(written), contents(replayed))

    def test_report(self):
        result = rewright.optimize(self.model, report=True, **QUICK)
        facts = result.report()
        self.assertEqual(facts, json.loads(result.report("json")))
        self.assertEqual(facts["nodes"]["before"], len(self.model.graph.node))
        self.assertIn("<html", result.report("html"))
        cell = result._repr_html_()
        self.assertIn(f"{facts['nodes']['before']} &rarr; {facts['nodes']['after']}", cell)
        self.assertIn("<svg", cell)
        self.assertIn("times as fast", repr(result))
        with self.assertRaisesRegex(rewright.UsageError, "report=True"):
            rewright.optimize(self.model, **QUICK).report("html")

    def test_same_results(self):
        result = rewright.optimize(self.model, device="cpu", budget="2s")
        x = numpy.random.default_rng(1).standard_normal((1, 8, 10, 10), numpy.float32)
        expected = onnxruntime.InferenceSession(self.model.SerializeToString()).run(None, {"x": x})[0]
        for session in (result.session(), rewright.InferenceSession(result.model), onnxruntime.InferenceSession(result.serialize())):
            numpy.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-4)

    def test_options(self):
        documented = rewright.optimize.__doc__
        for option in rewright.optimization._KINDS:
            self.assertIn(f"    {option}: ", documented)
        model = model_of(
            [helper.make_node("MatMul", ["x", "x2"], ["y"])],
            [value("x", TensorProto.FLOAT, ["N", "K"]), value("x2", TensorProto.FLOAT, ["K", "M"])],
            [value("y", TensorProto.FLOAT, ["N", "M"])],
        )
        rewright.optimize(model, shape={"x": (2, 3), "x2": [3, 4]}, rules=["handwritten"], fold_limit=1 << 20, **QUICK)
        with self.assertRaisesRegex(rewright.Error, "contradict"):
            rewright.optimize(model, shape={"x": (2, 3), "x2": [5, 4]}, **QUICK)

    def test_own_rules(self):
        rule = rewright.rules.parse("rule mine: \"once is enough\"\n  x\n  Relu(Relu(x)) => Relu(x)\n  exact\n")
        model = model_of(
            [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])],
            [value("x", TensorProto.FLOAT, [3])], [value("y", TensorProto.FLOAT, [3])],
        )
        with self.assertRaisesRegex(rewright.BadInputError, "not proved"):
            rewright.optimize(model, rules=rule, **QUICK)
        proved = rewright.verify(rule).proved
        result = rewright.optimize(model, rules=proved, **QUICK)
        self.assertEqual([used["rule"] for used in result.report()["search"]["rules_applied"]], ["mine"])
        self.assertEqual(len(result.model.graph.node), 1)


# Of many regions: there is something to be told of, and time to end it.
def long_model():
    return convolutions(numpy.random.default_rng(0), layers=60)


class Cancellation(unittest.TestCase):
    def test_progress_is_told_and_ends_the_search(self):
        told = []

        def progress(stage, fraction, gain):
            told.append((stage, fraction, gain))
            return False

        result = rewright.optimize(long_model(), device="cpu", check=0, no_timing=True, budget="100s", progress=progress)
        self.assertTrue(told)
        for stage, fraction, gain in told:
            self.assertIsInstance(stage, str)
            self.assertTrue(0 <= fraction <= 1 and gain > 0)
        onnx.checker.check_model(result.model)
        self.assertEqual(result.report()["search"]["stop_reason"], "cancelled")

    def test_what_progress_raises_is_raised(self):
        class Enough(Exception):
            pass

        enough = Enough()

        def progress(*facts):
            raise enough

        with self.assertRaises(Enough) as caught:
            rewright.optimize(long_model(), device="cpu", check=0, no_timing=True, budget="100s", progress=progress)
        self.assertIs(caught.exception, enough)

    def test_interrupt(self):
        code = """
import os, signal, sys
import rewright
try:
    rewright.optimize(sys.argv[1], device="cpu", check=0, no_timing=True, budget="100s",
                      progress=lambda *facts: os.kill(os.getpid(), signal.SIGINT))
except KeyboardInterrupt:
    print("interrupted")
"""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "long.onnx")
            onnx.save(long_model(), file)
            done = in_new_process(code, file)
        self.assertEqual(done.stdout, "interrupted\n", done.stderr)

    def test_async(self):
        async def work():
            told = []
            first = asyncio.Event()

            def progress(*facts):
                told.append(threading.current_thread())
                first.set()

            task = asyncio.create_task(
                rewright.optimize_async(long_model(), device="cpu", check=0, no_timing=True, budget="100s", progress=progress)
            )
            await first.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertIs(told[0], threading.main_thread())
            return await rewright.optimize_async(one_node("Relu"), **QUICK)

        self.assertEqual(len(asyncio.run(work()).model.graph.node), 1)


class Sessions(unittest.TestCase):
    def test_as_onnxruntime(self):
        rng = numpy.random.default_rng(5)
        for _ in range(25):
            model = random_model(rng)
            theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            ours = rewright.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            for a, b in zip(ours.get_inputs() + ours.get_outputs(), theirs.get_inputs() + theirs.get_outputs(), strict=True):
                self.assertEqual((a.name, a.type, a.shape), (b.name, b.type, b.shape))
            for n in (1, 3):
                x = rng.standard_normal((n, 6)).astype(numpy.float32)
                for names in (None, [], [ours.get_outputs()[-1].name]):
                    found, expected = ours.run(names, {"x": x}), theirs.run(names, {"x": x})
                    self.assertEqual(len(found), len(expected))
                    for a, b in zip(found, expected):
                        self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
                        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)

    def test_description(self):
        model = one_node("Relu", shape=["N", None])
        model.producer_name, model.domain, model.model_version, model.doc_string = "someone", "there", 7, "what it is"
        helper.set_model_props(model, {"key": "value"})
        ours, theirs = (kind(model.SerializeToString()) for kind in (rewright.InferenceSession, onnxruntime.InferenceSession))
        for name in ("producer_name", "graph_name", "domain", "description", "graph_description", "version", "custom_metadata_map"):
            self.assertEqual(getattr(ours.get_modelmeta(), name), getattr(theirs.get_modelmeta(), name), name)
        self.assertEqual(ours.get_inputs()[0].shape, ["N", None])
        self.assertEqual(ours.get_providers(), ["CPUExecutionProvider"])
        self.assertIn("CPUExecutionProvider", rewright.get_available_providers())
        self.assertIn(rewright.get_device(), ("CPU", "GPU"))

    def test_providers(self):
        options = rewright.SessionOptions()
        options.intra_op_num_threads = 1
        options.graph_optimization_level = rewright.GraphOptimizationLevel.ORT_ENABLE_ALL
        session = rewright.InferenceSession(one_node("Relu"), options, providers=[("CPUExecutionProvider", {"arena": "1"})])
        self.assertIs(session.get_session_options(), options)
        with self.assertWarnsRegex(UserWarning, "DmlExecutionProvider"):
            rewright.InferenceSession(one_node("Relu"), providers=["DmlExecutionProvider", "CPUExecutionProvider"])

    def test_element_types(self):
        rng = numpy.random.default_rng(3)
        for number in TensorProto.DataType.values():
            if number == TensorProto.UNDEFINED:
                continue
            if number in (TensorProto.FLOAT6E2M3, TensorProto.FLOAT6E3M2):  # the only ones that tensors do not have
                continue
            with self.subTest(TensorProto.DataType.Name(number)):
                if number == TensorProto.STRING:
                    x = numpy.array([["a", "\u00e4\u4e2d"], ["", "c" * 100]], object)
                elif number == TensorProto.BOOL:
                    x = numpy.array([[True, False], [False, True]])
                else:
                    x = rng.integers(1, 4, (2, 2)).astype(helper.tensor_dtype_to_np_dtype(number))
                node = helper.make_node("Identity", ["x"], ["y"])
                model = model_of([node], [value("x", number, [2, 2])], [value("y", number, [2, 2])], opset=25)
                session = rewright.InferenceSession(model)
                y = session.run(None, {"x": x})[0]
                self.assertEqual(y.dtype, x.dtype)
                self.assertEqual(y.tolist(), x.tolist())
                self.assertEqual(session.get_inputs()[0].type, session.get_outputs()[0].type)

    def test_signs_of_narrow_integers(self):
        node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT32)
        session = rewright.InferenceSession(model_of([node], [value("x", TensorProto.INT4, [3])], [value("y", TensorProto.INT32, [3])]))
        x = numpy.array([-8, -1, 7]).astype(ml_dtypes.int4)
        self.assertEqual(session.run(None, {"x": x})[0].tolist(), [-8, -1, 7])

    def test_arrays_of_all_layouts(self):
        session = rewright.InferenceSession(one_node("Neg", shape=["N", "M"]))
        x = numpy.arange(24, dtype=numpy.float32).reshape(4, 6)
        for given in (x.T, x[::2], x[:, ::-1], x[:0], x.astype(">f4")):
            self.assertEqual(session.run(None, {"x": given})[0].tolist(), (-given).tolist())
        unaligned = numpy.frombuffer(b"\0" + x.tobytes(), numpy.uint8)[1:].view(numpy.float32).reshape(4, 6)
        self.assertFalse(unaligned.flags.aligned)
        self.assertEqual(session.run(None, {"x": unaligned})[0].tolist(), (-x).tolist())
        self.assertEqual(session.run(None, {"x": [[1, 2], [3, 4]]})[0].tolist(), [[-1, -2], [-3, -4]])

    def test_results_are_the_callers(self):
        """Neither weights nor inputs nor other results are changed by writing into a result."""
        weight = numpy_helper.from_array(numpy.ones(3, numpy.float32), "w")
        for device in ("cpu", "reference"):
            nodes = [helper.make_node("Identity", ["w"], ["y"]), helper.make_node("Identity", ["x"], ["z"]), helper.make_node("Identity", ["x"], ["u"])]
            outputs = [value(name, TensorProto.FLOAT, [3]) for name in "yzu"]
            session = rewright.InferenceSession(model_of(nodes, [value("x", TensorProto.FLOAT, [3])], outputs, [weight]), device=device)
            x = numpy.full(3, 2, numpy.float32)
            first = session.run(None, {"x": x})
            kept = [session.run_with_ort_values(None, {"x": rewright.OrtValue.ortvalue_from_numpy(x)})[i].numpy() for i in range(3)]
            for array in (*first, *kept):
                array[:] = 9
            self.assertEqual(x.tolist(), [2, 2, 2])
            self.assertEqual([y.tolist() for y in session.run(None, {"x": x})], [[1, 1, 1], [2, 2, 2], [2, 2, 2]])

    def test_sequences_and_optionals(self):
        sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [None])
        model = model_of([helper.make_node("SequenceAt", ["s", "i"], ["y"])], [sequence, value("i", TensorProto.INT64, [])], [value("y", TensorProto.FLOAT, [None])])
        session = rewright.InferenceSession(model)
        self.assertEqual(session.get_inputs()[0].type, "seq(tensor(float))")
        arrays = [numpy.arange(n, dtype=numpy.float32) for n in (1, 2, 3)]
        self.assertEqual(session.run(None, {"s": arrays, "i": numpy.int64(-1)})[0].tolist(), [0, 1, 2])
        model = model_of([helper.make_node("SequenceConstruct", ["x", "x"], ["s"])], [value("x", TensorProto.FLOAT, [2])], [sequence])
        found = rewright.InferenceSession(model).run(None, {"x": arrays[1]})[0]
        self.assertEqual([array.tolist() for array in found], [[0, 1], [0, 1]])

    def test_dlpack(self):
        class Foreign:  # all that is known of it
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **arguments):
                return self.array.__dlpack__(**arguments)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        x = numpy.arange(32, dtype=numpy.float32).reshape(4, 8)
        taken = rewright.OrtValue.from_dlpack(Foreign(x))
        self.assertEqual(taken.data_ptr(), x.ctypes.data)
        session = rewright.InferenceSession(one_node("Neg"))
        self.assertEqual(session.run(None, {"x": Foreign(x)})[0].tolist(), (-x).tolist())
        given = session.run_with_ort_values(None, {"x": taken})[0]
        back = numpy.from_dlpack(given)
        self.assertEqual(back.ctypes.data, given.data_ptr())
        del given, session
        gc.collect()
        self.assertEqual(back.tolist(), (-x).tolist())
        before = sys.getrefcount(x)
        del taken
        gc.collect()
        self.assertLess(sys.getrefcount(x), before)

    def test_io_binding(self):
        x = numpy.arange(32, dtype=numpy.float32).reshape(4, 8)
        for kind in (rewright, onnxruntime):
            session = kind.InferenceSession(one_node("Neg").SerializeToString())
            binding = session.io_binding()
            binding.bind_cpu_input("x", x)
            binding.bind_output("y")
            session.run_with_iobinding(binding)
            self.assertEqual(binding.copy_outputs_to_cpu()[0].tolist(), (-x).tolist())
            target = numpy.zeros_like(x)
            binding.bind_output("y", "cpu", 0, numpy.float32, x.shape, target.ctypes.data)
            session.run_with_iobinding(binding)
            self.assertEqual(target.tolist(), (-x).tolist())
            bound = kind.OrtValue.ortvalue_from_shape_and_type([4, 8], numpy.float32)
            self.assertEqual((bound.shape(), bound.data_type(), bound.device_name()), ([4, 8], "tensor(float)", "cpu"))
            binding.bind_ortvalue_input("x", kind.OrtValue.ortvalue_from_numpy(x + 1))
            binding.bind_ortvalue_output("y", bound)
            session.run_with_iobinding(binding)
            self.assertEqual(bound.numpy().tolist(), (-x - 1).tolist())
        with self.assertRaisesRegex(rewright.UnsupportedError, "cuda"):
            rewright.InferenceSession(one_node("Neg")).io_binding().bind_output("y", "cuda")

    def test_profile(self):
        options = rewright.SessionOptions()
        options.enable_profiling = True
        session = rewright.InferenceSession(convolutions(numpy.random.default_rng(0)), options)
        session.run(None, {"x": numpy.zeros((1, 8, 10, 10), numpy.float32)})
        steps = session.profile()
        self.assertTrue(steps and all(step["runs"] == 1 for step in steps))
        with tempfile.TemporaryDirectory() as folder:
            options.profile_file_prefix = os.path.join(folder, "profile")
            with open(session.end_profiling(), encoding="utf-8") as file:
                self.assertEqual(len(json.load(file)), len(steps))

    def test_32_threads(self):
        session = rewright.InferenceSession(convolutions(numpy.random.default_rng(0)))
        fed = [numpy.random.default_rng(i).standard_normal((1, 8, 10, 10), numpy.float32) for i in range(32)]
        expected = [session.run(None, {"x": x})[0] for x in fed]
        together, wrong = threading.Barrier(32), []

        def work(i):
            together.wait()
            for _ in range(20):
                if not numpy.array_equal(session.run(["y"], {"x": fed[i]})[0], expected[i]):
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_nothing_leaks(self):
        session = rewright.InferenceSession(one_node("Relu", shape=["N", 1024]))
        x = numpy.ones((16, 1024), numpy.float32)
        value = rewright.OrtValue.ortvalue_from_numpy(x)
        names, feeds = ["y"], {"x": x}

        def calls(count):
            for _ in range(count):
                session.run(names, feeds)
                session.run_with_ort_values(None, {"x": value})[0].numpy()
                numpy.from_dlpack(session.run_with_ort_values(None, {"x": value})[0])
                try:
                    session.run(names, {"z": x})
                except rewright.Error:
                    pass

        def resident():
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        calls(1000)
        held = [sys.getrefcount(thing) for thing in (x, names, feeds, session, "y", "x", numpy.dtype(numpy.float32))]
        before = resident()
        calls(10000)
        self.assertEqual(held, [sys.getrefcount(thing) for thing in (x, names, feeds, session, "y", "x", numpy.dtype(numpy.float32))])
        # A result that is not freed is 64 kB: all of them would be 1.9 GB.
        self.assertLess(resident() - before, 16 << 20)


class Rules(unittest.TestCase):
    def test_shipped(self):
        rules = rewright.rules.load()
        self.assertGreater(len(rules), 100)
        self.assertEqual(len(rewright.rules.names()), len(rules))
        known = rewright.rules.facts(rules[0])
        self.assertEqual((known["name"], known["status"]), (rules[0].name, "proved"))
        self.assertEqual(rewright.rules.show(rules[3].name), rules[3].algebra)
        self.assertEqual(rewright.rules.parse(rules[3].algebra)[0].algebra, rules[3].algebra)
        self.assertTrue(rules[3].dot.startswith("digraph"))
        self.assertTrue(any(rule.conditions for rule in rules))
        with self.assertRaisesRegex(rewright.UsageError, "no_such"):
            rewright.rules.show("no_such")

    def test_diff_and_files(self):
        rules = rewright.rules.load()
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "some.rules")
            rewright.rules.save(rules[:5], file)
            self.assertEqual(rewright.rules.load(file), rules[:5])
            difference = rewright.rules.diff(rules[:6], file)
        self.assertEqual(difference, {"only_first": [rules[5].name], "only_second": [], "changed": [], "renamed": []})

    def test_verify(self):
        rules = rewright.rules.parse(
            "rule right: \"sums commute\"\n  x, y\n  Add(x, y) => Add(y, x)\n  exact\n\nrule wrong: \"differences do\"\n  x, y\n  Sub(x, y) => Sub(y, x)\n  exact\n"
        )
        told = []
        verified = rewright.verify(rules, threads=1, progress=lambda *facts: told.append(facts))
        self.assertEqual([verdict.verdict for verdict in verified], ["proved", "refuted"])
        self.assertTrue(verified[1].counterexample)
        self.assertEqual([rule.name for rule in verified.proved], ["right"])
        with self.assertRaises(rewright.CancelledError):
            rewright.verify(rewright.rules.load()[:100], threads=1, progress=lambda *facts: False)
        with self.assertRaisesRegex(rewright.BadInputError, "Nothing"):
            rewright.rules.parse("rule broken: \"of what is not there\"\n  x\n  Nothing(x) => x\n")


class Graphs(unittest.TestCase):
    def test_walk(self):
        graph = rewright.graph.read(convolutions(numpy.random.default_rng(0)))
        self.assertEqual([node.op_type for node in graph.nodes][:3], ["Conv", "BatchNormalization", "Relu"])
        convolution = graph.nodes[0]
        self.assertEqual(convolution.inputs[0], graph.inputs[0])
        self.assertEqual(convolution.inputs[1].constant.shape, (8, 8, 3, 3))
        self.assertEqual(convolution.attributes["group"], 1)
        self.assertEqual(convolution.attributes["pads_begin"], [1, 1])
        self.assertEqual(convolution.outputs[0].users[0].op_type, "BatchNormalization")
        self.assertEqual(graph.outputs["y"].producer.op_type, "Relu")
        self.assertEqual((graph.outputs["y"].type, graph.outputs["y"].shape), ("float", [1, 8, 10, 10]))
        self.assertIn(graph.inputs[0], graph.values)

    def test_build(self):
        graph = rewright.graph.Graph()
        x = graph.input("x", "float", ["N", 4])
        y = graph.node("MatMul", [x, numpy.eye(4, dtype=numpy.float32) * 2])
        first, second = graph.node("Split", [graph.node("Relu", [y])], axis=1, sizes=[1, 3])
        graph.output("first", first)
        graph.output("second", second)
        self.assertEqual(second.shape, ["N", 3])
        onnx.checker.check_model(graph.to_proto(), full_check=True)
        found = rewright.InferenceSession(graph).run(None, {"x": numpy.array([[1, -1, 2, 3]], numpy.float32)})
        self.assertEqual([array.tolist() for array in found], [[[2]], [[0, 4, 6]]])
        with self.assertRaisesRegex(rewright.UsageError, "no_such"):
            graph.node("Relu", [x], no_such=1)
        with self.assertRaisesRegex(rewright.UsageError, "NoSuch"):
            graph.node("NoSuch", [x])
        with self.assertRaises(rewright.BadInputError):
            graph.node("MatMul", [x, numpy.eye(3, dtype=numpy.float32)])
        self.assertIn("Relu", rewright.graph.operators())

    def test_draw(self):
        model = convolutions(numpy.random.default_rng(0))
        before, after = rewright.graph.read(model), rewright.graph.read(rewright.optimize(model, **QUICK))
        self.assertEqual(before.draw().count("<title>"), 9)
        self.assertIn('class="new"', after.draw(rewright.graph.read(model)))
        self.assertTrue(after._repr_svg_().startswith("<svg"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
