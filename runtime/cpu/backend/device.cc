#include "runtime/cpu/backend/device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <random>

#include "optimizer/inputs/inputs.h"
#include "optimizer/measuring/time_in_turn.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/cpu/base/tile_registers.h"
#include "runtime/cpu/kernels/product/blas_product.h"
#include "runtime/cpu/loops/rows.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/planning/plan.h"
#include "runtime/cpu/running/runner.h"
#include "runtime/endable_run.h"
#include "runtime/mixed.h"

namespace rewright::cpu {

namespace {

// Must be increased whenever kernels or planning change times.
constexpr int kKernelGeneration = 17;

constexpr double kSecondsPerSample = 0.012;
constexpr int kLeastRuns = 3;
constexpr int kKeptPlans = 16;  // of keep_weights: what so many graphs do not need is dropped

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown processor";
}

// The best of several rounds: multiply-adds in registers, and copies of 64 MiB, by all threads.
Roofline measure_roofline(int threads, Isa isa) {
  constexpr int kRounds = 8;
  constexpr std::int64_t kRepeats = 200000;
  constexpr std::int64_t kBytes = std::int64_t{64} << 20;
  const cpu::Workers workers(threads);
  const auto best_seconds = [&](const auto& work) {
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kRounds; ++round) {
      const double start = cpu::work_seconds(threads);
      workers.share(threads, [&](std::int64_t piece, int) { work(piece); });
      best = std::min(best, cpu::work_seconds(threads) - start);
    }
    return best;
  };
  Roofline roofline;
  const cpu::RowLoops& loops = cpu::loops_for<cpu::RowLoops>(isa);
  std::vector<float> results(static_cast<std::size_t>(threads));
  const double computing =
      best_seconds([&](std::int64_t t) { results[static_cast<std::size_t>(t)] = loops.peak(0.5f, kRepeats); });
  roofline.operations_per_second = static_cast<double>(loops.peak_operations * kRepeats) * threads / computing;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  const std::int64_t share = kBytes / threads;
  const double copying = best_seconds(
      [&](std::int64_t t) { std::memcpy(to.data() + t * share, from.data() + t * share, static_cast<std::size_t>(share)); });
  roofline.bytes_per_second = 2.0 * static_cast<double>(share) * threads / copying;
  return roofline;
}

class CpuDevice final : public Device {
 public:
  CpuDevice(int threads, bool transformed_convolutions, KernelChoice kernels) {
    options_.kernels = kernels;
    options_.threads = usable_threads(threads);
    options_.transformed_convolutions = plan_options_.transformed_convolutions = transformed_convolutions;
    plan_options_.threads = options_.threads;
    plan_options_.isa = cpu::usable_isa(options_.max_isa);
    choices_ = cpu_choices(options_);
    plan_options_.choices = choices_.get();
  }

  std::string name() const override { return "cpu"; }
  double cache_bytes() const override {
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? static_cast<double>(bytes) * options_.threads : Device::cache_bytes();
  }
  StridedReads strided_reads() const override { return StridedReads::kProducts; }
  std::string identity() const override {
    return cpu_identity(options_) + (options_.kernels == KernelChoice::kEstimated ? "" : ", kernels by time");
  }

  void end_at(Clock::time_point time) override { end_ = time; }

