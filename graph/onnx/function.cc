#include "graph/onnx/function.h"

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/hash_mix.h"
#include "graph/onnx/attributes.h"
#include "graph/onnx/calls.h"
#include "graph/onnx/parts.h"
#include "graph/sizes.h"

namespace rewright::graph {

namespace {

// Replaces references to attributes of the call by the call's values, and drops those that the call leaves out. Recursion is
// safe: Protobuf bounds the depth of nesting.
void bind_attributes(onnx::NodeProto& node, const std::map<std::string, const onnx::AttributeProto*>& values) {
  onnx::NodeProto bound;
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.ref_attr_name().empty()) {
      if (attribute.has_g())
        for (onnx::NodeProto& inner : *attribute.mutable_g()->mutable_node()) bind_attributes(inner, values);
      for (onnx::GraphProto& graph : *attribute.mutable_graphs())
        for (onnx::NodeProto& inner : *graph.mutable_node()) bind_attributes(inner, values);
      *bound.add_attribute() = std::move(attribute);
      continue;
    }
    const auto value = values.find(attribute.ref_attr_name());
    if (value == values.end()) continue;
    onnx::AttributeProto& given = *bound.add_attribute();
    given = *value->second;
    given.set_name(attribute.name());
  }
  node.mutable_attribute()->Swap(bound.mutable_attribute());
}

std::string key_of_function(const std::string& domain, const std::string& name, const std::string& overload) {
  return canonical_domain(domain) + '\0' + name + '\0' + overload;
}

struct Produced {
  std::uint32_t member, place;
};
using Producers = std::unordered_map<ValueId, Produced>;

Producers producers_of(const std::vector<const Node*>& members) {
  Producers result;
  for (std::uint32_t m = 0; m < members.size(); ++m)
    for (std::uint32_t k = 0; k < members[m]->outputs.size(); ++k)
      if (members[m]->outputs[k] != kNoValue) result.emplace(members[m]->outputs[k], Produced{m, k});
  return result;
}

// A hash of a call's body. Values from outside are numbered by position and not hashed by content: a call with trained weights
// stays the same call. Equal constants share a number, since tidying may merge them.
std::uint64_t structure_of(const Graph& graph, const std::vector<const Node*>& members, const Producers& producers,
                           const std::vector<ValueId>& call_inputs) {
  std::uint64_t h = members.size();
  std::unordered_map<std::uint64_t, std::uint64_t> given;  // constants by content
  for (std::uint64_t n = 0; n < call_inputs.size(); ++n)
    if (call_inputs[n] != kNoValue && graph.is_constant(call_inputs[n]))
      given.emplace(graph.value(call_inputs[n]).constant_hash(), n);
  std::unordered_map<ValueId, std::uint64_t> outside;  // numbers in order of occurrence
  for (const Node* node : members) {
    h = hash_mix(h, std::hash<std::string>()(node->op != nullptr ? node->op->name() : ""));
    h = hash_mix(h, hash(node->attributes));
    for (const ValueId id : node->inputs) {
      if (id == kNoValue) {
        h = hash_mix(h, 1);
      } else if (const auto from = producers.find(id); from != producers.end()) {
        h = hash_mix(hash_mix(hash_mix(h, 2), from->second.member), from->second.place);
      } else if (graph.is_constant(id)) {
        const std::uint64_t contents = graph.value(id).constant_hash();
        const auto place = given.find(contents);
        h = place == given.end() ? hash_mix(hash_mix(h, 3), contents) : hash_mix(hash_mix(h, 6), place->second);
      } else {
        h = hash_mix(hash_mix(h, 4), outside.emplace(id, outside.size()).first->second);
      }
    }
    h = hash_mix(h, 5);
  }
  return h;
}

}  // namespace

void index_functions(ImportedModel& model) {
  for (const onnx::FunctionProto& function : model.skeleton.functions())
    model.functions.emplace(key_of_function(function.domain(), function.name(), function.overload()), &function);
}

const onnx::FunctionProto* find_local_function(const ImportedModel& model, const onnx::NodeProto& call) {
  if (model.functions.empty()) return nullptr;
  const auto found = model.functions.find(key_of_function(call.domain(), call.op_type(), call.overload()));
  return found == model.functions.end() ? nullptr : found->second;
}

