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

import language_folder

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
    for program in ("optimize_and_run", "optimize"):
        faster = os.path.join(folder, program + ".onnx")
        said = run(os.path.join(built, program), model, faster)
        assert "times as fast" in said, said
        outputs_agree(folder, model, faster)
    failed = subprocess.run([os.path.join(built, "optimize_and_run"), "/no/such.onnx", "x"], capture_output=True, text=True, check=False)
    assert failed.returncode == 3 and "/no/such.onnx" in failed.stderr, failed
    own_rule(built, folder)
    own_operator(built, folder)
    training(built, folder)
    language_model(built, folder)
    faster = os.path.join(folder, "own_costs.onnx")
    said = run(os.path.join(built, "own_costs"), model, faster)
    report = json.loads(said.split("\n", 1)[1])
    assert report["device"] == "cpu, by prices given" and report["measured_ms"]["before"] == 0, said
    assert 0 < report["predicted_ms"]["after"] <= report["predicted_ms"]["before"], said
    outputs_agree(folder, model, faster)
    found = {**os.environ, "PKG_CONFIG_PATH": os.path.join(prefix, "lib", "pkgconfig")}
    assert os.path.exists(os.path.join(run("pkg-config", "--variable=includedir", "rewright", env=found).strip(), "rewright_c.h"))
    assert "-lrewright" in run("pkg-config", "--libs", "rewright", env=found)


def write_model(path, nodes, inputs, outputs, initializers=(), opsets=()):
    floats = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes, "graph", [onnx.helper.make_tensor_value_info(name, floats, sizes) for name, sizes in inputs],
        [onnx.helper.make_tensor_value_info(name, floats, sizes) for name, sizes in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in initializers])
    opset_imports = [onnx.helper.make_opsetid("", 17)] + [onnx.helper.make_opsetid(domain, 1) for domain in opsets]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset_imports, ir_version=8), path)


def language_model(built, folder):
    model = language_folder.write_folder(os.path.join(folder, "language"))
    said = run(os.path.join(built, "complete"), model, "8", "5", "6", "7")
    assert [int(token) for token in said.split()] == language_folder.Reference(model).greedy([5, 6, 7], 8), said
    failed = subprocess.run([os.path.join(built, "complete"), model, "8", "500"], capture_output=True, text=True, check=False)
    assert failed.returncode == 3 and "no token 500" in failed.stderr, failed


def own_rule(built, folder):
    model, faster = os.path.join(folder, "sums.onnx"), os.path.join(folder, "sums_faster.onnx")
    node = onnx.helper.make_node
    write_model(model, [node("Add", ["x", "y"], ["a"]), node("Sub", ["x", "y"], ["b"]), node("Add", ["a", "b"], ["z"])],
                [("x", [3, 4]), ("y", [3, 4])], [("z", [3, 4])])
    said = run(os.path.join(built, "custom_rule"), model, faster)
    assert "not_so" in said and "refuted" in said and "the rule was used" in said, said
    assert len(onnx.load(faster).graph.node) == 1, onnx.load(faster)


def own_operator(built, folder):
    """Its example is executed with NumPy as the judge, and its node is in the result as it was."""
    model, faster = os.path.join(folder, "swish.onnx"), os.path.join(folder, "swish_faster.onnx")
    node = onnx.helper.make_node
    random = numpy.random.default_rng(0)
    w, v = random.standard_normal((4, 3), numpy.float32), random.standard_normal((3, 2), numpy.float32)
    write_model(model, [node("MatMul", ["x", "w"], ["p"]), node("Swish", ["p"], ["s"], name="swish", domain="example", beta=1.5),
                        node("Relu", ["s"], ["r"]), node("Relu", ["r"], ["t"]), node("MatMul", ["t", "v"], ["y"])],
                [("x", ["batch", 4])], [("y", ["batch", 2])], [("w", w), ("v", v)], ["example"])
    lines = run(os.path.join(built, "custom_operator"), model, faster).splitlines()
    p = numpy.sin(numpy.arange(8, dtype=numpy.float32)).reshape(2, 4) @ w
    expected = numpy.maximum(p / (1 + numpy.exp(-1.5 * p)), 0) @ v
    assert len(lines) == 2, lines
    for line in lines:
        numpy.testing.assert_allclose(numpy.array(line.split(), numpy.float32), expected.ravel(), rtol=1e-4, atol=1e-5)
    nodes = onnx.load(faster).graph.node
    assert [n.op_type for n in nodes].count("Relu") == 1, nodes
    assert next(n for n in nodes if n.op_type == "Swish").attribute[0].f == 1.5, nodes


