// Signatures identify operators, and groups of them, that are timed once.
#include <algorithm>

#include "optimizer/costs/operator_factors.h"
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

bool is_cheap(const OperatorTraits& traits) {
  return traits.pointwise && !traits.free && traits.operations <= kCheapOperations * traits.output_elements;
}

OperatorSize size_of(const OperatorTraits& traits) { return {traits.operations, traits.bytes, traits.output_elements}; }

// The size that an operator's time is known by.
OperatorSize known_size(const OperatorTraits& traits) {
  OperatorSize size = size_of(traits);
  if (is_cheap(traits)) size.operations = traits.output_elements;
  return size;
}

void keep_common(std::vector<bool>& all, const std::vector<bool>& more) {
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = all[i] && i < more.size() && more[i];
}

// Adds the traits at some sizes to those at others: what is said holds at all of them, amounts are added by their shares.
void add_traits(OperatorTraits& all, const OperatorTraits& more, double share, bool is_first) {
  const OperatorTraits before = all;
  if (is_first) all = more;
  all.free = all.free && more.free;
  all.contraction = all.contraction && more.contraction;
  all.pointwise = all.pointwise && more.pointwise;
  all.applies = all.applies && more.applies;
  all.moves = all.moves && more.moves;
  for (const auto part : {&OperatorTraits::aligned, &OperatorTraits::reduced, &OperatorTraits::axes})
    keep_common(all.*part, more.*part);
  for (const auto amount :
       {&OperatorTraits::operations, &OperatorTraits::bytes, &OperatorTraits::output_elements, &OperatorTraits::output_bytes})
    all.*amount = (is_first ? 0 : before.*amount) + share * (more.*amount);
}

constexpr std::size_t kMostInGroup = 8;

}  // namespace

OperatorSignature operator_signature(const Operator& op, const Attributes& attributes,
                                     std::span<const std::optional<TensorType>> operands, const OperatorTraits& traits) {
  std::vector<OperandSample> samples(operands.size());
  for (std::size_t k = 0; k < operands.size(); ++k)
    if (operands[k]) samples[k].type = *operands[k], samples[k].present = true;
  std::string text = is_cheap(traits) ? describe_cheap(std::move(samples), traits) : describe(op.name(), attributes, samples);
  return {std::move(text), known_size(traits)};
}

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
  const auto opaque = [&] {
    Signature signature;
    signature.opaque = true;
    return add_signature("opaque", std::move(signature));
  };
  if (!node->op || interpreted) return remember(opaque());

  std::vector<NodeOfSample> samples;
  std::string text;
  for (const CostedSizes& at : options_.sizes) {
    samples.push_back(node_of_sample(matched, *node, at.sizes));
    text += (text.empty() ? "" : " / ") + describe(node->op->name(), samples.back().attributes, samples.back().operands);
  }
  if (const auto found = by_text_.find(text); found != by_text_.end()) return remember(found->second);
  std::string canonical;
  Signature signature;
  try {
    for (std::size_t k = 0; k < samples.size(); ++k)
      canonical += (k > 0 ? " / " : "") + add_sample(std::move(samples[k]), options_.sizes[k].weight, signature);
  } catch (const Error&) {
    return remember(by_text_[text] = opaque());  // sizes that are not known
  }
  return remember(by_text_[text] = add_signature(canonical, std::move(signature)));
}

std::string CostModel::add_sample(NodeOfSample sample, double share, Signature& signature) {
  std::vector<OperandSample>& operands = sample.operands;
  OperatorTraits traits = operator_traits(*sample.op, sample.attributes, types_of(operands));
  const std::size_t given = operands.size();
  if (traits.contraction)
    while (operands.size() > static_cast<std::size_t>(sample.op->min_inputs()) &&
           (!operands.back().present || (operands.back().constant && !traits.reduced[operands.size() - 1])))
      operands.pop_back();
  if (operands.size() < given) traits = operator_traits(*sample.op, sample.attributes, types_of(operands));

  Timed timed;
  for (const OperandSample& operand : operands)
    if (operand.present && operand.constant) timed.weights += bytes_of(operand.type);
  timed.size = known_size(traits);
  timed.operations = traits.operations, timed.bytes = traits.bytes;
  timed.share = share;
  std::string canonical = describe(sample.op->name(), sample.attributes, operands);
  timed.text = is_cheap(traits) ? describe_cheap(operands, traits) : canonical;
  timed.time = time_of(timed.text);
  timed.sample = [sample = std::move(sample)] { return make_sample({&sample, 1}); };
  add_traits(signature.traits, traits, share, signature.at.empty());
  signature.at.push_back(std::move(timed));
  return canonical;
}

std::shared_ptr<CostModel::Time> CostModel::time_of(const std::string& text) {
  std::shared_ptr<Time>& time = times_[text];
  if (!time) time = std::make_shared<Time>();
  return time;
}

std::uint32_t CostModel::add_signature(const std::string& text, Signature signature) {
  const auto [entry, added] = by_text_.emplace(text, static_cast<std::uint32_t>(signatures_.size()));
  if (added) signatures_.push_back(std::make_unique<Signature>(std::move(signature)));
  return entry->second;
}

CostModel::Signature* CostModel::group_signature(const MatchedGraph& matched, const std::vector<std::uint32_t>& members) {
  std::vector<const Node*> key;
  for (const std::uint32_t n : members) key.push_back(matched.graph->nodes()[n].get());
  if (const auto known = groups_.find(key); known != groups_.end()) return known->second;
  std::vector<std::vector<NodeOfSample>> samples;
  std::string text;
  for (const CostedSizes& at : options_.sizes) {
    samples.push_back(nodes_of_sample(matched, members, at.sizes));
    text += (text.empty() ? "" : " / ") + describe(samples.back());
  }
  if (const auto found = by_text_.find(text); found != by_text_.end()) return groups_[key] = signatures_[found->second].get();
  if (!learning_) return groups_[key] = nullptr;
  Signature signature;
  for (std::size_t k = 0; k < samples.size(); ++k) {
    OperatorTraits sum;
    Timed timed;
    for (const std::uint32_t n : members) {
      const Signature& member = *signatures_[signature_of(matched, matched.graph->nodes()[n])];
      sum.operations += member.at[k].operations;
      sum.bytes += member.at[k].bytes;
      sum.output_elements += member.at[k].size.elements;
      sum.output_bytes += member.traits.output_bytes;
      timed.weights += member.at[k].weights;
    }
    timed.text = describe(samples[k]);
    timed.time = time_of(timed.text);
    timed.size = size_of(sum);
    timed.operations = sum.operations, timed.bytes = sum.bytes;
    timed.share = options_.sizes[k].weight;
    timed.sample = [nodes = std::move(samples[k])] { return make_sample(nodes); };
    add_traits(signature.traits, sum, timed.share, k == 0);
    signature.at.push_back(std::move(timed));
  }
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
