#include "optimizer/inputs/operations.h"

#include "base/error.h"
#include "operators/readings/operation_count.h"

namespace rewright::optimizer {

double operations_of(const Graph& graph) {
  double operations = 0;
  for (const auto& node : graph.nodes()) {
    if (node->op == nullptr) continue;
    try {
      const Definition definition = node->op->define(node->attributes, Inputs::of(graph.operand_types(*node)));
      for (const Output& output : definition.outputs()) {
        double elements = 1;
        for (const Index& size : output.type.shape) elements *= static_cast<double>(size.constant().value_or(1));
        operations += elements + (output.element ? operation_count(output) : 0);
      }
    } catch (const Error&) {  // ill-typed for unknown sizes
    }
  }
  return operations;
}

}  // namespace rewright::optimizer
