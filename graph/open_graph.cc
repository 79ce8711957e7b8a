#include "graph/open_graph.h"

#include <algorithm>
#include <utility>
#include <variant>

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

// The used nodes with their values. What gave attributes their sizes is not among these.
Graph part_of(Graph graph, const std::vector<bool>& used) {
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  graph.drop_nodes_from(0);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!used[n]) continue;
    Node node = *nodes[n];
    node.parameters.clear();
    graph.add_raw(std::move(node));
  }
  graph.drop_unused_values();
  return graph;
}

// By value: do its sizes or elements depend on open sizes, apart from what inputs contribute to it?
std::vector<bool> find_open_values(const Graph& graph) {
  std::vector<bool> result;
  for (ValueId id = 0; id < graph.value_count(); ++id) result.push_back(has_open_sizes(graph.value(id)));
  for (const auto& node : graph.nodes()) {
    const auto is_open = [&](ValueId id) { return id != kNoValue && result[id]; };
    if (is_sized(node->attributes) && std::none_of(node->inputs.begin(), node->inputs.end(), is_open)) continue;
    for (const ValueId id : node->outputs)
      if (id != kNoValue) result[id] = true;
  }
  return result;
}

// By value: is it an input, an output, or does a node have it?
std::vector<bool> find_values(const Graph& graph) {
  std::vector<bool> result(graph.value_count());
  const auto mark = [&](std::span<const ValueId> ids) {
    for (const ValueId id : ids)
      if (id != kNoValue) result[id] = true;
  };
  mark(graph.inputs());
  for (const GraphOutput& output : graph.outputs()) result[output.value] = true;
  for (const auto& node : graph.nodes()) mark(node->inputs), mark(node->parameters), mark(node->outputs);
  return result;
}

}  // namespace

OpenGraph::OpenGraph(Graph graph, const std::vector<bool>& used) : graph_(std::move(graph)) {
  part_ = used.empty() ? graph_ : part_of(graph_, used);
  open_values_ = find_open_values(graph_), open_values_of_part_ = find_open_values(part_);
  for (const auto& node : part_.nodes()) nodes_.push_back(used_node(node));
  const auto open = std::find_if(nodes_.begin(), nodes_.end(), [](const UsedNode& node) { return node.is_open(); });
  first_open_ = static_cast<std::size_t>(open - nodes_.begin());
  const std::vector<bool> is_there = find_values(part_);
  for (ValueId id = 0; id < part_.value_count(); ++id) {
    const Value& value = part_.value(id);
    if (is_there[id] && has_open_sizes(value))
      values_.push_back({id, numbers_of_sizes(value.type.shape), numbers_of_sizes(value.contents.value_or(Indices()))});
  }
  // Sizes that the graph has assumed away may be those of unused values alone.
  const std::vector<bool> is_anywhere = find_values(graph_);
  for (ValueId id = 0; id < graph_.value_count(); ++id)
    if (is_anywhere[id] && has_open_sizes(graph_.value(id)))
      numbers_of_sizes(graph_.value(id).type.shape), numbers_of_sizes(graph_.value(id).contents.value_or(Indices()));
  for (const auto& node : graph_.nodes())
    if (node->op != nullptr) find_requirements(*node);
}

const Graph& OpenGraph::graph_of(const Graph& sized) const {
  return sized.value_count() == graph_.value_count() && sized.nodes().size() == graph_.nodes().size() ? graph_ : part_;
}

const std::vector<bool>& OpenGraph::open_values(const Graph& sized) const {
  return sized.value_count() == open_values_.size() ? open_values_ : open_values_of_part_;  // equal if nothing was left out
}

std::size_t OpenGraph::number_of_size(const Index& expression) {
  const std::size_t number = expressions_.add(expression);
  if (is_size_.size() <= number) is_size_.resize(number + 1);
  is_size_[number] = true;
  return number;
}

std::vector<std::size_t> OpenGraph::numbers_of_sizes(const Indices& expressions) {
  std::vector<std::size_t> numbers;
  for (const Index& expression : expressions) numbers.push_back(number_of_size(expression));
  return numbers;
}

