#include "runtime/cuda/running/device.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <functional>

#include "optimizer/measuring/time_in_turn.h"
#include "optimizer/optimize.h"
#include "runtime/checked_kernels.h"
#include "runtime/cuda/running/plugin.h"
#include "runtime/cuda/running/prepare.h"

namespace rewright::cuda {

namespace {

// Part of the device's identity. Must be increased whenever kernels or planning change times.
constexpr int kKernelGeneration = 4;
constexpr int kRuns = 20;

// $XDG_CACHE_HOME/rewright/kernels, or ~/.cache/rewright/kernels.
std::filesystem::path cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return std::filesystem::path(cache) / "rewright" / "kernels";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "rewright" / "kernels";
  return {};
}

std::string identity_of(const cuda::Driver& driver) {
  return "cuda " + driver.device_name() + ", " + driver.library_versions() + ", kernels " + std::to_string(kKernelGeneration);
}

cuda::CudaOptions options_for(const cuda::Driver& driver, int number, bool tf32) {
  return {.device = number,
          .precision = tf32 ? cuda::Precision::kTf32 : cuda::Precision::kFloat,
          .cache = cache_folder(),
          .choices = std::make_shared<cuda::Choices>(CostDatabase::default_file(), identity_of(driver))};
}

// Measured with a large product, and large and small copies.
Roofline measure_roofline(const std::shared_ptr<cuda::Driver>& driver, cuda::Precision precision) {
  constexpr std::int64_t kSize = 4096;
  constexpr std::size_t kBytes = std::size_t{kSize} * kSize * sizeof(float), kFew = 256;
  constexpr int kCopies = 50;
  const cuda::InUse in_use(*driver);
  const auto memory = [&](std::size_t bytes) { return cuda::DeviceMemory(driver, cuda::DeviceMemory::Kind::kDevice, bytes); };
  const cuda::DeviceMemory a = memory(kBytes), b = memory(kBytes), y = memory(kBytes);
  const auto seconds = [&](const std::function<void()>& work) {
    driver->begin_recording();
    work();
    return driver->measure(*driver->end_recording(), kRuns);
  };
  const double copying = seconds([&] { driver->copy(y.data(), a.data(), kBytes); });
  const double calling = seconds([&] {
    for (int n = 0; n < kCopies; ++n) driver->copy(y.data(), a.data(), kFew);
  });
  Roofline roofline{1e11 * driver->processors(), 2 * kBytes / copying, calling / kCopies};
  cuda::ProductShape shape;
  shape.m = shape.n = shape.k = shape.a_stride = shape.b_stride = shape.y_stride = kSize;
  if (const auto product = driver->operation(shape, precision, {})) {
    const cuda::DeviceMemory workspace = memory(product->workspace_bytes());
    const std::byte* const inputs[] = {a.data(), b.data()};
    const double multiplying = seconds([&] { product->start(inputs, y.data(), workspace.data()); });
    roofline.operations_per_second = 2.0 * kSize * kSize * kSize / multiplying;
  }
  return roofline;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int number, bool tf32)
      : number_(number), driver_(cuda::load_driver(number)), options_(options_for(*driver_, number, tf32)) {}

  std::string name() const override { return number_ == 0 ? "cuda" : "cuda:" + std::to_string(number_); }
  std::string identity() const override {
    return identity_of(*driver_) + (options_.precision == cuda::Precision::kTf32 ? ", TF32" : "");
  }

  void end_at(std::chrono::steady_clock::time_point time) override { end_ = time; }

  std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) override {
    std::vector<std::optional<double>> seconds;
    for (const NodeSample& sample : samples) {
      if (std::chrono::steady_clock::now() > end_) break;
      try {
        const cuda::InUse in_use(*driver_);
        cuda::ConstantStore constants(driver_);
        const auto execution = cuda::prepare(driver_, sample.graph, constants, options_);
        execution->run(random_inputs(sample.graph, {}, 0));
        seconds.push_back(execution->measure_work(kRuns));
      } catch (const Error& e) {
        if (e.code() == ErrorCode::kMissing) throw;
        seconds.push_back(std::nullopt);
      }
    }
    return seconds;
  }

  std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions& options) override {
    std::vector<std::function<void()>> works;
    std::vector<Tensor> inputs;
    for (const Graph& graph : graphs) {
      if (std::chrono::steady_clock::now() > end_) throw Error(ErrorCode::kCancelled, "the time for it is over");
      if (works.empty()) inputs = options.inputs.empty() ? random_inputs(graph, {}, options.seed) : options.inputs;
      SessionOptions session_options;
      if (options.check_kernels) session_options.check_kernels.emplace();
      const std::shared_ptr<Session> session = cuda::make_session(driver_, graph, session_options, options_);
      works.emplace_back([session, &inputs] { session->run(inputs); });
    }
    const auto clock = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    return time_in_turn(works, clock, options);
  }

  // Runs in full precision, since results are compared with other devices.
  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override {
    return exact_session(graph, {})->run(inputs);
  }

  CheckedRun run_checked(const Graph& graph, std::span<const Tensor> inputs, double seconds) override {
    SessionOptions session_options;
    session_options.check_kernels.emplace().seconds = seconds;
    return checked_run(*exact_session(graph, session_options), inputs);
  }

  bool supports(const Graph&, const Node& node) const override { return node.op != nullptr; }

  Roofline roofline() const override { return measure_roofline(driver_, options_.precision); }

 private:
  std::unique_ptr<Session> exact_session(const Graph& graph, const SessionOptions& session_options) const {
    cuda::CudaOptions exact = options_;
    exact.precision = cuda::Precision::kFloat;
    return cuda::make_session(driver_, graph, session_options, exact);
  }

  int number_;
  std::shared_ptr<cuda::Driver> driver_;
  cuda::CudaOptions options_;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::time_point::max();
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(int number, bool tf32) {
  std::shared_ptr<cuda::Driver> driver = cuda::load_driver(number);
  const cuda::CudaOptions options = options_for(*driver, number, tf32);
  return cuda::make_backend(std::move(driver), options);
}
std::unique_ptr<Device> make_cuda_device(int number, bool tf32) { return std::make_unique<CudaDevice>(number, tf32); }

bool has_cuda_device() { return !cuda_versions().empty(); }

std::string cuda_versions() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return {};
  ::dlclose(driver);
  try {
    return cuda::load_driver(0)->library_versions();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace rewright::cuda