def training(built, folder):
    model, trained = os.path.join(folder, "classes.onnx"), os.path.join(folder, "classes_trained.onnx")
    node = onnx.helper.make_node
    random = numpy.random.default_rng(0)
    w, v = (random.standard_normal(sizes, numpy.float32) for sizes in ((5, 16), (16, 4)))
    write_model(model, [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["b"]), node("MatMul", ["b", "v"], ["y"])],
                [("x", ["batch", 5])], [("y", ["batch", 4])], [("w", w), ("v", v)])
    *steps, report = run(os.path.join(built, "train"), model, trained).splitlines()
    facts = json.loads(report)
    assert len(steps) == facts["steps"] // 20 > 2 and steps[0].startswith("step 20 of"), steps
    assert facts["complete"] and facts["validation"]["accuracy"] > 0.9, facts
    onnx.checker.check_model(trained, full_check=True)
    assert not numpy.array_equal(onnx.numpy_helper.to_array(onnx.load(trained).graph.initializer[0]), w)


def from_python(prefix, folder, model):
    c = ctypes.CDLL(os.path.join(prefix, "lib", "librewright.so"))
    c.rewright_error_text.restype = ctypes.c_char_p
    c.rewright_error_where.restype = ctypes.c_char_p
    c.rewright_result_report.restype = ctypes.c_char_p
    c.rewright_version.restype = ctypes.c_char_p
    c.rewright_library_versions.restype = ctypes.c_char_p
    versions = run(REWRIGHT, "--version")
    assert c.rewright_version().decode() in versions
    # All but the program's own; plug-ins are found beside the library as well as beside the program.
    own = {line for line in versions.splitlines() if not line.startswith(("rewright ", "CLI11 "))}
    assert set(c.rewright_library_versions().decode().splitlines()) == own, (c.rewright_library_versions(), versions)
    handle, options, result = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert c.rewright_model_read(model.encode(), ctypes.byref(handle)) == 0, c.rewright_error_text()
    assert c.rewright_options_create(ctypes.byref(options)) == 0
    for name, value in (("device", "cpu"), ("estimate", "true"), ("check", "0"), ("budget", "10m")):
        assert c.rewright_options_set(options, name.encode(), value.encode()) == 0, c.rewright_error_text()
    assert c.rewright_options_set(options, b"budget", b"soon") == 1
    assert b"soon" in c.rewright_error_text()
    assert c.rewright_optimize(handle, options, ctypes.byref(result)) == 0, c.rewright_error_text()
    report = json.loads(c.rewright_result_report(result))
    assert report["device"] == "cpu" and report["nodes"]["before"] == len(onnx.load(model).graph.node)
    cost = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p)
    assert c.rewright_options_set_cost(None, cost(0), None) == 1
    assert c.rewright_options_add_rules(options, b"rule", ctypes.c_size_t(4), b"here") == 2
    assert b"here" in c.rewright_error_where(), c.rewright_error_where()

    # The bytes are the command line's. The searches are bounded by counts, not by time.
    c.rewright_result_model.restype = ctypes.c_void_p
    ours, theirs = os.path.join(folder, "ours.onnx"), os.path.join(folder, "theirs.onnx")
    assert c.rewright_model_write(ctypes.c_void_p(c.rewright_result_model(result)), ours.encode()) == 0, c.rewright_error_text()
    run(REWRIGHT, "optimize", model, "-o", theirs, "--quiet", "--estimate", "--check", "0", "--device", "cpu", "--budget", "10m")
    with open(ours, "rb") as a, open(theirs, "rb") as b:
        assert a.read() == b.read(), "results differ from the command line's"
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


def with_unused_weight(folder, path):
    """Nodes that nothing reads are no part of a result."""
    model, changed = onnx.load(path), os.path.join(folder, "unused.onnx")
    model.graph.initializer.append(onnx.numpy_helper.from_array(numpy.ones(5, numpy.float32), "nobody_reads_this"))
    onnx.save(model, changed)
    return changed


def main():
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "prefix")
        run("cmake", "--install", BUILD, "--prefix", prefix)
        needs_nothing_of_the_build(prefix)
        model = os.path.join(folder, "model.onnx")
        run(os.path.join(prefix, "bin", "rewright"), "models", "build", "squeezenet", "-o", model, "--quiet")
        examples(prefix, folder, model)
        from_python(prefix, folder, with_unused_weight(folder, model))
    return 0


if __name__ == "__main__":
    sys.exit(main())
