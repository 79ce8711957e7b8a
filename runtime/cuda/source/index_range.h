// Bounds of index expressions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "expressions/index.h"

namespace rewright::cuda {

// Inclusive bounds. Beyond +-2^62 they are unknown.
struct IndexRange {
  std::int64_t low, high;
};

class IndexRanges {
 public:
  void set(std::uint64_t atom, IndexRange range) { ranges_[atom] = range; }
  IndexRange of(const Index& index) const;
  IndexRange of(const Atom& atom) const;
  // The range of a monomial: coefficient times the product of its factors.
  IndexRange of(const Monomial& monomial) const;
  // Does a condition hold for all values in the ranges (true), or for none (false)?
  std::optional<bool> decide(const Condition& condition) const;

 private:
  std::map<std::uint64_t, IndexRange> ranges_;
};

}  // namespace rewright::cuda
