#include "optimizer/matching/region.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "base/hash_mix.h"
#include "graph/onnx/kept_calls.h"

namespace rewright::optimizer {

namespace {

std::uint64_t hash_of(const TensorType& type) {
  std::uint64_t h = static_cast<std::uint64_t>(type.type);
  for (const Index& size : type.shape) h = hash_mix(h, size.hash());
  return hash_mix(h, type.shape.size());
}

// A hash of a constant, or of a value computed from constants: integers affect the computation, so their contents count; reals'
// do not.
std::uint64_t hash_of_constant(const Value& value) {
  const std::uint64_t h = hash_mix(0xc0157a27, hash_of(value.type));
  if (value.constant && !is_real(value.type.type)) return hash_mix(h, value.constant.content_hash());
  return value.contents ? hash_mix(h, hash(AttributeValue(*value.contents))) : h;
}

std::uint64_t hash_of_operator(const Node& node) {
  if (!node.op) return hash_mix(0x0fa90e, node.origin ? std::hash<std::string>()(node.origin->node_proto) : 0);
  std::uint64_t h = 0;
  for (const char c : node.op->name()) h = h * 31 + static_cast<unsigned char>(c);
  return hash_mix(h, hash(node.attributes));
}

bool produces_constants_only(const Node& node, const std::vector<bool>& constant) {
  for (const ValueId id : node.outputs)
    if (id != kNoValue && !constant[id]) return false;
  return true;
}

}  // namespace

// Copies nodes into a region's graph, with everything they need.
class RegionCopy {
 public:
  RegionCopy(const RegionCutter& cutter, std::span<const std::uint32_t> nodes) : cutter_(cutter), whole_(cutter.whole_) {
    region_.nodes.assign(nodes.begin(), nodes.end());
  }

  Region run() {
    const std::unordered_set<std::int32_t> inside(region_.nodes.begin(), region_.nodes.end());
    std::unordered_set<ValueId> outputs;
    for (const GraphOutput& output : whole_.outputs()) outputs.insert(output.value);
    for (const std::uint32_t n : region_.nodes) take_node(n);
    for (const std::uint32_t n : region_.nodes) {
      for (const ValueId id : whole_.nodes()[n]->outputs) {
        if (id == kNoValue) continue;
        bool outside = outputs.contains(id);
        for (const std::int32_t user : cutter_.users_[id]) outside = outside || !inside.contains(user);
        if (outside) region_.graph.add_output("v" + std::to_string(id), local_.at(id));
      }
    }
    return std::move(region_);
  }

 private:
  ValueId keep(ValueId outer, ValueId local) {
    local_.emplace(outer, local);
    region_.outer.resize(std::max<std::size_t>(region_.outer.size(), local + 1), kNoValue);
    region_.outer[local] = outer;
    return local;
  }

  ValueId take_value(ValueId id) {
    if (id == kNoValue) return id;
    if (const auto known = local_.find(id); known != local_.end()) return known->second;
    const Value& value = whole_.value(id);
    if (value.constant) return keep(id, region_.graph.add_value(value));
    if (cutter_.constant_[id] && cutter_.producers_[id] >= 0) {
      take_node(static_cast<std::uint32_t>(cutter_.producers_[id]));
      return local_.at(id);
    }
    const ValueId local = keep(id, region_.graph.add_input("v" + std::to_string(id), value.type));
    region_.graph.set_value(local, value);
    return local;
  }

  void take_node(std::uint32_t position) {
    Node node = *whole_.nodes()[position];
    for (ValueId& id : node.inputs) id = take_value(id);
    for (ValueId& id : node.parameters) id = take_value(id);
    for (ValueId& id : node.outputs)
      if (id != kNoValue) id = keep(id, region_.graph.add_value(whole_.value(id)));
    region_.graph.add_raw(std::move(node));
  }

