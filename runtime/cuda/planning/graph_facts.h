// Facts of a graph of known sizes, and values that planning adds.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/planning/facts.h"

namespace rewright::cpu {
class PreparedConstants;  // runtime/cpu/planning/prepared_constants.h
}

namespace rewright::cuda {

class GraphFacts final : public planning::Facts {
 public:
  // Evaluates everything that depends on constants alone, unless `folded` (may be null) has it from earlier plans. The graph
  // must outlive this object.
  explicit GraphFacts(const Graph& graph, std::shared_ptr<cpu::PreparedConstants> folded = nullptr);

  const Graph& graph() const override { return graph_; }
  const ValueInfo& info(ValueId value) const override;
  const Tensor& constant(ValueId value) const override { return constants_[value]; }
  // Made once for each node.
  const Definition& define(const Node& node) const override;
  bool needed(std::size_t node) const override { return needed_[node]; }
  ValueId add_constant_value(Tensor tensor) override;
  // Adds an intermediate value that is not in the graph.
  ValueId add_value(ValueInfo info);

 private:
  const Graph& graph_;
  std::vector<Tensor> constants_;                       // by value
  mutable std::deque<std::optional<ValueInfo>> infos_;  // by value; nullopt: not asked for yet
  std::vector<bool> needed_;                            // by node
  mutable std::unordered_map<const Node*, Definition> definitions_;
};

}  // namespace rewright::cuda
