#include "api/devices.h"

#include <map>
#include <mutex>
#include <utility>

#include "optimizer/device_profile.h"
#include "runtime/cpu/running/backend.h"
#include "runtime/cpu/running/device.h"
#include "runtime/cuda/running/device.h"
#include "runtime/onnxruntime/device.h"
#include "runtime/reference/backend.h"

namespace rewright::api {

std::optional<int> gpu_number(const std::string& name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  const std::string number = name.substr(5);
  if (number.empty() || number.size() > 4 || number.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::stoi(number);
}

std::string default_device() { return has_cuda_device() ? "cuda" : "cpu"; }

std::unique_ptr<Device> make_device(const std::string& name, int threads, MathClass math, KernelChoice kernels) {
  const bool exact = math == MathClass::kExact;
  if (name == "cpu") return make_cpu_device(threads, !exact, kernels);
  if (name == "onnxruntime") return make_onnxruntime_device(threads);
  if (const auto gpu = gpu_number(name)) return make_cuda_device(*gpu, math == MathClass::kNeedsFinite);
  if (name.starts_with("profile:"))  // models are executed, to check them, on this machine's CPU
    return make_profile_device(read_profile(name.substr(8)), name, make_cpu_device(threads, !exact));
  throw Error(ErrorCode::kUsage, "there is no device \"" + name + "\"", {},
              "there are cpu, cuda, onnxruntime and profile:FILE");
}

const Backend& find_backend(const std::string& name, MathClass math) {
  if (name == "cpu") return cpu_backend();
  if (name == "reference") return reference_backend();
  if (const auto gpu = gpu_number(name)) {
    static std::mutex mutex;
    static std::map<std::pair<int, bool>, std::unique_ptr<Backend>> backends;
    const std::lock_guard lock(mutex);
    const bool tf32 = math == MathClass::kNeedsFinite;
    std::unique_ptr<Backend>& backend = backends[{*gpu, tf32}];
    if (!backend) backend = make_cuda_backend(*gpu, tf32);
    return *backend;
  }
  throw Error(ErrorCode::kUsage, "there is no device \"" + name + "\" to run on", {}, "there are cpu, cuda and reference");
}

}  // namespace rewright::api
