// Values that are the same number everywhere and come from constants and sizes alone, as the scale of attention and the masks
// that exporters write where nothing is masked.
#include "runtime/cpu/planning/known_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "expressions/free_variables.h"
#include "runtime/cpu/tile/values_along.h"
#include "runtime/planning/graph_facts.h"

namespace rewright::cpu {

namespace {

constexpr std::int64_t kExact = std::int64_t{1} << 53;    // integers up to here are doubles
constexpr std::size_t kMostBytes = std::size_t{1} << 26;  // of constants that are compared
constexpr std::int64_t kMostOperations = 1 << 16;         // for one number

class KnownNumbers {
 public:
  explicit KnownNumbers(const Graph& graph) : graph_(graph), computed_(graph.value_count()) {
    for (const auto& node : graph.nodes())
      if (node->outputs.size() == 1 && node->outputs[0] != kNoValue) computed_[node->outputs[0]] = of_result(*node);
  }

  // The number; nullopt: it is not known, or there are several. Integers are exact.
  std::optional<double> of(ValueId v) {
    if (v == kNoValue || !graph_.is_constant(v)) return v == kNoValue ? std::nullopt : computed_[v];
    const auto found = constants_.find(v);
    return found != constants_.end() ? found->second : constants_[v] = of_tensor(graph_.value(v).constant);
  }

 private:
  static bool is_real(DataType type) {
    return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kHalf || type == DataType::kBfloat16;
  }

  static bool is_served(DataType type) {
    return is_real(type) || type == DataType::kInt32 || type == DataType::kInt64 || type == DataType::kBool;
  }

  static std::optional<double> of_tensor(const Tensor& tensor) {
    if (!is_served(tensor.type()) || tensor.size() == 0) return std::nullopt;
    const std::span<const std::byte> bytes = tensor.bytes();
    const std::size_t width = byte_size(tensor.type());
    if (bytes.size() > kMostBytes || std::memcmp(bytes.data(), bytes.data() + width, bytes.size() - width) != 0)
      return std::nullopt;
    const Tensor first(tensor.type(), {}, nullptr, bytes.data());
    return is_real(tensor.type()) ? first.reals()[0] : as_exact(first.integers()[0], tensor.type());
  }

  // Unless the type wraps it, or doubles round it.
  static std::optional<double> as_exact(std::int64_t number, DataType type) {
    if (number < -kExact || number > kExact) return std::nullopt;
    if (type == DataType::kInt32 && number != static_cast<std::int32_t>(number)) return std::nullopt;
    if (type == DataType::kBool && number != 0 && number != 1) return std::nullopt;
    return static_cast<double>(number);
  }

  std::optional<double> of_result(const Node& node) {
    const Value& value = graph_.value(node.outputs[0]);
    if (node.op == nullptr || node.op->random() || !value.shape_known || !is_served(value.type.type) ||
        !all_constant(value.type.shape))
      return std::nullopt;
    if (element_count(values(value.type.shape)) == 0) return std::nullopt;
    if (const Tensor known = planning::known_tensor(value)) return of_tensor(known);
    // Before constants are looked at: most nodes have another operand.
    const auto is_unknown = [&](ValueId v) { return v != kNoValue && !graph_.is_constant(v) && !computed_[v]; };
    if (std::any_of(node.inputs.begin(), node.inputs.end(), is_unknown)) return std::nullopt;
    std::vector<double> inputs;
    for (const ValueId input : node.inputs) {
      const auto number = input == kNoValue ? std::optional(0.0) : of(input);
      if (!number) return std::nullopt;
      inputs.push_back(*number);
    }
    const Definition definition = planning::define(graph_, node);
    if (!definition.has_denotation()) return std::nullopt;
    return evaluated(definition.outputs()[0], inputs, value.type.type);
  }

