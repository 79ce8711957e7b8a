"""Values in the CPU's memory or a GPU's, and bindings of names to them, as in ONNX Runtime."""

import collections

from ._native import _core
from .devices import OrtDevice
from .errors import BadInputError, BindingError, MissingError, NoDeviceError, OptionError, UnsupportedError, UsageError, ValueKindError


def _gpu(device_type, device_id):
    """The number of a GPU, or None for the CPU's memory. device_type: a name, or an OrtDevice, which has a number itself."""
    if isinstance(device_type, OrtDevice):
        device_id = device_type.device_id()
        device_type = "cpu" if device_type.device_type() == OrtDevice.cpu() else "cuda"
    name = str(device_type).lower()
    return _core.gpu_of_memory(f"cuda:{int(device_id)}" if name in ("cuda", "gpu") else name)


def _placed(value, gpu):
    """The value in the memory of a GPU, if the device is one."""
    try:
        return value if gpu is None else value.on_gpu(gpu)
    except MissingError as error:
        raise NoDeviceError(error.text, error.where, error.hint) from None


def _dtype(element_type):
    """The element type of a NumPy type, or of a number of ONNX's TensorProto."""
    if not isinstance(element_type, int):
        return element_type
    try:
        return _core.dtype_of(element_type)
    except UsageError as error:
        raise OptionError(error.text, error.where, error.hint) from None


def _map_type(elements):
    """ "map(int64,tensor(float))", of a dict."""
    names = {str: "string", int: "int64", float: "float"}
    key, value = next(iter(elements.items()), (0, 0.0))
    return f"map({names[type(key)]},tensor({names[type(value)]}))"


