// Which nodes run as one kernel.
#pragma once

#include <optional>
#include <vector>

#include "runtime/cuda/planning/library_nodes.h"

namespace rewright::cuda {

struct Group {
  std::vector<int> nodes;  // ascending; the group runs at its last one
  ValueId result = kNoValue;
  bool view = false;                   // the elements are those of the first input, in the same order
  std::optional<LibraryNode> library;  // what computes it, if the library can
  Element element;                     // the result over `operands`; null: the outputs of one node, one by one
  Indices position;
  std::vector<ValueId> operands;
  // Where there are several ways to the result, each as groups one after the other. A group without an element of its own is
  // always possible by the last one.
  std::vector<std::vector<Group>> ways;
};

// In the order in which they run.
std::vector<Group> make_groups(GraphFacts& facts);

}  // namespace rewright::cuda
