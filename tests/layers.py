"""Includes point downwards: python layers.py SOURCE

LAYERS lists the folders, each above those that stand on it. A file may include its own folder's files and those of folders above,
but for tests, which may include everything.
"""

import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path.cwd()

LAYERS = """
base
expressions
images
operators
operators/readings
operators/definitions
operators/procedures
operators/procedures/learned
operators/contrib
distribution
graph
graph/onnx
graph/gradients
graph/onnx/import
models
rules
rules/algebra
rules/taso
rules/raising
verifier
verifier/checker
generator/enumeration
generator/pruning
generator/writing
generator/partial
generator/run
optimizer/integer_program
optimizer/limits
optimizer/devices
optimizer/matching
optimizer/raising
optimizer/costs
optimizer/profiling
optimizer/saturation
optimizer/search
optimizer/folding
optimizer/certificates
optimizer/inputs
optimizer/checking
optimizer/measuring
optimizer/candidates
optimizer
plans/machines
plans/simulation
plans/topology
plans/cuts
plans/partition
plans/groups
plans/pipelines
plans
plans/execution
equivalence/checker
equivalence
report
runtime
runtime/reference
runtime/onnxruntime
runtime/planning
runtime/cpu/base
runtime/cpu/loops
runtime/cpu/tile
runtime/cpu/planning
runtime/cpu/running
runtime/cpu/onednn
runtime/cpu/kernels
runtime/cpu/kernels/rows
runtime/cpu/kernels/trees
runtime/cpu/kernels/product
runtime/cpu/kernels/convolution
runtime/cpu/kernels/quantized
runtime/cpu/backend
runtime/cuda/driver
runtime/cuda/source
runtime/cuda/planning
runtime/cuda/running
runtime/cuda/plugin
runtime/training/data
runtime/training/graphs
runtime/training/memory
runtime/training/steps
runtime/training/asynchronous
runtime/planned
api
api/language
api/c
tools/cli
python/native
""".split()

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
TEST = re.compile(r"(_test\.cc|(^|/|_)testing[./]|/testing/)")


def folder_of(path):
    return path.rpartition("/")[0]


def sources():
    names = subprocess.run(["git", "ls-files", "*.h", "*.cc"], cwd=SOURCE, check=True, capture_output=True, text=True).stdout.split()
    return [name for name in names if (SOURCE / name).exists()]


def upward_includes(files):
    """For files (path, text): "path includes path" for each include of a folder further down the list, or of a file that is for tests."""
    place = {folder: number for number, folder in enumerate(LAYERS)}
    for name, text in files:
        folder = folder_of(name)
        if TEST.search(name) or folder not in place:
            continue
        for included in INCLUDE.findall(text):
            other = folder_of(included)
            if other in place and place[other] > place[folder] or TEST.search(included):
                yield f"{name} includes {included}"


class Layers(unittest.TestCase):
    def test_no_include_points_up(self):
        self.assertEqual(list(upward_includes((name, (SOURCE / name).read_text(encoding="utf-8")) for name in sources())), [])

    def test_each_folder_is_listed(self):
        folders = {folder_of(name) for name in sources() if not TEST.search(name)}
        others = {folder for folder in folders if folder.split("/")[0] in ("tests", "examples", "bench")}
        self.assertEqual(sorted(folders - others - set(LAYERS)), [])
        self.assertEqual(sorted(set(LAYERS) - folders), [])

    def test_what_is_found(self):
        files = [
            ("graph/graph.cc", '#include "graph/graph.h"\n#include "operators/operator.h"\n#include "graph/onnx/onnx.h"\n'),
            ("graph/graph_test.cc", '#include "rules/rule.h"\n'),
            ("rules/rule.cc", '#include "graph/testing.h"\n#include <vector>\n'),
        ]
        found = ["graph/graph.cc includes graph/onnx/onnx.h", "rules/rule.cc includes graph/testing.h"]
        self.assertEqual(list(upward_includes(files)), found)


if __name__ == "__main__":
    unittest.main()
