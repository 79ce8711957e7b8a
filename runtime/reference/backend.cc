#include "runtime/reference/backend.h"

#include "graph/execute.h"
#include "graph/onnx/import/specialize.h"

namespace rewright::runtime {

namespace {

class ReferenceSession final : public Session {
 public:
  ReferenceSession(const Graph& graph, const SessionOptions& options) : graph_(graph), checkpoint_(options.checkpoint) {}
  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    const std::vector<Datum> data(inputs.begin(), inputs.end());
    return tensors_of(graph_, execute(data));
  }
  std::vector<Datum> execute(std::span<const Datum> inputs) override {
    const std::vector<Tensor> tensors = tensors_or_none(inputs);
    if (is_open_and_empty(graph_, tensors)) return graph::execute(read_again(graph_, tensors), inputs, checkpoint_);
    return graph::execute(graph_, inputs, checkpoint_);
  }

 private:
  Graph graph_;
  Checkpoint checkpoint_;
};

class ReferenceBackend final : public Backend {
 public:
  std::string name() const override { return "reference"; }
  bool executes_opaque_nodes() const override { return true; }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options) const override {
    require_executable(graph);
    return std::make_unique<ReferenceSession>(graph, options);
  }
};

}  // namespace

const Backend& reference_backend() {
  static const ReferenceBackend backend;
  return backend;
}

}  // namespace rewright::runtime
