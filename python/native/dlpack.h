// Between DLPack's arrays and tensors, in the CPU's memory and in GPUs', without copies.
// https://dmlc.github.io/dlpack/latest/python_spec.html
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "python/native/tensors.h"

namespace rewright::python {

// Of anything with __dlpack__, or of what that returns (a capsule, which is used up). `where`: for errors. Throws
// Error(kBadInput) or Error(kUnsupported) for what is no tensor of ours.
HeldValue value_of_dlpack(nanobind::handle value, const std::string& where);

// An object with __dlpack__ and __dlpack_device__ in the value's own memory, all of whose elements are there by now. Throws
// Error(kUnsupported) for types that DLPack lacks.
nanobind::object dlpack_of(const HeldValue& value);

}  // namespace rewright::python
