#!/usr/bin/env python3
"""Programs of others that use ONNX Runtime's Python package, with nothing but the import changed.
Usage: python_drop_in.py REWRIGHT BUILD_FOLDER magika|rapidocr

The example of the package runs twice, in processes of its own: with ONNX Runtime, and with Rewright under that name."""

import json
import os
import subprocess
import sys

BUILD, EXAMPLE = sys.argv[2:4]

CHANGED = "import sys, rewright; sys.modules['onnxruntime'] = rewright\n"

EXAMPLES = {
    # https://github.com/google/magika: what kind of file is it?
    "magika": """
import json
from magika import Magika
m = Magika()
samples = [b'function log(msg) {console.log(msg);}', b'[section]\\nkey = value\\n[other]\\nkey = 3\\n',
           b'import os\\n\\ndef here():\\n    return os.getcwd()\\n', b'<html><body><p>text</p></body></html>', bytes(range(256)) * 20]
found = [m.identify_bytes(sample) for sample in samples] + m.identify_paths([__import__('magika').__file__])
print(json.dumps([[result.output.label for result in found], [result.score for result in found]]))
""",
    # https://github.com/RapidAI/RapidOCR: the text in an image
    "rapidocr": """
import json
import cv2, numpy
from rapidocr import RapidOCR
picture = numpy.full((120, 640, 3), 255, numpy.uint8)
cv2.putText(picture, "Rewrite rules 2026", (20, 75), cv2.FONT_HERSHEY_SIMPLEX, 1.8, (0, 0, 0), 3)
result = RapidOCR()(picture)
print(json.dumps([list(result.txts), [float(score) for score in result.scores]]))
""",
}


def outcome(code):
    environment = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def main():
    (expected, expected_scores), (found, scores) = (outcome(first + EXAMPLES[EXAMPLE]) for first in ("", CHANGED))
    print(found)
    assert found and found == expected, (found, expected)
    assert all(abs(a - b) < 1e-3 for a, b in zip(scores, expected_scores, strict=True)), (scores, expected_scores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