  // The output's elements if operands have these numbers everywhere.
  static std::optional<double> evaluated(const Output& output, const std::vector<double>& operands, DataType type) {
    bool possible = true;
    const Element element = rewrite(output.element,
                                    [&](const ElementNode& read) {
                                      possible = possible && !read.zero_outside;
                                      return constant(read.scalar, Real(operands[static_cast<std::size_t>(read.operand)]));
                                    },
                                    {});
    FreeVariables free;
    if (!possible || !free.of(*element).empty() || (element->scalar == Scalar::kReal) != is_real(type)) return std::nullopt;
    const Index operations = operation_count(element);
    if (!operations.is_constant() || operations.value() > kMostOperations) return std::nullopt;
    const Index i = Index::fresh("i");
    if (is_real(type)) {
      const std::vector<double> numbers = values_along<double>(element, i, 1, DataType::kDouble);
      if (numbers.empty()) return std::nullopt;
      return Tensor::from_reals(type, {}, std::span(numbers).first(1)).reals()[0];
    }
    const auto numbers = values_along<std::int64_t>(convert(element, Scalar::kInteger), i, 1, DataType::kInt64);
    return numbers.empty() ? std::nullopt : as_exact(numbers[0], type);
  }

  const Graph& graph_;
  std::vector<std::optional<double>> computed_;  // by value; constants when they are asked for
  std::map<ValueId, std::optional<double>> constants_;
};

// By value: does anything depend on the signs of its zeros?
std::vector<bool> values_with_signed_zeros(const Graph& graph) {
  std::vector<bool> result(graph.value_count());
  for (const GraphOutput& o : graph.outputs()) result[o.value] = true;
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = *graph.nodes()[n];
    const bool is_known = node.op != nullptr && node.outputs[0] != kNoValue;
    const std::string_view name = is_known ? node.op->name() : std::string_view();
    const auto depends = [&](std::size_t input) {
      if (name == "Softmax" || name == "Exp") return false;
      const bool keeps = name == "Add" || name == "Sub" || name == "Mul" || (name == "Div" && input == 0) || name == "Tanh" ||
                         name == "Identity" || (name == "Where" && input > 0) ||
                         (name == "Cast" && is_real(graph.value(node.outputs[0]).type.type));
      return !keeps || result[node.outputs[0]];  // they differ by the signs of zeros at most
    };
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] != kNoValue && depends(i)) result[node.inputs[i]] = true;
    for (const ValueId parameter : node.parameters)
      if (parameter != kNoValue) result[parameter] = true;
  }
  return result;
}

class Simplification {
 public:
  explicit Simplification(const Graph& graph)
      : given_(graph), producers_(graph.producers()), numbers_(graph), is_output_(graph.value_count()) {
    for (const GraphOutput& o : graph.outputs()) is_output_[o.value] = true;
  }

  // nullopt: nothing is simpler.
  std::optional<Graph> run() {
    for (std::size_t n = 0; n < given_.nodes().size(); ++n) simplify(n);
    return std::move(result_);
  }

 private:
  void simplify(std::size_t n) {
    const std::shared_ptr<const Node>& node = given_.nodes()[n];
    if (const ValueId same = operand_of_result(*node); same != kNoValue) {
      instead_[node->outputs[0]] = now(same);
      keep(node);  // unless nothing needs it
      return;
    }
    if (move_factors(n)) return;
    const auto differs = [&](ValueId input) { return now(input) != input; };
    if (instead_.empty() || std::none_of(node->inputs.begin(), node->inputs.end(), differs)) return keep(node);
    Node changed = *node;
    for (ValueId& input : changed.inputs) input = now(input);
    changed_from(n).add_raw(std::move(changed));
  }

  void keep(const std::shared_ptr<const Node>& node) {
    if (result_) result_->add_shared(node);
  }
  // The result, with all nodes before this one: most graphs stay as they are, and are not copied.
  Graph& changed_from(std::size_t n) {
    if (!result_) result_ = given_, result_->drop_nodes_from(n);
    return *result_;
  }

  ValueId now(ValueId v) const {
    const auto found = instead_.find(v);
    return found == instead_.end() ? v : found->second;
  }
  bool is_alike(ValueId a, ValueId b) const {
    const Value &x = given_.value(a), &y = given_.value(b);
    return x.shape_known && y.shape_known && x.type.type == y.type.type && x.type.shape == y.type.shape;
  }

  // Is operand i of the sum known as zeros that change nothing? 0.0 makes 0.0 of -0.0.
  bool is_nothing(const Node& sum, std::size_t i) {
    const std::optional<double> number = numbers_.of(sum.inputs[i]);
    if (number != 0.0) return false;
    const ValueId result = sum.outputs[0];
    if (!is_real(given_.value(result).type.type) || std::signbit(*number)) return true;
    if (has_signed_zeros_.empty()) has_signed_zeros_ = values_with_signed_zeros(given_);
    return !has_signed_zeros_[result];
  }

