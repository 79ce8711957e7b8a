// Signatures identify operators, and groups of them, that are timed once.
#include <algorithm>

#include "optimizer/costs/parts.h"
#include "optimizer/costs/sample.h"

namespace rewright::optimizer {

namespace {

// Pointwise operators with so few operations per element are limited by memory. They share one cost for the same operands, so
// that noise does not make one look better than another.
constexpr double kCheapOperations = 2;

// The order of operands is ignored. The result's type matters if it is not real, as for a comparison.
std::string describe_cheap(std::vector<OperandSample> operands, const OperatorTraits& traits) {
  std::stable_sort(operands.begin(), operands.end(), [](const OperandSample& a, const OperandSample& b) {
    return std::pair(a.constant, to_string(a.type)) < std::pair(b.constant, to_string(b.type));
  });
  const std::string text = describe("pointwise", {}, operands);
  const double width = traits.output_bytes / std::max(traits.output_elements, 1.0);
  const bool same = std::any_of(operands.begin(), operands.end(), [&](const OperandSample& operand) {
    return operand.present && static_cast<double>(byte_size(operand.type.type)) == width;
  });
  return same ? text : text + " to " + std::to_string(static_cast<int>(width)) + " bytes";
}

OperatorSize size_of(const OperatorTraits& traits) { return {traits.operations, traits.bytes, traits.output_elements}; }

constexpr std::size_t kMostInGroup = 8;

}  // namespace

std::uint32_t CostModel::signature_of(const MatchedGraph& matched, const std::shared_ptr<const Node>& node) {
  const auto known = nodes_.find(node.get());
  if (known != nodes_.end()) return known->second.signature;
  const auto remember = [&](std::uint32_t number) {
    nodes_.emplace(node.get(), Remembered{node, number});
    return number;
  };
  const auto is_text = [&](ValueId id) { return id != kNoValue && matched.graph->value(id).type.type == DataType::kString; };
  const bool interpreted = std::any_of(node->inputs.begin(), node->inputs.end(), is_text) ||
                           std::any_of(node->outputs.begin(), node->outputs.end(), is_text);
  if (!node->op || interpreted) return remember(add_signature("opaque", nullptr));

  NodeOfSample sample = node_of_sample(matched, *node, options_.sizes);
  std::vector<OperandSample>& operands = sample.operands;
  const Attributes& attributes = sample.attributes;
  const std::string text = describe(node->op->name(), attributes, operands);
  if (const auto found = by_text_.find(text); found != by_text_.end()) return remember(found->second);
  auto signature = std::make_unique<Signature>();
  OperatorTraits& traits = signature->traits;
  try {
    traits = operator_traits(*node->op, attributes, types_of(operands));
    const std::size_t given = operands.size();
    if (traits.contraction)
      while (operands.size() > static_cast<std::size_t>(node->op->min_inputs()) &&
             (!operands.back().present || (operands.back().constant && !traits.reduced[operands.size() - 1])))
        operands.pop_back();
    if (operands.size() < given) traits = operator_traits(*node->op, attributes, types_of(operands));
  } catch (const Error&) {
    return remember(by_text_[text] = add_signature("opaque", nullptr));  // unknown sizes
  }
  for (const OperandSample& operand : operands)
    if (operand.present && operand.constant) signature->weights += bytes_of(operand.type);
  const bool cheap = traits.pointwise && !traits.free && traits.operations <= kCheapOperations * traits.output_elements;
  signature->size = size_of(traits);
  if (cheap) signature->size.operations = traits.output_elements;
  const std::string canonical = describe(node->op->name(), attributes, operands);
  const std::string timed = cheap ? describe_cheap(operands, traits) : canonical;
  signature->sample = [sample] { return make_sample({&sample, 1}); };
  return remember(by_text_[text] = add_signature(canonical, std::move(signature), timed));
}

std::uint32_t CostModel::add_signature(const std::string& text, std::unique_ptr<Signature> signature,
                                       const std::string& timed) {
  const auto [entry, added] = by_text_.emplace(text, static_cast<std::uint32_t>(signatures_.size()));
  if (!added) return entry->second;
  if (!signature) {
    signature = std::make_unique<Signature>();
    signature->opaque = true;
  }
  signature->text = timed.empty() ? text : timed;
  std::shared_ptr<Time>& time = times_[signature->text];
  if (!time) time = std::make_shared<Time>();
  signature->time = time;
  signatures_.push_back(std::move(signature));
  return entry->second;
}

CostModel::Signature* CostModel::group_signature(const MatchedGraph& matched, const std::vector<std::uint32_t>& members) {
  std::vector<const Node*> key;
  for (const std::uint32_t n : members) key.push_back(matched.graph->nodes()[n].get());
  if (const auto known = groups_.find(key); known != groups_.end()) return known->second;
  std::vector<NodeOfSample> nodes = nodes_of_sample(matched, members, options_.sizes);
  const std::string text = describe(nodes);
  if (const auto found = by_text_.find(text); found != by_text_.end()) return groups_[key] = signatures_[found->second].get();
  if (!learning_) return groups_[key] = nullptr;
  auto signature = std::make_unique<Signature>();
  for (const std::uint32_t n : members) {
    const OperatorTraits& traits = signatures_[signature_of(matched, matched.graph->nodes()[n])]->traits;
    signature->traits.operations += traits.operations;
    signature->traits.bytes += traits.bytes;
    signature->traits.output_elements += traits.output_elements;
    signature->traits.output_bytes += traits.output_bytes;
    signature->weights += signatures_[signature_of(matched, matched.graph->nodes()[n])]->weights;
  }
  signature->size = size_of(signature->traits);
  signature->sample = [nodes = std::move(nodes)] { return make_sample(nodes); };
  return groups_[key] = signatures_[add_signature(text, std::move(signature))].get();
}

// Pointwise nodes that lead to one of them and nowhere else: a backend may fuse them into one loop.
std::vector<std::uint32_t> CostModel::group_of(const MatchedGraph& matched, std::uint32_t last, std::vector<Counted>& counted) {
  std::vector<std::uint32_t> members{last}, open{last};
  counted[last].grouped = true;
  while (!open.empty() && members.size() < kMostInGroup) {
    const Node& node = *matched.graph->nodes()[open.back()];
    open.pop_back();
    for (const ValueId id : node.inputs) {
      if (id == kNoValue || matched.constant[id] || matched.producers[id] < 0 || matched.is_output[id]) continue;
      const auto producer = static_cast<std::uint32_t>(matched.producers[id]);
      if (!counted[producer].may_group || counted[producer].grouped) continue;
      const auto users = matched.users(id);
      if (!std::all_of(users.begin(), users.end(), [&](std::int32_t user) {
            return std::find(members.begin(), members.end(), static_cast<std::uint32_t>(user)) != members.end();
          }))
        continue;
      counted[producer].grouped = true;
      members.push_back(producer);
      open.push_back(producer);
    }
  }
  std::sort(members.begin(), members.end());
  return members;
}

}  // namespace rewright::optimizer