FunctionBody body_of_call(const onnx::FunctionProto& function, const onnx::NodeProto& call,
                          const std::map<std::string, int>& opsets, const std::string& prefix) {
  if (call.input_size() > function.input_size() || call.output_size() > function.output_size())
    throw Error(ErrorCode::kBadInput, "calls function \"" + function.name() + "\" with " + std::to_string(call.input_size()) +
                                          " inputs and " + std::to_string(call.output_size()) + " outputs; it has " +
                                          std::to_string(function.input_size()) + " and " +
                                          std::to_string(function.output_size()));
  FunctionBody body;
  body.opsets = opsets;
  for (const auto& import : function.opset_import())
    body.opsets[canonical_domain(import.domain())] = static_cast<int>(import.version());
  std::set<std::string> left_out;
  for (int i = 0; i < function.input_size(); ++i) {
    const bool absent = i >= call.input_size() || call.input(i).empty();
    if (absent) left_out.insert(function.input(i));
    if (i < call.input_size()) body.inputs.push_back(absent ? "" : prefix + function.input(i));
  }
  for (int i = 0; i < call.output_size(); ++i)
    body.outputs.push_back(call.output(i).empty() ? "" : prefix + function.output(i));
  const auto renamed = [&](const std::string& name) { return name.empty() || left_out.contains(name) ? "" : prefix + name; };

  std::map<std::string, const onnx::AttributeProto*> values;
  for (const onnx::AttributeProto& attribute : function.attribute_proto()) values[attribute.name()] = &attribute;
  for (const onnx::AttributeProto& attribute : call.attribute()) values[attribute.name()] = &attribute;
  for (const onnx::NodeProto& node : function.node()) {
    onnx::NodeProto& copy = body.nodes.emplace_back(node);
    bind_attributes(copy, values);
    for (std::string& name : *copy.mutable_input()) name = renamed(name);
    for (std::string& name : *copy.mutable_output()) name = name.empty() ? name : prefix + name;
    std::unordered_map<std::string, std::string> captured;
    for (const std::string& name : captured_names(copy)) captured.emplace(name, renamed(name));
    rename_captured(copy, captured);
  }
  return body;
}

void add_constant_node(onnx::FunctionProto& function, const onnx::TensorProto& value, const std::string& name) {
  onnx::NodeProto& constant = *function.add_node();
  constant.set_op_type("Constant");
  constant.add_output(name);
  onnx::AttributeProto& attribute = *constant.add_attribute();
  attribute.set_name("value");
  attribute.set_type(onnx::AttributeProto::TENSOR);
  *attribute.mutable_t() = value;
}

void add_body(const onnx::GraphProto& body, onnx::FunctionProto& function) {
  for (const onnx::TensorProto& weight : body.initializer()) add_constant_node(function, weight, weight.name());
  for (const onnx::NodeProto& inner : body.node()) *function.add_node() = inner;
}

std::optional<FunctionCall> call_of_branch(const onnx::NodeProto& node, bool condition) {
  const std::string_view name = condition ? "then_branch" : "else_branch";
  onnx::NodeProto taken;
  for (const onnx::AttributeProto& attribute : node.attribute())
    if (attribute.name() == name && attribute.has_g()) *taken.add_attribute() = attribute;
  if (taken.attribute_size() != 1) return std::nullopt;
  const onnx::GraphProto& branch = taken.attribute(0).g();
  if (branch.sparse_initializer_size() > 0 || branch.input_size() > 0 || branch.output_size() < node.output_size())
    return std::nullopt;
  FunctionCall result;
  result.function.set_name(std::string(name));
  for (const std::string& captured : captured_names(taken)) {
    result.function.add_input(captured);
    result.call.add_input(captured);
  }
  for (const auto& output : branch.output()) result.function.add_output(output.name());
  *result.call.mutable_output() = node.output();
  add_body(branch, result.function);
  return result;
}