  // The operand that the node's result is, by numbers that are known; else kNoValue.
  ValueId operand_of_result(const Node& node) {
    if (node.op == nullptr || node.outputs.size() != 1 || node.outputs[0] == kNoValue || is_output_[node.outputs[0]])
      return kNoValue;
    const std::string_view name = node.op->name();
    const auto alike = [&](std::size_t i) { return is_alike(node.inputs[i], node.outputs[0]) ? node.inputs[i] : kNoValue; };
    if (name == "Where")
      if (const auto chosen = numbers_.of(node.inputs[0])) return alike(*chosen != 0 ? 1 : 2);
    if (name == "Add" && node.inputs.size() == 2)
      for (const std::size_t i : {0, 1})
        if (is_nothing(node, i) && alike(1 - i) != kNoValue) return node.inputs[1 - i];
    return name == "Cast" || name == "Identity" ? alike(0) : kNoValue;
  }

  // The factor of all elements of a value that only one node reads, and what it is the factor of.
  std::optional<std::pair<double, ValueId>> factor(ValueId v) {
    if (producers_[v] < 0 || is_output_[v]) return std::nullopt;
    const Node& node = *given_.nodes()[static_cast<std::size_t>(producers_[v])];
    if (node.op == nullptr || node.op->name() != "Mul" || given_.value(v).type.type != DataType::kFloat) return std::nullopt;
    if (users_.empty()) users_ = given_.users();
    if (users_[v].size() != 1) return std::nullopt;
    for (const std::size_t i : {0, 1})
      if (const auto number = numbers_.of(node.inputs[i]); number && is_alike(node.inputs[1 - i], v))
        return std::pair(*number, node.inputs[1 - i]);
    return std::nullopt;
  }

  // Neither sums of products nor their factor then leave the range that the given ones had, for elements of common size.
  static bool is_moderate(double factor) { return std::fabs(factor) >= 0x1p-16 && std::fabs(factor) <= 0x1p16; }

  // Factors of both operands of a product become one of its result.
  bool move_factors(std::size_t n) {
    const Node& node = *given_.nodes()[n];
    if (node.op == nullptr || node.op->name() != "MatMul" || node.inputs[0] == node.inputs[1]) return false;
    const auto a = factor(node.inputs[0]), b = factor(node.inputs[1]);
    if (!a || !b || !is_moderate(a->first) || !is_moderate(b->first) || !is_moderate(a->first * b->first)) return false;
    const Node& multiplication = *given_.nodes()[static_cast<std::size_t>(producers_[node.inputs[0]])];
    Node product = node, scaled = multiplication;
    product.inputs = {now(a->second), now(b->second)};
    Graph& result = changed_from(n);
    product.outputs = {result.add_value(given_.value(node.outputs[0]))};
    const std::vector<double> both{a->first * b->first};
    scaled.inputs = {product.outputs[0], result.add_constant(Tensor::from_reals(DataType::kFloat, {}, both))};
    scaled.outputs = node.outputs;
    result.add_raw(std::move(product));
    result.add_raw(std::move(scaled));
    return true;
  }

  const Graph& given_;
  const std::vector<std::int32_t> producers_;
  std::vector<std::vector<std::int32_t>> users_;  // by value; empty: not asked for yet
  KnownNumbers numbers_;
  std::vector<bool> has_signed_zeros_;  // by value; empty: not asked for yet
  std::optional<Graph> result_;         // nullopt: the nodes so far are those that were given
  std::map<ValueId, ValueId> instead_;
  std::vector<bool> is_output_;  // by value
};

}  // namespace

Graph with_known_numbers(Graph graph) {
  const auto is = [&](std::string_view name) {
    return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                       [&](const auto& node) { return node->op != nullptr && node->op->name() == name; });
  };
  const bool any = is("Where") || (is("MatMul") && is("Mul"));
  std::optional<Graph> simpler = any ? Simplification(graph).run() : std::nullopt;
  return simpler ? *std::move(simpler) : std::move(graph);
}

}  // namespace rewright::cpu
