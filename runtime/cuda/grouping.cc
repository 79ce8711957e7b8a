#include "runtime/cuda/grouping.h"

#include "runtime/fusion/composer.h"
#include "runtime/fusion/grouping.h"

namespace rewright::cuda {

namespace {

struct TakenNode final : fusion::Taken {
  explicit TakenNode(LibraryNode n) : node(std::move(n)) {}
  LibraryNode node;
};

// The facts with what the libraries compute.
class FactsWithLibraries final : public fusion::Facts {
 public:
  explicit FactsWithLibraries(const GraphFacts& facts) : facts_(facts) {}
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
  std::unique_ptr<fusion::Taken> take(const Node& node) override {
    auto library = library_node(facts_, node);
    if (!library) return nullptr;
    return std::make_unique<TakenNode>(std::move(*library));
  }
  bool absorb(fusion::Taken& taken, const Chain& chain) override {
    return static_cast<TakenNode&>(taken).node.absorb(facts_, chain);
  }
  void will_be_stored(ValueId) override {}
  std::optional<fusion::ChannelAffine> channel_affine(const Chain&) const override { return std::nullopt; }
  // Generated kernels compute in float.
  bool may_stay_unrounded(DataType type) const override { return is_real(type); }

 private:
  const GraphFacts& facts_;
};

}  // namespace

std::vector<Group> make_groups(const GraphFacts& facts) {
  FactsWithLibraries with_libraries(facts);
  const std::vector<std::int32_t> producers = facts.graph().producers();
  std::vector<Group> groups;
  for (fusion::Group& from : fusion::make_groups(with_libraries)) {
    Group& group = groups.emplace_back();
    group.nodes = from.nodes;
    group.result = from.result;
    group.view = from.view;
    if (from.taken) {
      group.library = std::move(static_cast<TakenNode&>(*from.taken).node);
      from.chain = fusion::compose(with_libraries, producers, from.nodes, kNoValue, false);
    }
    if (!from.chain) continue;
    group.element = from.chain->element;
    group.position = from.chain->position;
    group.operands = from.chain->operands;
  }
  return groups;
}

}  // namespace rewright::cuda