OpenGraph::UsedNode OpenGraph::used_node(const std::shared_ptr<const Node>& node) {
  UsedNode used{node, {}};
  if (is_sized(node->attributes)) return used;
  Node rest = *node;
  for (std::size_t place = 0; place < rest.attributes.size(); ++place) {
    OpenAttribute open{place, {}};
    if (const auto* const index = std::get_if<Index>(&rest.attributes[place]); index != nullptr && !index->is_constant()) {
      open.numbers.push_back(expressions_.add(*index));
      rest.attributes[place] = Index();
    }
    if (const auto* const list = std::get_if<Indices>(&rest.attributes[place]); list != nullptr && !all_constant(*list)) {
      for (const Index& index : *list) open.numbers.push_back(expressions_.add(index));
      rest.attributes[place] = Indices();
    }
    if (!open.numbers.empty()) used.attributes.push_back(std::move(open));
  }
  used.node = std::make_shared<const Node>(std::move(rest));
  return used;
}

void OpenGraph::find_requirements(const Node& node) {
  const auto is_open_value = [&](ValueId id) { return id != kNoValue && has_open_sizes(graph_.value(id)); };
  if (std::none_of(node.inputs.begin(), node.inputs.end(), is_open_value) &&
      std::none_of(node.outputs.begin(), node.outputs.end(), is_open_value))
    return;
  try {
    const auto operands = graph_.operand_types(node);
    const Definition definition = node.op->define(node.attributes, Inputs::of(std::span(operands)).types_only());
    for (const Requirement& r : definition.requirements()) {
      const NumberedCondition c{expressions_.add(r.condition.left), r.condition.relation, expressions_.add(r.condition.right)};
      if (std::find(requirements_.begin(), requirements_.end(), c) == requirements_.end()) requirements_.push_back(c);
    }
    for (std::size_t k = 0; k < node.outputs.size() && k < definition.outputs().size(); ++k)
      if (node.outputs[k] != kNoValue && graph_.value(node.outputs[k]).shape_known)
        is_regular_ = is_regular_ && definition.outputs()[k].type.shape == graph_.value(node.outputs[k]).type.shape;
  } catch (const Error&) {
    is_regular_ = false;
  }
}

Graph OpenGraph::with_sizes(const Substitution& sizes) const {
  const Indices numbers = expressions_.values(sizes);
  bool is_certain = is_regular_;
  for (std::size_t n = 0; n < is_size_.size() && is_certain; ++n)
    is_certain = !is_size_[n] || !is_special(expressions_[n], numbers[n]);
  for (std::size_t r = 0; r < requirements_.size() && is_certain; ++r) {
    const NumberedCondition& c = requirements_[r];
    is_certain = Condition{numbers[c.left], c.relation, numbers[c.right]}.decided() != false;
  }
  if (!is_certain) return graph::with_sizes(graph_, sizes);  // every node by itself; names the one that does not fit
  Graph result = part_;
  const auto numbered = [&](const std::vector<std::size_t>& list) {
    Indices indices;
    indices.reserve(list.size());
    for (const std::size_t n : list) indices.push_back(numbers[n]);
    return indices;
  };
  for (const OpenValue& open : values_) {
    const Value& value = part_.value(open.id);
    Value changed;
    changed.name = value.name;
    changed.type = {value.type.type, numbered(open.shape)};
    changed.shape_known = value.shape_known;
    if (value.contents) changed.contents = numbered(open.contents);
    result.set_value(open.id, std::move(changed));
  }
  result.drop_nodes_from(first_open_);  // their memory is used again
  for (std::size_t n = first_open_; n < nodes_.size(); ++n) {
    const UsedNode& used = nodes_[n];
    if (!used.is_open()) {
      result.add_shared(used.node);
      continue;
    }
    Node changed = *used.node;
    for (const OpenAttribute& open : used.attributes) {
      AttributeValue& attribute = changed.attributes[open.place];
      if (auto* const index = std::get_if<Index>(&attribute))
        *index = numbers[open.numbers[0]];
      else
        attribute = numbered(open.numbers);
    }
    result.add_raw(std::move(changed));
  }
  std::vector<GraphOutput> outputs(result.outputs().begin(), result.outputs().end());
  for (GraphOutput& output : outputs) output.type.shape = substitute(output.type.shape, sizes);
  result.set_outputs(std::move(outputs));
  return result;
}

}  // namespace rewright::graph
