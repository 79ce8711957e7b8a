#include "graph/onnx/string_inputs.h"

#include <algorithm>

#include "graph/onnx/model.h"
#include "operators/texts.h"

namespace rewright::graph {

namespace {

bool is_cast(const Node& node) {
  onnx::NodeProto proto;
  return node.op == nullptr && node.origin && proto.ParseFromString(node.origin->node_proto) &&
         (proto.op_type() == "Cast" || proto.op_type() == "CastLike");
}

}  // namespace

Tensor random_strings(const Graph& graph, ValueId input, Sizes sizes, std::uint64_t seed) {
  std::vector<bool> reached(graph.value_count());  // strings that come from the input
  reached[input] = true;
  for (const auto& node : graph.nodes()) {
    const auto is_reached = [&](ValueId id) { return id != kNoValue && reached[id]; };
    if (std::none_of(node->inputs.begin(), node->inputs.end(), is_reached)) continue;
    if (is_cast(*node)) return random_numerals(std::move(sizes), seed);
    for (const ValueId id : node->outputs)
      if (id != kNoValue && graph.value(id).type.type == DataType::kString) reached[id] = true;
  }
  return random_texts(std::move(sizes), seed);
}

}  // namespace rewright::graph
