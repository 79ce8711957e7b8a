#include "runtime/planning/contraction.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace rewright::planning {

namespace {

using Kind = ElementNode::Kind;
using Axes = std::vector<std::size_t>;

// The axes of a contraction in groups, each list in the same order of variables.
struct Contraction {
  // batch: axes of both operands and the result; rows: of the first operand and the result; columns: of the second operand and
  // the result; depth: of both operands, summed over. Each group lists its axes in each tensor that has them.
  struct Group {
    Axes a, b, y;
  };
  Group batch, rows, columns, depth;
};

// The variable that each axis is read at (0 for an axis of size 1 read at 0); nullopt for any other position.
std::optional<std::vector<std::uint64_t>> variables_of(const ElementNode& read, const Sizes& sizes) {
  std::vector<std::uint64_t> result;
  std::set<std::uint64_t> seen;
  for (std::size_t a = 0; a < read.position.size(); ++a) {
    const Atom* const atom = read.position[a].as_atom();
    if (atom == nullptr && read.position[a] == Index(0) && sizes[a] == 1) {
      result.push_back(0);
      continue;
    }
    if (atom == nullptr || atom->kind != Atom::Kind::kBound || !seen.insert(atom->id).second) return std::nullopt;
    result.push_back(atom->id);
  }
  return result;
}

std::optional<std::size_t> axis_of(const std::vector<std::uint64_t>& variables, std::uint64_t variable) {
  const auto found = std::find(variables.begin(), variables.end(), variable);
  if (found == variables.end()) return std::nullopt;
  return static_cast<std::size_t>(found - variables.begin());
}

std::optional<Contraction> match(const Output& output, const Sizes& a_sizes, const Sizes& b_sizes) {
  std::set<std::uint64_t> summed;
  const ElementNode* e = output.element.get();
  for (; e->kind == Kind::kReduce; e = e->arguments[0].get()) {
    const Atom* const atom = e->index.as_atom();
    if (e->reduction != Reduction::kSum || !e->conditions.empty() || atom == nullptr) return std::nullopt;
    summed.insert(atom->id);
  }
  if (summed.empty() || e->kind != Kind::kMultiply) return std::nullopt;
  const ElementNode *first = e->arguments[0].get(), *second = e->arguments[1].get();
  if (first->kind != Kind::kRead || second->kind != Kind::kRead || first->zero_outside || second->zero_outside)
    return std::nullopt;
  if (first->operand != 0) std::swap(first, second);
  if (first->operand != 0 || second->operand != 1) return std::nullopt;
  const auto a = variables_of(*first, a_sizes), b = variables_of(*second, b_sizes);
  if (!a || !b) return std::nullopt;
  Contraction result;
  for (std::size_t axis = 0; axis < output.position.size(); ++axis) {
    const Atom* const atom = output.position[axis].as_atom();
    if (atom == nullptr) return std::nullopt;
    const auto in_a = axis_of(*a, atom->id), in_b = axis_of(*b, atom->id);
    if (!in_a && !in_b) return std::nullopt;
    Contraction::Group& group = in_a && in_b ? result.batch : in_a ? result.rows : result.columns;
    if (in_a) group.a.push_back(*in_a);
    if (in_b) group.b.push_back(*in_b);
    group.y.push_back(axis);
  }
  for (std::size_t axis = 0; axis < a->size(); ++axis) {
    if (!summed.contains((*a)[axis])) continue;
    const auto in_b = axis_of(*b, (*a)[axis]);
    if (!in_b) return std::nullopt;
    result.depth.a.push_back(axis);
    result.depth.b.push_back(*in_b);
  }
  if (result.depth.a.size() != summed.size()) return std::nullopt;
  return result;
}

class Rewriter {
 public:
  explicit Rewriter(const Graph& graph) : from_(graph), to_(graph) { to_.drop_nodes_from(0); }

