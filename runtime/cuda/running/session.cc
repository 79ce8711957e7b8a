#include "runtime/cuda/running/session.h"

#include <algorithm>
#include <map>

#include "graph/onnx/import/specialize.h"
#include "runtime/checked_kernels.h"
#include "runtime/cuda/driver/failures.h"
#include "runtime/cuda/running/kernel_check.h"
#include "runtime/cuda/running/prepare.h"

namespace rewright::cuda {

namespace {

bool sizes_known(const Graph& graph) {
  return std::all_of(graph.inputs().begin(), graph.inputs().end(),
                     [&](ValueId i) { return graph.value(i).shape_known && all_constant(graph.value(i).type.shape); });
}

class CudaSession final : public Session, public DeviceSession, public ChecksKernels {
 public:
  CudaSession(std::shared_ptr<Driver> driver, const Graph& graph, const SessionOptions& options, CudaOptions cuda)
      : driver_(std::move(driver)), graph_(graph), options_(options), cuda_(std::move(cuda)), constants_(driver_) {
    if (options.precision_double) throw Error(ErrorCode::kUnsupported, "the CUDA runtime computes in the types of the model");
    graph_.tidy();  // layers may compute the same, such as positions: once is enough
    const InUse in_use(*driver_);
    if (sizes_known(graph_)) prepare_for({}, graph_);
  }
  ~CudaSession() override {
    const InUse in_use(*driver_);
    executions_.clear();
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    const InUse in_use(*driver_);
    Prepared& prepared = prepared_for(inputs);
    return on(*driver_, [&] {
      return options_.check_kernels && !prepared.is_checked ? run_and_check(prepared, inputs) : prepared.execution->run(inputs);
    });
  }

  int device() const override { return cuda_.device; }

  std::vector<PlacedTensor> run_placed(std::span<const PlacedTensor> inputs, std::span<const Destination> outputs) override {
    std::vector<Tensor> outlines;
    for (const PlacedTensor& input : inputs) outlines.push_back(outline(input));
    std::vector<PlacedTensor> results(outputs.size());  // destroyed after the lock is released: freeing them locks again
    const InUse in_use(*driver_);
    Execution& execution = *prepared_for(outlines).execution;
    for (std::size_t o = 0; o < outputs.size(); ++o)
      if (const auto* const buffer = std::get_if<DeviceTensor>(&outputs[o]))
        require_fits(*buffer, execution.plan().output_types[o], graph_.outputs()[o].name);
    on(*driver_, [&] { execution.run_placed(inputs, outputs, results); });
    return results;
  }

  std::vector<StepProfile> profile() const override {
    const InUse in_use(*driver_);
    return last_ == nullptr || !options_.profile ? std::vector<StepProfile>() : last_->profile(runs_);
  }
  std::size_t peak_bytes() const override { return last_ == nullptr ? 0 : last_->plan().arena_bytes; }
  std::vector<std::string> warnings() const override {
    const InUse in_use(*driver_);
    return warnings_;
  }
  CheckedKernels checked_kernels() const override {
    const InUse in_use(*driver_);
    return checked_;
  }

 private:
  struct Prepared {
    std::unique_ptr<Execution> execution;
    bool is_checked = false;
  };
  using Executions = std::map<std::vector<Sizes>, Prepared>;

  // A tensor of this type and sizes whose elements must not be read.
  static Tensor outline(const PlacedTensor& tensor) {
    const auto* const placed = std::get_if<DeviceTensor>(&tensor);
    return placed == nullptr ? std::get<Tensor>(tensor) : Tensor(placed->type, placed->sizes, nullptr, placed->data);
  }

  Prepared& prepared_for(std::span<const Tensor> inputs) {
    bind_sizes(graph_, inputs);  // compares sizes
    std::vector<Sizes> key;
    for (const Tensor& t : inputs) key.push_back(t.sizes());
    auto found = executions_.find({});
    if (found == executions_.end()) found = executions_.find(key);
    if (found == executions_.end()) found = prepare_for(key, specialized(graph_, inputs));
    last_ = found->second.execution.get();
    ++runs_;
    return found->second;
  }

  Executions::iterator prepare_for(std::vector<Sizes> key, const Graph& graph) {
    return executions_
        .emplace(std::move(key), Prepared{on(*driver_, [&] { return prepare(driver_, graph, constants_, cuda_); })})
        .first;
  }

  // For the first run on host tensors. Runs on device tensors are not checked.
  std::vector<Tensor> run_and_check(Prepared& prepared, std::span<const Tensor> inputs) {
    const Graph graph = executions_.contains({}) ? graph_ : specialized(graph_, inputs);
    InsteadOf instead, taken;  // `taken`: the replacements in the current execution
    const auto take = [&] {
      if (instead == taken) return;
      prepared.execution.reset();
      last_ = nullptr;
      prepared.execution = prepare(driver_, graph, constants_, cuda_, {}, taken = instead);
      last_ = prepared.execution.get();
    };
    const auto observed = [&](std::uint64_t seed) {
      take();
      KernelCheck check(*prepared.execution, graph, *options_.check_kernels, seed);
      std::vector<Tensor> outputs = prepared.execution->run_observed(inputs, [&](std::size_t step) { check.after(step); });
      return ObservedRun{std::move(outputs), check.faults(), check.counts()};
    };
    std::vector<Tensor> outputs = run_until_right(observed, instead, checked_, warnings_);
    take();
    prepared.is_checked = true;
    return outputs;
  }

  std::shared_ptr<Driver> driver_;
  Graph graph_;
  SessionOptions options_;
  CudaOptions cuda_;
  ConstantStore constants_;
  Executions executions_;
  Execution* last_ = nullptr;
  int runs_ = 0;
  std::vector<std::string> warnings_;
  CheckedKernels checked_;
};

}  // namespace

std::unique_ptr<Session> make_session(std::shared_ptr<Driver> driver, const Graph& graph, const SessionOptions& options,
                                      const CudaOptions& cuda) {
  return std::make_unique<CudaSession>(std::move(driver), graph, options, cuda);
}

}  // namespace rewright::cuda
