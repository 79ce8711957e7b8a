"""bench/peers counts what it must: values that differ, workers that crash and workers that hang."""

import os
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench", "peers"))
import compare  # noqa: E402
import lines  # noqa: E402

WORKER = """
import os, signal, sys, time
sys.path.insert(0, {folder!r})
import lines
replies = lines.Replies(4 << 30)
for request in lines.requests():
    print("noise on standard output")
    replies.stage("work")
    if request["do"] == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    while request["do"] == "hang":
        pass
    replies.reply({{"pid": os.getpid()}})
"""


class Values(unittest.TestCase):
    def test_equal_values_do_not_differ(self):
        floats = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
        special = np.array([np.nan, np.inf, -np.inf, 0], np.float32)
        for value in (floats, special, [floats, special], {"a": 1, "b": 2.5}, [{"a": 1}], np.array(["x", "y"], object), None, np.float32(2)):
            self.assertIsNone(compare.difference(value, value))
        self.assertIsNone(compare.difference(floats, floats * np.float32(1 + 1e-6)))

    def test_what_differs_is_said(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        changed = x.copy()
        changed[1, 2] += 0.1
        pairs = [(x, changed), (x, x.T), (x, x.astype(np.float64)), ([x], [x, x]), ({"a": 1}, {"b": 1}), (None, x), (x, None)]
        pairs += [(np.array(["x"], object), np.array(["y"], object)), (np.array([np.inf]), np.array([np.nan])), (np.array([1]), np.array([2]))]
        for expected, actual in pairs:
            self.assertIsNotNone(compare.difference(expected, actual))
        self.assertIsNone(compare.difference(x, changed, numbers=False))

    def test_small_elements_beside_large_ones_count(self):
        expected = np.array([1e-3, 2e-3, 3e-3, 1e-2], np.float64)
        self.assertIsNotNone(compare.difference(expected, expected + 1e-4))


class Workers(unittest.TestCase):
    def test_a_worker_that_ends_is_reported_and_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "worker.py")
            with open(script, "w", encoding="utf-8") as file:
                file.write(WORKER.format(folder=os.path.dirname(lines.__file__)))
            worker = lines.Worker(script)
            first = worker.ask({"do": "reply"}, 60)
            self.assertEqual(worker.ask({"do": "reply"}, 60), first)
            for deed, how in (("crash", "crashed"), ("hang", "too slow")):
                with self.assertRaises(lines.Ended) as caught:
                    worker.ask({"do": deed}, 0.5)
                self.assertEqual((caught.exception.how, caught.exception.stage), (how, "work"))
                self.assertNotEqual(worker.ask({"do": "reply"}, 60), first)
            worker.close()


if __name__ == "__main__":
    unittest.main()
