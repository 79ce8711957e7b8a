"""Settings of the whole process. None of them changes results here, but programs set them."""

import operator

from ._native import _core
from .errors import OptionError


def get_version_string():
    """Rewright's version."""
    return _core.__version__


def get_build_info():
    """Rewright's version, and those of the libraries inside."""
    libraries = ", ".join(line.strip() for line in _core.library_versions().replace(", ", "\n").splitlines())
    return f"Rewright {_core.__version__}, {libraries}"


def has_collective_ops():
    """False: sessions run in one process."""
    return False


def disable_telemetry_events():
    """There are none."""


def enable_telemetry_events():
    """There are none: nothing is ever sent."""


def set_default_logger_severity(level):
    """Nothing is logged."""
    if not 0 <= operator.index(level) <= 4:
        raise OptionError(f"a severity is 0 to 4, not {level}")


def set_default_logger_verbosity(level):
    """Nothing is logged."""
    operator.index(level)


def set_seed(seed):
    """Random operators draw by the seeds that the model gives them."""
    operator.index(seed)


def set_global_thread_pool_sizes(intra_op_num_threads=0, inter_op_num_threads=0):
    """Each session has threads of its own: SessionOptions.intra_op_num_threads."""
    operator.index(intra_op_num_threads)
    operator.index(inter_op_num_threads)


def preload_dlls(cuda=True, cudnn=True, msvc=True, directory=None):
    """There is nothing to load beforehand: the CUDA libraries are found when a GPU is first used."""


def print_debug_info():
    """Prints the versions of all libraries, and what sessions can run on."""
    from .providers import get_available_providers

    print(get_build_info())
    print("providers:", ", ".join(get_available_providers()))
