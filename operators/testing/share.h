// The share of a large collection of rules, instances or elements that tests try.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

namespace rewright::testing {

// Sanitizers make tests ten times as slow, and the memory errors that they look for show in a part of a collection as well.
#ifdef REWRIGHT_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
inline constexpr std::size_t kShare = kSanitized ? 20 : 1;

// The number of random instances to try.
constexpr unsigned instances(unsigned all) { return kSanitized ? (all + 7) / 8 : all; }

// REWRIGHT_THOROUGH=1 has tests try all they can. By default they try a part of what takes minutes and is tested elsewhere,
// too.
inline bool thorough() { return std::getenv("REWRIGHT_THOROUGH") != nullptr; }
inline unsigned instances(unsigned few, unsigned all) { return thorough() ? all : instances(few); }

// Every kStride-th of many elements of the same kind is tried.
inline constexpr std::size_t kStride = kSanitized ? 7 : 1;

// Every kShare-th element.
template <class T>
std::vector<T> share(std::vector<T> all) {
  std::vector<T> part;
  for (std::size_t i = 0; i < all.size(); i += kShare) part.push_back(std::move(all[i]));
  return part;
}

}  // namespace rewright::testing
