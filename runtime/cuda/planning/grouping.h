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
  std::optional<LibraryNode> library;  // the library's operation that computes it, if there is one
  Element element;                     // the result over `operands`; null: the outputs of one node, one by one
  Indices position;
  std::vector<ValueId> operands;
  // Alternatives for the result, each as groups that run one after the other. The last one is always possible for a group that
  // has no element of its own.
  std::vector<std::vector<Group>> alternatives;
};

// In the order in which they run.
std::vector<Group> make_groups(GraphFacts& facts);

}  // namespace rewright::cuda
