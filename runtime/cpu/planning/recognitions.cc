#include "runtime/cpu/planning/recognitions.h"

#include <optional>
#include <variant>

#include "base/hash_mix.h"

namespace rewright::cpu {

namespace {

std::uint64_t kind_of(const Index& size) { return size == Index(0) ? 0 : size == Index(1) ? 1 : 2; }

// The node's attributes, where lists that are the sizes of its result (a Reshape's shape) count by their kinds, and by how they
// compare with those of its first operand. Sets `is_exact` to false if there is such a list.
std::uint64_t attributes_name(const Graph& graph, const Node& node, bool& is_exact) {
  std::uint64_t name = node.attributes.size();
  const auto shape_of = [&](const std::vector<ValueId>& values) -> const Indices* {
    return values.empty() || values[0] == kNoValue ? nullptr : &graph.value(values[0]).type.shape;
  };
  const Indices *const result = shape_of(node.outputs), *const operand = shape_of(node.inputs);
  for (const AttributeValue& attribute : node.attributes) {
    const Indices* const list = std::get_if<Indices>(&attribute);
    if (list == nullptr || list->empty() || result == nullptr || *list != *result || !all_constant(*list)) {
      name = hash_mix(name, hash(attribute));
      continue;
    }
    is_exact = false;
    name = hash_mix(name, list->size());
    for (std::size_t a = 0; a < list->size(); ++a) {
      const std::optional<std::int64_t> from =
          operand != nullptr && a < operand->size() ? (*operand)[a].constant() : std::nullopt;
      const std::int64_t size = (*list)[a].value();
      name = hash_mix(hash_mix(name, kind_of((*list)[a])), !from ? 0 : size < *from ? 1 : size == *from ? 2 : 3);
    }
  }
  return name;
}

// A hash of all that traits depend on: of sizes only whether they are 0, 1 or more.
std::uint64_t traits_name(const Graph& graph, const Node& node, std::uint64_t attributes) {
  std::uint64_t name = hash_mix(hash_text("traits"), hash_mix(hash_text(node.op->name()), attributes));
  for (const ValueId input : node.inputs) {
    if (input == kNoValue) {
      name = hash_mix(name, 0);
      continue;
    }
    const TensorType& type = graph.value(input).type;
    name = hash_mix(hash_mix(name, 1 + static_cast<std::uint64_t>(type.type)), type.shape.size());
    for (const Index& size : type.shape) name = hash_mix(name, kind_of(size));
  }
  return name;
}

}  // namespace

std::uint64_t operands_name(const Graph& graph, const Node& node) {
  std::uint64_t name = hash_mix(hash_text(node.op->name()), hash(node.attributes));
  for (const ValueId input : node.inputs) {
    name = hash_mix(name, input == kNoValue ? 0 : 1 + static_cast<std::uint64_t>(graph.value(input).type.type));
    if (input == kNoValue) continue;
    const Indices& shape = graph.value(input).type.shape;
    name = hash_mix(name, shape.size());
    for (const Index& size : shape) name = hash_mix(name, size.hash());
  }
  return name;
}

planning::Traits recalled_traits(Recognitions& recognitions, const Graph& graph, const Node& node,
                                 const std::function<planning::Traits()>& find) {
  bool is_exact = true;
  const std::uint64_t by_kinds = attributes_name(graph, node, is_exact);
  const auto exact = [&] { return recognitions.functions.recall(traits_name(graph, node, hash(node.attributes)), find); };
  if (is_exact) return exact();
  // Nodes that only move elements do so whatever the sizes of the result; for others these may count.
  std::optional<planning::Traits> found;
  const std::uint64_t name = hash_mix(hash_text("moves"), traits_name(graph, node, by_kinds));
  const auto moves = recognitions.functions.recall(name, [&]() -> std::optional<planning::Traits> {
    found = exact();
    return found->moved >= 0 ? found : std::nullopt;
  });
  return moves ? *moves : found ? *found : exact();
}

}  // namespace rewright::cpu
