"""Makes a CUDA build of torch usable on a machine without CUDA: python stub_cuda.py (with the environment's interpreter)

The registry's torch for Linux is a CUDA build. Its own libraries are linked with NVIDIA's, which are 2 GB of further packages
and do nothing without a GPU. This program compiles, into torch's library folder, a small stand-in for each NVIDIA library that
is not there: it has the symbols that torch's libraries ask for, and each of its functions fails with "no CUDA device". Torch
then works as its CPU build does. Where all the libraries are there, nothing is done. Needs gcc and binutils.
"""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile

NVIDIA = re.compile(r"lib(cud|cu[a-z]+Lt|cublas|cufft|cufile|cupti|curand|cusolver|cusparse|nccl|nvrtc|nvshmem)[a-zA-Z_]*\.so\.\d+")
NO_DEVICE = 100  # cudaErrorNoDevice


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def torch_folder():
    """Found without importing torch, which would fail."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("stub_cuda: torch is not installed here")
    return os.path.join(spec.submodule_search_locations[0], "lib")


def imports():
    result = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False)
    return result.returncode == 0


def needed_libraries(paths):
    names = set()
    for path in paths:
        for line in run("objdump", "-p", path).splitlines():
            words = line.split()
            if len(words) == 2 and words[0] == "NEEDED" and NVIDIA.fullmatch(words[1]):
                names.add(words[1])
    return sorted(names)


def missing_symbols(paths):
    """Symbols that torch's libraries use and none of them has: {name: version or ""}."""
    wanted, defined = {}, set()
    for path in paths:
        for line in run("nm", "-D", path).splitlines():
            kind, symbol = line.split()[-2:]
            name, _, version = symbol.partition("@")
            if kind in "UwW" and len(line.split()) == 2:
                wanted[name] = version.lstrip("@")
            else:
                defined.add(name)
    system = re.compile(r"(GLIBC|GCC|CXXABI|GFORTRAN|GOMP|OMP|GOACC|OACC|LIBC)")
    return {name: version for name, version in wanted.items() if name not in defined and not system.match(version)}


def stub_source(names):
    lines = ["static const char text[] = \"no CUDA device\";"]
    for name in sorted(names):
        if name.endswith(("String", "Name", "GetLastError")) and not name.startswith("cuda"):
            lines.append(f"const char *{name}(void) {{ return text; }}")
        elif re.match(r"cudaGetError(String|Name)", name):
            lines.append(f"const char *{name}(void) {{ return text; }}")
        else:
            lines.append(f"long {name}(void) {{ return {NO_DEVICE}; }}")
    return "\n".join(lines) + "\n"


def build_stub(folder, library, names, version):
    with tempfile.TemporaryDirectory() as temporary:
        source, script = os.path.join(temporary, "stub.c"), os.path.join(temporary, "stub.map")
        with open(source, "w", encoding="utf-8") as file:
            file.write(stub_source(names))
        options = []
        if version:
            with open(script, "w", encoding="utf-8") as file:
                file.write(f"{version} {{ global: *; }};\n")
            options = [f"-Wl,--version-script={script}"]
        output = os.path.join(folder, library)
        run("gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{library}", *options, "-o", output, source)


def library_of(symbol, version, libraries):
    """The library that should have a symbol: its version's name tells, or the symbol's own beginning."""
    if version in libraries:
        return version
    for library in libraries:
        stem = library[3:].split(".")[0].split("_")[0]
        if symbol.lower().startswith(stem.lower()):
            return library
    return None


def main():
    if imports():
        return
    folder = torch_folder()
    own = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if re.fullmatch(r"lib(torch|c10)\w*\.so", name)]
    libraries = [name for name in needed_libraries(own) if not os.path.exists(os.path.join(folder, name))]
    symbols = {library: [] for library in libraries}
    versions = dict.fromkeys(libraries, "")
    for name, version in missing_symbols(own).items():
        library = library_of(name, version, libraries)
        if library is not None:
            symbols[library].append(name)
            versions[library] = versions[library] or version
    for library in libraries:
        build_stub(folder, library, symbols[library], versions[library])
    result = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit("stub_cuda: torch still cannot be imported: " + result.stderr.strip().splitlines()[-1])
    print(f"stub_cuda: {len(libraries)} stand-ins for NVIDIA's libraries written; torch works on the CPU")


if __name__ == "__main__":
    main()
