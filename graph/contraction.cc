#include "graph/contraction.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "graph/contraction_order.h"

namespace rewright::graph {

namespace {

using Kind = ElementNode::Kind;
using Axes = std::vector<std::size_t>;
using Variables = std::vector<std::size_t>;  // by number, in the order of axes

// A sum of products over reads at plain variables.
struct Contraction {
  SumOfProducts sum;
  std::vector<std::size_t> operands;  // by factor
  std::vector<Variables> variables;   // by factor: of its axes that are not read at 0 (those have size 1)
  Variables result;                   // of the result's axes; other axes of the result have size 1
};

// Numbers the variables of a contraction, which are known by their atoms.
class VariableNumbers {
 public:
  static constexpr std::size_t kMost = 64;

  // The variable's number; nullopt if another axis of it has another size, or if there are too many.
  std::optional<std::size_t> add(std::uint64_t atom, std::int64_t size) {
    const auto [found, is_new] = numbers_.emplace(atom, sizes_.size());
    if (is_new) sizes_.push_back(size);
    if (sizes_.size() > kMost || sizes_[found->second] != size) return std::nullopt;
    return found->second;
  }
  std::optional<std::size_t> find(std::uint64_t atom) const {
    const auto found = numbers_.find(atom);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }

 private:
  std::map<std::uint64_t, std::size_t> numbers_;
  std::vector<std::int64_t> sizes_;
};

Bits bits_of(const Variables& variables) {
  Bits bits = 0;
  for (const std::size_t v : variables) bits |= Bits{1} << v;
  return bits;
}

// The variable that each axis is read at; none for an axis of size 1 read at 0. nullopt for any other position, or if two axes
// have one variable.
std::optional<Variables> variables_of(const ElementNode& read, const Sizes& sizes, VariableNumbers& numbers) {
  Variables result;
  Bits seen = 0;
  for (std::size_t a = 0; a < read.position.size(); ++a) {
    const Atom* const atom = read.position[a].as_atom();
    if (atom == nullptr && read.position[a] == Index(0) && sizes[a] == 1) continue;
    if (atom == nullptr || atom->kind != Atom::Kind::kBound) return std::nullopt;
    const auto variable = numbers.add(atom->id, sizes[a]);
    if (!variable || (seen >> *variable & 1) != 0) return std::nullopt;
    seen |= Bits{1} << *variable;
    result.push_back(*variable);
  }
  return result;
}

// The factors of a product of reads; false for anything else.
bool factors_of(const ElementNode& e, const std::vector<Sizes>& operands, VariableNumbers& numbers, Contraction& result) {
  if (e.kind == Kind::kMultiply)
    return factors_of(*e.arguments[0], operands, numbers, result) && factors_of(*e.arguments[1], operands, numbers, result);
  if (e.kind != Kind::kRead || e.zero_outside || result.operands.size() == VariableNumbers::kMost) return false;
  const auto operand = static_cast<std::size_t>(e.operand);
  std::optional<Variables> variables = variables_of(e, operands.at(operand), numbers);
  if (!variables) return false;
  result.operands.push_back(operand);
  result.sum.factors.push_back(bits_of(*variables));
  result.variables.push_back(std::move(*variables));
  return true;
}

std::optional<Contraction> match(const Output& output, const std::vector<Sizes>& operands, const Sizes& result_sizes) {
  std::vector<const ElementNode*> sums;
  const ElementNode* e = output.element.get();
  for (; e->kind == Kind::kReduce; e = e->arguments[0].get()) {
    if (e->reduction != Reduction::kSum || !e->conditions.empty() || e->index.as_atom() == nullptr) return std::nullopt;
    sums.push_back(e);
  }
  if (sums.empty() || e->kind != Kind::kMultiply) return std::nullopt;
  Contraction found;
  VariableNumbers numbers;
  if (!factors_of(*e, operands, numbers, found)) return std::nullopt;
  Bits summed = 0;
  for (const ElementNode* const sum : sums) {
    const auto variable = numbers.find(sum->index.as_atom()->id);
    if (!variable || sum->bound != Index(numbers.sizes()[*variable])) return std::nullopt;
    summed |= Bits{1} << *variable;
  }
  for (std::size_t axis = 0; axis < output.position.size(); ++axis) {
    const Atom* const atom = output.position[axis].as_atom();
    if (atom == nullptr) return std::nullopt;
    const auto variable = numbers.find(atom->id);
    if (variable) found.result.push_back(*variable);
    if (!variable && result_sizes[axis] != 1) return std::nullopt;
  }
  found.sum.result = bits_of(found.result);
  found.sum.sizes = numbers.sizes();
  Bits read = 0;
  for (const Bits factor : found.sum.factors) read |= factor;
  // Each variable is either of the result or summed over.
  if ((found.sum.result & summed) != 0 || (found.sum.result | summed) != read) return std::nullopt;
  return found;
}

// Elements that MatMul has in ONNX. Sums of integers wrap, so that they may be taken in any order.
bool may_be_multiplied(DataType type) {
  return is_real(type) || type == DataType::kInt32 || type == DataType::kUint32 || type == DataType::kInt64 ||
         type == DataType::kUint64;
}

class Rewriter {
 public:
  Rewriter(const Graph& graph, bool keeps_names) : from_(graph), to_(graph), keeps_names_(keeps_names) {
    to_.drop_nodes_from(0);
  }

