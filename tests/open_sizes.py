"""Models that leave sizes open, optimized on every device: python open_sizes.py REWRIGHT [unittest's options]"""

import numpy
import onnx
import onnxruntime

from program import ProgramTest, main, tensor

# The idioms of exporters: a mask of ones, an expansion whose shape may say -1, a cut at a computed size.
IDIOMS = """(float[b, n, 12] x) => (float[b, n, 12] y, int64[2] s) <float w = {2.0}> {
  all = Shape(x)
  ends = Constant <value = int64[1] {2}> ()
  zero = Constant <value = int64[1] {0}> ()
  one = Constant <value = int64[1] {1}> ()
  less = Constant <value = int64[1] {-1}> ()
  bn = Slice(all, zero, ends)
  ones = ConstantOfShape <value = float[1] {1}> (bn)
  mask = Cast <to = 7> (ones)
  s = Shape(mask)
  real = Cast <to = 1> (mask)
  column = Unsqueeze(real, less)
  is_kept = Equal(all, less)
  rank = Constant <value = int64[1] {3}> ()
  unit = ConstantOfShape <value = int64[1] {1}> (rank)
  to = Where(is_kept, unit, all)
  wide = Expand(column, to)
  scaled = Mul(x, wide)
  length = Slice(all, one, ends)
  half = Div(length, ends)
  first = Slice(scaled, zero, half, one)
  rest = Slice(scaled, half, length, one)
  again = Concat <axis = 1> (first, rest)
  doubled = Mul(again, w)
  y = Div(doubled, w)
}"""
# Its weights say how many features there are, and its window how long the signal is at least.
DEMANDING = """(float[b, features] x, float[b, 1, length] z) => (float[b, 4] y, float[b, 1, frames] w) {
  t = MatMul(x, a)
  u = Relu(t)
  y = Relu(u)
  w = Conv <strides = [5]> (z, k)
}"""


class OpenSizes(ProgramTest):
    def devices(self):
        return ["cpu", "onnxruntime", "profile:" + self.profile("elsewhere", 1e10, 1e10, 1e-6)]

    def assert_same_at(self, inputs_of_sizes):
        sessions = [onnxruntime.InferenceSession(self.path(name), providers=["CPUExecutionProvider"]) for name in ("open.onnx", "out.onnx")]
        random = numpy.random.default_rng(0)
        for sizes in inputs_of_sizes:
            inputs = {name: random.normal(size=shape).astype("float32") for name, shape in sizes.items()}
            for expected, found in zip(*(session.run(None, inputs) for session in sessions)):
                numpy.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    def optimize_open(self, *arguments):
        return self.report("optimize", self.path("open.onnx"), "-o", self.path("out.onnx"), "--threads", "1", "--budget", "5s", *arguments)

    def test_idioms_of_exporters_are_followed_on_every_device(self):
        self.write_text("open.onnx", IDIOMS)
        for device in self.devices():
            for shape in ([], ["--shape", "x=2x6x12"]):
                facts = self.optimize_open("--device", device, "--estimate", *shape)
                self.assertEqual(facts["nodes"]["opaque"], [])
                self.assertLess(facts["nodes"]["after"], facts["nodes"]["before"])
                self.assertEqual(facts["chosen_sizes"], [] if shape else ["b", "n"])
                self.assert_same_at({"x": (b, n, 12)} for b, n in ((1, 1), (3, 5), (2, 8), (5, 17)))

    def test_sizes_are_chosen_that_the_model_accepts(self):
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> agraph {DEMANDING}')
        random = numpy.random.default_rng(0)
        for name, sizes in {"a": (9, 4), "k": (1, 1, 10)}.items():
            model.graph.initializer.append(tensor(name, random.normal(size=sizes).astype("float32")))
        onnx.save(model, self.path("open.onnx"))
        for device in self.devices():
            facts = self.optimize_open("--device", device)
            self.assertEqual((facts["sizes"]["b"], facts["sizes"]["features"]), (1, 9))
            self.assertGreaterEqual(facts["sizes"]["length"], 10)
            self.assertEqual(facts["chosen_sizes"], ["b", "features", "length"])
            self.assert_same_at({"x": (b, 9), "z": (b, 1, length)} for b, length in ((1, 10), (3, 15), (2, 64), (5, 11)))
        said = self.run_program("optimize", self.path("open.onnx"), "-o", self.path("out.onnx"), "--estimate", "--shape", "z=2x1x30").stdout
        self.assertIn("features 9, which the model leaves open", said)

    def test_several_sizes_are_optimized_for_at_once(self):
        self.write_text("open.onnx", IDIOMS)
        for device in self.devices():
            page = self.path("page.html")
            facts = self.optimize_open("--device", device, "--shape", "x=1x4x12*3,5x64x12", "--report", page)
            sets = facts["sets_of_sizes"]
            self.assertEqual([(at["sizes"], at["weight"]) for at in sets], [({"b": 1, "n": 4}, 3), ({"b": 5, "n": 64}, 1)])
            self.assertEqual((facts["sizes"], facts["chosen_sizes"]), (sets[0]["sizes"], []))
            # Medians of measured sums are not sums of medians, so that only predictions can be compared here.
            for when in ("before", "after"):
                mean = (3 * sets[0]["predicted_ms"][when] + sets[1]["predicted_ms"][when]) / 4
                self.assertAlmostEqual(facts["predicted_ms"][when], mean, delta=0.01 * mean)
                self.assertEqual(len({at["measured_ms"][when] > 0 for at in (facts, *sets)}), 1)  # 0: there was no time for it
            if facts["changed"]:
                self.assertEqual(facts["check"]["runs"], 2)
            with open(page, encoding="utf-8") as file:
                self.assertIn('"sets_of_sizes":[{', file.read())
            self.assert_same_at({"x": (b, n, 12)} for b, n in ((1, 4), (5, 64), (2, 8)))
        said = self.run_program("optimize", self.path("open.onnx"), "-o", self.path("out.onnx"), "--estimate", "--shape", "x=1x2..32x12").stdout
        for n in (2, 8, 32):
            self.assertIn(f"at b 1, n {n} (weight 0.333): predicted", said)

    def test_several_sizes_are_compared_and_timed(self):
        self.write_text("open.onnx", IDIOMS)
        self.write_text("other.onnx", IDIOMS.replace("doubled = Mul(again, w)", "doubled = Add(again, again)"))
        models = self.path("open.onnx"), self.path("other.onnx")
        self.assertEqual(self.report("compare", *models, "--shape", "x=1x4x12,3x2x12,2x1x12")["runs"], 9)
        facts = self.report("bench", *models, "--shape", "x=1x4x12,3x2x12*2", "--seconds", "0.1s")
        self.assertEqual([(at["sizes"], at["weight"], len(at["models"])) for at in facts["sets_of_sizes"]],
                         [({"b": 1, "n": 4}, 1, 2), ({"b": 3, "n": 2}, 2, 2)])  # fmt: skip
        self.error("show", self.path("open.onnx"), "--shape", "x=1x4x12,3x2x12", status=2)

    def test_sets_of_sizes_that_make_no_sense_are_refused_in_a_line(self):
        self.write_text("open.onnx", IDIOMS)
        for shape, status in (("x=1x4x12*0", 2), ("x=1x4x12,", 2), ("x=1x9..4x12", 2), ("x=1x4x12,1x4x13", 3), ("x=1x4x12,4x12", 3), ("y=1x4x12", 3)):
            self.error("optimize", self.path("open.onnx"), "-o", self.path("out.onnx"), "--shape", shape, status=status)


if __name__ == "__main__":
    main()
