"""Language models on the device of tests: python device_language.py PROGRAM PLUGIN

PLUGIN is what the program takes for its CUDA runtime. It lies beside a copy of the program."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from language_folder import write_folder

PROGRAM = None


class Languages(unittest.TestCase):
    def tokens(self, model, prompt, count, device):
        with tempfile.TemporaryDirectory() as folder:
            given, report = os.path.join(folder, "tokens"), os.path.join(folder, "report.json")
            pathlib.Path(given).write_text(" ".join(map(str, prompt)))
            subprocess.run([PROGRAM, "complete", model, "--tokens", given, "--max-tokens", str(count), "--min-tokens", str(count), "--device", device,
                            "--json", report, "--quiet"], check=True)  # fmt: skip
            with open(report, encoding="utf-8") as file:
                return json.load(file)["tokens"]

    def test_a_cache_in_the_devices_memory_grows_and_goes_on(self):
        # A shared cache has room for 128 tokens, then for more. Prompts are filled up to 16, 24, 32, 48 ... tokens.
        for shared, length in ((True, 120), (True, 19), (False, 3)):
            with self.subTest(shared=shared, length=length), tempfile.TemporaryDirectory() as folder:
                model = write_folder(folder, seed=4, shared=shared)
                prompt = [3 + 7 * k % 250 for k in range(length)]
                count = 10 if length == 120 else 5
                expected = self.tokens(model, prompt, count, "cpu")
                self.assertEqual(self.tokens(model, prompt, count, "cuda"), expected)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rewright")
    parser.add_argument("plugin")
    arguments, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        PROGRAM = os.path.join(folder, "rewright")
        shutil.copy2(arguments.rewright, PROGRAM)
        os.symlink(os.path.abspath(arguments.plugin), os.path.join(folder, "librewright_cuda.so"))
        os.environ["XDG_CACHE_HOME"] = folder  # kernels and choices of the device of tests
        unittest.main(argv=["device_language.py", *rest])
