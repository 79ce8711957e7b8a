#include "runtime/cuda/plugin/compile.h"

#include <nvrtc.h>

#include <vector>

#include "base/error.h"

namespace rewright::cuda {

namespace {

void check(nvrtcResult status, const char* what) {
  if (status != NVRTC_SUCCESS) throw Error(ErrorCode::kMissing, std::string("NVRTC: ") + nvrtcGetErrorString(status), what);
}

struct Program {
  nvrtcProgram handle = nullptr;
  ~Program() {
    if (handle != nullptr) nvrtcDestroyProgram(&handle);
  }
};

}  // namespace

std::string compile_for(const std::string& source, int architecture) {
  Program program;
  check(nvrtcCreateProgram(&program.handle, source.c_str(), "kernels.cu", 0, nullptr, nullptr), "a program");
  const std::string target = "--gpu-architecture=sm_" + std::to_string(architecture);
  const std::vector<const char*> options{target.c_str(), "--std=c++17", "--extra-device-vectorization", "--disable-warnings"};
  const nvrtcResult status = nvrtcCompileProgram(program.handle, static_cast<int>(options.size()), options.data());
  if (status != NVRTC_SUCCESS) {
    std::size_t size = 0;
    nvrtcGetProgramLogSize(program.handle, &size);
    std::string log(size, '\0');
    if (size > 0) nvrtcGetProgramLog(program.handle, log.data());
    throw Error(ErrorCode::kUnsupported, "generated kernels do not compile: " + log, target);
  }
  std::size_t size = 0;
  check(nvrtcGetCUBINSize(program.handle, &size), "machine code");
  std::string binary(size, '\0');
  check(nvrtcGetCUBIN(program.handle, binary.data()), "machine code");
  return binary;
}

std::string compiler_version() {
  int major = 0, minor = 0;
  check(nvrtcVersion(&major, &minor), "version");
  return "NVRTC " + std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace rewright::cuda
