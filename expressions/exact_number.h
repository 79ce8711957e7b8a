// Integers that a real parameter can hold exactly.
#pragma once

#include <cmath>

#include "expressions/tensor.h"

namespace rewright {

// Does Tensor::reals give the first element exactly? False for an empty tensor, and for integers from 2^53 on, which doubles
// cannot all hold.
inline bool fits_real(const Tensor& tensor) {
  constexpr double kWhole = 0x1p53;
  if (tensor.size() == 0 || !is_integer(tensor.type())) return tensor.size() > 0;
  // 2^53 itself is refused, since 2^53 + 1 is rounded to it.
  return std::abs(Tensor(tensor.type(), {}, nullptr, tensor.bytes().data()).reals()[0]) < kWhole;
}

}  // namespace rewright
