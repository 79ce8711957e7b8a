#include "runtime/cpu/planning/recognitions.h"

#include "base/hash_mix.h"

namespace rewright::cpu {

namespace {

// A hash of all that traits depend on: of sizes only whether they are 0, 1 or more.
std::uint64_t traits_name(const Graph& graph, const Node& node) {
  std::uint64_t name = hash_mix(hash_text("traits"), hash_mix(hash_text(node.op->name()), hash(node.attributes)));
  for (const ValueId input : node.inputs) {
    if (input == kNoValue) {
      name = hash_mix(name, 0);
      continue;
    }
    const TensorType& type = graph.value(input).type;
    name = hash_mix(hash_mix(name, 1 + static_cast<std::uint64_t>(type.type)), type.shape.size());
    for (const Index& size : type.shape) name = hash_mix(name, size == Index(0) ? 0 : size == Index(1) ? 1 : 2);
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
  return recognitions.functions.recall(traits_name(graph, node), find);
}

}  // namespace rewright::cpu
