#include "runtime/cuda/running/plugin.h"

#include <dlfcn.h>

#include <string>

#include "base/error.h"
#include "distribution/plugin.h"

namespace rewright::cuda {

std::shared_ptr<Driver> load_driver(int number) {
  const auto missing = [](const std::string& what) {
    return Error(ErrorCode::kMissing, what, "--device cuda", "use --device cpu");
  };
  const std::filesystem::path plugin = distribution::find_plugin("librewright_cuda.so");
  if (plugin.empty()) throw missing("this build has no CUDA runtime");
  // Never closed: CUDA's libraries do not support it.
  void* library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw missing(std::string("CUDA does not load: ") + ::dlerror());
  using Make = Driver* (*)(int);
  const auto make = reinterpret_cast<Make>(::dlsym(library, "rewright_make_cuda_driver"));
  if (make == nullptr) throw missing("the plug-in for CUDA is of another version");
  try {
    return std::shared_ptr<Driver>(make(number));
  } catch (const Error& e) {
    throw missing(e.what());
  }
}

}  // namespace rewright::cuda
