// Between Python's arrays and tensors.
//
// Arrays whose elements lie in order are read where they are; what owns them is kept alive as long as a tensor reads them.
#pragma once

#include <nanobind/nanobind.h>

#include "graph/onnx_interface.h"
#include "operators/datum.h"

namespace rewright::python {

// rewright.OrtValue: a value outside of NumPy.
struct HeldValue {
  Datum datum;
};

// A NumPy array, whatever has __dlpack__ and is in the CPU's memory, an OrtValue, None (nothing), a list where a sequence is
// declared; and what NumPy makes an array of the declared type of. Throws Error(kBadInput) or Error(kUnsupported).
Datum to_datum(nanobind::handle value, const Declaration& declared);

// An array, a list of them, or None. With `may_share` the array lies in the tensor's memory: nothing else may write it or
// believe it to be constant.
nanobind::object to_python(const Datum& datum, bool may_share);
nanobind::object to_array(const Tensor& tensor, bool may_share);

// numpy.dtype of these elements. Throws Error(kUnsupported).
nanobind::object dtype_of(DataType type);
DataType type_of_dtype(nanobind::handle dtype);

void bind_values(nanobind::module_& m);

}  // namespace rewright::python
