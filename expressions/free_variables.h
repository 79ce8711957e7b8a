// The variables on which element expressions depend.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "expressions/element.h"

namespace rewright {

// Calls `visit` for the index expressions of the node itself, not of its arguments: positions, the index of kFromIndex, the
// bound of a reduction, both sides of conditions.
template <class Visit>
void for_each_index(const ElementNode& e, const Visit& visit) {
  for (const Index& index : e.position) visit(index);
  if (e.kind == ElementNode::Kind::kFromIndex) visit(e.index);
  if (e.kind == ElementNode::Kind::kReduce) visit(e.bound);
  for (const Condition& c : e.conditions) {
    visit(c.left);
    visit(c.right);
  }
}

// The free variables of expressions: ids of the bound atoms that no reduction inside of the expression binds. Results are kept
// by address, so the expressions must outlive this object.
class FreeVariables {
 public:
  const std::set<std::uint64_t>& of(const ElementNode& element);

 private:
  std::map<const ElementNode*, std::set<std::uint64_t>> known_;
};

}  // namespace rewright
