#include "runtime/cuda/device.h"

#include <chrono>
#include <cstdlib>

#include "optimizer/optimize.h"
#include "runtime/cuda/execution.h"
#include "runtime/cuda/plugin.h"

namespace rewright {

namespace {

// To be changed with every change of kernels or planning that changes times.
constexpr int kKernelGeneration = 1;
constexpr int kRuns = 20;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// $XDG_CACHE_HOME/rewright/kernels, or ~/.cache/rewright/kernels.
std::filesystem::path cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return std::filesystem::path(cache) / "rewright" / "kernels";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "rewright" / "kernels";
  return {};
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int number) : driver_(cuda::load_driver(number)) {}
  std::string name() const override { return "cuda"; }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options) const override {
    return cuda::make_session(driver_, graph, options, {cuda::Precision::kFloat, cache_folder()});
  }

 private:
  std::shared_ptr<cuda::Driver> driver_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int number) : number_(number), driver_(cuda::load_driver(number)) {}

  std::string name() const override { return number_ == 0 ? "cuda" : "cuda:" + std::to_string(number_); }
  std::string identity() const override {
    return "cuda " + driver_->device_name() + ", " + driver_->library_versions() + ", kernels " +
           std::to_string(kKernelGeneration);
  }

  std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) override {
    std::vector<std::optional<double>> seconds;
    for (const NodeSample& sample : samples) {
      try {
        cuda::ConstantStore constants(driver_);
        cuda::Execution execution(driver_, cuda::make_plan(sample.graph), constants, options_);
        execution.run(random_inputs(sample.graph, {}, 0));
        seconds.push_back(execution.measure(kRuns));
      } catch (const Error& e) {
        if (e.code() == ErrorCode::kMissing) throw;
        seconds.push_back(std::nullopt);
      }
    }
    return seconds;
  }

  std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions& options) override {
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<Tensor> inputs;
    for (const Graph& graph : graphs) {
      sessions.push_back(cuda::make_session(driver_, graph, {}, options_));
      if (sessions.size() == 1) inputs = random_inputs(graph, {}, options.seed);
    }
    std::vector<std::vector<double>> seconds(graphs.size());
    auto start = Clock::now();
    for (int round = -options.warmup;; ++round) {
      if (round == 0) start = Clock::now();
      const double passed = seconds_since(start);
      if (round > 0 && (passed > options.max_seconds || (passed > options.min_seconds && round >= options.min_rounds))) break;
      if (options.cancel.stop_requested()) throw Error(ErrorCode::kCancelled, "measuring was stopped");
      for (std::size_t i = 0; i < graphs.size(); ++i) {
        const std::size_t g = round % 2 == 0 ? i : graphs.size() - 1 - i;
        const auto begin = Clock::now();
        sessions[g]->run(inputs);
        if (round >= 0) seconds[g].push_back(seconds_since(begin));
      }
    }
    return seconds;
  }

  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override {
    return cuda::make_session(driver_, graph, {}, options_)->run(inputs);
  }

  bool supports(const Graph&, const Node& node) const override { return node.op != nullptr; }

  // A lower bound of what such a processor does, until it is measured.
  Roofline roofline() const override { return {1e11 * driver_->processors(), 1.5e10 * driver_->processors(), 3e-6}; }

 private:
  int number_;
  std::shared_ptr<cuda::Driver> driver_;
  cuda::CudaOptions options_{cuda::Precision::kFloat, cache_folder()};
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(int number) { return std::make_unique<CudaBackend>(number); }
std::unique_ptr<Device> make_cuda_device(int number) { return std::make_unique<CudaDevice>(number); }

}  // namespace rewright