  void add(const std::shared_ptr<const Node>& node, const Contraction& c) {
    std::map<Bits, Part> parts;
    for (std::size_t i = 0; i < c.operands.size(); ++i)
      parts[Bits{1} << i] = factor(node->inputs[c.operands[i]], c.variables[i], c.sum, Bits{1} << i);
    Bits last = 1;
    for (const auto& [left, right] : contraction_order(c.sum)) {
      last = left | right;
      parts[last] = product(parts.at(left), parts.at(right), c.sum, c.sum.kept(last));
    }
    const Part whole = ordered(parts.at(last), c.result);
    // The result's axes of size 1 that no factor has come back.
    Node reshape;
    reshape.op = &registry().get("Reshape");
    reshape.attributes = attributes(*reshape.op, {{"shape", to_indices(sizes(node->outputs[0]))}});
    reshape.inputs = {whole.value};
    reshape.outputs = node->outputs;
    if (keeps_names_) reshape.origin = node->origin;
    to_.add_raw(std::move(reshape));
  }

  void keep(const std::shared_ptr<const Node>& node) { to_.add_shared(node); }
  Graph take() { return std::move(to_); }

 private:
  using Fields = std::vector<std::pair<std::string_view, AttributeValue>>;

  // A value with an axis for each of these variables.
  struct Part {
    ValueId value = kNoValue;
    Variables variables;
  };

  Sizes sizes(ValueId v) const {
    const Value& value = from_.value(v);
    return value.constant ? value.constant.sizes() : values(value.type.shape);
  }
  static Attributes attributes(const Operator& op, const Fields& fields) {
    Attributes result = op.defaults();
    for (const auto& [name, value] : fields) result.at(op.field(name).value()) = value;
    return result;
  }
  template <class Numbers>
  static Indices to_indices(const Numbers& numbers) {
    Indices result;
    for (const auto n : numbers) result.emplace_back(n);
    return result;
  }
  ValueId step(std::string_view name, const Fields& fields, std::vector<ValueId> inputs) {
    const Operator& op = registry().get(name);
    return to_.add_node(op, attributes(op, fields), std::move(inputs))[0];
  }
  ValueId reshaped(ValueId value, const Sizes& from, const Sizes& to) {
    return from == to ? value : step("Reshape", {{"shape", to_indices(to)}}, {value});
  }
  static Sizes sizes_of(const Variables& variables, const SumOfProducts& sum) {
    Sizes result;
    for (const std::size_t v : variables) result.push_back(sum.sizes[v]);
    return result;
  }

  // A factor without its axes of size 1 that have no variable, and summed over the variables that it alone has.
  Part factor(ValueId operand, const Variables& variables, const SumOfProducts& sum, Bits itself) {
    Part part{reshaped(operand, sizes(operand), sizes_of(variables, sum)), variables};
    const Bits kept = sum.kept(itself);
    Axes own;
    for (std::size_t axis = 0; axis < variables.size(); ++axis)
      if ((kept >> variables[axis] & 1) == 0) own.push_back(axis);
    if (own.empty()) return part;
    part.value = step("ReduceSum", {{"axes", to_indices(own)}, {"keepdims", false}}, {part.value});
    std::erase_if(part.variables, [&](std::size_t v) { return (kept >> v & 1) == 0; });
    return part;
  }

