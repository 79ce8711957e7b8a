// What grouping has to know: the facts of a graph, with what the libraries compute.
#pragma once

#include "expressions/small_float.h"
#include "runtime/cuda/planning/library_nodes.h"

namespace rewright::cuda {

struct TakenNode final : planning::Taken {
  explicit TakenNode(LibraryNode n) : node(std::move(n)) {}
  LibraryNode node;
};

class LibraryFacts final : public planning::Facts {
 public:
  explicit LibraryFacts(const GraphFacts& facts) : facts_(facts) {}
  const Graph& graph() const override { return facts_.graph(); }
  ValueInfo info(ValueId value) const override { return facts_.info(value); }
  const Tensor& constant(ValueId value) const override { return facts_.constant(value); }
  Definition define(const Node& node) const override { return facts_.define(node); }
  bool needed(std::size_t node) const override { return facts_.needed(node); }
  ValueId add_constant_value(Tensor) override {
    throw Error(ErrorCode::kUnsupported, "plans for CUDA have no constants of their own");
  }
  bool has_kernels(std::string_view operator_name) const override {
    return operator_name == "MatMul" || operator_name == "Gemm" || operator_name == "Conv";
  }
  std::unique_ptr<planning::Taken> take(const Node& node) override {
    auto library = has_kernels(node.op->name()) ? library_node(facts_, node) : std::nullopt;
    if (!library) return nullptr;
    return std::make_unique<TakenNode>(std::move(*library));
  }
  bool absorb(planning::Taken& taken, const Chain& chain) override {
    return static_cast<TakenNode&>(taken).node.absorb(facts_, chain);
  }
  void will_be_stored(ValueId) override {}
  std::optional<planning::ChannelAffine> channel_affine(const Chain&) const override { return std::nullopt; }
  // Generated kernels compute in float.
  bool may_stay_unrounded(DataType type) const override { return is_real(type) && !is_small_float(type); }

 private:
  const GraphFacts& facts_;
};

}  // namespace rewright::cuda
