// Functions of whole rows: softmax along any axes, and normalizations along the last one, found in denotations.
#pragma once

#include <optional>
#include <span>

#include "runtime/planning/facts.h"

namespace rewright::planning {

// Has the node a first operand of reals with elements, of which a small sample can be made? No other node is one of the
// following. Whether such a node is does not depend on its sizes.
bool has_sample(const Node& node, std::span<const ValueInfo> operands);
// Has that operand rows of more than one element besides, and only vectors of one element per column beside it?
bool may_be_row_function(const Node& node, std::span<const ValueInfo> operands);

// All take a node with a denotation whose operands have known types and sizes, and compare its results on a few sample rows.

// The softmax of the node's operand, or its logarithm, over the axes first .. last.
struct Softmax {
  std::size_t first = 0, last = 0;
  bool logarithm = false;
};
std::optional<Softmax> find_softmax(const Node& node, std::span<const ValueInfo> operands);

// Is the node the softmax of each row of its operand, along the last axis?
bool is_row_softmax(const Node& node, std::span<const ValueInfo> operands);

// (x - mean) / sqrt(variance + epsilon) * scale + shift, with a mean of 0 and the mean square as variance if it is not
// centered. Scale and shift are the node's second and third inputs, with an element for each column.
struct RowNormalization {
  bool centered = true;
  double epsilon = 0;
};
std::optional<RowNormalization> find_row_normalization(const Node& node, std::span<const ValueInfo> operands);

}  // namespace rewright::planning
