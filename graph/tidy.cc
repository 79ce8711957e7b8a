// Graph::tidy: removes dead nodes, sorts topologically, merges equal nodes. Nothing here recurses, since graphs may be deep.
#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

#include "base/hash_mix.h"
#include "graph/graph.h"
#include "graph/sizes.h"

namespace rewright::graph {

struct GraphTidier {
  explicit GraphTidier(Graph& edited) : graph(edited) {}

  // Positions of the nodes that outputs need, in the present order.
  std::vector<std::int32_t> live_nodes() {
    producer = graph.producers();
    for (ValueId id = 0; id < graph.value_count(); ++id)
      if (graph.is_constant(id)) producer[id] = -1;
    if (const auto tellers = size_tellers(graph); !tellers.empty()) {
      told_by.resize(graph.nodes_.size());
      for (std::size_t n = 0; n < told_by.size(); ++n)
        for (const std::string& symbol : symbols_of(graph.nodes_[n]->attributes))
          if (const auto teller = tellers.find(symbol); teller != tellers.end()) told_by[n].push_back(teller->second);
    }
    std::vector<char> live(graph.nodes_.size());
    std::vector<std::int32_t> open;
    const auto need = [&](std::int32_t position) {
      if (live[position]) return;
      live[position] = 1;
      open.push_back(position);
    };
    for (const GraphOutput& output : graph.outputs_)
      if (producer[output.value] >= 0) need(producer[output.value]);
    while (!open.empty()) {
      const std::int32_t position = open.back();
      open.pop_back();
      for_each_dependency(position, need);
    }
    std::vector<std::int32_t> result;
    for (std::size_t i = 0; i < live.size(); ++i)
      if (live[i]) result.push_back(static_cast<std::int32_t>(i));
    return result;
  }

  template <class F>
  void for_each_dependency(std::int32_t position, const F& visit) const {
    const Node& node = *graph.nodes_[position];
    for (const auto* ids : {&node.inputs, &node.parameters})
      for (ValueId id : *ids)
        if (id != kNoValue && producer[id] >= 0) visit(producer[id]);
    if (told_by.empty()) return;
    for (const std::int32_t teller : told_by[static_cast<std::size_t>(position)]) visit(teller);
  }

  // Sorts topologically, keeping the present order where possible. False if there is a cycle.
  bool sort(std::vector<std::int32_t>& order) const {
    bool sorted = true;
    for (std::int32_t position : order)
      for_each_dependency(position, [&](std::int32_t before) { sorted = sorted && before < position; });
    if (sorted) return true;

    std::vector<std::uint32_t> waiting(graph.nodes_.size());
    std::vector<std::vector<std::int32_t>> followers(graph.nodes_.size());
    std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> ready;
    for (std::int32_t position : order) {
      for_each_dependency(position, [&](std::int32_t before) {
        ++waiting[position];
        followers[before].push_back(position);
      });
      if (waiting[position] == 0) ready.push(position);
    }
    std::vector<std::int32_t> result;
    result.reserve(order.size());
    while (!ready.empty()) {
      const std::int32_t position = ready.top();
      ready.pop();
      result.push_back(position);
      for (std::int32_t follower : followers[position])
        if (--waiting[follower] == 0) ready.push(follower);
    }
    if (result.size() != order.size()) return false;
    order = std::move(result);
    return true;
  }

  ValueId representative(ValueId id) {
    if (id == kNoValue || merged[id] != kNoValue) return id == kNoValue ? id : merged[id];
    merged[id] = id;
    if (!graph.is_constant(id)) return id;
    const Value& value = graph.value(id);
    auto [first, last] = constants.equal_range(value.constant_hash());
    for (auto it = first; it != last; ++it)
      if (graph.value(it->second).constant == value.constant) return merged[id] = it->second;
    constants.emplace(value.constant_hash(), id);
    return id;
  }

