// Adds calls of ONNX Runtime's own operators to a graph.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "expressions/attributes.h"
#include "graph/graph.h"

namespace onnx {
class NodeProto;
}

namespace rewright::graph {

// A call of an operator of the domain com.microsoft.
struct ContribCall {
  std::string type;
  std::vector<std::pair<std::string, AttributeValue>> attributes;
  std::vector<ValueId> inputs;  // kNoValue: absent
  std::size_t outputs = 1;
};

// Adds the nodes of the operator's body, which export writes as the call as long as they are unchanged, and imports the domain.
// Returns the outputs; nullopt, with the graph unchanged, if the operator has no body for these inputs.
std::optional<std::vector<ValueId>> add_call(Graph& graph, const ContribCall& call);
// Likewise for a node as it is to be written, of an operator that has a body here. `inputs` and the results are in the order of
// its inputs and outputs; an output that `is_read` denies is kNoValue, and keeps its name in the node.
std::optional<std::vector<ValueId>> add_call(
    Graph& graph, const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
    const std::function<bool(std::size_t output)>& is_read = [](std::size_t) { return true; });

}  // namespace rewright::graph
