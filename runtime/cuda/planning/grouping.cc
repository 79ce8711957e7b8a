#include "runtime/cuda/planning/grouping.h"

#include <memory>
#include <utility>

#include "expressions/small_float.h"
#include "runtime/cuda/planning/attention.h"
#include "runtime/cuda/planning/float8.h"
#include "runtime/cuda/planning/packed_factors.h"
#include "runtime/cuda/planning/split_reductions.h"
#include "runtime/cuda/planning/splitting.h"
#include "runtime/planning/composer.h"
#include "runtime/planning/grouping.h"

namespace rewright::cuda {

namespace {

struct MatchedNode final : planning::MatchedKernel {
  explicit MatchedNode(LibraryNode n) : node(std::move(n)) {}
  LibraryNode node;
};

// Library products and convolutions. All other kernels are generated.
class LibraryKernels final : public planning::DeviceKernels {
 public:
  explicit LibraryKernels(GraphFacts& facts) : facts_(facts) {}
  const Graph& graph() const override { return facts_.graph(); }
  const ValueInfo& info(ValueId value) const override { return facts_.info(value); }
  const Tensor& constant(ValueId value) const override { return facts_.constant(value); }
  const Definition& define(const Node& node) const override { return facts_.define(node); }
  bool needed(std::size_t node) const override { return facts_.needed(node); }
  ValueId add_constant_value(Tensor tensor) override { return facts_.add_constant_value(std::move(tensor)); }

  bool has_kernels(std::string_view operator_name) const override { return is_multiplied_by_library(operator_name); }
  std::unique_ptr<planning::MatchedKernel> match(const Node& node) override {
    auto library = has_kernels(node.op->name()) ? library_node(facts_, node) : std::nullopt;
    return library ? std::make_unique<MatchedNode>(std::move(*library)) : nullptr;
  }
  bool absorb(planning::MatchedKernel& kernel, const Chain& chain) override {
    return static_cast<MatchedNode&>(kernel).node.absorb(facts_, chain);
  }
  // Generated kernels compute in float.
  bool may_stay_unrounded(DataType type) const override { return is_real(type) && !is_small_float(type); }

 private:
  GraphFacts& facts_;
};

}  // namespace

std::vector<Group> make_groups(GraphFacts& facts) {
  LibraryKernels kernels(facts);
  const std::vector<std::int32_t> producers = facts.graph().producers();
  std::vector<Group> groups;
  for (planning::Group& from : planning::make_groups(kernels)) {
    Group& group = groups.emplace_back();
    group.nodes = from.nodes;
    group.result = from.result;
    group.view = from.view;
    if (from.kernel) {
      group.library = std::move(static_cast<MatchedNode&>(*from.kernel).node);
      from.chain = planning::compose(facts, producers, from.nodes, kNoValue, false);
    }
    if (!from.chain) continue;
    group.element = from.chain->element();
    group.position = from.chain->position();
    group.operands = from.chain->operands();
  }
  join_attention(facts, groups);
  multiply_in_float8(facts, groups);
  read_packed_factors(facts, groups);
  split_at_libraries(facts, groups);
  split_reductions(facts, groups);
  return groups;
}

}  // namespace rewright::cuda
