// The loops of selection_loops.h; see rewright_loops in CMakeLists.txt.
#include <cstring>
#include <limits>
#include <utility>
#if REWRIGHT_VECTOR_BYTES > 16
#include <immintrin.h>
#endif

#include "runtime/cpu/loops/selection_loops.h"

namespace rewright::cpu {
namespace {

using Count = SelectionLoops::Count;

template <class T>
struct Lanes {
  static constexpr Count kSize = REWRIGHT_VECTOR_BYTES / sizeof(T);
  typedef T Type __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
};

// Signed integers in the order of elements.
template <class T, bool kReals>
inline typename Lanes<T>::Type in_order(typename Lanes<T>::Type x, T flip) {
  if constexpr (kReals) {
    constexpr T kMagnitude = std::numeric_limits<T>::max();
    constexpr T kInfinity = sizeof(T) == 4 ? T(0x7F800000) : T(0x7FF0000000000000);
    const auto magnitude = x & kMagnitude;
    const auto number = x < 0 ? -magnitude : magnitude;
    x = magnitude > kInfinity ? kMagnitude - typename Lanes<T>::Type{} : number;
  }
  return x ^ flip;
}

// Is any element of `a` larger than that of `b`?
template <class T>
inline bool any_larger(typename Lanes<T>::Type a, typename Lanes<T>::Type b) {
#if REWRIGHT_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4) return _mm512_cmpgt_epi32_mask((__m512i)a, (__m512i)b) != 0;
  return _mm512_cmpgt_epi64_mask((__m512i)a, (__m512i)b) != 0;
#elif REWRIGHT_VECTOR_BYTES == 32
  return _mm256_movemask_epi8((__m256i)(a > b)) != 0;
#else
  const auto larger = a > b;
  std::uint64_t words[2];
  std::memcpy(words, &larger, sizeof words);
  return (words[0] | words[1]) != 0;
#endif
}

// The best elements so far, which stay in registers.
template <class T, Count kCount>
struct Best {
  using V = typename Lanes<T>::Type;
  V best[kCount], at[kCount];

  // Elements that are better than others move these on, so that equal ones stay in their order. The places from `kNone` on have
  // no element yet.
  template <Count kNone>
  void insert(V element, V position) {
#pragma GCC unroll 8
    for (Count t = kNone < kCount ? kNone : kCount - 1; t >= 0; --t) {
      if (t > 0) {
        const V moved = element > best[t - 1] ? best[t - 1] : element, moved_at = element > best[t - 1] ? at[t - 1] : position;
        at[t] = t == kNone ? moved_at : element > best[t] ? moved_at : at[t];
        best[t] = t == kNone ? moved : element > best[t] ? moved : best[t];
      } else {
        at[t] = t == kNone ? position : element > best[t] ? position : at[t];
        best[t] = t == kNone ? element : element > best[t] ? element : best[t];
      }
    }
  }
};

template <class T, bool kReals, Count kCount, Count... kFirst>
void select_columns(std::int32_t* where, const T* x, Count stride, Count steps, T flip,
                    std::integer_sequence<Count, kFirst...>) {
  using V = typename Lanes<T>::Type;
  Best<T, kCount> all;
  const auto at = [&](Count s) {
    V element;
    std::memcpy(&element, x + s * stride, sizeof element);
    return in_order<T, kReals>(element, flip);
  };
  (all.template insert<kFirst>(at(kFirst), static_cast<T>(kFirst) - V{}), ...);
  for (Count s = kCount; s < steps; ++s) {
    const V element = at(s);
    if (any_larger<T>(element, all.best[kCount - 1])) all.template insert<kCount>(element, static_cast<T>(s) - V{});
  }
  for (Count t = 0; t < kCount; ++t)
    for (Count l = 0; l < Lanes<T>::kSize; ++l)
      where[t * SelectionLoops::kColumns + l] = static_cast<std::int32_t>(all.at[t][l]);
}

template <class T, bool kReals, Count kCount = 1>
void select_some(std::int32_t* where, const T* x, Count stride, Count steps, Count count, T flip) {
  if constexpr (kCount <= SelectionLoops::kMost) {
    if (count > kCount) return select_some<T, kReals, kCount + 1>(where, x, stride, steps, count, flip);
    for (Count c = 0; c < SelectionLoops::kColumns; c += Lanes<T>::kSize)
      select_columns<T, kReals, kCount>(where + c, x + c, stride, steps, flip, std::make_integer_sequence<Count, kCount>());
  }
}

template <class T>
void select(std::int32_t* where, const T* x, Count stride, Count steps, Count count, bool reals, bool smallest) {
  const T flip = smallest ? T(-1) : T(0);
  if (reals)
    select_some<T, true>(where, x, stride, steps, count, flip);
  else
    select_some<T, false>(where, x, stride, steps, count, flip);
}

constexpr SelectionLoops kTable{select<std::int32_t>, select<std::int64_t>};

}  // namespace

const SelectionLoops& SelectionLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
