// Many expressions over the sizes that a graph leaves open, evaluated together for given numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "expressions/index.h"

namespace rewright::graph {

//   SizeExpressions expressions;
//   const std::size_t n = expressions.add(floor_div(Index::symbol("H") - 1, 2) + 1);
//   expressions.values(sizes)[n];                     // 112 for H = 224
//
// Parts that several expressions have, as the size that a network's layers begin with, are computed once.
class SizeExpressions {
 public:
  // The expression's number. Equal ones have one number.
  std::size_t add(const Index& expression);
  const Index& operator[](std::size_t number) const { return all_[number]; }
  // By number: substitute(expression, sizes), or the number as well where only terms on the way to it are beyond 64 bits.
  Indices values(const Substitution& sizes) const;

 private:
  // constant + sum of coefficient * product of atoms, by number
  struct Sum {
    struct Term {
      std::int64_t coefficient;
      std::vector<std::size_t> atoms;
    };
    std::int64_t constant = 0;
    std::vector<Term> terms;
  };
  struct Known {
    AtomPointer atom;
    Sum arguments[2];
  };
  struct IsBefore {
    bool operator()(const AtomPointer& a, const AtomPointer& b) const { return compare(*a, *b) < 0; }
    bool operator()(const Index& a, const Index& b) const { return Index::compare(a, b) < 0; }
  };
  using Numbers = std::vector<std::optional<std::int64_t>>;  // by atom; nullopt: no number of 64 bits
  Sum sum_of(const Index& expression);
  std::size_t number_of(const AtomPointer& atom);
  static std::optional<std::int64_t> value_of(const Sum& sum, const Numbers& atoms);
  static std::optional<std::int64_t> value_of(const Known& known, const Numbers& atoms, const Substitution& sizes);

  std::vector<Index> all_;
  std::vector<Sum> sums_;     // of all
  std::vector<Known> atoms_;  // arguments before what they are in
  std::map<Index, std::size_t, IsBefore> numbers_;
  std::map<AtomPointer, std::size_t, IsBefore> atom_numbers_;
};

}  // namespace rewright::graph
