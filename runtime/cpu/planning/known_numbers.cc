// Values that are the same number everywhere and come from constants and sizes alone, as the scale of attention and the masks
// that exporters write where nothing is masked.
#include "runtime/cpu/planning/known_numbers.h"

#include <cmath>
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

class KnownNumbers {
 public:
  explicit KnownNumbers(const Graph& graph) : graph_(graph), producers_(graph.producers()) {}

  // The number; nullopt: it is not known, or there are several.
  std::optional<double> of(ValueId v) {
    if (v == kNoValue) return std::nullopt;
    if (const auto found = known_.find(v); found != known_.end()) return found->second;
    const std::optional<double> number = find(v);
    known_[v] = number;
    return number;
  }

 private:
  static bool is_served(DataType type) {
    return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kInt32 || type == DataType::kInt64 ||
           type == DataType::kBool;
  }

  static std::optional<double> of_tensor(const Tensor& tensor) {
    if (!is_served(tensor.type()) || tensor.size() == 0) return std::nullopt;
    const std::span<const std::byte> bytes = tensor.bytes();
    const std::size_t width = byte_size(tensor.type());
    for (std::size_t at = width; at < bytes.size(); ++at)
      if (bytes[at] != bytes[at - width]) return std::nullopt;
    return Tensor(tensor.type(), {}, nullptr, bytes.data()).reals()[0];
  }

  std::optional<double> find(ValueId v) {
    const Value& value = graph_.value(v);
    if (value.constant) return of_tensor(value.constant);
    if (producers_[v] < 0 || !value.shape_known || !is_served(value.type.type)) return std::nullopt;
    const Node& node = *graph_.nodes()[static_cast<std::size_t>(producers_[v])];
    if (node.op == nullptr || node.op->random() || node.outputs.size() != 1 || !all_constant(value.type.shape))
      return std::nullopt;
    if (element_count(values(value.type.shape)) == 0) return std::nullopt;
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
    if (!possible || !free.of(*element).empty()) return std::nullopt;
    const bool is_real = element->scalar == Scalar::kReal;
    const Element result = is_real ? element : convert(element, Scalar::kInteger);
    const auto only = [](const auto& list) {
      return list.empty() ? std::nullopt : std::optional(static_cast<double>(list[0]));
    };
    const Index i = Index::fresh("i");
    const std::optional<double> number = is_real ? only(values_along<double>(result, i, 1, DataType::kDouble))
                                                 : only(values_along<std::int64_t>(result, i, 1, DataType::kInt64));
    return number && type == DataType::kFloat ? std::optional<double>(static_cast<float>(*number)) : number;
  }

  const Graph& graph_;
  const std::vector<std::int32_t> producers_;
  std::map<ValueId, std::optional<double>> known_;
};

class Simplification {
 public:
  explicit Simplification(const Graph& graph)
      : given_(graph), producers_(graph.producers()), users_(graph.users()), numbers_(graph), result_(graph) {
    for (const GraphOutput& o : graph.outputs()) is_output_[o.value] = true;
  }

  Graph run() {
    result_.drop_nodes_from(0);
    for (const auto& node : given_.nodes()) {
      if (const ValueId same = operand_of_result(*node); same != kNoValue) {
        instead_[node->outputs[0]] = now(same);
        result_.add_shared(node);  // unless nothing needs it
        continue;
      }
      if (move_factors(*node)) continue;
      Node changed = *node;
      bool differs = false;
      for (ValueId& input : changed.inputs) {
        const ValueId other = now(input);
        differs = differs || other != input;
        input = other;
      }
      if (differs)
        result_.add_raw(std::move(changed));
      else
        result_.add_shared(node);
    }
    return std::move(result_);
  }

 private:
  ValueId now(ValueId v) const {
    const auto found = instead_.find(v);
    return found == instead_.end() ? v : found->second;
  }
  bool is_alike(ValueId a, ValueId b) const {
    const Value &x = given_.value(a), &y = given_.value(b);
    return x.shape_known && y.shape_known && x.type.type == y.type.type && x.type.shape == y.type.shape;
  }

  // The operand that the node's result is, by numbers that are known; else kNoValue.
  ValueId operand_of_result(const Node& node) {
    if (node.op == nullptr || node.outputs.size() != 1 || is_output_.contains(node.outputs[0])) return kNoValue;
    const std::string_view name = node.op->name();
    const auto alike = [&](std::size_t i) { return is_alike(node.inputs[i], node.outputs[0]) ? node.inputs[i] : kNoValue; };
    if (name == "Where")
      if (const auto chosen = numbers_.of(node.inputs[0])) return alike(*chosen != 0 ? 1 : 2);
    if (name == "Add" && node.inputs.size() == 2)
      for (const std::size_t i : {0, 1})
        if (numbers_.of(node.inputs[i]) == 0.0 && alike(1 - i) != kNoValue) return node.inputs[1 - i];
    return name == "Cast" || name == "Identity" ? alike(0) : kNoValue;
  }

  // The factor of all elements of a value that only one node reads, and what it is the factor of.
  std::optional<std::pair<double, ValueId>> factor(ValueId v) {
    if (producers_[v] < 0 || users_[v].size() != 1 || is_output_.contains(v)) return std::nullopt;
    const Node& node = *given_.nodes()[static_cast<std::size_t>(producers_[v])];
    if (node.op == nullptr || node.op->name() != "Mul" || given_.value(v).type.type != DataType::kFloat) return std::nullopt;
    for (const std::size_t i : {0, 1})
      if (const auto number = numbers_.of(node.inputs[i]); number && is_alike(node.inputs[1 - i], v))
        return std::pair(*number, node.inputs[1 - i]);
    return std::nullopt;
  }

  // Factors of both operands of a product become one of its result.
  bool move_factors(const Node& node) {
    if (node.op == nullptr || node.op->name() != "MatMul" || node.inputs[0] == node.inputs[1]) return false;
    const auto a = factor(node.inputs[0]), b = factor(node.inputs[1]);
    if (!a || !b) return false;
    const Node& multiplication = *given_.nodes()[static_cast<std::size_t>(producers_[node.inputs[0]])];
    Node product = node, scaled = multiplication;
    product.inputs = {now(a->second), now(b->second)};
    product.outputs = {result_.add_value(given_.value(node.outputs[0]))};
    const std::vector<double> both{a->first * b->first};
    scaled.inputs = {product.outputs[0], result_.add_constant(Tensor::from_reals(DataType::kFloat, {}, both))};
    scaled.outputs = node.outputs;
    result_.add_raw(std::move(product));
    result_.add_raw(std::move(scaled));
    return true;
  }

  const Graph& given_;
  const std::vector<std::int32_t> producers_;
  const std::vector<std::vector<std::int32_t>> users_;
  KnownNumbers numbers_;
  Graph result_;
  std::map<ValueId, ValueId> instead_;
  std::map<ValueId, bool> is_output_;
};

}  // namespace

Graph with_known_numbers(Graph graph) {
  bool any = false;
  for (const auto& node : graph.nodes()) any = any || (node->op != nullptr && node->op->name() == "Where");
  return any ? Simplification(graph).run() : graph;
}

}  // namespace rewright::cpu
