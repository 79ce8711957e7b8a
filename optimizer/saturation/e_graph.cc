#include "optimizer/saturation/e_graph.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/hash_mix.h"
#include "graph/sized.h"

namespace rewright::optimizer {

namespace {

constexpr std::uint32_t kAbsentType = ~std::uint32_t{0};

bool hash_consed(const ENode& node) { return node.op && !node.op->random(); }

void insert_sorted(std::vector<ENodeId>& list, ENodeId id) {
  if (list.empty() || list.back() < id) {
    list.push_back(id);
  } else {
    const auto place = std::lower_bound(list.begin(), list.end(), id);
    if (place == list.end() || *place != id) list.insert(place, id);
  }
}

std::vector<ENodeId> united(const std::vector<ENodeId>& a, const std::vector<ENodeId>& b) {
  std::vector<ENodeId> result;
  result.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

// Are its attributes and the shapes of its outputs known numbers?
bool node_is_sized(const EGraph& e, ENodeId id) {
  const std::span<const ClassId> results = e.outputs(id);
  return is_sized(e.attributes(e.node(id).attributes)) && std::all_of(results.begin(), results.end(), [&](ClassId output) {
           return output == kNoClass || all_constant(e.type_of(e.type(output)).shape);
         });
}

}  // namespace

std::size_t EGraph::TypingHash::operator()(const TypingKey& key) const {
  std::uint64_t h = reinterpret_cast<std::uintptr_t>(key.op);
  for (const std::uint32_t number : key.numbers) h = hash_mix(h, number);
  return h;
}

// ---- Interning

std::uint32_t EGraph::intern(Attributes attributes) {
  const std::uint64_t h = hash(attributes);
  const auto same = [&](std::uint32_t number) { return attributes_[number] == attributes; };
  if (const auto number = attribute_numbers_.find(h, same)) return *number;
  attributes_.push_back(std::move(attributes));
  const auto number = static_cast<std::uint32_t>(attributes_.size() - 1);
  attribute_numbers_.insert(h, number);
  return number;
}

std::uint32_t EGraph::intern(const TensorType& type, bool known) {
  std::uint64_t h = hash_mix(static_cast<std::uint64_t>(type.type), known ? 1 : 0);
  for (const Index& size : type.shape) h = hash_mix(h, size.hash());
  const auto same = [&](std::uint32_t number) { return known_[number] == known && types_[number] == type; };
  if (const auto number = type_numbers_.find(h, same)) return *number;
  types_.push_back(type);
  known_.push_back(known);
  const auto number = static_cast<std::uint32_t>(types_.size() - 1);
  type_numbers_.insert(h, number);
  return number;
}

const EGraph::Typing* EGraph::typing(const Operator& op, std::uint32_t attributes, std::span<const std::uint32_t> input_types) {
  TypingKey key{&op, {attributes}};
  key.numbers.insert(key.numbers.end(), input_types.begin(), input_types.end());
  const auto [entry, added] = typings_.try_emplace(std::move(key));
  std::optional<Typing>& result = entry->second;
  if (!added) return result ? &*result : nullptr;
  const auto count = static_cast<int>(input_types.size());
  if (count < op.min_inputs() || count > op.max_inputs()) return nullptr;
  try {
    std::vector<std::optional<TensorType>> operands;
    for (const std::uint32_t type : input_types) {
      if (type == kAbsentType) {
        operands.emplace_back();
        continue;
      }
      if (!known_[type]) return nullptr;
      operands.emplace_back(types_[type]);
    }
    const Inputs typed = Inputs::of(std::span<const std::optional<TensorType>>(operands)).types_only();
    Attributes normalized = op.normalized(attributes_[attributes], typed);
    const Definition definition = op.define(normalized, typed);
    Typing found;
    for (const Output& output : definition.outputs()) found.outputs.push_back(intern(output.type, true));
    found.attributes = intern(std::move(normalized));
    result = std::move(found);
  } catch (const Error&) {
    return nullptr;  // ill-typed for these inputs
  }
  return &*result;
}

// ---- Building

ClassId EGraph::new_value(std::uint32_t type, ENodeId maker) {
  const ClassId id = classes_.add();
  type_.push_back(type);
  maker_.push_back(maker);
  links_.emplace_back();
  makers_.push_back({maker});
  users_.emplace_back();
  size_.push_back(1);
  constant_.push_back(false);
  return id;
}

ENodeId EGraph::append(ENode node, std::span<const ClassId> inputs, std::span<const ClassId> parameters,
                       std::span<const std::uint32_t> output_types) {
  const auto id = static_cast<ENodeId>(nodes_.size());
  node.first = static_cast<std::uint32_t>(pool_.size());
  node.inputs = static_cast<std::uint16_t>(inputs.size());
  node.parameters = static_cast<std::uint16_t>(parameters.size());
  node.outputs = static_cast<std::uint16_t>(output_types.size());
  pool_.insert(pool_.end(), inputs.begin(), inputs.end());
  pool_.insert(pool_.end(), parameters.begin(), parameters.end());
  for (const std::uint32_t type : output_types) pool_.push_back(type == kAbsentType ? kNoClass : new_value(type, id));
  nodes_.push_back(node);
  ++live_;
  for (const ClassId input : this->inputs(id))
    if (input != kNoClass) insert_sorted(users_[find(input)], id);
  if (node.op) by_operator_[node.op].push_back(id);
  keys_.push_back(0);
  if (hash_consed(node)) {
    keys_[id] = key_of(id);
    known_nodes_.insert(keys_[id], id);
  }
  update_constant(id);
  return id;
}

// The steps of EGraph's constructor.
struct EGraphBuilder {
  EGraph& e;

