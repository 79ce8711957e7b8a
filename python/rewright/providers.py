"""Execution providers, by ONNX Runtime's names."""

import collections.abc
import enum
import warnings

from ._native import _core
from .errors import OptionError, UnsupportedOptionError, UsageError

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"

# Those of ONNX Runtime. A program may ask for any of them and gets what is here; another name is a mistake.
_KNOWN = (
    "NvTensorRTRTX", "Tensorrt", "CUDA", "MIGraphX", "ROCM", "OpenVINO", "Dnnl", "VitisAI", "QNN", "Nnapi", "VSINPU", "Js", "CoreML",
    "ArmNN", "ACL", "Dml", "Rknpu", "Tvm", "WebNN", "WebGpu", "Xnnpack", "CANN", "Azure", "CPU",
)  # fmt: skip
KNOWN = tuple(f"{name}ExecutionProvider" for name in _KNOWN)

# https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html. Here device_id counts; of the others the numbers are
# looked at.
_CUDA_NUMBERS = ("device_id", "gpu_mem_limit")
_CUDA_OPTIONS = (
    *_CUDA_NUMBERS, "arena_extend_strategy", "cudnn_conv1d_pad_to_nc1d", "cudnn_conv_algo_search", "cudnn_conv_use_max_workspace",
    "do_copy_in_default_stream", "enable_cuda_graph", "enable_skip_layer_norm_strict_mode", "fuse_conv_bias", "gpu_external_alloc",
    "gpu_external_empty_cache", "gpu_external_free", "has_user_compute_stream", "prefer_nhwc", "sdpa_kernel",
    "tunable_op_enable", "tunable_op_max_tuning_duration_ms", "tunable_op_tuning_enable", "use_ep_level_unified_stream", "use_tf32",
    "user_compute_stream",
)  # fmt: skip


class OrtExecutionProviderDevicePolicy(enum.IntEnum):
    """Policies for SessionOptions.set_provider_selection_policy."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


def get_available_providers():
    """The providers that sessions can run on here, by ONNX Runtime's names, the fastest first."""
    return [CUDA, CPU] if _core.has_cuda_device() else [CPU]


def get_all_providers():
    """All providers of this package, on any machine, by ONNX Runtime's names."""
    return [CUDA, CPU]


def get_device():
    """ "GPU" where sessions can run on one, else "CPU"."""
    return "GPU" if _core.has_cuda_device() else "CPU"


def register_execution_provider_library(registration_name, library_path):
    """Raises UnsupportedOptionError: plug-ins of ONNX Runtime cannot be loaded."""
    raise UnsupportedOptionError("plug-ins of ONNX Runtime cannot be loaded", where=str(library_path))


def unregister_execution_provider_library(registration_name):
    """Raises UnsupportedOptionError: there are none."""
    raise UnsupportedOptionError("no such library was registered", where=str(registration_name))


def preferred(policy):
    """The providers that a policy means here."""
    if not isinstance(policy, OrtExecutionProviderDevicePolicy):
        raise TypeError("a policy is one of OrtExecutionProviderDevicePolicy")
    wants_gpu = policy in (OrtExecutionProviderDevicePolicy.PREFER_GPU, OrtExecutionProviderDevicePolicy.MAX_PERFORMANCE)
    return [CUDA, CPU] if wants_gpu and _core.has_cuda_device() else [CPU]


def check_known(name):
    if name not in KNOWN:
        raise OptionError(f"Unknown Provider Type: {name}", hint=f"there are {', '.join(get_available_providers())}")


def normalized(providers, provider_options, available, stacklevel=2):
    """Names and options (dicts of texts), each provider once, with a warning for those that are not available. Both are as
    InferenceSession is given them. Raises UsageError where they are of another form."""
    if providers is None:
        return [], []
    if not isinstance(providers, collections.abc.Sequence):
        raise UsageError("'providers' should be a sequence")
    if provider_options is None:
        pairs = [(entry, {}) if isinstance(entry, str) else entry for entry in providers]
        for pair in pairs:
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], dict)):
                raise UsageError("'providers' values must be either strings or (string, dict) tuples")
    else:
        if not isinstance(provider_options, collections.abc.Sequence):
            raise UsageError("'provider_options' should be a sequence")
        if len(providers) != len(provider_options):
            raise UsageError("'providers' and 'provider_options' should be of the same length")
        if not all(isinstance(name, str) for name in providers):
            raise UsageError("'providers' values must be strings where 'provider_options' are given")
        if not all(isinstance(options, dict) for options in provider_options):
            raise UsageError("'provider_options' values must be dicts")
        pairs = list(zip(providers, provider_options))
    found = {}
    for name, options in pairs:
        if name in found:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=stacklevel)
            continue
        if name not in available:
            warnings.warn(f"{name} is not available here; there are {', '.join(available)}", stacklevel=stacklevel)
        found[name] = {str(key): str(value) for key, value in options.items()}
    return list(found), list(found.values())


def device_of(providers, provider_options, stacklevel=2):
    """The first of the providers that is here, as a device and the options that count; the CPU if none is. Raises OptionError for
    names and options that there are not."""
    names, options = normalized(providers, provider_options, get_available_providers(), stacklevel + 1)
    for name in names:
        check_known(name)
    for name, settings in zip(names, options):
        if name == CPU:
            break
        if name == CUDA and _core.has_cuda_device():
            return f"cuda:{_checked_cuda(settings).get('device_id', 0)}", settings
    return "cpu", {}


def _checked_cuda(settings):
    for key in settings:
        if key not in _CUDA_OPTIONS:
            raise OptionError(f'{CUDA} has no option "{key}"', hint=f"it has {', '.join(_CUDA_OPTIONS)}")
    numbers = {}
    for key in _CUDA_NUMBERS:
        if key in settings:
            try:
                numbers[key] = int(settings[key])
            except ValueError:
                raise OptionError(f'"{key}" of {CUDA} cannot be "{settings[key]}"') from None
            if numbers[key] < 0:
                raise OptionError(f'"{key}" of {CUDA} cannot be {settings[key]}')
    return numbers