void make_expansion(Graph& graph, std::size_t first, std::string_view node_bytes, const std::string& name,
                    const std::vector<ValueId>& call_inputs, std::vector<ValueId>& results) {
  std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin() + static_cast<std::ptrdiff_t>(first),
                                                 graph.nodes().end());
  std::set<ValueId> needed(results.begin(), results.end());
  std::vector<bool> live(nodes.size());
  for (std::size_t n = nodes.size(); n-- > 0;) {
    live[n] = std::any_of(nodes[n]->outputs.begin(), nodes[n]->outputs.end(), [&](ValueId id) { return needed.contains(id); });
    if (live[n]) needed.insert(nodes[n]->inputs.begin(), nodes[n]->inputs.end());
  }
  constexpr std::size_t kCompared = 512;  // nodes compared with each other
  std::unordered_map<ValueId, ValueId> replaced;
  const auto current = [&](ValueId id) {
    const auto found = replaced.find(id);
    return found == replaced.end() ? id : found->second;
  };
  std::vector<Node> members;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!live[n]) continue;
    Node node = *nodes[n];
    for (ValueId& id : node.inputs) id = current(id);
    const auto same = std::find_if(members.begin(), members.end(), [&](const Node& m) {
      return members.size() <= kCompared && m.op != nullptr && m.op == node.op && !m.op->random() && m.inputs == node.inputs &&
             m.outputs.size() == node.outputs.size() && m.attributes == node.attributes;
    });
    if (same == members.end()) {
      members.push_back(std::move(node));
      continue;
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k)
      if (node.outputs[k] != kNoValue && same->outputs[k] != kNoValue) replaced.emplace(node.outputs[k], same->outputs[k]);
  }
  for (ValueId& id : results) id = current(id);
  graph.drop_nodes_from(first);
  if (members.empty()) return;

  std::vector<const Node*> pointers;
  for (const Node& node : members) pointers.push_back(&node);
  const Producers producers = producers_of(pointers);
  using Port = Expansion::Port;
  Expansion expansion;
  expansion.node_proto = node_bytes;
  expansion.name = name;
  for (const ValueId id : call_inputs) {
    Port port{Port::Kind::kAbsent, 0, 0};
    for (std::uint32_t m = 0; m < members.size() && id != kNoValue && port.kind == Port::Kind::kAbsent; ++m)
      for (std::uint32_t k = 0; k < members[m].inputs.size() && port.kind == Port::Kind::kAbsent; ++k)
        if (members[m].inputs[k] == id) port = {Port::Kind::kMember, m, k};
    if (id != kNoValue && port.kind == Port::Kind::kAbsent) {
      port = {Port::Kind::kParameter, 0, static_cast<std::uint32_t>(members[0].parameters.size())};
      members[0].parameters.push_back(id);
    }
    expansion.inputs.push_back(port);
  }
  for (const ValueId id : results) {
    const auto from = producers.find(id);
    expansion.outputs.push_back(from == producers.end() ? Port{Port::Kind::kAbsent, 0, 0}
                                                        : Port{Port::Kind::kMember, from->second.member, from->second.place});
  }
  expansion.members = static_cast<std::uint32_t>(members.size());
  expansion.structure = structure_of(graph, pointers, producers, call_inputs);
  const auto shared = std::make_shared<const Expansion>(std::move(expansion));
  for (std::uint32_t m = 0; m < members.size(); ++m) {
    members[m].expansion = shared;
    members[m].expansion_member = m;
    graph.add_raw(std::move(members[m]));
  }
}

std::optional<IntactCall> intact_call(const Graph& graph, const Expansion& expansion, const std::vector<const Node*>& members,
                                      const std::function<bool(ValueId)>& is_read_outside) {
  if (members.size() != expansion.members || std::find(members.begin(), members.end(), nullptr) != members.end())
    return std::nullopt;
  const Producers producers = producers_of(members);
  using Kind = Expansion::Port::Kind;
  IntactCall call;
  for (const Expansion::Port& port : expansion.inputs) {
    if (port.kind == Kind::kAbsent) {
      call.inputs.push_back(kNoValue);
      continue;
    }
    const auto& ids = port.kind == Kind::kMember ? members[port.member]->inputs : members[port.member]->parameters;
    if (port.place >= ids.size()) return std::nullopt;
    call.inputs.push_back(ids[port.place]);
  }
  if (structure_of(graph, members, producers, call.inputs) != expansion.structure) return std::nullopt;
  std::set<ValueId> outputs;
  for (const Expansion::Port& port : expansion.outputs) {
    const bool is_made = port.kind == Kind::kMember;
    call.outputs.push_back(is_made ? members[port.member]->outputs.at(port.place) : kNoValue);
    outputs.insert(call.outputs.back());
  }
  for (const auto& [id, from] : producers)
    if (!outputs.contains(id) && is_read_outside(id)) return std::nullopt;
  return call;
}

CallGroups intact_groups(const Graph& graph) {
  CallGroups groups;
  for (const auto& node : graph.nodes()) {
    if (!node->expansion) continue;
    CallGroup& group = groups[node->expansion.get()];
    group.members.resize(node->expansion->members);
    if (node->expansion_member < group.members.size()) group.members[node->expansion_member] = node.get();
  }
  if (groups.empty()) return groups;
  // The readers of each value by expansion (null: none).
  std::unordered_map<ValueId, std::set<const Expansion*>> readers;
  for (const auto& node : graph.nodes())
    for (const auto* ids : {&node->inputs, &node->parameters})
      for (const ValueId id : *ids) readers[id].insert(node->expansion.get());
  for (const GraphOutput& output : graph.outputs()) readers[output.value].insert(nullptr);
  for (auto& [expansion, group] : groups) {
    const auto is_read_outside = [&, expansion = expansion](ValueId id) {
      const auto found = readers.find(id);
      return found != readers.end() && std::any_of(found->second.begin(), found->second.end(),
                                                   [&](const Expansion* reader) { return reader != expansion; });
    };
    if (auto call = intact_call(graph, *expansion, group.members, is_read_outside))
      group.call = std::make_shared<const IntactCall>(std::move(*call));
  }
  std::erase_if(groups, [](const auto& entry) { return entry.second.call == nullptr; });
  return groups;
}

