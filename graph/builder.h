// A GraphBuilder that adds nodes to a Graph.
#pragma once

#include <utility>
#include <vector>

#include "graph/graph.h"
#include "operators/gradient.h"

namespace rewright::graph {

static_assert(kNoGradient == kNoValue);

class NodeBuilder final : public GraphBuilder {
 public:
  explicit NodeBuilder(Graph& graph) : graph_(graph) {}
  const TensorType& type_of(ValueId value) const override { return graph_.value(value).type; }
  std::vector<ValueId> node(const Operator& op, Attributes attributes, std::vector<ValueId> inputs) override {
    return graph_.add_node(op, std::move(attributes), std::move(inputs));
  }
  ValueId constant(Tensor tensor) override { return graph_.add_constant(std::move(tensor)); }

 private:
  Graph& graph_;
};

}  // namespace rewright::graph
