// Unknown sizes of tensors, and the equations between them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "expressions/index.h"

namespace rewright::rules::taso {

class Sizes {
 public:
  // A new unknown size, at least 1. `letter` is its name if it remains in the rule.
  Index unknown(const std::string& letter);
  // The expression with all known sizes replaced.
  Index resolved(const Index& index) const;
  Indices resolved(const Indices& indices) const;

  // Equates two sizes: replaces one by the other if possible, else keeps the equation. `implied`: every graph in which the
  // source matches satisfies it. Throws Error(kBadInput) if they cannot be equal.
  void equate(const Index& a, const Index& b, bool implied, const std::string& what);
  // The conditions that remain after the replacements.
  void require(const Condition& condition);

  // The undecided conditions: kept equations that are not implied, and required conditions.
  std::vector<Condition> conditions() const;
  // Replaces names by letters and numbers, in order of appearance.
  std::string letter(const std::string& name) const;

 private:
  struct Equation {
    Index difference;
    bool implied;
    std::string what;
  };
  bool solve(const Equation& equation);  // false: it is deferred
  void settle();

  std::vector<std::pair<std::string, Index>> solved_;  // symbols and their values over unsolved symbols
  std::vector<Equation> kept_;
  std::vector<Condition> required_;
  std::size_t count_ = 0;
};

}  // namespace rewright::rules::taso
