"""The tools whose results are proved: each writes a model that should compute what the given one computes."""

import subprocess

import onnx


def onnxruntime_level(level):
    def run(source, target, _):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, "ORT_ENABLE_" + level)
        options.optimized_model_filepath = target
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    return run


def loads(path):
    """Does ONNX Runtime load the model?"""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return True
    except Exception:  # its exceptions have no common class
        return False


def onnxruntime_transformers(source, target, _):
    from onnxruntime.transformers import optimizer

    optimizer.optimize_model(source, model_type="bert", num_heads=0, hidden_size=0, opt_level=0).save_model_to_file(target)


def onnxsim(source, target, _):
    import onnxsim

    onnx.save(onnxsim.simplify(onnx.load(source))[0], target)


def onnxslim(source, target, _):
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), target)


def onnxoptimizer(source, target, _):
    import onnxoptimizer

    onnx.save(onnxoptimizer.optimize(onnx.load(source), onnxoptimizer.get_fuse_and_elimination_passes()), target)


def rewright(source, target, binary):
    command = [binary, "optimize", source, "-o", target, "--estimate", "--budget", "10s", "--check", "0", "--quiet"]
    subprocess.run(command, check=True, capture_output=True)


TOOLS = {
    "ORT basic": onnxruntime_level("BASIC"),
    "ORT extended": onnxruntime_level("EXTENDED"),
    "ORT all": onnxruntime_level("ALL"),
    "ORT transformers": onnxruntime_transformers,
    "onnxsim": onnxsim,
    "onnxslim": onnxslim,
    "onnxoptimizer": onnxoptimizer,
    "rewright": rewright,
}


def applies(tool, model):
    return tool != "ORT transformers" or model.startswith("transformers_")


if __name__ == "__main__":
    import sys

    # In a process of its own, since a tool may crash it. Arguments: BINARY SOURCE, then pairs of TOOL and TARGET. A line for each that failed.
    given = sys.argv[3:]
    for tool, target in zip(given[::2], given[1::2]):
        try:
            TOOLS[tool](sys.argv[2], target, sys.argv[1])
        except Exception as error:
            text = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            print(f"FAILED\t{tool}\t{text[:150]}", flush=True)
