// What is known of a graph's values before it runs: types, sizes, and the contents of constants.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "runtime/cpu/planning/plan.h"
#include "runtime/cpu/planning/recognitions.h"
#include "runtime/planning/graph_facts.h"

namespace rewright::cpu {

using planning::ValueInfo;

// Elements of a tensor that follow each other, from number `first` on, as a tensor that shares its memory.
Tensor part_of(const Tensor& tensor, std::int64_t first, DataType type, Sizes sizes);

class KnownValues {
 public:
  // Evaluates what depends on constants alone, if options.fold_constants.
  KnownValues(Graph graph, const PlanOptions& options);

  const Graph& graph() const { return graph_; }
  // Throws Error(kUnsupported) if the value's type or sizes are not known.
  ValueInfo info(ValueId value) const;
  static bool has(const Node& node, std::size_t input) { return input < node.inputs.size() && node.inputs[input] != kNoValue; }
  Recognitions& recognitions() const { return *recognitions_; }
  // Made once for each node of the graph.
  const Definition& define(const Node& node) const;
  const Node* producer(ValueId value) const;                        // null: none
  int producer_number(ValueId value) const;                         // among the graph's nodes; -1: none
  bool is_needed(std::size_t node) const { return needed_[node]; }  // by an output, and not known already

  // ---- Constants
  // The value, if it is known; an empty tensor otherwise.
  const Tensor& constant(ValueId value) const;
  // Is the value known? Unlike `constant` this copies no matrix that is a view of another one.
  bool is_constant(ValueId value) const { return constants_[value] || matrices_.contains(value); }
  // A constant matrix as a strided view of a tensor; in elements.
  struct ConstantMatrix {
    Tensor in;
    std::int64_t offset = 0, row_stride = 0, column_stride = 1;
  };
  ConstantMatrix constant_matrix(ValueId value) const;
  // The value, if it is a known number: one element.
  std::optional<double> known_number(ValueId value) const { return planning::only_number(constant(value)); }
  // Adds a constant that is no value of the graph.
  ValueId add_constant_value(Tensor tensor);

 protected:
  // The constants that planning a group of nodes may ask for.
  std::vector<ValueId> constants_read_by(const std::vector<int>& nodes) const;
  // Drops a constant that nothing will ask for any more, unless it is small. Returns what was dropped.
  Tensor release(ValueId value);

 private:
  void find_constants(const PlanOptions& options);
  void find_matrices();

  Graph graph_;
  mutable std::vector<Tensor> constants_;  // by value
  // Constants whose elements are those of another one in another order, as transposed weights are. Mostly only products read
  // them, which pack them from the source.
  std::map<ValueId, ConstantMatrix> matrices_;
  std::vector<std::int32_t> producers_;  // by value
  std::vector<bool> needed_;             // by node
  mutable std::unordered_map<const Node*, std::shared_ptr<const Definition>> definitions_;
  std::shared_ptr<Recognitions> recognitions_;
};

}  // namespace rewright::cpu
