#include "runtime/training/graphs/row_order.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/builder.h"

namespace rewright::training {

namespace {

class RowOrder {
 public:
  RowOrder(Graph& graph, const Index& samples)
      : graph_(graph), samples_(samples), producers_(graph.producers()), users_(graph.users()) {}

  void run() {
    const std::vector<std::shared_ptr<const Node>> nodes(graph_.nodes().begin(), graph_.nodes().end());
    std::vector<std::pair<ValueId, ValueId>> replacements;
    for (const auto& node : nodes)
      if (const auto other = reordered(*node)) replacements.emplace_back(node->outputs[0], *other);
    if (replacements.empty()) return;
    graph_.replace_uses(replacements);
    graph_.tidy();
  }

 private:
  const Indices& shape(ValueId v) const { return graph_.value(v).type.shape; }

  // The node that computes a value which nothing else reads; null: there is none.
  const Node* only_for_one(ValueId v) const {
    const auto outputs = graph_.outputs();
    const bool is_output = std::any_of(outputs.begin(), outputs.end(), [&](const GraphOutput& o) { return o.value == v; });
    if (producers_[v] < 0 || users_[v].size() != 1 || is_output) return nullptr;
    return graph_.nodes()[static_cast<std::size_t>(producers_[v])].get();
  }

  static bool is(const Node& node, std::string_view name) { return node.op && node.op->name() == name; }

  // Rows of the product are rows of its first operand, and nothing else depends on their number.
  bool is_by_rows(const Node& node) const {
    if (is(node, "MatMul")) return shape(node.inputs[0]).size() == 2 && shape(node.inputs[1]).size() == 2;
    if (!is(node, "Gemm") || std::get<bool>(node.attributes.at(*node.op->field("transA")))) return false;
    if (node.inputs.size() < 3 || node.inputs[2] == kNoValue) return true;
    const Indices& addend = shape(node.inputs[2]);
    return addend.size() < 2 || addend[0] == Index(1);
  }

  // For rows that are split again: their product in the other order.
  std::optional<ValueId> reordered(const Node& split) {
    if (!is(split, "Reshape")) return std::nullopt;
    const Node* product = only_for_one(split.inputs[0]);
    if (product == nullptr || !is_by_rows(*product)) return std::nullopt;
    const Node* joined = only_for_one(product->inputs[0]);
    if (joined == nullptr || !is(*joined, "Reshape")) return std::nullopt;
    const Indices from = shape(joined->inputs[0]), to = shape(split.outputs[0]);
    const std::size_t axes = from.size() - 1;
    if (axes < 2 || to.size() != from.size() || !std::equal(from.begin(), from.end() - 1, to.begin()) ||
        shape(joined->outputs[0]).back() != from.back() || shape(split.inputs[0]).back() != to.back() || from[0] == samples_)
      return std::nullopt;
    const auto place = std::find(from.begin(), from.end() - 1, samples_) - from.begin();
    if (static_cast<std::size_t>(place) == axes) return std::nullopt;
    Indices order(from.size()), back(from.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = Index(std::int64_t(k));
    std::rotate(order.begin(), order.begin() + place, order.begin() + place + 1);
    for (std::size_t k = 0; k < order.size(); ++k) back[static_cast<std::size_t>(order[k].value())] = Index(std::int64_t(k));
    std::vector<ValueId> operands = product->inputs;
    operands[0] = reshaped(transposed(joined->inputs[0], order), shape(joined->outputs[0]));
    const ValueId rows = graph_.add_node(*product->op, product->attributes, std::move(operands)).at(0);
    Indices sizes;
    for (const Index& axis : order) sizes.push_back(to[static_cast<std::size_t>(axis.value())]);
    return transposed(reshaped(rows, sizes), back);
  }

  ValueId transposed(ValueId v, const Indices& order) { return NodeBuilder(graph_).add("Transpose", {v}, {{"perm", order}}); }
  ValueId reshaped(ValueId v, const Indices& sizes) { return NodeBuilder(graph_).add("Reshape", {v}, {{"shape", sizes}}); }

  Graph& graph_;
  const Index samples_;
  const std::vector<std::int32_t> producers_;
  const std::vector<std::vector<std::int32_t>> users_;
};

}  // namespace

void put_samples_outermost(Graph& graph) {
  for (const ValueId input : graph.inputs())
    if (const Indices& shape = graph.value(input).type.shape; !shape.empty()) {
      const Index samples = shape[0];
      return RowOrder(graph, samples).run();
    }
}

}  // namespace rewright::training
