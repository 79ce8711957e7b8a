#!/usr/bin/env python3
"""Runs what stands in docs/: blocks marked `sh runnable` and `python runnable`, those of a page one after the other in an empty folder;
and sees to it that blocks marked `cpp in=FILE` stand in that file, which is compiled. Usage: doc_samples.py REWRIGHT SOURCE BUILD"""

import glob
import os
import re
import subprocess
import sys
import tempfile

REWRIGHT, SOURCE, BUILD = sys.argv[1:4]
BLOCK = re.compile(r"^```(\w+) ([^\n]+)\n(.*?)^```$", re.M | re.S)


def without_indentation(text):
    return "".join(text.split())


def run(language, code, folder):
    command = ["bash", "-e", "-c", code] if language == "sh" else [sys.executable, "-c", code]
    environment = {**os.environ, "PATH": os.path.dirname(REWRIGHT) + os.pathsep + os.environ["PATH"],
                   "PYTHONPATH": os.path.join(BUILD, "python"), "XDG_CACHE_HOME": os.path.join(folder, ".cache")}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return "" if result.returncode == 0 else f"status {result.returncode}\n{result.stdout}{result.stderr}"


def check(page):
    """The number of blocks, and what is wrong."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    blocks = 0
    with tempfile.TemporaryDirectory() as folder:
        for match in BLOCK.finditer(text):
            language, mark, code = match.groups()
            where = f"{os.path.relpath(page, SOURCE)}:{text.count(chr(10), 0, match.start()) + 1}"
            blocks += 1
            if mark == "runnable" and language in ("sh", "python"):
                wrong = run(language, code, folder)
                if wrong:
                    return blocks, f"{where}: {wrong}"
            elif mark.startswith("in="):
                with open(os.path.join(SOURCE, mark[3:]), encoding="utf-8") as file:
                    if without_indentation(code) not in without_indentation(file.read()):
                        return blocks, f"{where}: this does not stand in {mark[3:]}"
            else:
                return blocks, f"{where}: what is a block of {language} {mark}?"
    return blocks, ""


def main():
    total, failed = 0, False
    for page in sorted(glob.glob(os.path.join(SOURCE, "docs", "*.md"))):
        blocks, wrong = check(page)
        total += blocks
        if blocks:
            print(f"{os.path.basename(page)}: {blocks} blocks", flush=True)
        if wrong:
            failed = True
            print(wrong, file=sys.stderr)
    assert total > 10, "the samples are gone"
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
