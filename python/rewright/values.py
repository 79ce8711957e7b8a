"""Values outside of NumPy, in the CPU's memory or a GPU's, and names that are bound to them, as ONNX Runtime has them."""

import collections

from ._native import _core
from .errors import UsageError


def _gpu(device_type, device_id):
    """The number of a GPU, or None for the CPU's memory."""
    name = str(device_type).lower()
    return _core.gpu_of_memory(f"{name}:{int(device_id)}" if name == "cuda" else name)


def _dtype(element_type):
    """Of a NumPy type, or the number of one of ONNX's TensorProto."""
    return _core.dtype_of(element_type) if isinstance(element_type, int) else element_type


class OrtValue:
    """A tensor in the CPU's memory or a GPU's; a sequence; or nothing. Made by the functions here, or by a session.

    device_type: "cpu" or "cuda"; device_id: which of the GPUs.
    """

    def __init__(self, value):
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(numpy_obj, device_type="cpu", device_id=0):
        """The value of an array: the array itself, or a copy in the memory of a GPU."""
        gpu = _gpu(device_type, device_id)
        value = _core.Value.of(numpy_obj)
        return OrtValue(value if gpu is None else value.on_gpu(gpu))

    @staticmethod
    def ortvalue_from_shape_and_type(shape, element_type, device_type="cpu", device_id=0):
        """A tensor of zeros. element_type: a NumPy type, or the number of one of ONNX's TensorProto."""
        gpu = _gpu(device_type, device_id)
        value = _core.Value.zeros(list(shape), _dtype(element_type))
        return OrtValue(value if gpu is None else value.on_gpu(gpu))

    @staticmethod
    def from_dlpack(data, is_bool_tensor=False):
        """The value of anything with __dlpack__ (a torch tensor), in the CPU's memory or a GPU's, which is not copied."""
        return OrtValue(_core.Value.of(data))

    def __dlpack__(self, *, stream=None, **arguments):
        """The value's own memory, as DLPack hands it over: (1, 0) is the CPU's, (2, N) that of GPU N (__dlpack_device__).

        stream: of the GPU, in which it will be used. Nothing is left to wait for: what sessions write is there when they return.
        """
        return self._value.dlpack().__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._value.dlpack().__dlpack_device__()

    def to_dlpack(self):
        return self.__dlpack__()

    def numpy(self):
        """The array, in the value's own memory; a copy, if that is a GPU's."""
        return self._value.numpy()

    def shape(self):
        return list(self._value.shape)

    def element_type(self):
        """As ONNX's TensorProto numbers them."""
        return self._value.element_type

    def data_type(self):
        """ "tensor(float)", as NodeArg.type."""
        return _core.type_text(self._value.element_type)

    def data_ptr(self):
        """The address of the first element, on its device."""
        return self._value.address

    def device_name(self):
        return "cpu" if self._value.gpu is None else "cuda"

    def is_tensor(self):
        return not (self._value.is_sequence or self._value.is_empty)

    def is_tensor_sequence(self):
        return self._value.is_sequence

    def has_value(self):
        return not self._value.is_empty

    def update_inplace(self, np_arr):
        """Copies an array of the same shape and type into the value."""
        _core.Value.of(np_arr).copy_into(self._value)


class IOBinding:
    """Names of a session's inputs and outputs, bound to values."""

    def __init__(self, session):
        self._session = session
        self.clear_binding_inputs()
        self.clear_binding_outputs()

    def bind_cpu_input(self, name, arr_on_cpu):
        """An array, which is read where it is, at every run."""
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name, ortvalue):
        self._inputs[name] = ortvalue._value

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        """Memory that the caller keeps alive: `buffer_ptr` is the address of the first element, on its device.

        What was started in a GPU's default stream is waited for; what was started in other streams must have ended."""
        self._inputs[name] = _value_at(_gpu(device_type, device_id), element_type, shape, buffer_ptr)

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        """To memory of the caller's, or, without `buffer_ptr`, to whatever the session allocates."""
        gpu = _gpu(device_type, device_id)
        self._outputs[name] = gpu if buffer_ptr is None else _value_at(gpu, element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name, ortvalue):
        self._outputs[name] = ortvalue._value

    def get_outputs(self):
        """The outputs of the last run, as OrtValue, in the order in which they were bound."""
        return list(self._results.values())

    def copy_outputs_to_cpu(self):
        """The outputs of the last run, as arrays."""
        return [value.numpy() for value in self._results.values()]

    def synchronize_inputs(self):
        """There is nothing to wait for: a run waits for what it reads."""

    def synchronize_outputs(self):
        """There is nothing to wait for: what a run writes is there when it returns."""

    def clear_binding_inputs(self):
        self._inputs = {}

    def clear_binding_outputs(self):
        self._outputs = {}
        self._results = collections.OrderedDict()

    def _run(self, run_options):
        if not self._outputs:
            raise UsageError("no output is bound")
        targets = list(self._outputs.values())
        # A number is a GPU, and a value may be in one's memory; what is in the CPU's is filled afterwards.
        places = [target if isinstance(target, int) or getattr(target, "gpu", None) is not None else None for target in targets]
        on_host = all(place is None for place in places)
        found = self._session.run_values(list(self._outputs), self._inputs, run_options, None if on_host else places)
        for name, target, place, value in zip(self._outputs, targets, places, found):
            if target is not None and place is None:
                value.copy_into(target)
                value = target if isinstance(target, _core.Value) else _core.Value.of(target)
            self._results[name] = OrtValue(value)


def _value_at(gpu, element_type, shape, address):
    """Memory that is somebody else's: an array, or a value on a GPU."""
    import ctypes
    import math

    import numpy

    if element_type is None or shape is None:
        raise UsageError("memory is bound with an element type and a shape")
    if gpu is not None:
        return _core.Value.at(gpu, _dtype(element_type), list(shape), address)
    dtype = numpy.dtype(_dtype(element_type))
    size = math.prod(shape) * dtype.itemsize
    return numpy.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(shape)
