#include "api/devices.h"

#include <array>
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

struct DeviceRequest {
  std::string argument;  // after the colon of the name; may be empty
  int threads = 0;
  MathClass math = MathClass::kReassociates;
  KernelChoice kernels = KernelChoice::kEstimated;
};

struct NamedDevice {
  std::string_view name, syntax;
  unsigned uses;
  std::unique_ptr<Device> (*make_device)(const DeviceRequest& request);  // null: only runs models
  const Backend& (*find_backend)(const DeviceRequest& request);          // null: none in this process
};

bool is_exact(const DeviceRequest& request) { return request.math == MathClass::kExact; }
bool uses_tf32(const DeviceRequest& request) { return request.math == MathClass::kNeedsFinite; }
int gpu_of(const DeviceRequest& request) { return request.argument.empty() ? 0 : std::stoi(request.argument); }

std::unique_ptr<Device> cpu_device(const DeviceRequest& request) {
  return cpu::make_cpu_device(request.threads, !is_exact(request), request.kernels);
}

std::unique_ptr<Device> cuda_device(const DeviceRequest& request) {
  return cuda::make_cuda_device(gpu_of(request), uses_tf32(request));
}

const Backend& cuda_backend(const DeviceRequest& request) {
  static std::mutex mutex;
  static std::map<std::pair<int, bool>, std::unique_ptr<Backend>> backends;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Backend>& backend = backends[{gpu_of(request), uses_tf32(request)}];
  if (!backend) backend = cuda::make_cuda_backend(gpu_of(request), uses_tf32(request));
  return *backend;
}

// A profile executes nothing: this machine's CPU checks the result.
std::unique_ptr<Device> profile_device(const DeviceRequest& request) {
  return make_profile_device(read_profile(request.argument), "profile:" + request.argument,
                             cpu::make_cpu_device(request.threads, !is_exact(request)));
}

constexpr unsigned kEverything = bit(DeviceUse::kOptimize) | bit(DeviceUse::kMeasure) | bit(DeviceUse::kRun) |
                                 bit(DeviceUse::kSession) | bit(DeviceUse::kMemory);
constexpr unsigned kElsewhere = bit(DeviceUse::kOptimize) | bit(DeviceUse::kMeasure) | bit(DeviceUse::kRun);

const std::array kDevices = {
    NamedDevice{"cpu", "cpu", kEverything, cpu_device,
                [](const DeviceRequest&) -> const Backend& { return cpu::cpu_backend(); }},
    NamedDevice{"cuda", "cuda[:N]", kEverything, cuda_device, cuda_backend},
    NamedDevice{"onnxruntime", "onnxruntime", kElsewhere,
                [](const DeviceRequest& request) { return make_onnxruntime_device(request.threads); }, nullptr},
    NamedDevice{"reference", "reference", bit(DeviceUse::kRun) | bit(DeviceUse::kSession), nullptr,
                [](const DeviceRequest&) -> const Backend& { return reference_backend(); }},
    NamedDevice{"profile:FILE", "profile:FILE", bit(DeviceUse::kOptimize), profile_device, nullptr},
};

// The number in "NAME:N", 0 for "NAME"; nothing for other texts.
std::optional<int> number_after(std::string_view name, std::string_view text) {
  if (text == name) return 0;
  if (!text.starts_with(name) || text.size() < name.size() + 2 || text[name.size()] != ':') return std::nullopt;
  const std::string number(text.substr(name.size() + 1));
  if (number.size() > 4 || number.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::stoi(number);
}

// The part of a device's name that its syntax leaves open (empty if there is none); nothing for another device's name.
std::optional<std::string> argument_of(const NamedDevice& device, const std::string& text) {
  if (device.syntax.ends_with("[:N]")) {
    const auto number = number_after(device.name, text);
    return number ? std::optional(std::to_string(*number)) : std::nullopt;
  }
  if (const std::size_t colon = device.syntax.find(':'); colon != std::string_view::npos)
    return text.starts_with(device.syntax.substr(0, colon + 1)) ? std::optional(text.substr(colon + 1)) : std::nullopt;
  return text == device.name ? std::optional<std::string>("") : std::nullopt;
}

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

std::optional<int> gpu_number(const std::string& name) { return number_after("cuda", name); }

std::string default_device() { return cuda::has_cuda_device() ? "cuda" : "cpu"; }

std::unique_ptr<Device> make_device(const std::string& name, int threads, MathClass math, KernelChoice kernels) {
  for (const NamedDevice& device : kDevices)
    if (const auto argument = argument_of(device, name); argument && device.make_device)
      return device.make_device({*argument, threads, math, kernels});
  throw Error(ErrorCode::kUsage, "there is no device \"" + name + "\"", {},
              "there are " + device_names(DeviceUse::kOptimize, "and"));
}

const Backend& find_backend(const std::string& name, MathClass math) {
  for (const NamedDevice& device : kDevices)
    if (const auto argument = argument_of(device, name); argument && device.find_backend)
      return device.find_backend({*argument, 0, math, KernelChoice::kEstimated});
  throw Error(ErrorCode::kUsage, "there is no device \"" + name + "\" to run on", {},
              "there are " + device_names(DeviceUse::kSession, "and"));
}

}  // namespace rewright::api
