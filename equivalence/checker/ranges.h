// Integers that a type cannot hold. Denotations compute with all integers, tensors hold some of them, and what does not fit
// wraps around: a conversion of 300 to uint8 is 44. An equation between denotations is one between tensors where nothing wraps.
//
// The range of each element of a value follows from types, from constants, and from denotations: int8 + 128, computed as int32,
// is from 0 to 255, so that its conversion to uint8 changes nothing.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace rewright::equivalence {

// All elements are from `low` to `high`; infinite where nothing is known.
struct Range {
  double low = 0, high = 0;
};

Range range_of(DataType type);
Range range_of(const Tensor& constant);

// The ranges of an operator's outputs, from those of its operands; absent operands may have any.
struct OutputRanges {
  std::vector<Range> ranges;
  // Is an output one of integers that its type may not hold? Sums, products and conversions of reals that leave 32 or 64 bits
  // are not considered, as long as signs stay: no proof is about overflow.
  bool may_wrap = false;
};
OutputRanges output_ranges(const Definition& definition, const std::vector<Range>& operands);

// The nodes of a graph, whose inputs may be any of their types, that may wrap around: by position. What they compute counts as
// any of its type.
std::vector<bool> wrapping_nodes(const Graph& graph);

}  // namespace rewright::equivalence
