#!/usr/bin/env python3
"""One session for many: threads at once, and thousands of calls that leave nothing behind.
Usage: python_sharing.py REWRIGHT BUILD_FOLDER [UNITTEST-ARGUMENTS]"""

import gc
import os
import sys
import threading
import unittest

from python_testing import convolutions, main, one_node  # says where the package is

import numpy

import rewright


class Sharing(unittest.TestCase):
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


if __name__ == "__main__":
    main()
