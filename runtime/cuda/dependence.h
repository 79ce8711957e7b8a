// What expressions depend on, and reductions as nests.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "operators/element.h"

namespace rewright::cuda {

// The variables that an expression depends on from outside: bound atoms that no reduction inside of it binds.
class FreeVariables {
 public:
  const std::set<std::uint64_t>& of(const ElementNode& element);

 private:
  void collect(const Index& index, std::set<std::uint64_t>& atoms);
  std::map<const ElementNode*, std::set<std::uint64_t>> known_;
};

// A nest of reductions of one kind as one: its variables with their bounds, what has to hold, and what is reduced.
struct ReductionNest {
  std::vector<Index> variables, bounds;
  std::vector<Condition> conditions;
  Element body;
  std::int64_t steps = -1;  // if all bounds are numbers
};
ReductionNest reduction_nest(const ElementNode& reduction);

}  // namespace rewright::cuda