class OrtValue:
    """A tensor in the CPU's memory or a GPU's; a sequence; a sparse tensor; or nothing. Made by the functions here, or by a session.

    device_type: "cpu" or "cuda", or an OrtDevice; device_id: which of the GPUs. vendor_id: accepted for compatibility with ONNX Runtime.
    """

    def __init__(self, value):
        if isinstance(value, OrtValue):
            value = value._value
        if not isinstance(value, _core.Value) and not hasattr(value, "dense_shape"):
            raise UsageError("an OrtValue is made by OrtValue.ortvalue_from_numpy and the like")
        self._value = value

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj, device_type="cpu", device_id=0, vendor_id=-1):
        """The value of an array: the array itself, or a copy in the memory of a GPU."""
        gpu = _gpu(device_type, device_id)
        value = _core.Value.of(numpy_obj)
        return cls(_placed(value, gpu))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data, onnx_element_type):
        """The value of an array whose bytes are elements of another type of the same width: uint16 for bfloat16, say."""
        dtype = _dtype(int(onnx_element_type))
        if dtype.hasobject or dtype.itemsize != data.dtype.itemsize:
            raise OptionError(f"elements of {data.dtype} cannot be taken for ONNX's type {onnx_element_type}")
        if _core.is_narrow(onnx_element_type):
            raise UnsupportedError("arrays have the elements of less than 8 bits side by side", hint="give an array of ml_dtypes' type")
        return cls(_core.Value.of(data.view(dtype)))

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape, element_type, device_type="cpu", device_id=0, vendor_id=-1, memory_info=None):
        """A tensor of zeros. element_type: a NumPy type, or the number of one of ONNX's TensorProto. memory_info: where it is, in
        place of the device."""
        if memory_info is not None:
            device_type, device_id = ("cuda" if memory_info.name.lower() == "cuda" else "cpu"), memory_info.device_id
        gpu = _gpu(device_type, device_id)
        value = _core.Value.zeros(list(shape), _dtype(element_type))
        return cls(_placed(value, gpu))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor):
        """A value that holds it; sessions do not take such values."""
        from .sparse import SparseTensor

        if not isinstance(sparse_tensor, SparseTensor):
            raise TypeError("give a SparseTensor")
        return cls(sparse_tensor)

    @classmethod
    def from_dlpack(cls, data, is_bool_tensor=False):
        """The value of anything with __dlpack__ (a torch tensor), in the CPU's memory or a GPU's, which is not copied; or of what
        __dlpack__() returned, which is then used up.

        is_bool_tensor: elements of 8 bits without a sign are truth values, as producers of old versions of DLPack mean them.
        """
        if not hasattr(data, "__dlpack__") and type(data).__name__ != "PyCapsule":
            raise TypeError(f"{type(data).__name__} is no DLPack capsule and has no __dlpack__")
        value = _core.Value.of(data)
        if is_bool_tensor and str(value.dtype) == "uint8":
            value = _core.Value.of(value.numpy().view(bool))
        return cls(value)

    def __array__(self, dtype=None, copy=None):
        """For numpy.asarray: the tensor's own memory, unless another type or a copy is asked for."""
        import numpy

        self._require_tensor()
        array = self._value.numpy()
        if copy is None:
            return array if dtype is None else array.astype(dtype, copy=False)
        if copy is False and dtype is not None and numpy.dtype(dtype) != array.dtype:
            raise ValueError(f"another type than {array.dtype} needs a copy")
        return array.astype(array.dtype if dtype is None else dtype, copy=bool(copy))

    def _require_tensor(self):
        if not self.is_tensor():
            raise ValueKindError("only OrtValues that are tensors have this")

    def _get_c_value(self):
        return self

    _ortvalue = property(_get_c_value)  # by which programs reach what ONNX Runtime has inside: here it is the same

    def __dlpack__(self, *, stream=None, **arguments):
        """The value's own memory, as a DLPack capsule: (1, 0) is the CPU's, (2, N) that of GPU N (__dlpack_device__).

        stream: the GPU's stream that will use it. There is nothing to wait for: sessions return when their results are written.
        """
        return self._value.dlpack().__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._value.dlpack().__dlpack_device__()

    def to_dlpack(self):
        return self.__dlpack__()

    def numpy(self):
        """The array, in the value's own memory; a copy, if that is a GPU's. Of a sequence a list; of a map a dict; of nothing None."""
        if self.is_sparse_tensor():
            raise ValueKindError("only OrtValues that are tensors have this", hint="as_sparse_tensor() gives its parts")
        return self._value.numpy()

    def shape(self):
        if self.is_sparse_tensor():
            return self._value.dense_shape()
        self._require_tensor()
        return list(self._value.shape)

    def element_type(self):
        """The element type's number in ONNX's TensorProto."""
        if self.is_sparse_tensor():
            return _core.Value.of(self._value.values()).element_type
        self._require_tensor()
        return self._value.element_type

    def data_type(self):
        """ "tensor(float)", as NodeArg.type; of a sequence by its first element."""
        if self.is_sparse_tensor():
            return self._value.data_type()
        if self.is_tensor_sequence():
            elements = self._value.numpy()
            if not elements:
                raise ValueKindError("an empty sequence does not say what its elements are")
            if isinstance(elements[0], dict):
                return f"seq({_map_type(elements[0])})"
            return f"seq({OrtValue(_core.Value.of(elements[0], isinstance(elements[0], list))).data_type()})"
        if not self.is_sparse_tensor() and self._value.is_map:
            return _map_type(self._value.numpy())
        self._require_tensor()
        return _core.type_text(self._value.element_type)

    def data_ptr(self):
        """The address of the first element, on its device."""
        self._require_tensor()
        return self._value.address

    def tensor_size_in_bytes(self):
        """The bytes of all elements, as ONNX stores them."""
        self._require_tensor()
        return self._value.nbytes

    def device_name(self):
        return "cpu" if self.is_sparse_tensor() or self._value.gpu is None else "cuda"

    def is_tensor(self):
        return not (self.is_sparse_tensor() or self._value.is_sequence or self._value.is_map or self._value.is_empty)

    def is_sparse_tensor(self):
        return not isinstance(self._value, _core.Value)

    def is_tensor_sequence(self):
        return not self.is_sparse_tensor() and self._value.is_sequence

    def has_value(self):
        return self.is_sparse_tensor() or not self._value.is_empty

    def as_sparse_tensor(self):
        if not self.is_sparse_tensor():
            raise ValueKindError("this OrtValue does not contain a SparseTensor")
        return self._value

    def update_inplace(self, data):
        """Copies an array, or another OrtValue, of the same number of elements and type into the value."""
        import numpy

        self._require_tensor()
        if isinstance(data, OrtValue):
            data._require_tensor()
            value = data._value
        elif isinstance(data, numpy.ndarray):
            value = _core.Value.of(data)
        else:
            raise TypeError(f"data is a numpy.ndarray or an OrtValue, not {type(data).__name__}")
        value.reshaped(list(self._value.shape)).copy_into(self._value)


