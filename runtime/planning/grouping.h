// Groups: kernels with the chains they absorb, and other nodes as one expression.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/planning/facts.h"

namespace rewright::planning {

struct Group {
  std::vector<int> nodes;                 // ascending; the group runs at the position of the last
  std::unique_ptr<MatchedKernel> kernel;  // the kernel that computes it; null: none
  std::optional<Chain> chain;             // the group as one expression, if no kernel computes it and it has one
  ValueId result = kNoValue;
  bool view = false;           // the result has the elements of the node's first input, in the same order
  bool copy = false;           // `chain` only moves elements
  std::vector<ValueId> reads;  // by the kernel, in place of inputs of its nodes that it computes itself
};

// Groups the needed nodes of a graph; returns groups in execution order.
std::vector<Group> make_groups(DeviceKernels& kernels);

}  // namespace rewright::planning
