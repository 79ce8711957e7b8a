// Sizes of tensors that are not known, and the equations between them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "expressions/index.h"

namespace rewright::rules::taso {

class Sizes {
 public:
  // A size, at least 1, of which nothing is known. `letter` is what it will be called if it survives.
  Index unknown(const std::string& letter);
  // An expression with all that is known of its sizes.
  Index resolved(const Index& index) const;
  Indices resolved(const Indices& indices) const;

  // Two sizes are equal: one of them is replaced by the other where that is possible, else the equation is kept. If `implied`,
  // a graph in which the source was found satisfies it anyway. Throws Error(kBadInput) if they cannot be equal.
  void equate(const Index& a, const Index& b, bool implied, const std::string& what);
  // The conditions that remain after the replacements.
  void require(const Condition& condition);

  // Kept equations, those that are implied left out, and what was required; undecided ones alone.
  std::vector<Condition> conditions() const;
  // Letters and numbers in place of the names used so far, in order of their appearance.
  std::string letter(const std::string& name) const;

 private:
  struct Equation {
    Index difference;
    bool implied;
    std::string what;
  };
  bool solve(const Equation& equation);  // false: it is to be kept
  void settle();

  std::vector<std::pair<std::string, Index>> solved_;  // a symbol and its value, over symbols that are not solved
  std::vector<Equation> kept_;
  std::vector<Condition> required_;
  std::size_t count_ = 0;
};

}  // namespace rewright::rules::taso
