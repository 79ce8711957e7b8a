#include "graph/open_graph.h"

#include <algorithm>
#include <utility>

#include "graph/execute.h"
#include "graph/sized.h"

namespace rewright::graph {

namespace {

bool has_open_sizes(const Value& value) {
  return !all_constant(value.type.shape) || (value.contents && !all_constant(*value.contents));
}

// Open sizes were assumed to be at least 1.
bool is_special(const Index& before, const Index& after) {
  return !before.is_constant() && after.is_constant() && after.value() < 1;
}

}  // namespace

OpenGraph::OpenGraph(Graph graph, const std::vector<bool>& used) : graph_(std::move(graph)) {
  const auto numbers_of = [&](const Indices& indices) {
    std::vector<std::size_t> numbers;
    for (const Index& index : indices) numbers.push_back(number_of(index));
    return numbers;
  };
  std::vector<bool> is_there(graph_.value_count()), is_used(graph_.value_count());
  const auto mark = [](std::vector<bool>& values, std::span<const ValueId> ids) {
    for (const ValueId id : ids)
      if (id != kNoValue) values[id] = true;
  };
  for (std::vector<bool>* values : {&is_there, &is_used}) {
    mark(*values, graph_.inputs());
    for (const GraphOutput& output : graph_.outputs()) (*values)[output.value] = true;
  }
  for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
    const Node& node = *graph_.nodes()[n];
    mark(is_there, node.inputs), mark(is_there, node.parameters), mark(is_there, node.outputs);
    if (!used.empty() && !used[n]) continue;
    mark(is_used, node.inputs), mark(is_used, node.outputs);
    if (used.empty()) mark(is_used, node.parameters);
    nodes_.push_back({n, !is_sized(node.attributes)});
  }
  for (ValueId id = 0; id < graph_.value_count(); ++id) {
    const Value& value = graph_.value(id);
    if (!is_there[id] || !has_open_sizes(value)) continue;
    OpenValue open{id, numbers_of(value.type.shape), numbers_of(value.contents.value_or(Indices()))};
    if (is_used[id]) values_.push_back(std::move(open));
  }
  for (ValueId id = 0; id < graph_.value_count(); ++id) open_values_.push_back(has_open_sizes(graph_.value(id)));
  for (const auto& node : graph_.nodes()) {
    if (node->op != nullptr) find_requirements(*node);
    const auto is_open = [&](ValueId id) { return id != kNoValue && open_values_[id]; };
    if (is_sized(node->attributes) && std::none_of(node->inputs.begin(), node->inputs.end(), is_open)) continue;
    for (const ValueId id : node->outputs)
      if (id != kNoValue) open_values_[id] = true;
  }
}

std::size_t OpenGraph::number_of(const Index& expression) {
  const auto at =
      static_cast<std::size_t>(std::find(expressions_.begin(), expressions_.end(), expression) - expressions_.begin());
  if (at == expressions_.size()) expressions_.push_back(expression);
  return at;
}

void OpenGraph::find_requirements(const Node& node) {
  const auto is_open_value = [&](ValueId id) { return id != kNoValue && has_open_sizes(graph_.value(id)); };
  if (std::none_of(node.inputs.begin(), node.inputs.end(), is_open_value) &&
      std::none_of(node.outputs.begin(), node.outputs.end(), is_open_value))
    return;
  try {
    const auto operands = graph_.operand_types(node);
    const Definition definition = node.op->define(node.attributes, Inputs::of(std::span(operands)).types_only());
    for (const Requirement& r : definition.requirements())
      if (std::find(requirements_.begin(), requirements_.end(), r.condition) == requirements_.end())
        requirements_.push_back(r.condition);
    for (std::size_t k = 0; k < node.outputs.size() && k < definition.outputs().size(); ++k)
      if (node.outputs[k] != kNoValue && graph_.value(node.outputs[k]).shape_known)
        is_regular_ = is_regular_ && definition.outputs()[k].type.shape == graph_.value(node.outputs[k]).type.shape;
  } catch (const Error&) {
    is_regular_ = false;
  }
}

Graph OpenGraph::with_sizes(const Substitution& sizes) const {
  Indices numbers;
  bool is_certain = is_regular_;
  for (const Index& expression : expressions_) {
    numbers.push_back(substitute(expression, sizes));
    is_certain = is_certain && !is_special(expression, numbers.back());
  }
  for (std::size_t r = 0; r < requirements_.size() && is_certain; ++r) {
    const Condition& c = requirements_[r];
    is_certain = Condition{substitute(c.left, sizes), c.relation, substitute(c.right, sizes)}.decided() != false;
  }
  if (!is_certain) return graph::with_sizes(graph_, sizes);  // every node by itself; names the one that does not fit
  Graph result = graph_;
  const auto numbered = [&](const std::vector<std::size_t>& list) {
    Indices indices;
    indices.reserve(list.size());
    for (const std::size_t n : list) indices.push_back(numbers[n]);
    return indices;
  };
  for (const OpenValue& open : values_) {
    const Value& value = graph_.value(open.id);
    Value changed;
    changed.name = value.name;
    changed.type = {value.type.type, numbered(open.shape)};
    changed.shape_known = value.shape_known;
    if (value.contents) changed.contents = numbered(open.contents);
    result.set_value(open.id, std::move(changed));
  }
  result.drop_nodes_from(0);
  for (const UsedNode& used : nodes_) {
    const auto& node = graph_.nodes()[used.number];
    if (!used.is_open) {
      result.add_shared(node);
      continue;
    }
    Node changed = *node;
    changed.attributes = substitute(node->attributes, sizes);
    result.add_raw(std::move(changed));
  }
  std::vector<GraphOutput> outputs(graph_.outputs().begin(), graph_.outputs().end());
  for (GraphOutput& output : outputs) output.type.shape = substitute(output.type.shape, sizes);
  result.set_outputs(std::move(outputs));
  return result;
}

}  // namespace rewright::graph
