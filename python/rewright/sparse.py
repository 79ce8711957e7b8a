"""Sparse tensors. Sessions take dense ones, and return sparse ones where the model declares its output to be one."""

import enum

from ._native import _core
from .devices import OrtDevice
from .errors import ValueKindError


class OrtSparseFormat(enum.IntEnum):
    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class SparseCooView:
    def __init__(self, indices):
        self._indices = indices

    def indices(self):
        """Positions of the values, counted row by row, or (as two axes) by their coordinates."""
        return _read_only(self._indices)


class SparseBlockSparseView(SparseCooView):
    """Coordinates of blocks."""


class SparseCsrView:
    def __init__(self, inner, outer):
        self._inner, self._outer = inner, outer

    def inner(self):
        """The column of each value."""
        return _read_only(self._inner)

    def outer(self):
        """For each row where its values begin; then how many there are in all."""
        return _read_only(self._outer)


class SparseTensor:
    """The values of a tensor that are not 0, and where they are. Numbers are not copied."""

    def __init__(self, format, dense_shape, values, view):
        self._format, self._shape, self._values, self._view = format, dense_shape, values, view

    @staticmethod
    def sparse_coo_from_numpy(dense_shape, values, coo_indices, ort_device):
        """By positions (one axis: counted row by row; two axes: coordinates, a row for each value)."""
        shape, values = _checked(dense_shape, values, ort_device)
        indices = _integers(coo_indices)
        if indices.ndim == 2:
            if indices.shape != (values.size, len(shape)):
                raise ValueKindError(f"coordinates of shape {indices.shape} do not fit {values.size} values of {len(shape)} axes")
            _check_range(indices, shape)
        else:
            if indices.shape != values.shape:
                raise ValueKindError(f"positions of shape {indices.shape} do not fit {values.size} values")
            _check_range(indices, _product(shape))
        return SparseTensor(OrtSparseFormat.ORT_SPARSE_COO, shape, values, SparseCooView(indices))

    @staticmethod
    def of_dense(array):
        """The sparse tensor of an array, by the row-major positions of its elements other than 0."""
        import numpy

        where = numpy.flatnonzero(array != ("" if array.dtype.hasobject else 0))
        return SparseTensor(OrtSparseFormat.ORT_SPARSE_COO, list(array.shape), array.ravel()[where], SparseCooView(where))

    @staticmethod
    def sparse_csr_from_numpy(dense_shape, values, inner_indices, outer_indices, ort_device):
        """By rows."""
        shape, values = _checked(dense_shape, values, ort_device)
        inner, outer = _integers(inner_indices), _integers(outer_indices)
        if len(shape) != 2:
            raise ValueKindError(f"a matrix has 2 axes, not {len(shape)}")
        fits = inner.shape == values.shape and outer.shape == (shape[0] + 1,) and outer[0] == 0 and outer[-1] == values.size
        if not fits or (outer[1:] < outer[:-1]).any():
            raise ValueKindError(f"{inner.size} columns and {outer.size} ends of rows do not fit {values.size} values of {shape}")
        _check_range(inner, shape[1])
        return SparseTensor(OrtSparseFormat.ORT_SPARSE_CSRC, shape, values, SparseCsrView(inner, outer))

    @staticmethod
    def blocksparse_from_numpy(dense_shape, values, indices, ort_device):
        """By blocks: the first axis of the values counts them, the second one of `indices` does."""
        shape, values = _checked(dense_shape, values, ort_device, axes=None)
        indices = _integers(indices)
        if indices.ndim != 2 or values.ndim < 1 or indices.shape[1] != values.shape[0]:
            raise ValueKindError(f"positions of shape {indices.shape} do not fit blocks of shape {values.shape}")
        return SparseTensor(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE, shape, values, SparseBlockSparseView(indices))

    def values(self):
        return _read_only(self._values)

    def format(self):
        return self._format

    def dense_shape(self):
        return list(self._shape)

    def data_type(self):
        """ "sparse_tensor(float)"."""
        return f"sparse_{self._element_text()}"

    def _element_text(self):
        return _core.type_text(_core.Value.of(self._values).element_type)

    def device_name(self):
        return "cpu"

    def as_coo_view(self):
        return self._viewed(OrtSparseFormat.ORT_SPARSE_COO)

    def as_csrc_view(self):
        return self._viewed(OrtSparseFormat.ORT_SPARSE_CSRC)

    def as_blocksparse_view(self):
        return self._viewed(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE)

    get_coo_data, get_csrc_data, get_blocksparse_data = as_coo_view, as_csrc_view, as_blocksparse_view

    def to_cuda(self, ort_device):
        raise ValueKindError("sparse tensors are in the CPU's memory")

    def _get_c_tensor(self):
        return self

    def _viewed(self, format):
        if self._format != format:
            raise ValueKindError(f"this sparse tensor does not have the format {format.name}, but {self._format.name}")
        return self._view


def _checked(dense_shape, values, ort_device, axes=1):
    import numpy

    if not isinstance(ort_device, OrtDevice):
        raise TypeError("a device is an OrtDevice")
    if ort_device.device_type() != OrtDevice.cpu():
        raise ValueKindError("sparse tensors are in the CPU's memory")
    shape = [int(size) for size in dense_shape]
    if any(size < 0 for size in shape):
        raise ValueKindError(f"sizes cannot be negative: {shape}")
    if not isinstance(values, numpy.ndarray) or (axes is not None and values.ndim != axes):
        raise ValueKindError("values are an array of one axis")
    return shape, numpy.ascontiguousarray(values)


def _integers(indices):
    import numpy

    indices = numpy.asarray(indices)
    if indices.dtype.kind not in "iu":
        raise ValueKindError(f"positions are integers, not {indices.dtype}")
    return numpy.ascontiguousarray(indices)


def _read_only(array):
    view = array.view()
    view.flags.writeable = False
    return view


def _product(sizes):
    import math

    return math.prod(sizes)


def _check_range(indices, ends):
    if ((indices < 0) | (indices >= ends)).any():
        raise ValueKindError(f"a position is outside of the sizes {ends}")
