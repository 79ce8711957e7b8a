// Shared by the loops of this folder: a function of each element, and integers that fit into 32 bits.
#pragma once

#include <cstdint>

#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {
namespace {

using I = std::int64_t;

template <class D, class S, class F>
inline void map(D* d, const S* a, Count n, F f) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = f(a[i]);
}
template <class T, class F>
inline void zip(T* d, const T* a, const T* b, Count n, F f) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = f(a[i], b[i]);
}

// Are all values above -2^31 and below 2^31?
inline bool fit_32_bits(const I* a, Count n) {
  I outside = 0;
  for (Count i = 0; i < n; ++i) outside |= (a[i] > 0x7FFFFFFF) | (a[i] < -0x7FFFFFFF);
  return outside == 0;
}
// Calls small(i) for elements whose operands fit into 32 bits and large(i) for others, part by part: there are no vectors of
// quotients of integers, but quotients of such integers in double are wrong in no digit before the point.
constexpr Count kPart = 256;
template <class Small, class Large>
inline void by_width(const I* a, const I* b, Count n, Small small, Large large) {
  for (Count first = 0; first < n; first += kPart) {
    const Count last = first + kPart < n ? first + kPart : n;
    if (fit_32_bits(a + first, last - first) && fit_32_bits(b + first, last - first)) {
#pragma GCC ivdep
      for (Count i = first; i < last; ++i) small(i);
    } else {
      for (Count i = first; i < last; ++i) large(i);
    }
  }
}
inline double as_double(I v) { return static_cast<std::int32_t>(v); }
inline I as_integer(double v) { return static_cast<std::int32_t>(v); }

}  // namespace
}  // namespace rewright::cpu
