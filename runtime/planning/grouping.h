// Which nodes run together: kernels with the elementwise chains around them, and other nodes as one expression.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/planning/facts.h"

namespace rewright::planning {

struct Group {
  std::vector<int> nodes;        // ascending; the group runs at its last one
  std::unique_ptr<Taken> taken;  // the kernel that computes it; null: none
  std::optional<Chain> chain;    // the group as one expression, where no kernel computes it and it has one
  ValueId result = kNoValue;
  bool view = false;  // the elements of the result are those of the node's first input, in the same order
  bool copy = false;  // `chain` only moves elements
};

// The needed nodes of a graph in groups, in the order in which these run.
std::vector<Group> make_groups(DeviceKernels& kernels);

bool has_reduction(const Element& element);

}  // namespace rewright::planning
