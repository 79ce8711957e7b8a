"""`rewright run`, `bench` and `conformance`: python command_line_run.py REWRIGHT [unittest's options]"""

import ctypes.util
import json
import os
import pathlib
import re
import subprocess
import unittest.mock

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from program import ProgramTest, main, same_shape, tensor


class Run(ProgramTest):
    def test_run_on_every_device_agrees(self):
        x = numpy.random.default_rng(1).normal(size=(1, 4, 16, 16)).astype("float32")
        numpy.save(self.path("x.npy"), x)
        (self.folder / "x.pb").write_bytes(tensor("x", x).SerializeToString())
        results = []
        for device, file in (("reference", "x.npy"), ("cpu", "x.pb"), ("onnxruntime", "x.npy")):
            self.run_program("run", self.path("model.onnx"), "--input", f"x={self.path(file)}", "--output-dir", self.path(device), "--device", device)
            results.append(numpy.load(self.path(device + "/y.npy")))
        for other in results[1:]:
            numpy.testing.assert_allclose(results[0], other, rtol=1e-4, atol=1e-4)

    def test_kernels_are_chosen_by_time_where_that_is_asked_for(self):
        numpy.save(self.path("x.npy"), numpy.random.default_rng(1).normal(size=(1, 4, 16, 16)).astype("float32"))
        options = ["--input", f"x={self.path('x.npy')}", "--output-dir", self.path("out"), "--threads", "1"]

        def output(*more):
            self.run_program("run", self.path("model.onnx"), *options, *more)
            return numpy.load(self.path("out/y.npy"))

        with unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.path("cache")}):
            estimated = output()
            self.assertFalse(os.path.exists(self.path("cache")))
            numpy.testing.assert_array_equal(output("--kernels", "cached"), estimated)
            measured = output("--kernels", "measured")
            numpy.testing.assert_allclose(measured, estimated, rtol=1e-3, atol=1e-3)
            for kernels in ("cached", "measured"):
                numpy.testing.assert_array_equal(output("--kernels", kernels), measured)
            searched = output("--kernels", "searched")
            numpy.testing.assert_allclose(searched, estimated, rtol=1e-3, atol=1e-3)
            for kernels in ("cached", "searched"):  # nothing is searched again
                numpy.testing.assert_array_equal(output("--kernels", kernels), searched)
            numpy.testing.assert_array_equal(output("--kernels", "estimated"), estimated)
            self.report("bench", self.path("model.onnx"), "--seconds", "0.05s", "--threads", "1", "--kernels", "cached")
            self.error("run", self.path("model.onnx"), *options, "--kernels", "guessed", status=2)

    def test_run_profiles(self):
        numpy.save(self.path("x.npy"), numpy.zeros((1, 4, 16, 16), "float32"))
        facts = self.report("run", self.path("model.onnx"), "--input", f"x={self.path('x.npy')}", "--output-dir", self.path("out"), "--profile")
        self.assertTrue(any("Conv" in step["operators"] for step in facts["profile"]))
        self.assertTrue(all(step["roofline_share"] >= 0 for step in facts["profile"]))
        roofline = facts["roofline"]
        self.assertGreater(roofline["flop_per_s"], 0)
        least = [max(s["flops"] / roofline["flop_per_s"], s["bytes"] / roofline["bytes_per_s"]) for s in facts["profile"]]
        self.assertAlmostEqual(roofline["share"], 1e3 * sum(least) / sum(s["ms"] for s in facts["profile"]))

    def test_run_reads_and_writes_values_of_every_kind(self):
        self.write_text(
            "kinds.onnx",
            """(seq(float[3]) q, string[2] t, bfloat16[2] h) => (seq(float[3]) r, string[2] u, bfloat16[2] k, float[3] y) {
              zero = Constant <value = int64 {0}> ()
              first = SequenceAt(q, zero)
              y = Neg(first)
              r = SequenceInsert(q, y)
              u = Identity(t)
              k = Neg(h)
            }""",
        )
        sequence = numpy_helper.from_list([numpy.array([1, 2, 3], numpy.float32)], "q")
        texts = helper.make_tensor("t", TensorProto.STRING, [2], ["a", "b"])
        halves = helper.make_tensor("h", TensorProto.BFLOAT16, [2], [1.5, -2.0])
        arguments = []
        for name, value in (("q", sequence), ("t", texts), ("h", halves)):
            pathlib.Path(self.path(f"{name}.pb")).write_bytes(value.SerializeToString())
            arguments += ["--input", f"{name}={self.path(f'{name}.pb')}"]
        for device in ("cpu", "reference"):
            out = self.folder / device
            self.run_program("run", self.path("kinds.onnx"), *arguments, "--output-dir", str(out), "--device", device)
            written = onnx.SequenceProto.FromString((out / "r.pb").read_bytes())
            self.assertEqual([a.tolist() for a in numpy_helper.to_list(written)], [[1, 2, 3], [-1, -2, -3]])
            self.assertEqual(list(onnx.TensorProto.FromString((out / "u.pb").read_bytes()).string_data), [b"a", b"b"])
            negated = numpy_helper.to_array(onnx.TensorProto.FromString((out / "k.pb").read_bytes()))
            self.assertEqual(negated.astype(numpy.float32).tolist(), [-1.5, 2.0])
            self.assertEqual(numpy.load(out / "y.npy").tolist(), [-1, -2, -3])

    def test_a_run_that_never_ends_is_given_up(self):
        for device in ("cpu", "reference"):
            message = self.error("run", *self.endless_loop(), "--budget", "300ms", "--device", device, status=4)
            self.assertIn("endless.onnx", message)
            self.assertIn("longer than its budget of 300ms", message)

    def test_a_run_that_never_ends_is_interrupted(self):
        with subprocess.Popen([self.program, "run", *self.endless_loop()], stderr=subprocess.PIPE, text=True) as process:
            self.interrupt_at_work(process)
            self.assertIn("was interrupted", process.communicate(timeout=60)[1])
            self.assertEqual(process.returncode, 4)

    def test_a_library_that_images_need_is_asked_for_by_name(self):
        self.write_text("decode.onnx", "(uint8[N] x) => (uint8[H, W, 3] y) { y = ImageDecoder <pixel_format = \"RGB\"> (x) }", opset=20)
        numpy.save(self.path("x.npy"), numpy.frombuffer(b"II*\0", numpy.uint8))  # the beginning of a TIFF file
        run = ["run", self.path("decode.onnx"), "--input", f"x={self.path('x.npy')}", "--output-dir", self.path("out")]
        self.run_program(*run)
        self.assertEqual(numpy.load(self.path("out/y.npy")).shape, (0, 0, 3))
        library = ctypes.util.find_library("tiff")
        linked = subprocess.run(["ldd", self.program], check=True, capture_output=True, text=True).stdout
        self.assertNotIn(library, linked)
        another = re.search(r"libz\.so\S* => (\S+)", linked)[1]
        for device in ("cpu", "reference"):
            for content, why in ((b"", "file too short"), (pathlib.Path(another).read_bytes(), "undefined symbol: TIFF")):
                (self.folder / library).write_bytes(content)
                with unittest.mock.patch.dict(os.environ, LD_LIBRARY_PATH=str(self.folder)):
                    message = self.error(*run, "--device", device, status=4)
                for part in ('node of "y"', "LibTIFF, which reads TIFF files, does not load", why, "Debian's package " + library.replace(".so.", "")):
                    self.assertIn(part, message)

    def test_run_traces(self):
        numpy.save(self.path("x.npy"), numpy.zeros((1, 4, 16, 16), "float32"))
        options = ["--input", f"x={self.path('x.npy')}", "--output-dir", self.path("out"), "--trace", self.path("trace.json")]
        facts = self.report("run", self.path("model.onnx"), *options)
        with open(self.path("trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual([event["name"] for event in events], [step["operators"] for step in facts["profile"]])
        for before, event in zip(events, events[1:]):
            self.assertEqual(event["ph"], "X")
            self.assertAlmostEqual(before["ts"] + before["dur"], event["ts"], places=3)

    def test_bench_gives_ratios_against_the_first(self):
        facts = self.report("bench", self.path("model.onnx"), self.path("model.onnx"), "--seconds", "0.2s", "--threads", "1")
        self.assertEqual(len(facts["models"]), 2)
        for model in facts["models"]:
            ordered = [model[f"{name}_ms"] for name in ("min", "p10", "median", "p90", "p95", "p99", "max")]
            self.assertEqual(ordered, sorted(ordered))
            self.assertTrue(model["min_ms"] <= model["mean_ms"] <= model["max_ms"])
        self.assertEqual(set(facts["ratios"][0]) & {"median", "low", "high"}, {"median", "low", "high"})

    def test_conformance_counts(self):
        case = self.folder / "cases" / "relu" / "test_data_set_0"
        case.mkdir(parents=True)
        node = helper.make_node("Relu", ["x"], ["y"])
        onnx.save(same_shape([node], [3]), str(case.parent / "model.onnx"))
        (case / "input_0.pb").write_bytes(tensor("x", numpy.array([-1, 0, 2], "float32")).SerializeToString())
        (case / "output_0.pb").write_bytes(tensor("y", numpy.array([0, 0, 2], "float32")).SerializeToString())
        facts = self.report("conformance", self.path("cases"))
        self.assertEqual((facts["passed"], facts["failed"], facts["unsupported"]), (1, 0, 0))
        (case / "output_0.pb").write_bytes(tensor("y", numpy.array([0, 1, 2], "float32")).SerializeToString())
        facts = self.report("conformance", self.path("cases"), "--device", "reference", status=1)
        self.assertEqual(facts["cases"][0]["status"], "failed")


if __name__ == "__main__":
    main()
