// Which nodes run together: kernels with the elementwise chain behind them, and other nodes as one expression.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/planning/facts.h"

namespace rewright::planning {

struct Group {
  std::vector<int> nodes;        // ascending; the group runs at its last one
  std::unique_ptr<Taken> taken;  // null: no kernel of the runtime's
  std::optional<Chain> chain;    // the group as one expression
  ValueId result = kNoValue;
  bool view = false;  // the node's elements are its operand's, in the same order
  bool copy = false;  // only moves elements
};

// In the order in which they run.
std::vector<Group> make_groups(Facts& facts);

bool has_reduction(const Element& e);

}  // namespace rewright::planning
