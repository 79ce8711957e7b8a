#include "plans/partition/choices.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace rewright::plans {

namespace {

std::optional<std::int64_t> known(const Index& index) { return index.constant(); }

// By operand.
std::vector<bool> zeros_among(const Graph& graph, const Node& node) {
  std::vector<bool> result(node.inputs.size(), false);
  for (const auto& other : graph.nodes()) {
    if (!other->op || !other->op->is_fill() || !(std::get<Real>(other->attributes.at(*other->op->field("value"))) == Real(0)))
      continue;
    for (std::size_t k = 0; k < result.size(); ++k)
      if (node.inputs[k] != kNoValue && node.inputs[k] == other->outputs[0]) result[k] = true;
  }
  return result;
}

}  // namespace

NodeChoice whole_choice(const Node& node) {
  NodeChoice result;
  result.needs.resize(node.inputs.size());
  result.gives.resize(node.outputs.size());
  return result;
}

void share_zeros(const Graph& graph, const Node& node, NodeChoice& choice) {
  const auto is_once = [](const Need& need) { return need.once; };
  if (std::none_of(choice.needs.begin(), choice.needs.end(), is_once)) return;
  const std::vector<bool> zeros = zeros_among(graph, node);
  for (std::size_t k = 0; k < zeros.size(); ++k)
    if (zeros[k]) choice.needs.at(k).once = false;
}

std::optional<NodeChoice> make_choice(OperandTypes types, const std::vector<TensorType>& results, const Cut& cut,
                                      std::int64_t processes) {
  const auto units = known(cut.units);
  if (!units || (cut.divides() && *units < processes)) return std::nullopt;
  NodeChoice c;
  c.cut = cut;
  for (std::size_t k = 0; k < types.size(); ++k) {
    const Share& s = cut.operands[k];
    Need need;
    need.once = s.kind == Share::Kind::kFirst;
    if (s.kind == Share::Kind::kPartial) need.holding = partial(s.reduction);
    if (types[k] && s.kind == Share::Kind::kCut) {
      const auto unit = known(s.unit), before = known(s.before), after = known(s.rows_after());
      const auto rows = known(types[k]->shape[s.axis]);
      if (!unit || !before || !after || !rows) return std::nullopt;
      // A halo is the neighbour's alone.
      if (std::max(*before, *after) > *unit * (*units / processes)) return std::nullopt;
      need = {cut_along(s.axis, *unit, *units, processes, *rows), *before, *after};
    }
    c.needs.push_back(need);
  }
  for (std::size_t o = 0; o < results.size(); ++o) {
    const Share& s = cut.outputs.at(o);
    if (results[o].type == DataType::kUndefined) {  // absent
      c.gives.push_back(whole());
      continue;
    }
    if (s.kind == Share::Kind::kPartial) {
      c.gives.push_back(partial(s.reduction));
      continue;
    }
    const auto unit = known(s.unit), rows = known(results[o].shape.at(s.axis));
    if (s.kind != Share::Kind::kCut || !unit || !rows) return std::nullopt;
    c.gives.push_back(cut_along(s.axis, *unit, *units, processes, *rows));
  }
  return c;
}

double choice_seconds(const Node& node, OperandTypes types, const NodeChoice& choice, std::int64_t processes,
                      const OperatorSeconds& seconds, double moved) {
  if (!choice.cut) return seconds(*node.op, node.attributes, types, moved);
  // The most units, between two others.
  const Index most = (choice.cut->units.value() + processes - 1) / processes;
  const auto part = part_types(types, *choice.cut, most, false, false);
  return seconds(*node.op, part_attributes(node.attributes, *choice.cut, most, false, false), part, moved);
}

std::vector<NodeChoice> ChoiceFinder::within_reach(const Graph& graph, std::span<const std::int32_t> producers,
                                                   const Node& node, double moved) {
  std::vector<NodeChoice> result = of(graph, node, moved);
  std::erase_if(result, [&](const NodeChoice& choice) {
    for (std::size_t k = 0; k < choice.needs.size(); ++k) {
      const Holding& needed = choice.needs[k].holding;
      if (node.inputs[k] == kNoValue || needed.kind != Holding::Kind::kPartial) continue;
      const std::int32_t from = producers[node.inputs[k]];
      if (from < 0) return true;
      const Node& producer = *graph.nodes()[static_cast<std::size_t>(from)];
      const auto port = std::find(producer.outputs.begin(), producer.outputs.end(), node.inputs[k]) - producer.outputs.begin();
      const auto& given = of(graph, producer);
      if (std::none_of(given.begin(), given.end(),
                       [&](const NodeChoice& c) { return c.gives[static_cast<std::size_t>(port)] == needed; }))
        return true;
    }
    return false;
  });
  return result;
}

const std::vector<NodeChoice>& ChoiceFinder::of(const Graph& graph, const Node& node, double moved) {
  if (!node.op)
    if (const auto known = opaque_.find(node.opaque_reason); known != opaque_.end()) return known->second;
  const std::vector<std::optional<TensorType>> types = graph.operand_types(node);
  std::string key = node.op ? node_key(*node.op, node.attributes, types)
                            : "opaque " + node.opaque_reason + " " + std::to_string(node.inputs.size()) + " " +
                                  std::to_string(node.outputs.size());
  for (const bool is_zero : zeros_among(graph, node)) key += is_zero ? " 0" : " ?";
  key += " " + std::to_string(std::bit_cast<std::uint64_t>(moved));
  const auto [at, is_new] = known_.try_emplace(std::move(key));
  if (!is_new) return at->second;
  std::vector<TensorType> results;
  for (const ValueId v : node.outputs) results.push_back(v == kNoValue ? TensorType{} : graph.value(v).type);
  NodeChoice whole_node = whole_choice(node);
  if (node.op) whole_node.seconds = choice_seconds(node, types, whole_node, processes_, seconds_, moved);
  at->second.push_back(std::move(whole_node));
  if (!node.op || processes_ < 2) return at->second;  // one process has all of it
  for (const Cut& cut : cuts_->find(*node.op, node.attributes, types)) {
    if (cut.outputs.size() < results.size()) continue;
    auto c = make_choice(types, results, cut, processes_);
    if (!c) continue;
    share_zeros(graph, node, *c);
    if (wanted_ && !wanted_(*c)) continue;
    try {
      c->seconds = choice_seconds(node, types, *c, processes_, seconds_, moved);
    } catch (const Error&) {
      if (cuts_->proves()) throw;
      continue;  // it was only proposed: its parts are no operands of the operator
    }
    // Cuts that need and give the same differ in the order of work alone.
    const bool is_known = std::any_of(at->second.begin(), at->second.end(), [&](const NodeChoice& other) {
      return other.needs == c->needs && other.gives == c->gives;
    });
    if (!is_known) at->second.push_back(std::move(*c));
  }
  return at->second;
}

}  // namespace rewright::plans