  // The product of two parts, summed over the variables that are not kept: those both have.
  Part product(const Part& a, const Part& b, const SumOfProducts& sum, Bits kept) {
    const Bits of_a = bits_of(a.variables), of_b = bits_of(b.variables);
    Variables batch, rows, columns, depth;
    for (const std::size_t v : a.variables) ((of_b >> v & 1) == 0 ? rows : (kept >> v & 1) != 0 ? batch : depth).push_back(v);
    for (const std::size_t v : b.variables)
      if ((of_a >> v & 1) == 0) columns.push_back(v);
    const ValueId left = as_matrices(a, sum, batch, rows, depth), right = as_matrices(b, sum, batch, depth, columns);
    const ValueId value = step(depth.empty() ? "Mul" : "MatMul", {}, {left, right});
    Sizes together = sizes_of(batch, sum);
    together.push_back(elements(rows, sum));
    together.push_back(elements(columns, sum));
    Part result{value, batch};
    for (const Variables* const list : {&rows, &columns})
      result.variables.insert(result.variables.end(), list->begin(), list->end());
    result.value = reshaped(value, together, sizes_of(result.variables, sum));
    return result;
  }

  static std::int64_t elements(const Variables& variables, const SumOfProducts& sum) {
    std::int64_t count = 1;
    for (const std::size_t v : variables) count *= sum.sizes[v];
    return count;
  }

  // The part as [batch..., product of `rows`, product of `columns`].
  ValueId as_matrices(const Part& part, const SumOfProducts& sum, const Variables& batch, const Variables& rows,
                      const Variables& columns) {
    Variables order = batch;
    for (const Variables* const list : {&rows, &columns}) order.insert(order.end(), list->begin(), list->end());
    Sizes shape = sizes_of(batch, sum);
    shape.push_back(elements(rows, sum));
    shape.push_back(elements(columns, sum));
    return reshaped(ordered(part, order).value, sizes_of(order, sum), shape);
  }

  Part ordered(const Part& part, const Variables& order) {
    if (part.variables == order) return part;
    Axes perm;
    for (const std::size_t v : order)
      perm.push_back(
          static_cast<std::size_t>(std::find(part.variables.begin(), part.variables.end(), v) - part.variables.begin()));
    return {step("Transpose", {{"perm", to_indices(perm)}}, {part.value}), order};
  }

  const Graph& from_;
  Graph to_;
  bool keeps_names_;
};

}  // namespace

Graph with_matrix_products(Graph graph, const IsServed& is_served, bool keeps_names) {
  const auto is_known = [&](ValueId v) {
    if (v == kNoValue) return false;
    const Value& value = graph.value(v);
    return value.constant || (value.shape_known && may_be_multiplied(value.type.type) && all_constant(value.type.shape));
  };
  const auto contraction = [&](const Node& node) -> std::optional<Contraction> {
    // More tensors than that are no contraction here; a model's file may have any number.
    if (node.inputs.size() > VariableNumbers::kMost) return std::nullopt;
    if (node.op == nullptr || node.inputs.size() < 2 || node.outputs.size() != 1 || !is_known(node.outputs[0]))
      return std::nullopt;
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), is_known) || is_served(graph, node)) return std::nullopt;
    const auto types = graph.operand_types(node);
    const Definition definition =
        node.op->define(node.attributes, Inputs::of(std::span<const std::optional<TensorType>>(types)));
    if (!definition.has_denotation()) return std::nullopt;
    std::vector<Sizes> operands;
    for (const auto& type : types) operands.push_back(values(type->shape));
    return match(definition.outputs()[0], operands, values(definition.outputs()[0].type.shape));
  };
  std::map<std::size_t, Contraction> found;  // by node
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    if (std::optional<Contraction> c = contraction(*graph.nodes()[n])) found.emplace(n, *std::move(c));
  if (found.empty()) return graph;
  Rewriter rewriter(graph, keeps_names);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (const auto c = found.find(n); c != found.end())
      rewriter.add(graph.nodes()[n], c->second);
    else
      rewriter.keep(graph.nodes()[n]);
  }
  return rewriter.take();
}

}  // namespace rewright::graph
