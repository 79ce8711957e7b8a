#!/usr/bin/env python3
"""No library is forgotten: what is linked, inlined or loaded stands in THIRD_PARTY.md with its licence, and `rewright --version`
and rewright.versions() say its version. What these libraries load themselves stands there, too.
Usage: versions.py REWRIGHT BUILD_FOLDER SOURCE_FOLDER"""

import os
import re
import subprocess
import sys
import unittest

REWRIGHT, BUILD, SOURCE = sys.argv[1:4]
sys.path.insert(0, os.path.join(BUILD, "python"))

# Compilers bring these: the languages' libraries, OpenMP, threads.
OF_COMPILERS = re.compile(r"(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|libgomp)\.so")

# By what a file of ours asks the loader for it, and by the name that CMake finds it by.
LOADED = {
    "libcgraph": "Graphviz",
    "libcrypto": "OpenSSL",
    "libdnnl": "oneDNN",
    "libgvc": "Graphviz",
    "libhighs": "HiGHS",
    "libopenblas": "OpenBLAS",
    "libopenjp2": "OpenJPEG",
    "libpng16": "libpng",
    "libprotobuf": "Protocol Buffers",
    "librewright_protobuf": "Protocol Buffers",
    "libre2": "RE2",
    "libsleef": "SLEEF",
    "libsqlite3": "SQLite",
    "libturbojpeg": "libjpeg-turbo",
    "libwebp": "libwebp",
    "libwebpdecoder": "libwebp",
    "libxxhash": "xxHash",
    "libz": "zlib",
    "libz3": "Z3",
}
LOADED_BY_OTHERS = {
    "libcdt": "Graphviz",
    "libexpat": "Expat",
    "libgfortran": "GCC",
    "libgomp": "GCC",
    "libgvplugin_core": "Graphviz",
    "libgvplugin_dot_layout": "Graphviz",
    "libltdl": "libltdl",
    "libpathplan": "Graphviz",
    "libquadmath": "GCC",
}
FOUND = {
    "CLI11": "CLI11",
    "D3_SCRIPT": "D3",
    "Graphviz": "Graphviz",
    "ONNX": "ONNX",
    "OpenBLAS": "OpenBLAS",
    "OpenJPEG": "OpenJPEG",
    "OpenSSL": "OpenSSL",
    "PNG": "libpng",
    "Protobuf": "Protocol Buffers",
    "RE2": "RE2",
    "SQLite3": "SQLite",
    "Sleef": "SLEEF",
    "TIFF": "LibTIFF",
    "TurboJPEG": "libjpeg-turbo",
    "WebP": "libwebp",
    "Z3": "Z3",
    "ZLIB": "zlib",
    "highs": "HiGHS",
    "nlohmann_json": "nlohmann/json",
    "oneDNN": "oneDNN",
    "xxHash": "xxHash",
}
NOT_INSIDE = {"Catch2", "OpenMP", "Threads"}  # tests', and the compiler's
# Libraries with another name in the list of versions.
SAID = {"Protocol Buffers": "Protobuf", "nlohmann/json": "nlohmann-json"}
# Loaded where they are there; of CUDA there are several lines.
OPTIONAL = {"Open MPI", "CUDA", "cuDNN", "cuBLAS", "NCCL"}
OPTIONAL_SAID = re.compile(r"(Open MPI|driver for CUDA|CUDA|cuBLASLt|cuDNN|NVRTC|NCCL)$")
OF_PYTHON = {"nanobind", "NumPy", "ml_dtypes"}
OF_PROGRAM = {"CLI11"}


def read(file):
    with open(os.path.join(SOURCE, file), encoding="utf-8") as opened:
        return opened.read()


def third_party():
    """The names in the first table: of what is inside."""
    table = read("THIRD_PARTY.md").split("|---|---|---|")[1].split("\n\n")[0]
    cells = [row.split("|")[1] for row in table.strip().splitlines()]
    return {name.strip() for cell in cells for name in (re.findall(r"\[([^]]+)\]\(", cell) or cell.split(","))}


