"""A folder with a model and what belongs to it, optimized as a whole: python model_folder.py REWRIGHT [TEST ...]"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import language_folder

PROGRAM = sys.argv.pop(1)


def write_model(path, external=None):
    """x W V + 0, two products that are one, with its weights in the file `external` beside it if that is said."""
    path.parent.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(1)
    shapes = {"w": (32, 32), "v": (32, 32), "zero": (32,)}
    weights = [numpy_helper.from_array(random.normal(size=shape).astype("float32") * (name != "zero"), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["a", "v"], ["b"]),
        helper.make_node("Add", ["b", "zero"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 32]) for name in "xy"]
    graph = helper.make_graph(nodes, "products", values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=external is not None, location=external, size_threshold=100)


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


class ModelFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        self.folder, self.result = self.root / "in", self.root / "out"
        self.folder.mkdir()
        (self.folder / "config.json").write_text("{}")
        (self.folder / "tokenizer").mkdir()
        (self.folder / "tokenizer" / "words.bin").write_bytes(bytes(range(256)))

    def optimize(self, status=0, output=None):
        command = [PROGRAM, "optimize", self.folder, "-o", output or self.result, "--device", "cpu", "--budget", "1s", "--quiet"]
        before = contents(self.folder)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(contents(self.folder), before)
        self.assertEqual([name for name in os.listdir(self.root) if name not in ("in", "out")], [])
        return done.stderr

    def compute(self, path):
        x = numpy.random.default_rng(2).normal(size=(4, 32)).astype("float32")
        return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]

    def assert_optimized(self, model, others):
        numpy.testing.assert_allclose(self.compute(self.result / model), self.compute(self.folder / model), rtol=1e-3, atol=1e-3)
        written = contents(self.result)
        for name in ("config.json", "tokenizer/words.bin", *others):
            self.assertEqual(written[name], (self.folder / name).read_bytes())
        return set(written) - {"config.json", "tokenizer/words.bin", *others}

    def test_all_else_is_as_it_was(self):
        write_model(self.folder / "model.onnx")
        os.chmod(self.folder / "config.json", 0o640)
        self.optimize()
        self.assertEqual(self.assert_optimized("model.onnx", []), {"model.onnx"})
        self.assertEqual(os.stat(self.result / "config.json").st_mode & 0o777, 0o640)

    def test_weights_beside_the_model_stay_beside_it(self):
        write_model(self.folder / "onnx" / "model.onnx", external="model.onnx_data")
        self.optimize(output=str(self.result) + "/")
        self.assertEqual(self.assert_optimized("onnx/model.onnx", []), {"onnx/model.onnx", "onnx/model.onnx.data"})

    def test_weights_may_have_the_name_that_the_new_ones_get(self):
        write_model(self.folder / "model.onnx", external="model.onnx.data")
        self.optimize()
        self.assertEqual(self.assert_optimized("model.onnx", []), {"model.onnx", "model.onnx.data"})

    def test_weights_that_another_model_reads_are_kept(self):
        write_model(self.folder / "model.onnx", external="shared.bin")
        other = (self.folder / "model.onnx").read_bytes()
        (self.folder / "other.onnx").write_bytes(other)
        self.optimize()
        self.assertEqual(self.assert_optimized("model.onnx", ["other.onnx", "shared.bin"]), {"model.onnx", "model.onnx.data"})
        self.compute(self.result / "other.onnx")

    def test_the_only_model_may_have_any_name(self):
        write_model(self.folder / "encoder.onnx")
        self.result.mkdir()  # an empty folder is as good as none
        self.optimize()
        self.assertEqual(self.assert_optimized("encoder.onnx", []), {"encoder.onnx"})

    def test_what_is_there_is_left_alone(self):
        write_model(self.folder / "model.onnx")
        self.result.mkdir()
        (self.result / "precious").write_text("x")
        self.assertIn("something already", self.optimize(status=4))
        self.assertEqual(contents(self.result), {"precious": b"x"})

    def test_a_copy_within_itself(self):
        write_model(self.folder / "model.onnx")
        self.assertIn("lies in the folder", self.optimize(status=4, output=self.folder / "out"))
        self.assertIn("something already", self.optimize(status=4, output=self.folder))

    def test_a_folder_without_a_model(self):
        self.assertIn("no .onnx file", self.optimize(status=3))
        for name in ("encoder.onnx", "decoder.onnx"):
            write_model(self.folder / name)
        self.assertIn("2 .onnx files", self.optimize(status=3))
        self.assertFalse(self.result.exists())

    def test_a_language_model_decodes_as_before(self):
        """Its attention stays in one node a layer, and graphs are compared at a prompt's sizes and at a step's."""
        for shared in (True, False):
            with self.subTest(shared=shared):
                folder, result = self.root / f"in/{shared}", self.root / f"out/{shared}"
                language_folder.write_folder(folder, shared=shared)
                result.parent.mkdir(exist_ok=True)
                facts = self.facts("optimize", folder, "-o", result, "--device", "cpu", "--estimate")
                self.assertGreater(facts["check"]["runs"], 0, facts["outcome"])
                steps = [(at["sizes"]["batch"], at["sizes"]["length"]) for at in facts["sets_of_sizes"]]
                self.assertEqual(steps, [(1, 32), (1, 1)])
                self.assertGreater(facts["sets_of_sizes"][1]["weight"], facts["sets_of_sizes"][0]["weight"])
                nodes = onnx.load(result / "model.onnx").graph.node
                self.assertEqual([node.op_type for node in nodes].count("GroupQueryAttention"), language_folder.LAYERS)
                (self.root / "in" / "tokens").write_text("5 6 7")
                found = [self.facts("complete", model, "--tokens", self.root / "in" / "tokens", "--max-tokens", "20", "--temperature", "0")
                         for model in (folder, result)]
                self.assertEqual(found[0]["tokens"], found[1]["tokens"])
                given = self.facts("optimize", folder, "-o", self.root / f"out/given{shared}", "--device", "cpu", "--estimate", "--check", "0",
                                   "--shape", "input_ids=1x4")
                self.assertEqual([at["sizes"]["length"] for at in given["sets_of_sizes"]], [4])

    def facts(self, *command):
        report = self.root / "in" / "report.json"
        done = subprocess.run([PROGRAM, *command, "--json", report], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(report.read_text())

    def test_nothing_is_left_of_a_failure(self):
        (self.folder / "model.onnx").write_bytes(b"no model")
        self.assertIn("model.onnx", self.optimize(status=3))
        write_model(self.folder / "model.onnx", external="gone.bin")
        (self.folder / "gone.bin").unlink()
        self.assertIn("gone.bin", self.optimize(status=3))
        self.assertFalse(self.result.exists())


if __name__ == "__main__":
    unittest.main()
