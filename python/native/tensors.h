// Converts between Python's arrays and tensors.
//
// Contiguous arrays are read in place; their owner is kept alive as long as a tensor reads them.
#pragma once

#include <nanobind/nanobind.h>

#include "expressions/datum.h"
#include "graph/onnx/interface.h"
#include "runtime/device_tensor.h"

namespace rewright::python {

// rewright.OrtValue: a value that need not be a NumPy array.
struct HeldValue {
  Datum datum;                                      // in the CPU's memory, or ...
  std::shared_ptr<const DeviceTensor> placed = {};  // ... a tensor in a GPU's
};

// Takes a NumPy array, an object with __dlpack__, an OrtValue, None (nothing), a list for a declared sequence, and any object
// that NumPy can make an array of the declared type of. Throws Error(kBadInput) or Error(kUnsupported).
HeldValue to_value(nanobind::handle value, const Declaration& declared);
// to_value() with the result in the CPU's memory. Called with the GIL.
Datum to_datum(nanobind::handle value, const Declaration& declared);
Datum on_host(const HeldValue& value);

// An array, a list of them, or None. With `may_share` the array lies in the tensor's memory: nothing else may write to
// it or rely on its contents.
nanobind::object to_python(const Datum& datum, bool may_share);
nanobind::object to_array(const Tensor& tensor, bool may_share);

// numpy.dtype of these elements. Throws Error(kUnsupported).
nanobind::object dtype_of(DataType type);
DataType type_of_dtype(nanobind::handle dtype);

// Copies the elements into an array of this type and shape. Throws Error(kUsage) if it is no array, Error(kBadInput) if it has
// another type or shape.
void copy_to_array(const Tensor& tensor, nanobind::handle array);

}  // namespace rewright::python