def licence(library):
    """The entry of THIRD_PARTY.md for a library's file: by the name up to ".so"."""
    stem = os.path.basename(library).split(".so")[0]
    name = LOADED.get(stem) or LOADED_BY_OTHERS.get(stem)
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in read("THIRD_PARTY.md").splitlines() if row.startswith(f"| [{name}](")]
    assert len(rows) == 1, f"{library} is not named once in THIRD_PARTY.md"
    return rows[0][-1]


def obliges_all(licence_text):
    """Whether what is linked with a library has to be under its licence, too."""
    return any(re.match("A?GPL", part) and "exception" not in part for part in re.split(", | and ", licence_text))


def without_optional(names):
    return {name for name in names if not OPTIONAL_SAID.match(name)}


class Versions(unittest.TestCase):
    def setUp(self):
        self.names = third_party()
        self.expected = {SAID.get(name, name) for name in self.names - OPTIONAL}

    def test_table_has_each_once(self):
        self.assertLessEqual(OPTIONAL | OF_PYTHON | OF_PROGRAM, self.names)
        rows = [row for row in read("THIRD_PARTY.md").splitlines() if row.startswith("| [")]
        links = [link for row in rows for link in re.findall(r"\]\((\S+?)\)", row.split("|")[1])]
        self.assertEqual(sorted(links), sorted(set(links)))

    def test_program_says_all(self):
        lines = subprocess.run([REWRIGHT, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(lines[0].split()[0], "rewright")
        said = dict(part.rsplit(" ", 1) for line in lines[1:] for part in line.split(", "))
        self.assertEqual(without_optional(said), self.expected - OF_PYTHON)
        for name, version in said.items():
            self.assertRegex(version, r"^v?\d", name)

    def test_package_says_all(self):
        import rewright

        said = rewright.versions()
        self.assertEqual(said.pop("rewright"), rewright.__version__)
        self.assertEqual(without_optional(said), self.expected - OF_PROGRAM)

    def test_what_is_linked_is_said(self):
        native = os.path.join(BUILD, "python", "rewright", "_native")
        extension = next(os.path.join(native, file) for file in os.listdir(native) if file.startswith("_core") and file.endswith(".so"))
        for file in (REWRIGHT, extension, os.path.join(BUILD, "api", "librewright.so")):
            if not os.path.exists(file):
                continue
            dynamic = subprocess.run(["readelf", "-d", file], check=True, capture_output=True, text=True).stdout
            for library in re.findall(r"\(NEEDED\).*\[(.+?)\]", dynamic):
                if not OF_COMPILERS.match(library):
                    self.assertIn(LOADED.get(library.split(".so")[0], library), self.names, f"{file} loads {library}")

    def test_what_libraries_load_is_named(self):
        named = set(re.findall(r"^\| .*?\[([^]]+)\]\(", read("THIRD_PARTY.md"), re.MULTILINE))
        loaded = subprocess.run(["ldd", REWRIGHT], check=True, capture_output=True, text=True).stdout
        libraries = re.findall(r"^\s*(\S+) => /", loaded, re.MULTILINE)
        self.assertGreater(len(libraries), 15)
        for library in libraries:
            if not OF_COMPILERS.match(library):
                name = library.split(".so")[0]
                self.assertIn(LOADED.get(name) or LOADED_BY_OTHERS.get(name, name), named, f"{library} is loaded")
                self.assertFalse(obliges_all(licence(library)), library)

    def test_which_licences_oblige_all(self):
        for text in ("GPL-2.0 or later", "MIT, GPL-3.0", "BSD-3-Clause and AGPL-3.0"):
            self.assertTrue(obliges_all(text), text)
        for text in ("MIT", "LGPL-2.0 or later", "GPL-3.0 with the runtime library exception, LGPL-2.1"):
            self.assertFalse(obliges_all(text), text)

    def test_what_the_build_looks_for_is_said(self):
        asked = re.findall(r"^find_(?:package|file)\((\w+)", read("cmake/Dependencies.cmake"), re.MULTILINE)
        self.assertGreater(len(asked), 15)
        for name in set(asked) - NOT_INSIDE:
            self.assertIn(FOUND.get(name, name), self.names, f"the build asks for {name}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
