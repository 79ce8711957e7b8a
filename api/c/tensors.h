// Tensors and names of the C interface.
#pragma once

#include <string>
#include <vector>

#include "api/rewright_c.h"
#include "runtime/device_tensor.h"

namespace rewright::c {

// A tensor in the caller's memory, which is read in place and not kept after the run. `where`: for errors. Throws
// Error(kBadInput) if the parts of the tensor contradict each other.
Tensor given_tensor(const rewright_tensor& given, const std::string& where);
// A tensor in a GPU's memory, given and checked like one in the caller's.
DeviceTensor given_on_gpu(const rewright_tensor& given, int gpu, const std::string& where);

// The position of a name among `names`. `what`: "input" or "output". Throws Error(kUsage) if there is no such name.
std::size_t position(const std::vector<std::string>& names, const char* name, const std::string& what);

}  // namespace rewright::c
