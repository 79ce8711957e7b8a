// Bounds of index expressions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "expressions/index.h"

namespace rewright::cuda {

// Inclusive. Bounds stop at +-2^62: what lies beyond is as good as unknown.
struct IndexRange {
  std::int64_t low, high;
};

class IndexRanges {
 public:
  void set(std::uint64_t atom, IndexRange range) { ranges_[atom] = range; }
  IndexRange of(const Index& index) const;
  IndexRange of(const Atom& atom) const;
  // Of a monomial: coefficient times the product of its factors.
  IndexRange of(const Monomial& monomial) const;
  // What the ranges say about a condition.
  std::optional<bool> decide(const Condition& condition) const;

 private:
  std::map<std::uint64_t, IndexRange> ranges_;
};

}  // namespace rewright::cuda
