// Versions of libraries.
#pragma once

#include <string>

namespace rewright::api {

// The libraries that this one is built with, and those found on this machine (MPI, CUDA), a line each: "ONNX 1.23.2". Loads the
// libraries it finds, which takes a moment.
std::string library_versions();

}  // namespace rewright::api