  std::vector<ValueId> key_inputs(const Node& node) const {
    std::vector<ValueId> ids = node.inputs;
    if (node.op->commutative() && ids.size() >= 2 && ids[1] < ids[0]) std::swap(ids[0], ids[1]);
    return ids;
  }

  // The position in `kept` of a node that computes the same, or -1; then it remembers this one.
  std::ptrdiff_t find_equal(const Node& node) {
    if (node.op == nullptr || node.op->random()) return -1;
    const std::vector<ValueId> ids = key_inputs(node);
    std::uint64_t key = reinterpret_cast<std::uintptr_t>(node.op) ^ hash(node.attributes);
    for (ValueId id : ids) key = hash_mix(key, id);
    auto [first, last] = known.equal_range(key);
    for (auto it = first; it != last; ++it) {
      const Node& other = *kept[it->second];
      if (other.op == node.op && other.outputs.size() == node.outputs.size() && key_inputs(other) == ids &&
          other.attributes == node.attributes)
        return static_cast<std::ptrdiff_t>(it->second);
    }
    known.emplace(key, kept.size());
    return -1;
  }

  void merge_into(std::size_t position, const Node& node) {
    std::shared_ptr<Node> completed;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (id == kNoValue) continue;
      ValueId same = kept[position]->outputs[i];
      if (same == kNoValue) {
        if (!completed) completed = std::make_shared<Node>(*kept[position]);
        completed->outputs[i] = same = id;
      } else if (graph.value(same).name.empty() && !graph.value(id).name.empty()) {
        auto named = std::make_shared<Value>(graph.value(same));
        named->name = graph.value(id).name;
        graph.values_[same] = std::move(named);
      }
      merged[id] = same;
    }
    if (completed) kept[position] = std::move(completed);
  }

  bool run() {
    std::vector<std::int32_t> order = live_nodes();
    if (!sort(order)) return false;
    merged.assign(graph.value_count(), kNoValue);
    kept.reserve(order.size());
    for (std::int32_t position : order) {
      std::shared_ptr<const Node> node = graph.nodes_[position];
      Node changed;
      bool is_changed = false;
      auto edit = [&]() -> Node& {
        if (!is_changed) changed = *node;
        is_changed = true;
        return changed;
      };
      for (std::size_t i = 0; i < node->inputs.size(); ++i)
        if (ValueId id = representative(node->inputs[i]); id != node->inputs[i]) edit().inputs[i] = id;
      for (std::size_t i = 0; i < node->parameters.size(); ++i)
        if (ValueId id = representative(node->parameters[i]); id != node->parameters[i]) edit().parameters[i] = id;
      for (std::size_t i = 0; i < node->outputs.size(); ++i)
        if (ValueId id = node->outputs[i]; id != kNoValue && graph.is_constant(id)) edit().outputs[i] = kNoValue;
      if (is_changed) node = std::make_shared<const Node>(std::move(changed));
      if (const std::ptrdiff_t equal = find_equal(*node); equal >= 0)
        merge_into(static_cast<std::size_t>(equal), *node);
      else
        kept.push_back(std::move(node));
    }
    for (GraphOutput& output : graph.outputs_) output.value = representative(output.value);
    graph.nodes_ = std::move(kept);
    return true;
  }

  Graph& graph;
  std::vector<std::int32_t> producer;
  std::vector<std::vector<std::int32_t>> told_by;  // opaque nodes that determine sizes in a node's attributes; empty: none does
  std::vector<ValueId> merged;                     // value -> the value that replaces it; kNoValue: not visited yet
  std::unordered_multimap<std::uint64_t, ValueId> constants;
  std::unordered_multimap<std::uint64_t, std::size_t> known;
  std::vector<std::shared_ptr<const Node>> kept;
};

bool Graph::try_tidy() { return GraphTidier(*this).run(); }

void Graph::tidy() {
  if (!try_tidy()) throw Error(ErrorCode::kBadInput, "the graph has a cycle");
}

}  // namespace rewright::graph
