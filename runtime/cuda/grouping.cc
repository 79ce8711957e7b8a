#include "runtime/cuda/grouping.h"

#include <algorithm>

#include "runtime/cpu/tile/stages.h"

namespace rewright::cuda {

std::vector<Group> make_groups(const GraphFacts& facts) {
  std::vector<Group> groups;
  const auto nodes = facts.graph().nodes();
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!facts.needed(n)) continue;
    const Node& node = *nodes[n];
    Group& group = groups.emplace_back();
    group.nodes = {static_cast<int>(n)};
    group.result = node.outputs.empty() ? kNoValue : node.outputs[0];
    if (node.op == nullptr) continue;
    const auto outputs = std::count_if(node.outputs.begin(), node.outputs.end(), [](ValueId v) { return v != kNoValue; });
    const Definition definition = facts.define(node);
    if (outputs != 1 || group.result == kNoValue || !definition.has_denotation() || node.op->execute()) continue;
    const Output& output = definition.outputs()[0];
    group.element = output.element;
    group.position = output.position;
    group.operands = node.inputs;
    group.library = library_node(facts, node);
    group.view = !node.inputs.empty() && node.inputs[0] != kNoValue && facts.info(node.inputs[0]).type == output.type.type &&
                 cpu::keeps_order(output.element, output.position, values(output.type.shape), facts.info(node.inputs[0]).sizes);
  }
  return groups;
}

}  // namespace rewright::cuda