  const RegionCutter& cutter_;
  const Graph& whole_;
  Region region_;
  std::unordered_map<ValueId, ValueId> local_;
};

Region RegionCutter::extract(std::span<const std::uint32_t> nodes) const { return RegionCopy(*this, nodes).run(); }

Region extract(const Graph& whole, std::span<const std::uint32_t> nodes) { return RegionCutter(whole).extract(nodes); }

std::optional<Graph> splice(const Graph& whole, const Region& region, const Graph& replacement) {
  Graph result = whole;
  std::vector<const Node*> before;
  for (const auto& node : region.graph.nodes()) before.push_back(node.get());
  std::sort(before.begin(), before.end());

  // Maps values of the replacement to the whole graph. Unchanged nodes stay; all others are added.
  std::vector<ValueId> outer(replacement.value_count(), kNoValue);
  for (std::size_t id = 0; id < region.outer.size() && id < outer.size(); ++id) outer[id] = region.outer[id];
  std::vector<bool> moved(replacement.value_count());
  const auto find = [&](ValueId id) {
    if (id == kNoValue) return id;
    if (outer[id] == kNoValue) outer[id] = result.add_value(replacement.value(id));  // a new constant
    return outer[id];
  };
  for (const auto& node : replacement.nodes()) {
    bool as_before = std::binary_search(before.begin(), before.end(), node.get());
    for (const ValueId id : node->inputs) as_before = as_before && (id == kNoValue || !moved[id]);
    for (const ValueId id : node->parameters) as_before = as_before && (id == kNoValue || !moved[id]);
    if (as_before) continue;
    Node added = *node;
    for (ValueId& id : added.inputs) id = find(id);
    for (ValueId& id : added.parameters) id = find(id);
    for (ValueId& id : added.outputs) {
      if (id == kNoValue) continue;
      moved[id] = true;
      id = outer[id] = result.add_value(replacement.value(id));
    }
    result.add_raw(std::move(added));
  }
  std::vector<std::pair<ValueId, ValueId>> replacements;
  for (std::size_t i = 0; i < region.graph.outputs().size(); ++i) {
    const ValueId from = region.outer[region.graph.outputs()[i].value];
    const ValueId to = find(replacement.outputs()[i].value);
    if (from != to) replacements.emplace_back(from, to);
  }
  result.replace_uses(replacements);
  if (!try_tidy_around_calls(result)) return std::nullopt;
  return result;
}

std::uint64_t structure_hash(const Graph& graph) {
  std::uint64_t h = hash_mix(graph.inputs().size(), graph.nodes().size());
  for (std::size_t id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(static_cast<ValueId>(id));
    h = hash_mix(h, value.constant ? hash_of_constant(value) : hash_of(value.type));
  }
  for (const auto& node : graph.nodes()) {
    h = hash_mix(h, hash_of_operator(*node));
    for (const ValueId id : node->inputs) h = hash_mix(h, id);
    for (const ValueId id : node->outputs) h = hash_mix(h, id);
  }
  for (const GraphOutput& output : graph.outputs()) h = hash_mix(h, output.value);
  return h;
}

std::uint64_t skeleton_hash(const Graph& graph, const std::vector<bool>& constant) {
  std::vector<std::uint64_t> values(graph.value_count());
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) values[graph.inputs()[i]] = hash_mix(0x1270, i);
  const auto of = [&](ValueId id) -> std::uint64_t {
    if (id == kNoValue) return 1;
    return constant[id] ? hash_of_constant(graph.value(id)) : values[id];
  };
  for (const auto& node : graph.nodes()) {
    if (produces_constants_only(*node, constant)) continue;
    std::uint64_t h = hash_of_operator(*node);
    if (node->op && node->op->commutative() && node->inputs.size() == 2) {
      const std::uint64_t a = of(node->inputs[0]), b = of(node->inputs[1]);
      h = hash_mix(hash_mix(h, std::min(a, b)), std::max(a, b));
    } else {
      for (const ValueId id : node->inputs) h = hash_mix(h, of(id));
    }
    for (std::size_t o = 0; o < node->outputs.size(); ++o)
      if (node->outputs[o] != kNoValue) values[node->outputs[o]] = hash_mix(h, o);
  }
  std::uint64_t h = 0;
  for (const GraphOutput& output : graph.outputs()) h = hash_mix(h, of(output.value));
  return h;
}

std::vector<std::vector<std::uint32_t>> split(const Graph& graph, const std::vector<bool>& constant, std::size_t most,
                                              int shift, const std::set<const Expansion*>& kept) {
  std::vector<std::uint32_t> order;      // positions of nodes not computed from constants
  std::vector<std::size_t> part_begins;  // in `order`: between nodes of kept calls
  bool is_behind_kept = true;
  for (std::uint32_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = *graph.nodes()[n];
    if (node.expansion != nullptr && kept.contains(node.expansion.get())) {
      is_behind_kept = true;
    } else if (!produces_constants_only(node, constant)) {
      if (is_behind_kept) part_begins.push_back(order.size());
      is_behind_kept = false;
      order.push_back(n);
    }
  }
  if (order.empty()) return {};
  if (order.size() <= most && part_begins.size() == 1) return {order};

  // crossing[i]: the number of values computed before order[i] that it or a later node uses.
  std::vector<std::int32_t> last_use(graph.value_count(), -1), born(graph.value_count(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const ValueId id : graph.nodes()[order[i]]->inputs)
      if (id != kNoValue) last_use[id] = static_cast<std::int32_t>(i);
    for (const ValueId id : graph.nodes()[order[i]]->outputs)
      if (id != kNoValue) born[id] = static_cast<std::int32_t>(i);
  }
  for (const GraphOutput& output : graph.outputs()) last_use[output.value] = static_cast<std::int32_t>(order.size());
  std::vector<int> crossing(order.size() + 1);
  for (std::size_t id = 0; id < graph.value_count(); ++id) {
    if (constant[id] || born[id] < 0) continue;
    for (std::int32_t i = born[id] + 1; i <= last_use[id] && i < static_cast<std::int32_t>(crossing.size()); ++i)
      ++crossing[static_cast<std::size_t>(i)];
  }

  // The next border is where the fewest values cross, not too close; among equal places the farthest.
  std::vector<std::vector<std::uint32_t>> regions;
  std::size_t begin = 0;
  std::size_t first_most = shift > 0 ? std::max<std::size_t>(2, most / 2) : most;
  while (begin < order.size()) {
    const std::size_t limit = regions.empty() ? first_most : most;
    const auto next_part = std::upper_bound(part_begins.begin(), part_begins.end(), begin);
    std::size_t end = next_part == part_begins.end() ? order.size() : *next_part;
    if (end - begin > limit) {
      end = begin + limit;
      for (std::size_t i = end; i > begin + limit / 3; --i)
        if (crossing[i] < crossing[end]) end = i;
    }
    regions.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin), order.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  return regions;
}

}  // namespace rewright::optimizer
