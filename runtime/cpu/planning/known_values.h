// Facts about a graph's values before it runs: types, sizes, and the contents of constants.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "runtime/cpu/planning/open_nodes.h"
#include "runtime/cpu/planning/plan.h"
#include "runtime/cpu/planning/recognitions.h"
#include "runtime/planning/facts.h"

namespace rewright::cpu {

using planning::ValueInfo;

// Consecutive elements of a tensor, from number `first` on, as a tensor that shares its memory.
Tensor part_of(const Tensor& tensor, std::int64_t first, DataType type, Sizes sizes);

class KnownValues {
 public:
  // Evaluates values that depend on constants alone, if options.fold_constants.
  KnownValues(Graph graph, const PlanOptions& options);

  const Graph& graph() const { return graph_; }
  // Throws Error(kUnsupported) if the value's type or sizes are unknown.
  const ValueInfo& info(ValueId value) const;
  static bool has(const Node& node, std::size_t input) { return input < node.inputs.size() && node.inputs[input] != kNoValue; }
  Recognitions& recognitions() const { return *recognitions_; }
  // Cached by node, and between plans as far as sizes are the same in all of them.
  const Definition& define(const Node& node) const;
  planning::Traits traits(const Node& node) const;
  planning::Movement movement(const Node& node) const;  // of a node with a first input
  // A hash of the node's operator and attributes.
  std::uint64_t operation(const Node& node) const;
  const OpenNodes& open_nodes() const { return open_nodes_; }
  // The node with open sizes, if the elements of its first output are free of them (is_free_of_sizes); null for others.
  const std::shared_ptr<const Node>* free_node(const Node& node) const;
  const Node* producer(ValueId value) const;                        // null: none
  int producer_number(ValueId value) const;                         // position in the graph's nodes; -1: none
  bool is_needed(std::size_t node) const { return needed_[node]; }  // do outputs need it, and are its results unknown?

  // ---- Constants
  // The value if it is known; otherwise an empty tensor.
  const Tensor& constant(ValueId value) const;
  // Is the value known? Unlike `constant` this never copies a matrix that is a view of another one.
  bool is_constant(ValueId value) const { return constants_[value] || matrices_.contains(value); }
  // Is it a constant of the model? Others are computed when a plan is made.
  bool is_of_model(ValueId value) const { return value < graph_.value_count() && graph_.is_constant(value); }
  // A constant matrix as a strided view of a tensor; in elements.
  struct ConstantMatrix {
    Tensor in;
    std::int64_t offset = 0, row_stride = 0, column_stride = 1;
  };
  ConstantMatrix constant_matrix(ValueId value) const;
  // The value if it is a known single number.
  std::optional<double> known_number(ValueId value) const { return planning::only_number(constant(value)); }
  // Adds a constant that is not in the graph.
  ValueId add_constant_value(Tensor tensor);

 protected:
  // The constants that planning a group of nodes may request.
  std::vector<ValueId> constants_read_by(const std::vector<int>& nodes) const;
  // Releases a constant that nothing needs any more, unless it is small. Returns the released tensor.
  Tensor release(ValueId value);

 private:
  std::size_t number_of(const Node& node) const;                           // in the graph's nodes
  const std::shared_ptr<const Node>* open_node(std::size_t number) const;  // OpenNodes::of
  bool may_have_other_sizes(const Node& node) const;
  void find_constants(const PlanOptions& options);
  void find_matrices();

  Graph graph_;
  mutable std::vector<Tensor> constants_;               // by value
  mutable std::deque<std::optional<ValueInfo>> infos_;  // by value; nullopt: not asked for yet
  // Constants with the elements of another one in another order, such as transposed weights. Usually only products read them,
  // and pack them from the source.
  std::map<ValueId, ConstantMatrix> matrices_;
  std::vector<std::int32_t> producers_;            // by value
  std::vector<bool> needed_;                       // by node
  mutable std::vector<std::uint64_t> operations_;  // by node; 0: not asked for yet
  OpenNodes open_nodes_;
  // By node; nullopt: not asked for yet.
  mutable std::vector<std::optional<const std::shared_ptr<const Node>*>> nodes_before_, free_nodes_;
  mutable std::vector<std::shared_ptr<const Definition>> definitions_;  // by node; null: not asked for yet
  std::shared_ptr<Recognitions> recognitions_;
  const std::vector<bool>* open_values_;  // PlanOptions::open_values
};

}  // namespace rewright::cpu
