// Converts between DLPack's arrays and tensors, in the memory of the CPU and of GPUs, without copies.
// https://dmlc.github.io/dlpack/latest/python_spec.html
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "python/native/tensors.h"

namespace rewright::python {

// The value of an object with __dlpack__, or of a capsule that __dlpack__ returned, which is used up. `where`: for errors.
// Throws Error(kBadInput) or Error(kUnsupported) for arrays that cannot be tensors here.
HeldValue value_of_dlpack(nanobind::handle value, const std::string& where);

// An object with __dlpack__ and __dlpack_device__ in the value's own memory, whose elements are all computed. Throws
// Error(kUnsupported) for types that DLPack lacks.
nanobind::object dlpack_of(const HeldValue& value);

}  // namespace rewright::python
