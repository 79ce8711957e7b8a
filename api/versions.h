// Which libraries there are.
#pragma once

#include <string>

namespace rewright::api {

// Those that this library is built with and those that it finds on this machine (MPI, CUDA), with their versions, a line each:
// "ONNX 1.23.2". Loads what it finds, which takes a moment.
std::string library_versions();

}  // namespace rewright::api
