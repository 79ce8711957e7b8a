// Which nodes run as one kernel.
#pragma once

#include <optional>
#include <vector>

#include "runtime/cuda/library_nodes.h"

namespace rewright::cuda {

struct Group {
  std::vector<int> nodes;  // ascending; the group runs at its last one
  ValueId result = kNoValue;
  bool view = false;                   // the elements are those of the first input, in the same order
  std::optional<LibraryNode> library;  // what computes it, if the library can
  Element element;                     // the result over `operands`; null: the outputs of one node, one by one
  Indices position;
  std::vector<ValueId> operands;
};

// In the order in which they run.
std::vector<Group> make_groups(const GraphFacts& facts);

}  // namespace rewright::cuda