  void add(const std::shared_ptr<const Node>& node, const Contraction& c) {
    const Sizes a = sizes(node->inputs[0]), b = sizes(node->inputs[1]), y = sizes(node->outputs[0]);
    const ValueId left = as_matrices(node->inputs[0], a, c.batch.a, c.rows.a, c.depth.a);
    const ValueId right = as_matrices(node->inputs[1], b, c.batch.b, c.depth.b, c.columns.b);
    const ValueId product = step("MatMul", {}, {left, right});
    // Splits the axes again, and permutes them into the result's order.
    Axes order = c.batch.y;
    order.insert(order.end(), c.rows.y.begin(), c.rows.y.end());
    order.insert(order.end(), c.columns.y.begin(), c.columns.y.end());
    Axes places(order.size());
    Indices apart;
    for (std::size_t n = 0; n < order.size(); ++n) {
      places[order[n]] = n;
      apart.emplace_back(y[order[n]]);
    }
    const ValueId split = step("Reshape", {{"shape", apart}}, {product});
    Node last;
    last.op = &registry().get("Transpose");
    last.attributes = attributes(*last.op, {{"perm", to_perm(places)}});
    last.inputs = {split};
    last.outputs = node->outputs;
    last.origin = node->origin;
    to_.add_raw(std::move(last));
  }

  void keep(const std::shared_ptr<const Node>& node) { to_.add_shared(node); }
  Graph take() { return std::move(to_); }

 private:
  using Fields = std::vector<std::pair<std::string_view, AttributeValue>>;

  Sizes sizes(ValueId v) const {
    const Value& value = from_.value(v);
    return value.constant ? value.constant.sizes() : values(value.type.shape);
  }
  static Attributes attributes(const Operator& op, const Fields& fields) {
    Attributes result = op.defaults();
    for (const auto& [name, value] : fields) result.at(op.field(name).value()) = value;
    return result;
  }
  static Indices to_perm(const Axes& axes) {
    Indices result;
    for (const std::size_t a : axes) result.emplace_back(a);
    return result;
  }
  ValueId step(std::string_view name, const Fields& fields, std::vector<ValueId> inputs) {
    const Operator& op = registry().get(name);
    return to_.add_node(op, attributes(op, fields), std::move(inputs))[0];
  }

  // The value as [batch..., product of `rows`, product of `columns`]; its other axes have size 1.
  ValueId as_matrices(ValueId value, const Sizes& sizes, const Axes& batch, const Axes& rows, const Axes& columns) {
    std::vector<bool> named(sizes.size());
    Indices shape;
    const auto name = [&](const Axes& axes) {
      std::int64_t together = 1;
      for (const std::size_t axis : axes) {
        named[axis] = true;
        together *= sizes[axis];
      }
      return together;
    };
    for (const std::size_t axis : batch) shape.emplace_back(sizes[axis]);
    name(batch);
    shape.emplace_back(name(rows));
    shape.emplace_back(name(columns));
    Axes order;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis)
      if (!named[axis]) order.push_back(axis);
    for (const Axes* list : {&batch, &rows, &columns}) order.insert(order.end(), list->begin(), list->end());
    Indices moved;
    for (const std::size_t axis : order) moved.emplace_back(sizes[axis]);
    if (!std::is_sorted(order.begin(), order.end())) value = step("Transpose", {{"perm", to_perm(order)}}, {value});
    return shape == moved ? value : step("Reshape", {{"shape", shape}}, {value});
  }

  const Graph& from_;
  Graph to_;
};

}  // namespace

Graph with_matrix_products(const Graph& graph, const std::function<bool(const Node&)>& served) {
  const auto is_known = [&](ValueId v) {
    if (v == kNoValue) return false;
    const Value& value = graph.value(v);
    return value.constant || (value.shape_known && is_real(value.type.type) && all_constant(value.type.shape));
  };
  const auto contraction = [&](const Node& node) -> std::optional<Contraction> {
    if (node.op == nullptr || node.inputs.size() != 2 || node.outputs.size() != 1) return std::nullopt;
    if (!is_known(node.inputs[0]) || !is_known(node.inputs[1]) || !is_known(node.outputs[0])) return std::nullopt;
    if (served(node)) return std::nullopt;
    const auto types = graph.operand_types(node);
    const Definition definition =
        node.op->define(node.attributes, Inputs::of(std::span<const std::optional<TensorType>>(types)));
    if (!definition.has_denotation()) return std::nullopt;
    return match(definition.outputs()[0], values(types[0]->shape), values(types[1]->shape));
  };
  std::vector<std::optional<Contraction>> found;
  for (const auto& node : graph.nodes()) found.push_back(contraction(*node));
  if (std::none_of(found.begin(), found.end(), [](const auto& c) { return c.has_value(); })) return graph;
  Rewriter rewriter(graph);
  for (std::size_t n = 0; n < found.size(); ++n) {
    if (found[n])
      rewriter.add(graph.nodes()[n], *found[n]);
    else
      rewriter.keep(graph.nodes()[n]);
  }
  return rewriter.take();
}

}  // namespace rewright::planning
