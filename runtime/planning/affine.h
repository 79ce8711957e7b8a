// Index expressions of known sizes as affine functions of variables in ranges.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "expressions/index.h"

namespace rewright::planning {

// A variable v with low <= v < high.
struct Range {
  std::int64_t low = 0, high = 1;
};

struct Affine {
  std::int64_t constant = 0;
  std::vector<std::int64_t> coefficients;  // by variable; those beyond the end are 0

  std::int64_t coefficient(std::size_t variable) const { return variable < coefficients.size() ? coefficients[variable] : 0; }
  void add(const Affine& other, std::int64_t times);
  // The one variable that it depends on; -1 for none, -2 for several.
  int variable() const;
  bool is_constant() const { return variable() == -1; }
};

// The variables of an expression, numbered in the order in which they are added: those of the result's axes, then those of
// reductions.
class Variables {
 public:
  int add(std::uint64_t atom_id, Range range);
  std::optional<int> find(std::uint64_t atom_id) const;
  std::size_t count() const { return ranges_.size(); }
  Range range(std::size_t variable) const { return ranges_[variable]; }
  void set_range(std::size_t variable, Range range) { ranges_[variable] = range; }

  std::int64_t lowest(const Affine& a) const;
  std::int64_t highest(const Affine& a) const;

  // The expression as an affine one, using that variables stay in their ranges; nullopt if it is not.
  std::optional<Affine> affine(const Index& index) const;
  // Bounds of the expression, as far as they follow from those of its parts; nullopt for elements of tensors.
  std::optional<Range> bounds(const Index& index) const;
  // Does the condition hold everywhere, or nowhere, within the ranges? nullopt if neither is known.
  std::optional<bool> decide(const Condition& condition) const;

 private:
  std::optional<Affine> affine_atom(const Atom& atom) const;
  std::optional<Range> bounds_of_atom(const Atom& atom) const;
  std::map<std::uint64_t, int> by_atom_;
  std::vector<Range> ranges_;
};

}  // namespace rewright::planning
