// Recognizes functions of whole rows by their denotations: softmax along any axes, and normalizations along the last one.
#pragma once

#include <optional>
#include <span>

#include "runtime/planning/facts.h"

namespace rewright::planning {

// Is the node's first operand real and not empty, and can a small sample of it be made? Otherwise the node is none of the
// following. That the node is one of them does not depend on its sizes.
bool has_sample(const Node& node, std::span<const ValueInfo> operands);
// Does that operand have rows of more than one element, and are the other operands rows with one element for each column? A row
// runs along the last axis, or along as many of the last ones as the other operands have.
bool may_be_row_function(const Node& node, std::span<const ValueInfo> operands);

// All of these take a node with a denotation and operands of known types and sizes, and compare its results on a few sample
// rows.

// A softmax, or its logarithm, of the node's operand over the axes first .. last.
struct Softmax {
  std::size_t first = 0, last = 0;
  bool logarithm = false;
};
std::optional<Softmax> find_softmax(const Node& node, std::span<const ValueInfo> operands);

// Is the node the softmax of its operand's rows (along the last axis)?
bool is_row_softmax(const Node& node, std::span<const ValueInfo> operands);

// (x - mean) / sqrt(variance + epsilon) * scale + shift, over the last `axes` axes. If not centered, the mean is 0 and the
// variance the mean square. Scale and shift are the node's second and third inputs, with an element for each column.
struct RowNormalization {
  bool centered = true;
  double epsilon = 0;
  std::size_t axes = 1;
};
std::optional<RowNormalization> find_row_normalization(const Node& node, std::span<const ValueInfo> operands);

}  // namespace rewright::planning