  std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) override {
    std::vector<std::optional<double>> seconds;
    for (const NodeSample& sample : samples) {
      if (Clock::now() > end_) break;
      try {
        seconds.push_back(time_sample(sample.graph));
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kCancelled) break;
        seconds.push_back(std::nullopt);
      }
    }
    if (choices_) choices_->save();
    return seconds;
  }

  std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions& options) override {
    SessionOptions session_options = options_;
    session_options.checkpoint = ends_after(kLongestRun + 2 * options.max_seconds, end_, options.cancel);
    const EndableRun endable(session_options.checkpoint);
    if (options.check_kernels) session_options.check_kernels.emplace();
    std::vector<std::function<void()>> works;
    std::vector<Tensor> inputs;
    for (const Graph& graph : graphs) {
      session_options.checkpoint();
      session_options.resources = kept_;
      if (works.empty()) inputs = options.inputs.empty() ? random_inputs(graph, {}, options.seed) : options.inputs;
      const std::shared_ptr<Session> session = prepare_session(cpu_backend(), graph, session_options);
      works.emplace_back([session, &inputs] { session->run(inputs); });
    }
    return time_in_turn(
        works, [&] { return cpu::work_seconds(options_.threads); }, options);
  }

  // Without a new process: allocates some memory first, so that later allocations have other addresses.
  std::vector<std::vector<std::vector<double>>> time_afresh(std::span<const GraphsInTurn> sets) override {
    std::minstd_rand random(++afresh_);
    std::vector<std::vector<char>> elsewhere;
    for (int i = 0; i < 64; ++i) elsewhere.emplace_back(std::size_t{64} << (random() % 16), '\0');
    for (std::size_t i = 0; i < elsewhere.size(); i += 2) std::vector<char>().swap(elsewhere[i]);
    return Device::time_afresh(sets);
  }

  // Packed weights with equal bytes are one piece of memory anyway (only_copy), so that graphs which have them in common do not
  // compare less.
  void keep_weights(bool on) override { kept_ = on ? cpu_backend().share_resources(kKeptPlans) : nullptr; }

  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override {
    SessionOptions session_options = options_;
    session_options.checkpoint = ends_after(kLongestRun, end_, {});
    const EndableRun endable(session_options.checkpoint);
    session_options.checkpoint();
    session_options.resources = kept_;
    return prepare_session(cpu_backend(), graph, session_options)->run(inputs);
  }

  CheckedRun run_checked(const Graph& graph, std::span<const Tensor> inputs, double seconds) override {
    SessionOptions session_options = options_;
    session_options.checkpoint = ends_after(kLongestRun, end_, {});
    const EndableRun endable(session_options.checkpoint);
    session_options.checkpoint();
    session_options.check_kernels.emplace().seconds = seconds;
    session_options.resources = kept_;
    return checked_run(*prepare_session(cpu_backend(), graph, session_options), inputs);
  }

  bool supports(const Graph&, const Node& node) const override { return node.op != nullptr; }

  Roofline roofline() const override {
    if (!roofline_) roofline_ = measure_roofline(options_.threads, plan_options_.isa);
    return *roofline_;
  }

 private:
  // The least time of the sample's own steps. Layout conversions at its ends belong to its neighbours in a model.
  double time_sample(const Graph& graph) const {
    cpu::PlanRunner runner(cpu::make_plan(graph, plan_options_));
    runner.measure(true);
    const std::vector<Tensor> inputs = random_inputs(graph, {}, 0);
    const Checkpoint checkpoint = ends_after(kLongestRun, end_, {});
    const EndableRun endable(checkpoint);
    const auto start = Clock::now();
    runner.run(inputs);
    double least = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kLeastRuns || seconds_since(start) < kSecondsPerSample; ++run) {
      const std::vector<double> before = runner.seconds();
      runner.run(inputs);
      double seconds = 0;
      for (std::size_t n = 0; n < before.size(); ++n)
        if (!runner.plan().steps[n].changes_layout) seconds += runner.seconds()[n] - before[n];
      least = std::min(least, seconds);
      // Long samples are hardly disturbed.
      if (seconds_since(start) > 50 * kSecondsPerSample) break;
    }
    return least;
  }

  SessionOptions options_;
  cpu::PlanOptions plan_options_;
  std::unique_ptr<cpu::MeasuredChoices> choices_;
  Clock::time_point end_ = Clock::time_point::max();
  unsigned afresh_ = 0;                    // number of calls of time_afresh
  std::shared_ptr<SharedResources> kept_;  // null: each graph has its own
  mutable std::optional<Roofline> roofline_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads, bool transformed_convolutions, KernelChoice kernels) {
  return std::make_unique<CpuDevice>(threads, transformed_convolutions, kernels);
}

std::string cpu_identity(const SessionOptions& options) {
  const Isa isa = cpu::usable_isa(options.max_isa);
  return "cpu " + processor_name() + ", " + std::string(cpu::name(isa)) +
         (isa == Isa::kAvx512 && cpu::has_tile_registers() ? ", tile registers, " : ", ") + cpu::dnnl_version_text() + ", " +
         cpu::blas_version_text() + ", kernels " + std::to_string(kKernelGeneration) + ", " +
         std::to_string(usable_threads(options.threads)) + " threads" +
         (options.transformed_convolutions ? "" : ", no transformed convolutions");
}

std::unique_ptr<cpu::MeasuredChoices> cpu_choices(const SessionOptions& options) {
  if (options.kernels == KernelChoice::kEstimated) return nullptr;
  return std::make_unique<cpu::MeasuredChoices>(
      options.cost_database.empty() ? CostDatabase::default_file() : std::filesystem::path(options.cost_database),
      cpu_identity(options), options.kernels == KernelChoice::kMeasured || options.kernels == KernelChoice::kSearched);
}

std::string cpu_library_versions() { return cpu::dnnl_version_text() + "\n" + cpu::blas_version_text(); }

int cpu_kernel_generation() { return kKernelGeneration; }

}  // namespace rewright::cpu
