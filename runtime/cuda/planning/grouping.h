// Groups: the nodes that run as one kernel.
#pragma once

#include <optional>
#include <vector>

#include "runtime/cuda/planning/library_nodes.h"
#include "runtime/cuda/source/generated_kernel.h"

namespace rewright::cuda {

struct Group {
  std::vector<int> nodes;  // ascending; the group runs at the position of the last
  ValueId result = kNoValue;
  bool view = false;                   // same elements as the first input, in the same order
  std::optional<LibraryNode> library;  // the library operation that computes it, if any
  Element element;                     // the result over `operands`; null: each output of the node has its own
  Indices position;
  std::vector<ValueId> operands;
  std::optional<Chain::Expression> packed;  // the same, over what a known factor is computed from
  std::optional<GeneratedKernel> kernel;    // computes the result from `operands`; for work that is no expression
  // Alternatives for the result, each a list of groups that run in sequence. For a group without `element` the last alternative
  // is always possible.
  std::vector<std::vector<Group>> alternatives;
};

// The groups in execution order.
std::vector<Group> make_groups(GraphFacts& facts);

}  // namespace rewright::cuda
