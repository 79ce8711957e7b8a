#include "equivalence/place.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "graph/print.h"

namespace rewright::equivalence {

namespace {

constexpr std::size_t kMostSmall = 40;  // nodes of a small graph

class Walk {
 public:
  Walk(const Joint& joint, const Samples& samples) : joint_(joint), samples_(samples) {
    const Graph& graph = joint.graph();
    for (ValueId id = 0; id < graph.value_count(); ++id)
      if (samples.has(id)) by_key_.emplace(samples.key(id), id);
  }

  const Node* node_of(ValueId id) const {
    const std::int32_t position = joint_.producer(id);
    return position < 0 ? nullptr : joint_.graph().nodes()[static_cast<std::size_t>(position)].get();
  }

  // A value of the other model that agrees with it, `preferred` ones first; kNoValue if there is none.
  ValueId counterpart(ValueId id, const std::set<ValueId>& preferred = {}) {
    if (joint_.graph().is_input(id)) return id;
    const bool of_first = joint_.is_of_first(id);
    if (preferred.empty())
      if (const auto known = counterparts_.find(id); known != counterparts_.end()) return known->second;
    ValueId found = kNoValue;
    for (const ValueId other : preferred)
      if (joint_.equal(other, id) || samples_.agree(other, id)) return other;
    if (samples_.has(id)) {
      const auto [from, to] = by_key_.equal_range(samples_.key(id));
      for (auto at = from; at != to && found == kNoValue; ++at)
        if ((joint_.is_of_first(at->second) != of_first || joint_.graph().is_input(at->second)) &&
            samples_.agree(at->second, id))
          found = at->second;
    } else {
      for (ValueId other = 0; other < joint_.graph().value_count() && found == kNoValue; ++other)
        if (joint_.is_of_first(other) != of_first && joint_.equal(other, id)) found = other;
    }
    counterparts_[id] = found;
    return found;
  }

  // A constant of either model that a value agrees with; kNoValue if there is none.
  ValueId constant_like(ValueId id) const {
    if (!samples_.has(id)) return kNoValue;
    const auto [from, to] = by_key_.equal_range(samples_.key(id));
    const auto found = std::find_if(from, to, [&](const auto& entry) {
      return joint_.is_constant(entry.second) && joint_.graph().value(entry.second).type == joint_.graph().value(id).type &&
             samples_.agree(entry.second, id);
    });
    return found == to ? kNoValue : found->second;
  }

  bool matched(ValueId id) { return joint_.is_constant(id) || node_of(id) == nullptr || counterpart(id) != kNoValue; }

  // The unmatched values that an unmatched one is computed from through unmatched ones, in the order of the model.
  std::vector<ValueId> unmatched_before(ValueId output) {
    std::set<std::pair<std::int32_t, ValueId>> found;
    std::vector<ValueId> open{output};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      if ((id != output && matched(id)) || !found.emplace(joint_.producer(id), id).second) continue;
      if (const Node* node = node_of(id))
        for (const ValueId input : node->inputs)
          if (input != kNoValue) open.push_back(input);
    }
    std::vector<ValueId> result;
    for (const auto& [position, id] : found) result.push_back(id);
    return result;
  }

  bool is_source(ValueId id) {
    const Node* node = node_of(id);
    return node && std::all_of(node->inputs.begin(), node->inputs.end(),
                               [&](ValueId input) { return input == kNoValue || matched(input); });
  }

  // The first value whose maker's operands have counterparts, else the first one.
  ValueId source(const std::vector<ValueId>& values, ValueId otherwise) {
    for (const ValueId id : values)
      if (is_source(id)) return id;
    return values.empty() ? otherwise : values.front();
  }

 private:
  const Joint& joint_;
  const Samples& samples_;
  std::multimap<std::uint64_t, ValueId> by_key_;
  std::map<ValueId, ValueId> counterparts_;
};

// A value of one model back to values that have counterparts, which are `leaves`.
class SmallGraph {
 public:
  SmallGraph(const Joint& joint, Walk& walk) : joint_(joint), walk_(walk) {}

  bool collect(ValueId id, std::set<ValueId>& leaves) {
    if (joint_.is_constant(id)) return false;
    std::vector<ValueId> open{id};
    while (!open.empty()) {
      const ValueId next = open.back();
      open.pop_back();
      const Node* node = walk_.node_of(next);
      if (joint_.is_constant(next)) continue;
      if (next != id && (!node || walk_.matched(next))) {
        leaves.insert(next);
        continue;
      }
      if (!node || !node->op || node->op->random()) return false;
      if (positions_.insert(joint_.producer(next)).second)
        for (const ValueId input : node->inputs)
          if (input != kNoValue) open.push_back(input);
    }
    return positions_.size() <= kMostSmall;
  }

