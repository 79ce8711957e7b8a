#!/usr/bin/env python3
"""The library for others: installed, found by CMake and pkg-config, used from C++, C and, through ctypes, Python.
Usage: embedding.py REWRIGHT BUILD_FOLDER SOURCE_FOLDER"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime

REWRIGHT, BUILD, SOURCE = sys.argv[1:4]


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def outputs_agree(folder, a, b):
    session = [onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]) for model in (a, b)]
    given = session[0].get_inputs()[0]
    x = numpy.random.default_rng(0).standard_normal(given.shape, numpy.float32)
    expected, found = (s.run(None, {given.name: x})[0] for s in session)
    numpy.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    onnx.checker.check_model(b, full_check=True)


def examples(prefix, folder, model):
    built = os.path.join(folder, "examples")
    run("cmake", "-S", os.path.join(SOURCE, "examples", "embedding"), "-B", built, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", built)
    for program in ("optimize_and_run", "optimize_and_run_c"):
        faster = os.path.join(folder, program + ".onnx")
        said = run(os.path.join(built, program), model, faster)
        assert "times as fast" in said, said
        outputs_agree(folder, model, faster)
    failed = subprocess.run([os.path.join(built, "optimize_and_run"), "/no/such.onnx", "x"], capture_output=True, text=True, check=False)
    assert failed.returncode == 3 and "/no/such.onnx" in failed.stderr, failed
    found = {**os.environ, "PKG_CONFIG_PATH": os.path.join(prefix, "lib", "pkgconfig")}
    assert os.path.exists(os.path.join(run("pkg-config", "--variable=includedir", "rewright", env=found).strip(), "rewright_c.h"))
    assert "-lrewright" in run("pkg-config", "--libs", "rewright", env=found)


def from_python(library, model):
    c = ctypes.CDLL(library)
    c.rewright_error_text.restype = ctypes.c_char_p
    c.rewright_result_report.restype = ctypes.c_char_p
    c.rewright_version.restype = ctypes.c_char_p
    assert c.rewright_version().decode() in run(REWRIGHT, "--version")
    handle, options, result = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert c.rewright_model_read(model.encode(), ctypes.byref(handle)) == 0, c.rewright_error_text()
    assert c.rewright_options_create(ctypes.byref(options)) == 0
    for name, value in (("device", "cpu"), ("estimate", "true"), ("check", "0")):
        assert c.rewright_options_set(options, name.encode(), value.encode()) == 0, c.rewright_error_text()
    assert c.rewright_options_set(options, b"budget", b"soon") == 1
    assert b"soon" in c.rewright_error_text()
    assert c.rewright_optimize(handle, options, ctypes.byref(result)) == 0, c.rewright_error_text()
    report = json.loads(c.rewright_result_report(result))
    assert report["device"] == "cpu" and report["nodes"]["before"] == len(onnx.load(model).graph.node)
    c.rewright_result_free(result)
    c.rewright_options_free(options)
    c.rewright_model_free(handle)


def needs_nothing_of_the_build(prefix):
    """The installed files load what is installed with them or of the system, and know no folder of the build."""
    library = os.path.join(prefix, "lib", "librewright.so")
    for file in (library, os.path.join(prefix, "bin", "rewright")):
        dynamic = run("readelf", "-d", file)
        assert BUILD not in dynamic and ".cache" not in dynamic, dynamic
        needed = run("ldd", file)
        assert "not found" not in needed, needed
        for name in ("libdnnl", "libhighs", "libz3"):
            line = next((line for line in needed.splitlines() if name in line), None)
            assert line is None or prefix in line, line
    # Nothing but the C interface is visible.
    symbols = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
    assert symbols and all(name.startswith("rewright_") for name in symbols), symbols[:20]


def main():
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "prefix")
        run("cmake", "--install", BUILD, "--prefix", prefix)
        needs_nothing_of_the_build(prefix)
        model = os.path.join(folder, "model.onnx")
        run(os.path.join(prefix, "bin", "rewright"), "models", "build", "squeezenet", "-o", model, "--quiet")
        examples(prefix, folder, model)
        from_python(os.path.join(prefix, "lib", "librewright.so"), model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