std::set<const Expansion*> intact_expansions(const Graph& graph) {
  std::set<const Expansion*> intact;
  for (const auto& [expansion, group] : intact_groups(graph)) intact.insert(expansion);
  return intact;
}

void with_opaque_call(const Graph& graph, const Node& node, const std::function<void(const WholeCall& call)>& f) {
  onnx::NodeProto proto;
  if (node.op != nullptr || !node.origin || !graph.model() || !proto.ParseFromString(node.origin->node_proto)) return;
  if (find_local_function(*graph.model(), proto) != nullptr) return;
  const PlainAttributes attributes(proto);
  const std::string domain = canonical_domain(proto.domain());
  f({attributes, domain, node.inputs, node.outputs});
}

Graph with_whole_calls(const Graph& graph, const std::function<std::optional<Node>(const WholeCall& call)>& node_for) {
  std::map<const Expansion*, std::optional<Node>> nodes;
  for (const auto& [expansion, group] : intact_groups(graph)) {
    onnx::NodeProto proto;
    if (!proto.ParseFromString(expansion->node_proto)) continue;
    const PlainAttributes attributes(proto);
    const std::string domain = canonical_domain(proto.domain());
    if (auto node = node_for({attributes, domain, group.call->inputs, group.call->outputs}))
      nodes.emplace(expansion, std::move(node));
  }
  if (nodes.empty()) return graph;
  Graph result = graph;
  result.drop_nodes_from(0);
  for (const auto& node : graph.nodes()) {
    const auto found = nodes.find(node->expansion.get());
    if (found == nodes.end())
      result.add_shared(node);
    else if (auto& whole = found->second; whole)
      result.add_raw(*std::exchange(whole, std::nullopt));
  }
  result.tidy();
  return result;
}

std::vector<Written> order_of_writing(const Graph& graph) {
  std::vector<Written> plain;
  for (const auto& node : graph.nodes()) plain.push_back({node.get(), nullptr});
  const CallGroups groups = intact_groups(graph);
  if (groups.empty()) return plain;

  // Each call is one unit. Units are sorted again, keeping their order where possible.
  const auto tellers = size_tellers(graph);
  std::vector<Written> units;
  std::map<const Expansion*, std::size_t> unit_of_group;
  std::unordered_map<ValueId, std::size_t> producer;
  std::vector<std::vector<ValueId>> read;
  for (const auto& node : graph.nodes()) {
    const auto group = groups.find(node->expansion.get());
    std::size_t unit = units.size();
    if (group != groups.end()) unit = unit_of_group.try_emplace(group->first, unit).first->second;
    if (unit == units.size()) {
      units.push_back({node.get(), group == groups.end() ? nullptr : group->second.call});
      read.emplace_back();
    }
    for (const ValueId id : node->outputs)
      if (id != kNoValue) producer.emplace(id, unit);
    for (const auto* ids : {&node->inputs, &node->parameters}) read[unit].insert(read[unit].end(), ids->begin(), ids->end());
    for (const std::string& symbol : symbols_of(node->attributes))
      if (const auto teller = tellers.find(symbol); teller != tellers.end())
        for (const ValueId id : graph.nodes()[static_cast<std::size_t>(teller->second)]->outputs) read[unit].push_back(id);
  }
  std::vector<std::set<std::size_t>> followers(units.size());
  std::vector<std::size_t> waiting(units.size());
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const ValueId id : read[u]) {
      const auto from = producer.find(id);
      if (id != kNoValue && from != producer.end() && from->second != u && followers[from->second].insert(u).second)
        ++waiting[u];
    }
  std::set<std::size_t> ready;
  for (std::size_t u = 0; u < units.size(); ++u)
    if (waiting[u] == 0) ready.insert(u);
  std::vector<Written> order;
  while (!ready.empty()) {
    const std::size_t u = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(units[u]);
    for (const std::size_t follower : followers[u])
      if (--waiting[follower] == 0) ready.insert(follower);
  }
  return order.size() == units.size() ? order : plain;  // a rewrite may connect a call's output to its own input
}

}  // namespace rewright::graph
