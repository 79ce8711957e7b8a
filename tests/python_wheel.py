#!/usr/bin/env python3
"""The Python package as a wheel, in an environment with nothing but NumPy and ONNX.
Usage: python_wheel.py REWRIGHT BUILD_FOLDER SOURCE_FOLDER [WHEEL]
Without a wheel, tools/wheel makes one of the build folder's objects."""

import glob
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import zipfile

import versions  # of the libraries; takes the same arguments

REWRIGHT, BUILD, SOURCE = sys.argv[1:4]
WHEEL = sys.argv[4] if len(sys.argv) > 4 else None
CACHE = os.environ.get("REWRIGHT_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "rewright")
# Dependencies of ONNX.
PACKAGES = ["numpy", "onnx", "ml_dtypes", "protobuf", "typing_extensions"]
# Libraries of every Linux that the wheel is for.
SYSTEM = re.compile(r"/(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libutil|libresolv|libgcc_s|libstdc\+\+)[.-]")

PROGRAM = r"""
import re, sys
import rewright
result = rewright.optimize(sys.argv[1], device="cpu", estimate=True, check=1, output=sys.argv[2], report=True)
import numpy, onnx
session, before = rewright.InferenceSession(result.model), rewright.InferenceSession(sys.argv[1])
given = session.get_inputs()[0]
x = numpy.random.default_rng(0).standard_normal(given.shape).astype(numpy.float32)
numpy.testing.assert_allclose(session.run(None, {given.name: x})[0], before.run(None, {given.name: x})[0], rtol=1e-3, atol=1e-5)
onnx.checker.check_model(sys.argv[2])
assert "<html" in result.report("html") and rewright.graph.read(result).draw().startswith("<svg")
rule = rewright.rules.load()[0]
assert rewright.verify([rule])[0].verdict == "proved"
with open("/proc/self/maps") as maps:
    print("\n".join(sorted({line.split()[-1] for line in maps if ".so" in line})))
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def build_wheel(folder):
    environment = {**os.environ, "REWRIGHT_PYTHON": sys.executable}
    made = run(sys.executable, os.path.join(SOURCE, "tools", "wheel"), "--build", BUILD, "--output", folder, "--untried", env=environment)
    return made.strip()


def fresh_environment(folder):
    """A virtual environment with links to the packages' files: pip is not needed, nor a network."""
    environment = os.path.join(folder, "environment")
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    packages = glob.glob(os.path.join(environment, "lib", "python3*", "site-packages"))[0]
    for name in PACKAGES:
        distribution = importlib.metadata.distribution(name)
        tops = {str(file).split("/")[0] for file in distribution.files if not str(file).startswith("..")}
        for top in tops - {"__pycache__"}:
            os.symlink(distribution.locate_file(top), os.path.join(packages, top))
    return os.path.join(environment, "bin", "python"), packages


def says_nothing_of_the_build(archive):
    """No file of the wheel holds a folder that it was built from or in."""
    folders = {path.encode() for folder in (BUILD, SOURCE, CACHE) for path in (os.path.abspath(folder), os.path.realpath(folder))}
    found = [(name, folder) for name in archive.namelist() for folder in folders if folder in archive.read(name)]
    assert not found, found


def has_no_library_that_obliges_all(names):
    """Each library in it has a licence in THIRD_PARTY.md, and none is under the GPL."""
    libraries = [name for name in names if re.search(r"/lib[^/]*\.so", name) and not re.search(r"/librewright_(mpi|cuda)\.so", name)]
    assert len(libraries) > 15, libraries
    obliging = [name for name in libraries if versions.obliges_all(versions.licence(name))]
    assert not obliging, obliging
    assert not [name for name in libraries if "libtiff" in name], "LibTIFF is of the machine"


def of_python():
    """The libraries that Python and its own extension modules load."""
    modules = glob.glob(os.path.join(os.path.dirname(importlib.util.find_spec("_ssl").origin), "*.so"))
    return {os.path.realpath(file) for part in (sys.executable, *modules) for file in re.findall(r"=> (/\S+)", run("ldd", part))}


def main():
    with tempfile.TemporaryDirectory() as folder:
        wheel = WHEEL or build_wheel(folder)
        assert re.search(r"-manylinux_2_\d+_x86_64\.whl$", wheel), wheel
        python, packages = fresh_environment(folder)
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            assert not [info.filename for info in archive.infolist() if info.external_attr >> 28 == 0xA], "there are links"
            archive.extractall(packages)
            says_nothing_of_the_build(archive)
        has_no_library_that_obliges_all(names)
        for part in ("rewright/py.typed", "rewright/_native/_core.pyi", "rewright/_native/rewright"):
            assert part in names, names
        program = os.path.join(packages, "rewright", "_native", "rewright")
        os.chmod(program, 0o755)  # as installers do
        model, faster = os.path.join(folder, "model.onnx"), os.path.join(folder, "faster.onnx")
        clean = {"PATH": "/usr/bin:/bin", "HOME": folder}
        run(python, "-m", "rewright", "models", "build", "squeezenet", "-o", model, "--quiet", cwd=folder, env=clean)
        loaded = run(python, "-c", PROGRAM, model, faster, cwd=folder, env=clean).split()
        allowed = [os.path.realpath(folder), *(os.path.realpath(importlib.metadata.distribution(name).locate_file("")) for name in PACKAGES)]
        others = [file for file in loaded if not SYSTEM.search(file) and not file.startswith(tuple(allowed)) and "/python3" not in file]
        strangers = set(map(os.path.realpath, others)) - of_python()
        assert not strangers, f"loaded from the system: {sorted(strangers)}"
        needed = run("ldd", program)
        assert "not found" not in needed, needed
    return 0


if __name__ == "__main__":
    sys.exit(main())
