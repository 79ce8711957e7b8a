#include "runtime/cuda/session.h"

#include <algorithm>
#include <map>

#include "graph/specialize.h"
#include "runtime/cuda/execution.h"
#include "runtime/cuda/failures.h"

namespace rewright::cuda {

namespace {

bool sizes_known(const Graph& graph) {
  return std::all_of(graph.inputs().begin(), graph.inputs().end(),
                     [&](ValueId i) { return graph.value(i).shape_known && all_constant(graph.value(i).type.shape); });
}

class CudaSession final : public Session, public DeviceSession {
 public:
  CudaSession(std::shared_ptr<Driver> driver, const Graph& graph, const SessionOptions& options, CudaOptions cuda)
      : driver_(std::move(driver)), graph_(graph), options_(options), cuda_(std::move(cuda)), constants_(driver_) {
    if (options.precision_double) throw Error(ErrorCode::kUnsupported, "the CUDA runtime computes in the types of the model");
    const InUse in_use(*driver_);
    if (sizes_known(graph_)) prepare_for({}, graph_);
  }
  ~CudaSession() override {
    const InUse in_use(*driver_);
    executions_.clear();
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    const InUse in_use(*driver_);
    Execution& execution = execution_for(inputs);
    return on(*driver_, [&] { return execution.run(inputs); });
  }

  int device() const override { return cuda_.device; }

  std::vector<PlacedTensor> run_placed(std::span<const PlacedTensor> inputs, std::span<const Destination> outputs) override {
    std::vector<Tensor> outlines;
    for (const PlacedTensor& input : inputs) outlines.push_back(outline(input));
    std::vector<PlacedTensor> results(outputs.size());  // let go after the lock, as memory that is given back takes it
    const InUse in_use(*driver_);
    Execution& execution = execution_for(outlines);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      if (const auto* const room = std::get_if<DeviceTensor>(&outputs[o]))
        require_room(*room, execution.plan().output_types[o], graph_.outputs()[o].name);
    on(*driver_, [&] { execution.run_placed(inputs, outputs, results); });
    return results;
  }

  std::vector<StepProfile> profile() const override {
    const InUse in_use(*driver_);
    return last_ == nullptr || !options_.profile ? std::vector<StepProfile>() : last_->profile(runs_);
  }
  std::size_t peak_bytes() const override { return last_ == nullptr ? 0 : last_->plan().arena_bytes; }

 private:
  using Executions = std::map<std::vector<Sizes>, std::unique_ptr<Execution>>;

  // A tensor of this type and these sizes, whose elements are not to be read.
  static Tensor outline(const PlacedTensor& tensor) {
    const auto* const placed = std::get_if<DeviceTensor>(&tensor);
    return placed == nullptr ? std::get<Tensor>(tensor) : Tensor(placed->type, placed->sizes, nullptr, placed->data);
  }

  Execution& execution_for(std::span<const Tensor> inputs) {
    bind_sizes(graph_, inputs);  // compares them
    std::vector<Sizes> key;
    for (const Tensor& t : inputs) key.push_back(t.sizes());
    auto found = executions_.find({});
    if (found == executions_.end()) found = executions_.find(key);
    if (found == executions_.end()) found = prepare_for(key, specialized(graph_, inputs));
    last_ = found->second.get();
    ++runs_;
    return *last_;
  }

  Executions::iterator prepare_for(std::vector<Sizes> key, const Graph& graph) {
    return executions_.emplace(std::move(key), on(*driver_, [&] { return prepare(driver_, graph, constants_, cuda_); })).first;
  }

  std::shared_ptr<Driver> driver_;
  Graph graph_;
  SessionOptions options_;
  CudaOptions cuda_;
  ConstantStore constants_;
  Executions executions_;
  Execution* last_ = nullptr;
  int runs_ = 0;
};

}  // namespace

std::unique_ptr<Session> make_session(std::shared_ptr<Driver> driver, const Graph& graph, const SessionOptions& options,
                                      const CudaOptions& cuda) {
  return std::make_unique<CudaSession>(std::move(driver), graph, options, cuda);
}

}  // namespace rewright::cuda
