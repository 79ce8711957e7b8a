// Which integers a real parameter can hold.
#pragma once

#include <cmath>

#include "expressions/tensor.h"

namespace rewright {

// Is the first element of a tensor of numbers exactly what Tensor::reals says? Not every integer beyond 2^53 is a double.
inline bool fits_real(const Tensor& tensor) {
  constexpr double kWhole = 0x1p53;
  if (tensor.size() == 0 || !is_integer(tensor.type())) return tensor.size() > 0;
  // 2^53 + 1 is rounded to 2^53.
  return std::abs(Tensor(tensor.type(), {}, nullptr, tensor.bytes().data()).reals()[0]) < kWhole;
}

}  // namespace rewright
