// Elements that divide: not defined where the divisor is 0, though the interpreter says 0 for integers.
#pragma once

#include "expressions/element.h"
#include "expressions/function.h"

namespace rewright {

// Is it a quotient or a remainder, of arguments[0] by arguments[1]?
inline bool divides(const ElementNode& e) {
  if (e.kind == ElementNode::Kind::kDivide) return true;
  return e.kind == ElementNode::Kind::kApply &&
         (e.function == &functions::integer_divide || e.function == &functions::floor_modulo ||
          e.function == &functions::truncated_modulo);
}

}  // namespace rewright
