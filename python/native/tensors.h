// Between Python's arrays and tensors.
//
// Arrays whose elements lie in order are read where they are; what owns them is kept alive as long as a tensor reads them.
#pragma once

#include <nanobind/nanobind.h>

#include "expressions/datum.h"
#include "graph/onnx/interface.h"
#include "runtime/device_tensor.h"

namespace rewright::python {

// rewright.OrtValue: a value outside of NumPy.
struct HeldValue {
  Datum datum;                                      // in the CPU's memory, or ...
  std::shared_ptr<const DeviceTensor> placed = {};  // ... a tensor in a GPU's
};

// A NumPy array, whatever has __dlpack__, an OrtValue, None (nothing), a list where a sequence is declared; and what NumPy
// makes an array of the declared type of. Throws Error(kBadInput) or Error(kUnsupported).
HeldValue to_value(nanobind::handle value, const Declaration& declared);
// The same in the CPU's memory. Called with the GIL.
Datum to_datum(nanobind::handle value, const Declaration& declared);
Datum on_host(const HeldValue& value);

// An array, a list of them, or None. With `may_share` the array lies in the tensor's memory: nothing else may write it or
// believe it to be constant.
nanobind::object to_python(const Datum& datum, bool may_share);
nanobind::object to_array(const Tensor& tensor, bool may_share);

// numpy.dtype of these elements. Throws Error(kUnsupported).
nanobind::object dtype_of(DataType type);
DataType type_of_dtype(nanobind::handle dtype);

// Copies the elements into an array of this type and shape. Throws Error(kUsage) for what is no array, Error(kBadInput) for
// another one.
void copy_to_array(const Tensor& tensor, nanobind::handle array);

}  // namespace rewright::python
