"""Sizes that contradict a model, are negative, overflow or need more memory than there is: a line each, and the session goes on.

Usage: python_bad_sizes.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import os
import subprocess
import tempfile
import unittest

import numpy
import onnx

from python_testing import REWRIGHT, main  # says where the package is

import rewright  # noqa: E402  (behind it)

HUGE = 1 << 62


def floats(*sizes):
    return numpy.zeros(sizes, numpy.float32)


def integers(*numbers):
    return numpy.array(numbers, numpy.int64)


def serialized(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> agraph {text}').SerializeToString()


# By kind of model: its text, inputs that must be refused, and inputs that run.
CONTRADICTING = {
    "a product": (
        "(float[N, 4] x, float[4, N] y) => (float[N, N] z) { z = MatMul(x, y) }",
        [{"x": floats(3, 4), "y": floats(4, 5)}, {"x": floats(3, 5), "y": floats(4, 3)}, {"x": floats(3), "y": floats(4, 3)},
         {"x": floats(3, 4, 1), "y": floats(4, 3)}, {"x": floats(3, 4, 0), "y": floats(4, 3)}],
        {"x": floats(2, 4), "y": floats(4, 2)},
    ),
    "a window": (
        "(float[N, 3, H, W] x, float[4, 3, 3, 3] w) => (float[A, B, C, D] z) { z = Conv(x, w) }",
        [{"x": floats(1, 3, 2, 5), "w": floats(4, 3, 3, 3)}, {"x": floats(1, 4, 5, 5), "w": floats(4, 3, 3, 3)},
         {"x": floats(1, 3, 5, 5), "w": floats(4, 3, 3, 2)}],
        {"x": floats(1, 3, 4, 4), "w": floats(4, 3, 3, 3)},
    ),
    "a shape": (
        "(float[N] x, int64[2] s) => (float[A, B] z) { z = Reshape(x, s) }",
        [{"x": floats(6), "s": integers(*shape)} for shape in ((4, 2), (-2, 3), (-1, -1), (HUGE, HUGE), (-1, 0))],
        {"x": floats(6), "s": integers(2, 3)},
    ),
    "a count of elements": (
        "(float[N] x, int64[1] k) => (float[M] z, int64[M] p) { z, p = TopK(x, k) }",
        [{"x": floats(3), "k": integers(k)} for k in (4, -1, HUGE)],
        {"x": floats(3), "k": integers(2)},
    ),
}  # fmt: skip
# Sizes that are computed from elements: negative, beyond 64 bits, and too large for any memory.
COMPUTED = {
    "Expand": ("(float[N, 1] x, int64[2] s) => (float[A, B] z) { y = Expand(x, s)\n z = Neg(y) }",
               [{"x": floats(3, 1), "s": integers(*s)} for s in ((3, -5), (2, 3), (3, HUGE), (3, 1 << 40))], {"x": floats(3, 1), "s": integers(3, 4)}),
    "ConstantOfShape": ("(int64[2] s) => (float[A, B] z) { y = ConstantOfShape(s)\n z = Cos(y) }",
                        [{"s": integers(*s)} for s in ((-1, 4), (1 << 31, 1 << 31), (HUGE, 4), (1 << 20, 1 << 20))], {"s": integers(2, 3)}),
    "Range": ("(int64 a, int64 b, int64 c) => (int64[K] z) { z = Range(a, b, c) }",
              [{name: numpy.int64(v) for name, v in zip("abc", numbers)} for numbers in ((0, HUGE, 1), (0, 5, 0), (-HUGE - HUGE, HUGE, 1), (0, 1 << 42, 1))],
              {name: numpy.int64(v) for name, v in zip("abc", (0, 5, 2))}),
    "Tile": ("(float[N] x, int64[1] r) => (float[M] z) { z = Tile(x, r) }",
             [{"x": floats(3), "r": integers(r)} for r in (-1, HUGE, 1 << 40)], {"x": floats(3), "r": integers(2)}),
    "Pad": ("(float[N] x, int64[2] p) => (float[M] z) { y = Pad(x, p)\n z = Neg(y) }",
            [{"x": floats(3), "p": integers(*p)} for p in ((-2, -2), (HUGE, HUGE), (1 << 40, 0))], {"x": floats(3), "p": integers(1, 1)}),
    "Resize": ('(float[1,1,H,W] x, int64[4] s) => (float[A,B,C,D] z) { z = Resize <mode = "nearest"> (x, , , s) }',
               [{"x": floats(1, 1, 2, 2), "s": integers(1, 1, *s)} for s in ((-4, 4), (HUGE, 4), (1 << 21, 1 << 21))],
               {"x": floats(1, 1, 2, 2), "s": integers(1, 1, 4, 4)}),
}  # fmt: skip


class BadSizes(unittest.TestCase):
    def assert_refused(self, session, inputs):
        with self.assertRaises(rewright.Error) as refused:
            session.run(None, inputs)
        self.assertEqual(len(str(refused.exception).splitlines()), 1, str(refused.exception))
        return str(refused.exception)

    def test_sessions_refuse_them_and_go_on(self):
        for name, (text, refused, right) in {**CONTRADICTING, **COMPUTED}.items():
            with self.subTest(name):
                session = rewright.InferenceSession(serialized(text), providers=["CPUExecutionProvider"])
                expected = session.run(None, right)
                for inputs in refused:
                    self.assert_refused(session, inputs)
                    for want, got in zip(expected, session.run(None, right)):
                        numpy.testing.assert_array_equal(got, want)

    def test_more_memory_than_there_is(self):
        with open("/proc/meminfo", encoding="utf-8") as file:
            facts = dict(line.split(":") for line in file)
        everything = 1024 * (int(facts["MemTotal"].split()[0]) + int(facts["SwapTotal"].split()[0]))
        side = int((1.3 * everything / 4) ** 0.5)
        outer = "(float[N, 1] x, float[1, M] y) => "
        for text in (
            f"{outer}(float[N, M] z) {{ a = Add(x, y)\n z = Tanh(a) }}",
            f"{outer}(float[N, M] z) {{ z = MatMul(x, y) }}",
            f"{outer}(float[N] z) {{ a = Mul(x, y)\n b = Softmax <axis = 1> (a)\n one = Constant <value = int64[1] {{1}}> ()\n"
            "z = ReduceSum <keepdims = 0> (b, one) }",
            f"{outer}(int64[2, K] z) {{ a = Add(x, y)\n z = NonZero(a) }}",
        ):
            session = rewright.InferenceSession(serialized(text), providers=["CPUExecutionProvider"])
            for sizes in ((side, side), (1 << 23, 1 << 23)):
                right = session.run(None, {"x": floats(3, 1), "y": floats(1, 2)})
                said = self.assert_refused(session, {"x": floats(sizes[0], 1), "y": floats(1, sizes[1])})
                self.assertIn("memory", said)
                again = session.run(None, {"x": floats(3, 1), "y": floats(1, 2)})
                numpy.testing.assert_array_equal(again[0], right[0])

    def test_the_program_refuses_them_in_a_line(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.onnx")
            for text, refused, right in (*CONTRADICTING.values(), COMPUTED["Expand"], COMPUTED["Range"]):
                with open(model, "wb") as file:
                    file.write(serialized(text))
                for inputs, good in [(inputs, False) for inputs in refused] + [(right, True)]:
                    given = []
                    for name, array in inputs.items():
                        numpy.save(os.path.join(folder, f"{name}.npy"), array)
                        given += ["--input", f"{name}={os.path.join(folder, name)}.npy"]
                    done = subprocess.run([REWRIGHT, "run", model, *given, "--output-dir", os.path.join(folder, "out")], capture_output=True, text=True, check=False)
                    self.assertIn(done.returncode, (0,) if good else (3, 4), done.stderr)
                    if not good:
                        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                        self.assertTrue(done.stderr.startswith("rewright: error: "), done.stderr)


if __name__ == "__main__":
    main()
