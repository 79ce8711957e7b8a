// Index expressions of known sizes, as affine functions of bounded variables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "expressions/index.h"

namespace rewright::planning {

inline std::int64_t floor_quotient(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// A variable v with low <= v < high.
struct Range {
  std::int64_t low = 0, high = 1;
};

struct Affine {
  std::int64_t constant = 0;
  std::vector<std::int64_t> coefficients;  // by variable; those beyond the end are 0

  std::int64_t coefficient(std::size_t variable) const { return variable < coefficients.size() ? coefficients[variable] : 0; }
  void add(const Affine& other, std::int64_t times);
  // The only variable that it depends on; -1 for none, -2 for several.
  int variable() const;
  bool is_constant() const { return variable() == -1; }
};

// The variables of an expression, numbered in the order in which they are added: first the axes of the result, then reductions.
class Variables {
 public:
  int add(std::uint64_t atom_id, Range range);
  std::optional<int> find(std::uint64_t atom_id) const;
  std::size_t count() const { return ranges_.size(); }
  Range range(std::size_t variable) const { return ranges_[variable]; }
  void set_range(std::size_t variable, Range range) { ranges_[variable] = range; }

  std::int64_t lowest(const Affine& a) const;
  std::int64_t highest(const Affine& a) const;

  // The expression as an affine function, given the variables' ranges; nullopt if it is not affine.
  std::optional<Affine> affine(const Index& index) const;
  // Bounds of the expression, derived from those of its parts; nullopt for elements of tensors.
  std::optional<Range> bounds(const Index& index) const;
  // Does the condition hold everywhere within the ranges (true), or nowhere (false)?
  std::optional<bool> decide(const Condition& condition) const;

 private:
  std::optional<Affine> affine_atom(const Atom& atom) const;
  std::optional<Range> bounds_of_atom(const Atom& atom) const;
  std::map<std::uint64_t, int> by_atom_;
  std::vector<Range> ranges_;
};

}  // namespace rewright::planning