  ClassId leaf(ValueId id) {
    if (id == kNoValue) return kNoClass;
    if (e.of_graph_[id] != kNoClass) return e.of_graph_[id];
    const Value& value = e.graph_->value(id);
    ENode node;
    node.leaf = id;
    const std::uint32_t type = type_of(value);
    const ENodeId made = e.append(node, {}, {}, {&type, 1});
    return e.of_graph_[id] = e.outputs(made)[0];
  }

  std::uint32_t type_of(const Value& value) {
    return e.intern(value.type, value.shape_known && value.type.type != DataType::kUndefined);
  }

  void run() {
    const Graph& graph = *e.graph_;
    e.of_graph_.assign(graph.value_count(), kNoClass);
    for (const ValueId id : graph.inputs()) leaf(id);
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
      const Node& original = *graph.nodes()[n];
      std::vector<ClassId> inputs, parameters;
      std::vector<std::uint32_t> types;
      for (const ValueId id : original.inputs) inputs.push_back(leaf(id));
      for (const ValueId id : original.parameters) parameters.push_back(leaf(id));
      for (const ValueId id : original.outputs) types.push_back(id == kNoValue ? kAbsentType : type_of(graph.value(id)));
      ENode node;
      node.op = original.op;
      node.attributes = e.intern(original.attributes);
      node.position = static_cast<std::int32_t>(n);
      const ENodeId made = e.append(node, inputs, parameters, types);
      e.at_position_.push_back(made);
      for (std::size_t o = 0; o < original.outputs.size(); ++o)
        if (original.outputs[o] != kNoValue) e.of_graph_[original.outputs[o]] = e.outputs(made)[o];
    }
    for (const GraphOutput& output : graph.outputs()) leaf(output.value);
  }
};

EGraph::EGraph(const Graph& graph, bool for_training) : graph_(&graph), for_training_(for_training) {
  EGraphBuilder{*this}.run();
}

std::span<const ENodeId> EGraph::with_operator(const Operator* op) const {
  const auto found = by_operator_.find(op);
  return found == by_operator_.end() ? std::span<const ENodeId>() : found->second;
}

std::optional<ENodeId> EGraph::node_at(std::int32_t position) const {
  if (position < 0 || static_cast<std::size_t>(position) >= at_position_.size()) return std::nullopt;
  return at_position_[static_cast<std::size_t>(position)];
}

// ---- Hash-consing

std::uint64_t EGraph::key_of(const ENode& node, std::span<const ClassId> inputs) const {
  std::uint64_t h = hash_mix(reinterpret_cast<std::uintptr_t>(node.op), node.attributes);
  std::size_t i = 0;
  if (node.op->commutative() && inputs.size() >= 2) {
    const ClassId a = find(inputs[0]), b = find(inputs[1]);
    h = hash_mix(hash_mix(h, std::min(a, b)), std::max(a, b));
    i = 2;
  }
  for (; i < inputs.size(); ++i) h = hash_mix(h, inputs[i] == kNoClass ? kNoClass : find(inputs[i]));
  return h;
}

std::uint64_t EGraph::key_of(ENodeId id) const { return key_of(nodes_[id], inputs(id)); }

bool EGraph::same(ENodeId a, const ENode& node, std::span<const ClassId> inputs) const {
  const ENode& other = nodes_[a];
  if (other.op != node.op || other.attributes != node.attributes || other.inputs != inputs.size()) return false;
  const std::span<const ClassId> mine = this->inputs(a);
  std::size_t i = 0;
  if (node.op->commutative() && inputs.size() >= 2) {
    if (!(equal(mine[0], inputs[0]) && equal(mine[1], inputs[1])) && !(equal(mine[0], inputs[1]) && equal(mine[1], inputs[0])))
      return false;
    i = 2;
  }
  for (; i < inputs.size(); ++i)
    if (!equal(mine[i], inputs[i])) return false;
  return true;
}

std::optional<ENodeId> EGraph::lookup(std::uint64_t key, const ENode& node, std::span<const ClassId> inputs) const {
  return known_nodes_.find(key, [&](ENodeId id) { return same(id, node, inputs); });
}

bool EGraph::exchanged(ENodeId id, std::span<const ClassId> inputs) const {
  const std::span<const ClassId> mine = this->inputs(id);
  return nodes_[id].op && nodes_[id].op->commutative() && inputs.size() >= 2 &&
         !(equal(mine[0], inputs[0]) && equal(mine[1], inputs[1]));
}

std::optional<ENodeId> EGraph::known(const Operator& op, std::uint32_t attributes, std::span<const ClassId> inputs) const {
  ENode node;
  node.op = &op;
  node.attributes = attributes;
  while (!inputs.empty() && inputs.back() == kNoClass) inputs = inputs.first(inputs.size() - 1);
  return lookup(key_of(node, inputs), node, inputs);
}

std::optional<ENodeId> EGraph::add(const Operator& op, std::uint32_t attributes, std::span<const ClassId> inputs) {
  if (op.random()) return std::nullopt;
  while (!inputs.empty() && inputs.back() == kNoClass) inputs = inputs.first(inputs.size() - 1);
  std::vector<std::uint32_t> types;
  for (const ClassId input : inputs) types.push_back(input == kNoClass ? kAbsentType : type_[input]);
  const Typing* typed = typing(op, attributes, types);
  if (!typed) return std::nullopt;
  ENode node;
  node.op = &op;
  node.attributes = typed->attributes;
  if (const std::optional<ENodeId> known = lookup(key_of(node, inputs), node, inputs)) return known;
  const std::vector<ClassId> read(inputs.begin(), inputs.end());
  return append(node, read, {}, typed->outputs);
}

// ---- Merging

bool EGraph::merge(ClassId a, ClassId b, const Reason& reason) {
  ClassId keep = find(a), gone = find(b);
  if (keep == gone) return true;
  if (type_[keep] != type_[gone]) return false;
  ClassId from = b, to = a;  // links the smaller tree, whose root becomes `from`
  if (size_[keep] < size_[gone] || (size_[keep] == size_[gone] && gone < keep)) {
    std::swap(keep, gone);
    std::swap(from, to);
  }
  Link link{to, reason};
  for (ClassId at = from; at != kNoClass;) {
    const ClassId next = links_[at].to;
    std::swap(links_[at], link);
    link.to = at;
    at = next;
  }
  classes_.merge_into(keep, gone);
  size_[keep] += size_[gone];
  makers_[keep] = united(makers_[keep], makers_[gone]);
  users_[keep] = united(users_[keep], users_[gone]);
  if (constant_[keep] != constant_[gone]) {
    constant_[keep] = true;
    may_be_constant_.insert(may_be_constant_.end(), users_[keep].begin(), users_[keep].end());
  }
  makers_[gone] = {};
  // Only users of the merged class get new keys.
  for (const ENodeId user : users_[gone])
    if (hash_consed(nodes_[user])) dirty_.push_back(user);
  users_[gone] = {};
  return true;
}

void EGraph::update_constant(ENodeId id) {
  const ENode& node = nodes_[id];
  bool all = !for_training_;
  if (node.leaf != kNoValue) {
    all = all && graph_->is_constant(node.leaf);
  } else {
    all = all && hash_consed(node) && node_is_sized(*this, id);
    for (const ClassId input : inputs(id)) all = all && (input == kNoClass || constant_[find(input)]);
  }
  if (!all) return;
  for (const ClassId output : outputs(id)) {
    if (output == kNoClass || constant_[find(output)]) continue;
    constant_[find(output)] = true;
    const std::vector<ENodeId>& users = users_[find(output)];
    may_be_constant_.insert(may_be_constant_.end(), users.begin(), users.end());
  }
}

// Gives an e-node with merged inputs its new key; an existing e-node with that key is its duplicate.
void EGraph::repair(ENodeId id) {
  if (!nodes_[id].live) return;
  known_nodes_.erase(keys_[id], id);
  const std::uint64_t key = keys_[id] = key_of(id);
  const std::optional<ENodeId> other = lookup(key, nodes_[id], inputs(id));
  known_nodes_.insert(key, id);
  if (!other) return;
  const ENodeId keep = std::min(id, *other), gone = std::max(id, *other);
  known_nodes_.erase(keys_[gone], gone);
  nodes_[gone].live = false;
  twin_.emplace(gone, keep);
  --live_;
  const bool crosswise = exchanged(keep, inputs(gone));
  const auto forget = [gone = gone](std::vector<ENodeId>& list) {
    const auto place = std::lower_bound(list.begin(), list.end(), gone);
    if (place != list.end() && *place == gone) list.erase(place);
  };
  for (const ClassId input : inputs(gone))
    if (input != kNoClass) forget(users_[find(input)]);
  for (std::uint32_t o = 0; o < nodes_[gone].outputs; ++o) {
    const ClassId a = outputs(keep)[o], b = outputs(gone)[o];
    if (b == kNoClass) continue;
    forget(makers_[find(b)]);
    if (a == kNoClass) {
      // The surviving e-node lacked this output; now it has it.
      pool_[nodes_[keep].first + nodes_[keep].inputs + nodes_[keep].parameters + o] = b;
      insert_sorted(makers_[find(b)], keep);
    } else {
      merge(a, b, {Reason::kCongruence, keep, gone, o, crosswise});
    }
  }
}

void EGraph::rebuild() {
  while (!dirty_.empty() || !may_be_constant_.empty()) {
    std::vector<ENodeId> work;
    work.swap(dirty_);
    std::sort(work.begin(), work.end());
    work.erase(std::unique(work.begin(), work.end()), work.end());
    for (const ENodeId id : work) repair(id);
    work.clear();
    work.swap(may_be_constant_);
    for (const ENodeId id : work)
      if (nodes_[id].live) update_constant(id);
  }
}

// ---- Explaining

std::vector<Reason> EGraph::explain(ClassId a, ClassId b) const {
  std::vector<Reason> reasons;
  if (a == b) return reasons;
  std::vector<ClassId> way{a};
  while (links_[way.back()].to != kNoClass) way.push_back(links_[way.back()].to);
  std::unordered_map<ClassId, std::size_t> on_way;
  for (std::size_t i = 0; i < way.size(); ++i) on_way.emplace(way[i], i);
  ClassId meet = b;
  while (!on_way.contains(meet)) {
    if (links_[meet].to == kNoClass) throw Error(ErrorCode::kUsage, "two values that are not equal have no explanation");
    reasons.push_back(links_[meet].reason);
    meet = links_[meet].to;
  }
  for (std::size_t i = 0; i < on_way.at(meet); ++i) reasons.push_back(links_[way[i]].reason);
  return reasons;
}

// ---- Checking

std::optional<std::string> EGraph::violation() const {
  std::optional<std::string> found;
  const auto fail = [&](const std::string& what, std::size_t at) {
    if (!found) found = what + " (" + std::to_string(at) + ")";
  };
  std::vector<std::vector<ENodeId>> makers(value_count()), users(value_count());
  std::vector<bool> constant(value_count());
  std::map<std::vector<std::uint64_t>, ENodeId> seen;
  std::size_t live = 0;
  for (ENodeId id = 0; id < nodes_.size(); ++id) {
    const ENode& node = nodes_[id];
    if (!node.live) continue;
    ++live;
    for (const ClassId input : inputs(id))
      if (input != kNoClass) insert_sorted(users[find(input)], id);
    for (const ClassId output : outputs(id))
      if (output != kNoClass) insert_sorted(makers[find(output)], id);
    if (node.op && !node.op->random()) {
      std::vector<std::uint64_t> key{reinterpret_cast<std::uintptr_t>(node.op), node.attributes};
      for (const ClassId input : inputs(id)) key.push_back(input == kNoClass ? kNoClass : find(input));
      if (node.op->commutative() && node.inputs >= 2) std::sort(key.begin() + 2, key.begin() + 4);
      const auto [entry, added] = seen.emplace(key, id);
      if (!added) fail("hash-consing: two live e-nodes are the same", id);
      if (lookup(key_of(id), node, inputs(id)) != id) fail("hash-consing: an e-node is not found by its key", id);
    }
  }
  if (live != live_) fail("the count of live e-nodes", live);
  if (known_nodes_.size() != seen.size()) fail("hash-consing: keys without e-nodes", known_nodes_.size());
  for (ClassId id = 0; id < value_count(); ++id) {
    if (type_[id] != type_[find(id)]) fail("analysis: a value has not its class's type", id);
    if (find(id) != id) continue;
    if (makers_[id] != makers[id]) fail("the e-nodes of a class", id);
    if (users_[id] != users[id]) fail("the users of a class", id);
  }
  // Congruence by definition: for all e-nodes, including dead ones.
  std::map<std::vector<std::uint64_t>, ENodeId> first;
  for (ENodeId id = 0; id < nodes_.size(); ++id) {
    const ENode& node = nodes_[id];
    if (!hash_consed(node)) continue;
    std::vector<std::uint64_t> key{reinterpret_cast<std::uintptr_t>(node.op), node.attributes};
    for (const ClassId input : inputs(id)) key.push_back(input == kNoClass ? kNoClass : find(input));
    if (node.op->commutative() && node.inputs >= 2) std::sort(key.begin() + 2, key.begin() + 4);
    const auto [entry, added] = first.emplace(key, id);
    if (added) continue;
    for (std::uint32_t o = 0; o < node.outputs; ++o) {
      const ClassId a = outputs(entry->second)[o], b = outputs(id)[o];
      if (a != kNoClass && b != kNoClass && !equal(a, b)) fail("congruence: equal inputs and different outputs", id);
    }
  }
  // Constants: the least fixed point.
  for (bool changed = true; changed;) {
    changed = false;
    for (ENodeId id = 0; id < nodes_.size(); ++id) {
      const ENode& node = nodes_[id];
      bool all = !for_training_ &&
                 (node.leaf != kNoValue ? graph_->is_constant(node.leaf) : hash_consed(node) && node_is_sized(*this, id));
      for (const ClassId input : inputs(id)) all = all && (input == kNoClass || constant[find(input)]);
      if (!all) continue;
      for (const ClassId output : outputs(id)) {
        if (output == kNoClass || constant[find(output)]) continue;
        constant[find(output)] = true;
        changed = true;
      }
    }
  }
  for (ClassId id = 0; id < value_count(); ++id)
    if (find(id) == id && constant_[id] != constant[id]) fail("analysis: constant", id);
  return found;
}

}  // namespace rewright::optimizer
