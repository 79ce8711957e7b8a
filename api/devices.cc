#include "api/devices.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "optimizer/devices/device_profile.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/cpu/backend/device.h"
#include "runtime/cuda/running/device.h"
#include "runtime/onnxruntime/device.h"
#include "runtime/reference/backend.h"

namespace rewright::api {

namespace {

constexpr unsigned bit(DeviceUse use) { return 1U << static_cast<unsigned>(use); }

struct NamedDevice {
  std::string_view name, syntax;
  unsigned uses;
};

constexpr unsigned kEverything = bit(DeviceUse::kOptimize) | bit(DeviceUse::kMeasure) | bit(DeviceUse::kRun) |
                                 bit(DeviceUse::kSession) | bit(DeviceUse::kMemory);
constexpr NamedDevice kDevices[] = {
    {"cpu", "cpu", kEverything},
    {"cuda", "cuda[:N]", kEverything},
    {"onnxruntime", "onnxruntime", bit(DeviceUse::kOptimize) | bit(DeviceUse::kMeasure) | bit(DeviceUse::kRun)},
    {"reference", "reference", bit(DeviceUse::kRun) | bit(DeviceUse::kSession)},
    {"profile:FILE", "profile:FILE", bit(DeviceUse::kOptimize)},
};

}  // namespace

std::string device_names(DeviceUse use, std::string_view last_separator) {
  std::vector<std::string_view> names;
  for (const NamedDevice& device : kDevices)
    if (device.uses & bit(use)) names.push_back(device.name);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : " " + std::string(last_separator) + " ";
    text += names[i];
  }
  return text;
}

std::string device_syntax(DeviceUse use) {
  std::string text;
  for (const NamedDevice& device : kDevices)
    if (device.uses & bit(use)) text += std::string(text.empty() ? "" : "|") + std::string(device.syntax);
  return text;
}

std::optional<int> gpu_number(const std::string& name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  const std::string number = name.substr(5);
  if (number.empty() || number.size() > 4 || number.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::stoi(number);
}

std::string default_device() { return cuda::has_cuda_device() ? "cuda" : "cpu"; }

std::unique_ptr<Device> make_device(const std::string& name, int threads, MathClass math, KernelChoice kernels) {
  const bool exact = math == MathClass::kExact;
  if (name == "cpu") return cpu::make_cpu_device(threads, !exact, kernels);
  if (name == "onnxruntime") return make_onnxruntime_device(threads);
  if (const auto gpu = gpu_number(name)) return cuda::make_cuda_device(*gpu, math == MathClass::kNeedsFinite);
  if (name.starts_with("profile:"))  // profiles execute nothing: this machine's CPU checks the result
    return make_profile_device(read_profile(name.substr(8)), name, cpu::make_cpu_device(threads, !exact));
  throw Error(ErrorCode::kUsage, "there is no device \"" + name + "\"", {},
              "there are " + device_names(DeviceUse::kOptimize, "and"));
}

const Backend& find_backend(const std::string& name, MathClass math) {
  if (name == "cpu") return cpu::cpu_backend();
  if (name == "reference") return reference_backend();
  if (const auto gpu = gpu_number(name)) {
    static std::mutex mutex;
    static std::map<std::pair<int, bool>, std::unique_ptr<Backend>> backends;
    const std::lock_guard lock(mutex);
    const bool tf32 = math == MathClass::kNeedsFinite;
    std::unique_ptr<Backend>& backend = backends[{*gpu, tf32}];
    if (!backend) backend = cuda::make_cuda_backend(*gpu, tf32);
    return *backend;
  }
  throw Error(ErrorCode::kUsage, "there is no device \"" + name + "\" to run on", {},
              "there are " + device_names(DeviceUse::kSession, "and"));
}

}  // namespace rewright::api
