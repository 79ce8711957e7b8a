// Functions of whole rows, along the last axis: softmax and normalizations, found in denotations.
#pragma once

#include <optional>
#include <span>

#include "runtime/planning/facts.h"

namespace rewright::planning {

// Both take a node with a denotation whose operands have known types and sizes, and compare its results on a few sample rows.

// Is the node the softmax of each row of its operand?
bool is_row_softmax(const Node& node, std::span<const ValueInfo> operands);

// (x - mean) / sqrt(variance + epsilon) * scale + shift, with a mean of 0 and the mean square as variance if it is not
// centered. Scale and shift are the node's second and third inputs, with an element for each column.
struct RowNormalization {
  bool centered = true;
  double epsilon = 0;
};
std::optional<RowNormalization> find_row_normalization(const Node& node, std::span<const ValueInfo> operands);

}  // namespace rewright::planning
