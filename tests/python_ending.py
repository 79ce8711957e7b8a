#!/usr/bin/env python3
"""Runs that are ended from outside: a loop that would never end, and a large graph of ordinary nodes.
Usage: python_ending.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import asyncio
import threading
import unittest

from python_testing import main, model_of, one_node, value  # says where the package is

import numpy
from onnx import TensorProto, helper, numpy_helper

import rewright

FOREVER = numpy.int64(2**62)


def loop():
    """y = x doubled m times."""
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["w"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("v", TensorProto.FLOAT, [40, 60])],
        [value("d", TensorProto.BOOL, []), value("w", TensorProto.FLOAT, [40, 60])],
    )
    node = helper.make_node("Loop", ["m", "", "x"], ["y"], name="doubling", body=body)
    return model_of([node], [value("m", TensorProto.INT64, []), value("x", TensorProto.FLOAT, [40, 60])], [value("y", TensorProto.FLOAT, [40, 60])])


def many_nodes(count=4000, size=768):
    """Products of matrices, one after the other: minutes of work."""
    weight = numpy_helper.from_array(numpy.eye(size, dtype=numpy.float32), "w")
    names = ["x", *(f"v{i}" for i in range(1, count)), "y"]
    nodes = [helper.make_node("MatMul", [names[i], "w"], [names[i + 1]]) for i in range(count)]
    return model_of(nodes, [value("x", TensorProto.FLOAT, [size, size])], [value("y", TensorProto.FLOAT, [size, size])], [weight])


class Ending(unittest.TestCase):
    def assert_ended(self, session, feeds, run=None):
        """A run in another thread, which is ended whether it has begun or not."""
        options, raised = rewright.RunOptions(), []

        def work():
            try:
                (run or session.run)(None, feeds, options)
            except Exception as error:
                raised.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(0.2)
        options.terminate = True
        thread.join()
        self.assertEqual([isinstance(error, rewright.CancelledError) for error in raised], [True])
        self.assertEqual((raised[0].code, raised[0].text), ("cancelled", "the run was ended"))
        return options, raised[0]

    def test_loop(self):
        x = numpy.ones((40, 60), numpy.float32)
        for device in ("cpu", "reference"):
            session = rewright.InferenceSession(loop(), device=device)
            options, error = self.assert_ended(session, {"m": FOREVER, "x": x})
            self.assertIn("doubling", error.where)
            feeds = {"m": numpy.int64(3), "x": x}
            with self.assertRaises(rewright.CancelledError):
                session.run(None, feeds, options)
            options.terminate = False
            self.assertEqual(session.run(None, feeds, options)[0].tolist(), (8 * x).tolist())

    def test_large_graph(self):
        session = rewright.InferenceSession(many_nodes())
        x = numpy.ones((768, 768), numpy.float32)
        self.assert_ended(session, {"x": x})
        self.assert_ended(session, {"x": x}, session.run_with_ort_values)
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y")
        self.assert_ended(session, {}, lambda names, feeds, options: session.run_with_iobinding(binding, options))

    def test_others_go_on(self):
        session = rewright.InferenceSession(loop())
        x = numpy.ones((40, 60), numpy.float32)
        found = []
        thread = threading.Thread(target=lambda: found.append(session.run(None, {"m": numpy.int64(2000), "x": 0 * x}, rewright.RunOptions())[0]))
        thread.start()
        self.assert_ended(session, {"m": FOREVER, "x": x})
        thread.join()
        self.assertEqual(found[0].tolist(), (0 * x).tolist())

    def test_a_run_that_somebody_asks_about_is_ended(self):
        session, options = rewright.InferenceSession(loop()), rewright.RunOptions()
        feeds, ended = {"m": FOREVER, "x": numpy.ones((40, 60), numpy.float32)}, []

        def work():
            try:
                session.run(None, feeds, options)
            except rewright.CancelledError as error:
                ended.append(error)

        threads = [threading.Thread(target=target) for target in (work, session.profile, lambda: session.peak_bytes)]
        for thread in threads:
            thread.start()
            thread.join(0.2)
        options.terminate = True
        for thread in threads:
            thread.join()
        self.assertEqual(len(ended), 1)

    def test_callback(self):
        session = rewright.InferenceSession(loop())
        x = numpy.ones((40, 60), numpy.float32)
        told, options = [], rewright.RunOptions()

        def run(feeds, options=None):
            ended = threading.Event()
            session.run_async(["y"], feeds, lambda *facts: (told.append(facts), ended.set()), "mine", options)
            return ended

        run({"m": numpy.int64(2), "x": x}).wait()
        results, user_data, error = told.pop()
        self.assertEqual((results[0].tolist(), user_data, error), ((4 * x).tolist(), "mine", ""))
        ended = run({"m": FOREVER, "x": x}, options)
        options.terminate = True
        ended.wait()
        results, user_data, error = told.pop()
        self.assertEqual((results, user_data), ([], "mine"))
        self.assertIn("the run was ended", error)

    def test_awaited(self):
        session = rewright.InferenceSession(loop())
        x = numpy.ones((40, 60), numpy.float32)

        async def work():
            task = asyncio.create_task(session.run_async(None, {"m": FOREVER, "x": x}))
            await asyncio.sleep(0.1)
            self.assertFalse(task.done())
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            return await session.run_async(None, {"m": numpy.int64(1), "x": x})

        self.assertEqual(asyncio.run(work())[0].tolist(), (2 * x).tolist())

    def test_awaited_with_the_same_options(self):
        session, options = rewright.InferenceSession(loop()), rewright.RunOptions()
        feeds = {"m": FOREVER, "x": numpy.ones((40, 60), numpy.float32)}

        async def work():
            first, second = (asyncio.create_task(session.run_async(None, feeds, run_options=options)) for _ in range(2))
            await asyncio.sleep(0.1)
            first.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await first
            await asyncio.sleep(0.1)
            self.assertFalse(second.done())
            options.terminate = True
            with self.assertRaises(rewright.CancelledError):
                await second

        asyncio.run(work())

    def test_options_are_onnxruntimes(self):
        options = rewright.RunOptions()
        self.assertIs(options.terminate, False)
        options.add_run_config_entry("key", "value")
        self.assertEqual(options.get_run_config_entry("key"), "value")
        x = numpy.ones((4, 8), numpy.float32)
        self.assertEqual(rewright.InferenceSession(one_node("Neg")).run(None, {"x": x}, options)[0].tolist(), (-x).tolist())


if __name__ == "__main__":
    main()
