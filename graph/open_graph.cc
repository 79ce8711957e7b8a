#include "graph/open_graph.h"

#include <algorithm>
#include <cstddef>
#include <span>
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

OpenGraph::List OpenGraph::numbers_of_sizes(const Indices& expressions) {
  const List list{numbers_.size(), expressions.size()};
  for (const Index& expression : expressions) numbers_.push_back(number_of_size(expression));
  return list;
}

OpenGraph::UsedNode OpenGraph::used_node(const std::shared_ptr<const Node>& node) {
  UsedNode used{node, {attributes_.size(), 0}};
  if (is_sized(node->attributes)) return used;
  Node rest = *node;
  for (std::size_t place = 0; place < rest.attributes.size(); ++place) {
    OpenAttribute open{place, {numbers_.size(), 0}};
    if (const auto* const index = std::get_if<Index>(&rest.attributes[place]); index != nullptr && !index->is_constant()) {
      numbers_.push_back(expressions_.add(*index));
      rest.attributes[place] = Index();
    }
    if (const auto* const list = std::get_if<Indices>(&rest.attributes[place]); list != nullptr && !all_constant(*list)) {
      for (const Index& index : *list) numbers_.push_back(expressions_.add(index));
      rest.attributes[place] = Indices();
    }
    open.numbers.count = numbers_.size() - open.numbers.first;
    if (open.numbers.count > 0) attributes_.push_back(open);
  }
  used.attributes.count = attributes_.size() - used.attributes.first;
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

namespace {

void ask_for(const void* begin, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const std::span lines(static_cast<const std::byte*>(begin), bytes);
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(&lines[at]);
}

template <class T>
void ask_for(const std::vector<T>& list) {
  ask_for(list.data(), list.size() * sizeof(T));
}

// Asks for the memory of all nodes and values at once, before they are looked at one after the other: after a run little of a
// graph is in the caches, and waiting for it piece by piece takes longer than most of what is done with it.
void read_ahead(const Graph& graph) {
  for (ValueId v = 0; v < graph.value_count(); ++v) ask_for(&graph.value(v), sizeof(Value));
  for (const auto& node : graph.nodes()) ask_for(node.get(), sizeof(Node));
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    ask_for(value.type.shape), ask_for(value.name.data(), value.name.size());
  }
  for (const auto& node : graph.nodes()) ask_for(node->inputs), ask_for(node->outputs), ask_for(node->attributes);
}

// Has nobody else the object any more? Then it may be changed. Letting go of the copy comes behind what others did with theirs.
template <class T>
bool is_only(const std::shared_ptr<T>& object) {
  if (object.use_count() != 1) return false;
  const std::shared_ptr<T> copy = object;
  return true;
}

}  // namespace

void OpenGraph::set_numbers(Indices& list, const List& expressions, const Indices& numbers) const {
  list.resize(expressions.count);
  for (std::size_t n = 0; n < expressions.count; ++n) list[n] = numbers[numbers_[expressions.first + n]];
}

Value OpenGraph::sized(const OpenValue& open, const Indices& numbers) const {
  const Value& value = part_.value(open.id);
  Value result;
  result.name = value.name;
  result.type.type = value.type.type;
  result.shape_known = value.shape_known;
  set_numbers(result.type.shape, open.shape, numbers);
  if (value.contents) set_numbers(result.contents.emplace(), open.contents, numbers);
  return result;
}

std::shared_ptr<const Node> OpenGraph::sized(const UsedNode& used, const Indices& numbers, std::shared_ptr<Node>& made) const {
  if (!used.is_open()) return used.node;
  if (!is_only(made)) made = std::make_shared<Node>(*used.node);
  for (std::size_t n = 0; n < used.attributes.count; ++n) {
    const OpenAttribute& open = attributes_[used.attributes.first + n];
    AttributeValue& attribute = made->attributes[open.place];
    if (auto* const index = std::get_if<Index>(&attribute))
      *index = numbers[numbers_[open.numbers.first]];
    else
      set_numbers(std::get<Indices>(attribute), open.numbers, numbers);
  }
  return made;
}

Graph OpenGraph::with_sizes(const Substitution& sizes) const {
  read_ahead(part_);
  const Indices numbers = expressions_.values(sizes);
  bool is_certain = is_regular_;
  for (std::size_t n = 0; n < is_size_.size() && is_certain; ++n)
    is_certain = !is_size_[n] || !is_special(expressions_[n], numbers[n]);
  for (std::size_t r = 0; r < requirements_.size() && is_certain; ++r) {
    const NumberedCondition& c = requirements_[r];
    is_certain = Condition{numbers[c.left], c.relation, numbers[c.right]}.decided() != false;
  }
  if (!is_certain) return graph::with_sizes(graph_, sizes);  // every node by itself; names the one that does not fit
  MadeNodes made;
  {
    const std::lock_guard lock(spare_->mutex);
    std::swap(made, spare_->nodes);  // other threads make their own meanwhile
  }
  made.resize(nodes_.size());
  Graph result = part_;
  for (const OpenValue& open : values_) result.set_value(open.id, sized(open, numbers));
  result.drop_nodes_from(first_open_);  // their memory is used again
  for (std::size_t n = first_open_; n < nodes_.size(); ++n) result.add_shared(sized(nodes_[n], numbers, made[n]));
  std::vector<GraphOutput> outputs(result.outputs().begin(), result.outputs().end());
  for (GraphOutput& output : outputs) output.type.shape = substitute(output.type.shape, sizes);
  result.set_outputs(std::move(outputs));
  const std::lock_guard lock(spare_->mutex);
  std::swap(made, spare_->nodes);
  return result;
}

}  // namespace rewright::graph