class OrtValueVector(list):
    """Values in a row, for run_with_ortvaluevector."""

    def push_back(self, value):
        self.append(OrtValue(value))

    def push_back_batch(self, values):
        for value in values:
            self.push_back(value)

    def reserve(self, size):
        """A list grows by itself."""

    def shrink_to_fit(self):
        """A list shrinks by itself."""

    def dlpack_at(self, index):
        return self[index].__dlpack__()

    def element_type_at(self, index):
        return self[index].element_type()

    def bool_tensor_indices(self):
        return [i for i, value in enumerate(self) if value.data_type() == "tensor(bool)"]

    def to_dlpacks(self, convert=None):
        """DLPack's capsules, or a function's results for them."""
        capsules = [value.__dlpack__() for value in self]
        return capsules if convert is None else [convert(capsule) for capsule in capsules]


def copy_tensors(src, dst, stream=None):
    """Copies values into others of the same types and numbers of elements, wherever they are."""
    if len(src) != len(dst):
        raise OptionError(f"there are {len(src)} sources and {len(dst)} destinations")
    for source, target in zip(src, dst):
        target.update_inplace(source)


class IOBinding:
    """Names of a session's inputs and outputs, bound to values."""

    def __init__(self, session):
        self._session = session
        self.clear_binding_inputs()
        self.clear_binding_outputs()

    def bind_cpu_input(self, name, arr_on_cpu):
        """An array, which is read where it is, at every run."""
        self._inputs[self._input(name)] = arr_on_cpu

    def bind_ortvalue_input(self, name, ortvalue):
        self._inputs[self._input(name)] = _dense(ortvalue)

    def _input(self, name):
        known = [value.name for value in (*self._session.get_inputs(), *self._session.get_overridable_initializers())]
        if name not in known:
            raise BindingError(f'the model has no input "{name}"', hint=f"it has {', '.join(known)}")
        return name

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        """Memory that the caller keeps alive: `buffer_ptr` is the address of the first element, on its device.

        The run waits for work in the GPU's default stream; work in other streams must have ended."""
        self._inputs[self._input(name)] = _value_at(_gpu(device_type, device_id), element_type, shape, buffer_ptr)

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        """Binds an output to the caller's memory; without `buffer_ptr`, the session allocates it."""
        gpu = _gpu(device_type, device_id)
        self._outputs[name] = gpu if buffer_ptr is None else _value_at(gpu, element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name, ortvalue):
        self._outputs[name] = _dense(ortvalue)

    def get_outputs(self):
        """The outputs of the last run, as OrtValue, in the order in which they were bound."""
        return list(self._results.values())

    def get_outputs_as_ortvaluevector(self):
        return OrtValueVector(self._results.values())

    def copy_outputs_to_cpu(self):
        """The outputs of the last run, as arrays."""
        return [value.numpy() for value in self._results.values()]

    def synchronize_inputs(self):
        """There is nothing to wait for: a run waits for what it reads."""

    def synchronize_outputs(self):
        """There is nothing to wait for: a run returns when its results are written."""

    def clear_binding_inputs(self):
        self._inputs = {}

    def clear_binding_outputs(self):
        self._outputs = {}
        self._results = collections.OrderedDict()

    def _run(self, run_options):
        if not self._outputs:
            raise OptionError("no output is bound")
        targets = list(self._outputs.values())
        # A number is a GPU, and a value may be in one's memory; what is in the CPU's is filled afterwards.
        places = [target if isinstance(target, int) or getattr(target, "gpu", None) is not None else None for target in targets]
        on_host = all(place is None for place in places)
        self._results.clear()  # so that this run may write where the last one did, unless somebody still has that
        try:
            found = self._session.run_values(list(self._outputs), self._inputs, run_options, None if on_host else places)
            for name, target, place, value in zip(self._outputs, targets, places, found):
                if target is not None and place is None:
                    value.copy_into(target)
                    value = target if isinstance(target, _core.Value) else _core.Value.of(target)
                self._results[name] = OrtValue(value)
        except BadInputError as error:
            raise BindingError(error.text, error.where, error.hint) from None


def _dense(ortvalue):
    if ortvalue.is_sparse_tensor():
        raise UnsupportedError("sessions take no sparse tensors")
    return ortvalue._value


def _value_at(gpu, element_type, shape, address):
    """Memory that the caller owns: an array, or a value on a GPU."""
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
