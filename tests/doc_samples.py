#!/usr/bin/env python3
"""Tests the documentation: docs/*.md and HACKING.md. Usage: doc_samples.py REWRIGHT SOURCE BUILD

- Blocks marked `sh runnable` and `python runnable` are executed, those of a page one after the other in an empty folder.
- Blocks marked `cpp in=FILE` must stand in that file, which is compiled.
- Files and folders of the tree that a page names in `backticks` must exist. A name may be a pattern (`rules/database/*.rules`).
- So must those of the lists below a heading that is a folder (HACKING.md's map), where a name without an ending stands for a header and its
  source files.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

REWRIGHT, SOURCE, BUILD = sys.argv[1:4]
BLOCK = re.compile(r"^```(\w+) ([^\n]+)\n(.*?)^```$", re.M | re.S)
ANY_BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
NAMED = re.compile(r"`(?:~/|\$|http)?((?:[a-z]\w*|\.ci)/[^`\s]*)[^`]*`")


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


def missing_files(page):
    """The files that the page names and that are not there. Only names that begin with a folder of the tree count."""
    with open(page, encoding="utf-8") as file:
        text = ANY_BLOCK.sub("", file.read())
    named = {match.rstrip(".,:;") for match in NAMED.findall(text)}
    folders = {entry.name for entry in os.scandir(SOURCE) if entry.is_dir() and entry.name != "build"}
    return sorted(name for name in named
                  if name.split("/")[0] in folders and not re.search("[A-Z]{4}", name) and not glob.glob(os.path.join(SOURCE, name)))


def missing_in_map(page):
    """The files that lists below a folder's heading name, before the colon, and that are not there."""
    folder, missing = None, []
    with open(page, encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                heading = re.match(r"#+ `(.+/)`$", line)
                folder = heading and os.path.join(SOURCE, heading[1])
            elif folder and line.startswith("- "):
                paths = [os.path.join(folder, name) for name in re.findall("`([^`]+)`", line.split("`: ")[0] + "`")]
                missing += [os.path.relpath(path, SOURCE) for path in paths if not glob.glob(path) and not glob.glob(path + ".*")]
    return missing


def main():
    total, failed = 0, False
    for page in [*sorted(glob.glob(os.path.join(SOURCE, "docs", "*.md"))), os.path.join(SOURCE, "HACKING.md")]:
        blocks, wrong = check(page)
        wrong += "".join(f"\n{os.path.relpath(page, SOURCE)}: there is no {name}" for name in missing_files(page) + missing_in_map(page))
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