  // `inputs`: for each leaf the number of the common input; `types`: of those. `constants`: the constants that other leaves
  // are.
  Graph graph(ValueId id, const std::map<ValueId, std::size_t>& inputs, const std::vector<TensorType>& types,
              const std::map<ValueId, ValueId>& constants) const {
    Graph result;
    std::vector<ValueId> given;
    for (const TensorType& type : types) given.push_back(result.add_input("x" + std::to_string(given.size()), type));
    std::map<ValueId, ValueId> made;
    const auto value = [&](ValueId v) {
      if (v == kNoValue) return v;
      if (const auto known = made.find(v); known != made.end()) return known->second;
      const auto input = inputs.find(v);
      const auto known_constant = constants.find(v);
      const ValueId constant = known_constant == constants.end() ? v : known_constant->second;
      const ValueId added =
          input != inputs.end() ? given[input->second] : result.add_constant(joint_.graph().value(constant).constant);
      return made.emplace(v, added).first->second;
    };
    for (const std::int32_t position : positions_) {
      const Node& node = *joint_.graph().nodes()[static_cast<std::size_t>(position)];
      std::vector<ValueId> operands;
      for (const ValueId input : node.inputs) operands.push_back(value(input));
      const std::vector<ValueId> outputs = result.add_node(*node.op, node.attributes, std::move(operands));
      for (std::size_t o = 0; o < node.outputs.size() && o < outputs.size(); ++o)
        if (node.outputs[o] != kNoValue) made.emplace(node.outputs[o], outputs[o]);
    }
    result.add_output("y", made.at(id));
    return result;
  }
  std::size_t size() const { return positions_.size(); }

 private:
  const Joint& joint_;
  Walk& walk_;
  std::set<std::int32_t> positions_;
};

std::optional<std::pair<Graph, Graph>> as_graphs(const Joint& joint, Walk& walk, ValueId a, ValueId b) {
  SmallGraph first(joint, walk), second(joint, walk);
  std::set<ValueId> of_first, of_second;
  if (!first.collect(a, of_first) || !second.collect(b, of_second)) return std::nullopt;
  std::map<ValueId, std::size_t> inputs;
  std::vector<TensorType> types;
  const auto add = [&](ValueId id) {
    const Value& value = joint.graph().value(id);
    if (!value.shape_known) return false;
    if (inputs.try_emplace(id, types.size()).second) types.push_back(value.type);
    return true;
  };
  // A number that is one in all runs may not be chosen: one of the graphs may have it as a constant.
  std::map<ValueId, ValueId> constants;
  const auto add_constant = [&](ValueId id) {
    const ValueId constant = walk.constant_like(id);
    return constant != kNoValue && constants.emplace(id, constant).second;
  };
  for (const ValueId id : of_first)
    if (!add_constant(id) && !add(id)) return std::nullopt;
  for (const ValueId id : of_second) {
    if (add_constant(id)) continue;
    const ValueId other = walk.counterpart(id, of_first);
    if (other == kNoValue || !add(other)) return std::nullopt;
    inputs.emplace(id, inputs.at(other));
  }
  return std::pair(first.graph(a, inputs, types, constants), second.graph(b, inputs, types, constants));
}

}  // namespace

std::string place_name(const Joint& joint, ValueId id) {
  const std::int32_t position = joint.producer(id);
  const std::string& own = joint.graph().value(id).name;
  if (position < 0) return own.empty() ? (joint.is_constant(id) ? "a constant" : "a value") : own;
  const Node& node = *joint.graph().nodes()[static_cast<std::size_t>(position)];
  if (node.origin && !node.origin->name.empty()) return node.origin->name;
  return own.empty() ? node_name(joint.graph(), node) : own;
}

DifferingPair first_difference(const Joint& joint, const Samples& samples, ValueId a, ValueId b) {
  Walk walk(joint, samples);
  const std::vector<ValueId> firsts = walk.unmatched_before(a);
  // Tools keep the names of most values.
  std::map<std::string, ValueId> named;
  for (ValueId id = 0; id < joint.graph().value_count(); ++id)
    if (joint.is_of_second(id) && joint.producer(id) >= 0 && samples.has(id)) named.emplace(joint.graph().value(id).name, id);
  for (const ValueId id : firsts) {
    const auto same = named.find(joint.graph().value(id).name);
    if (same != named.end() && samples.has(id) && !samples.agree(id, same->second)) return {id, same->second};
  }
  return {walk.source(firsts, a), walk.source(walk.unmatched_before(b), b)};
}

std::optional<std::pair<Graph, Graph>> smallest_difference(const Joint& joint, const Samples& samples,
                                                           const DifferingPair& pair, const Differ& differ) {
  constexpr int kMostTried = 40;
  Walk walk(joint, samples);
  std::vector<std::pair<ValueId, ValueId>> wanted{{pair.a, pair.b}};
  for (const auto& [x, y] : joint.outputs()) {
    if (joint.equal(x, y) || samples.agree(x, y)) continue;
    const std::vector<ValueId> firsts = walk.unmatched_before(x), seconds = walk.unmatched_before(y);
    for (const ValueId a : firsts)
      for (const ValueId b : seconds)
        if (joint.graph().value(a).type == joint.graph().value(b).type) wanted.emplace_back(a, b);
    wanted.emplace_back(x, y);
  }
  std::optional<std::pair<Graph, Graph>> best;
  std::size_t size = kMostSmall * 2 + 1;
  int tried = 0;
  for (const auto& [a, b] : wanted) {
    if (!(joint.graph().value(a).type == joint.graph().value(b).type)) continue;
    if (++tried > kMostTried) break;
    try {
      auto graphs = as_graphs(joint, walk, a, b);
      if (!graphs) continue;
      const std::size_t nodes = graphs->first.nodes().size() + graphs->second.nodes().size();
      if (nodes >= size || !differ(graphs->first, graphs->second)) continue;
      size = nodes;
      best = std::move(graphs);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kMissing) throw;
    }
  }
  return best;
}

}  // namespace rewright::equivalence
