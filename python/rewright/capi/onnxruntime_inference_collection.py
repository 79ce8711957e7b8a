"""Sessions and values, under the name of the module in which ONNX Runtime has them."""

from rewright.devices import OrtDevice, OrtDeviceVendorId  # noqa: F401
from rewright.providers import normalized
from rewright.session import InferenceSession, Session  # noqa: F401
from rewright.sparse import SparseTensor  # noqa: F401
from rewright.values import IOBinding, OrtValue, copy_tensors  # noqa: F401


def check_and_normalize_provider_args(providers, provider_options, available_provider_names):
    """Names of providers and a dict of texts for each. Raises ValueError where they are of another form."""
    return normalized(providers, provider_options, available_provider_names, stacklevel=3)
