"""Tests of ort_worker.py over its real protocol: python ort_worker_test.py"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ort_worker.py")


class Worker:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def ask(self, operation, **fields):
        return self.send(json.dumps({"op": operation, **fields}))

    def close(self):
        self.process.stdin.close()
        status = self.process.wait(timeout=30)
        self.process.stdout.close()
        return status


def matmul_model(rows, weight):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, weight.shape[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, weight.shape[1]])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class OrtWorkerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.worker = Worker()

    def tearDown(self):
        self.assertEqual(self.worker.close(), 0)
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def save(self, name, model, **options):
        onnx.save(model, self.path(name), **options)
        return self.path(name)

    def weight(self, inner=64, columns=32):
        return np.random.default_rng(1).standard_normal((inner, columns)).astype(np.float32)

    def test_hello_tells_the_versions(self):
        reply = self.worker.ask("hello")
        self.assertEqual(set(reply), {"onnxruntime", "numpy", "cpu"})
        self.assertTrue(reply["cpu"])

    def test_run_writes_an_array_for_each_output(self):
        path = self.save("model.onnx", matmul_model(8, self.weight()))
        x = np.ones((8, 64), np.float32)
        np.save(self.path("x.npy"), x)
        reply = self.worker.ask("run", path=path, inputs={"x": self.path("x.npy")}, outputs_dir=self.path("out"))
        np.testing.assert_allclose(np.load(reply["outputs"]["y"]), x @ self.weight(), rtol=1e-5, atol=1e-5)

    def test_run_reads_external_data(self):
        path = self.save(
            "external.onnx", matmul_model(8, self.weight()), save_as_external_data=True, location="w.bin", size_threshold=0
        )
        np.save(self.path("x.npy"), np.ones((8, 64), np.float32))
        reply = self.worker.ask("run", path=path, inputs={"x": self.path("x.npy")}, outputs_dir=self.path("out"))
        self.assertIn("y", reply["outputs"])

    def test_models_are_timed_in_turn(self):
        small = self.save("small.onnx", matmul_model(2, self.weight()))
        large = self.save("large.onnx", matmul_model(512, self.weight(512, 512)))
        reply = self.worker.ask("time_models", paths=[small, large], min_seconds=0.1)
        self.assertEqual(len(reply["seconds"][0]), len(reply["seconds"][1]))
        self.assertGreaterEqual(len(reply["seconds"][0]), 5)
        self.assertLess(reply["median"][0], reply["median"][1])

    def test_open_sizes_come_from_the_request(self):
        path = self.save("open.onnx", matmul_model("N", self.weight(512, 512)))
        one = self.worker.ask("time_models", paths=[path], min_seconds=0.05)
        many = self.worker.ask("time_models", paths=[path], min_seconds=0.05, shapes={"x": [512, 512]})
        self.assertLess(one["median"][0], many["median"][0])

    def test_feeds_come_from_a_file(self):
        path = self.save("open.onnx", matmul_model("N", self.weight()))
        np.savez(self.path("feeds.npz"), x=np.ones((3, 7), np.float32))
        reply = self.worker.ask("time_models", paths=[path], feeds=self.path("feeds.npz"), min_seconds=0.01)
        self.assertIn("7", reply["error"])  # the wrong inner size, so it was the file's array that was used

    def test_a_batch_goes_on_after_a_bad_model(self):
        good = self.save("good.onnx", matmul_model(8, self.weight()))
        with open(self.path("bad.onnx"), "wb") as file:
            file.write(b"not a model")
        reply = self.worker.ask("time_batch", paths=[good, self.path("bad.onnx"), good], seconds_each=0.005)
        self.assertIsNone(reply["median"][1])
        self.assertTrue(reply["reasons"][1])
        self.assertGreater(reply["median"][2], 0)
        self.assertLessEqual(reply["min"][0], reply["median"][0])
        self.assertGreater(reply["overhead"], 0)

    def test_bad_requests_are_answered(self):
        self.assertIn("unknown operation", self.worker.ask("dance")["error"])
        self.assertIn("error", self.worker.send("{"))
        self.assertIn("error", self.worker.send("[]"))
        self.assertIn("error", self.worker.ask("run", path=self.path("none.onnx"), outputs_dir=self.path("out")))
        self.assertIn("onnxruntime", self.worker.ask("hello"))


if __name__ == "__main__":
    unittest.main()
