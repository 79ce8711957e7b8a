#include "runtime/cuda/planning/packed_factors.h"

#include <algorithm>
#include <optional>
#include <set>

#include "runtime/planning/composer.h"

namespace rewright::cuda {

namespace {

constexpr std::int64_t kFewRows = 8;  // each of them unpacks the weights again
constexpr std::int64_t kShrinks = 8;  // a packed tensor has at least this part of the weights' number of elements

std::size_t byte_count(const ValueInfo& info) {
  return static_cast<std::size_t>(element_count(info.sizes)) * byte_size(info.type);
}

// Collects the nodes that compute a known factor.
class Unpacking {
 public:
  Unpacking(GraphFacts& facts, const std::vector<std::int32_t>& producers, ValueId factor)
      : facts_(facts), producers_(producers), least_(element_count(facts.info(factor).sizes) / kShrinks) {
    if (facts.constant(factor)) add(factor);
  }

  const std::set<int>& nodes() const { return nodes_; }
  // The size of the tensors that the nodes read from outside.
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const ValueId v : sources_) sum += byte_count(facts_.info(v));
    return sum;
  }

 private:
  // Scales and other small tensors stay as they are.
  void add(ValueId value) {
    const int producer = value < producers_.size() ? producers_[value] : -1;
    const bool is_small = element_count(facts_.info(value).sizes) < least_;
    if (producer < 0 || is_small || !is_unpacked_by(producer)) {
      sources_.insert(value);
      return;
    }
    if (!nodes_.insert(producer).second) return;
    for (const ValueId input : facts_.graph().nodes()[static_cast<std::size_t>(producer)]->inputs)
      if (input != kNoValue) add(input);
  }

  bool is_unpacked_by(int number) const {
    const Node& node = *facts_.graph().nodes()[static_cast<std::size_t>(number)];
    if (node.op == nullptr || node.outputs.size() != 1) return false;
    const planning::Traits traits = facts_.traits(node);
    return traits.has_denotation && !traits.reduces;
  }

  GraphFacts& facts_;
  const std::vector<std::int32_t>& producers_;
  const std::int64_t least_;
  std::set<int> nodes_;
  std::set<ValueId> sources_;
};

}  // namespace

void read_packed_factors(GraphFacts& facts, std::vector<Group>& groups) {
  const std::vector<std::int32_t> producers = facts.graph().producers();
  for (Group& group : groups) {
    const auto* product = group.library ? std::get_if<ProductShape>(&group.library->shape) : nullptr;
    if (product == nullptr || !group.element || product->m * product->batch > kFewRows) continue;
    const ValueId factor = group.library->inputs[1];
    const Unpacking unpacking(facts, producers, factor);
    if (unpacking.nodes().empty() || 2 * unpacking.bytes() >= byte_count(facts.info(factor))) continue;
    std::set<int> nodes = unpacking.nodes();
    nodes.insert(group.nodes.begin(), group.nodes.end());
    group.packed = planning::compose(facts, producers, {nodes.begin(), nodes.end()}, kNoValue, false).expression();
  }
}

}  // namespace rewright::cuda
