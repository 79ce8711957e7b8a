#include "runtime/planning/in_place.h"

#include <algorithm>

namespace rewright::planning {

bool is_read_in_place(const Element& e, const Indices& position, int operand) {
  using Kind = ElementNode::Kind;
  if (e->kind == Kind::kReduce || e->kind == Kind::kChoose || e->kind == Kind::kFromIndex) return false;
  if (e->kind == Kind::kRead) {
    if (e->operand == operand) return !e->zero_outside && e->position == position;
    bool computed = false;  // a position read from a tensor
    for (const Index& i : e->position)
      for_each_atom(i, [&](const Atom& atom) { computed = computed || atom.kind == Atom::Kind::kLoad; });
    return !computed;
  }
  return std::all_of(e->arguments.begin(), e->arguments.end(),
                     [&](const Element& a) { return is_read_in_place(a, position, operand); });
}

}  // namespace rewright::planning
