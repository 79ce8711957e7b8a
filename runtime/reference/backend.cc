#include "runtime/reference/backend.h"

namespace rewright {

namespace {

class ReferenceSession final : public Session {
 public:
  explicit ReferenceSession(const Graph& graph) : graph_(graph) {}
  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    bind_sizes(graph_, inputs);
    return interpret(graph_, inputs);
  }

 private:
  Graph graph_;
};

class ReferenceBackend final : public Backend {
 public:
  std::string name() const override { return "reference"; }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions&) const override {
    return std::make_unique<ReferenceSession>(graph);
  }
};

}  // namespace

const Backend& reference_backend() {
  static const ReferenceBackend backend;
  return backend;
}

}  // namespace rewright
