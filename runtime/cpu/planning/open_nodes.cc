#include "runtime/cpu/planning/open_nodes.h"

#include <algorithm>
#include <variant>

#include "runtime/planning/graph_facts.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

bool is_free(const Element& e);

bool is_free(const Index& index) {
  bool free = true;
  for_each_atom(index, [&](const Atom& atom) {
    free = free && atom.kind != Atom::Kind::kSymbol && (atom.kind != Atom::Kind::kLoad || is_free(atom.element));
  });
  return free;
}

bool is_free(const Element& e) {
  if (e->kind == Kind::kReduce || e->kind == Kind::kChoose || e->zero_outside) return false;
  if (!is_free(e->index) || !std::all_of(e->position.begin(), e->position.end(), [](const Index& i) { return is_free(i); }))
    return false;
  return std::all_of(e->arguments.begin(), e->arguments.end(), [](const Element& a) { return is_free(a); });
}

// Are these the attributes with open sizes, and with numbers for them?
bool may_become(const AttributeValue& open, const AttributeValue& sized) {
  if (open == sized) return true;
  const auto *const open_list = std::get_if<Indices>(&open), *const list = std::get_if<Indices>(&sized);
  if (open_list != nullptr && list != nullptr)
    return std::equal(open_list->begin(), open_list->end(), list->begin(), list->end(),
                      [](const Index& a, const Index& b) { return !a.is_constant() || a == b; });
  const auto* const index = std::get_if<Index>(&open);
  return index != nullptr && !index->is_constant() && std::holds_alternative<Index>(sized);
}

}  // namespace

OpenNodes::OpenNodes(const Graph* open, const Graph& planned) : graph_(open) {
  const auto is_same = [&](ValueId v) {  // both graphs share values of known sizes
    const Value& value = open->value(v);
    const bool has_open_sizes = !all_constant(value.type.shape) || (value.contents && !all_constant(*value.contents));
    return has_open_sizes ? planned.value(v).name == value.name : &planned.value(v) == &value;
  };
  if (open != nullptr && planned.value_count() < open->value_count()) graph_ = nullptr;
  for (ValueId v = 0; graph_ != nullptr && v < open->value_count(); ++v)
    if (!is_same(v)) graph_ = nullptr;
  if (graph_ != nullptr) producers_ = graph_->producers();
}

const std::shared_ptr<const Node>* OpenNodes::of(const Node& node) const {
  if (node.outputs.empty() || node.outputs[0] >= producers_.size() || producers_[node.outputs[0]] < 0) return nullptr;
  const std::shared_ptr<const Node>& open = graph_->nodes()[static_cast<std::size_t>(producers_[node.outputs[0]])];
  if (open.get() == &node) return &open;
  const bool is_same =
      open->op == node.op && open->inputs == node.inputs && open->outputs == node.outputs &&
      std::equal(open->attributes.begin(), open->attributes.end(), node.attributes.begin(), node.attributes.end(), may_become);
  return is_same ? &open : nullptr;
}

bool OpenNodes::is_open(ValueId value, std::size_t axis) const {
  if (graph_ == nullptr || value >= graph_->value_count()) return false;
  const Value& v = graph_->value(value);
  return v.shape_known && axis < v.type.shape.size() && !v.type.shape[axis].is_constant();
}

bool is_free_of_sizes(const Graph& open_graph, const Node& node) {
  try {
    const Definition definition = planning::define(open_graph, node);
    return !definition.outputs().empty() && definition.has_denotation() && is_free(definition.outputs()[0].element);
  } catch (const Error&) {  // the node's sizes are not known
    return false;
  }
}

bool is_same_element(const Output& a, const Output& b) {
  if (a.position.size() != b.position.size()) return false;
  const Element renamed = rewrite(b.element, {}, [&](const Atom& atom) -> std::optional<Index> {
    for (std::size_t axis = 0; axis < b.position.size() && atom.kind == Atom::Kind::kBound; ++axis)
      if (const Atom* const variable = b.position[axis].as_atom(); variable != nullptr && variable->id == atom.id)
        return a.position[axis];
    return std::nullopt;
  });
  return compare(a.element, renamed) == 0;
}

}  // namespace rewright::cpu
