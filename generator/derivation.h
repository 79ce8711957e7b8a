// What follows from equations that are kept: a small e-graph in which they are applied both ways for a bounded number of
// rounds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "generator/expressions.h"

namespace rewright::generator {

struct DerivationLimits {
  std::size_t rounds = 2;
  std::size_t nodes = 150;
};

// The equations that are kept, as rewrites of one value each.
class Theory {
 public:
  explicit Theory(Forms& forms) : forms_(forms) {}
  // Returns its number.
  std::uint32_t add(const Equation& equation);
  // Equations that are not active are not applied.
  void set_active(std::uint32_t number, bool active) { active_[number] = active; }
  // Does each output's equation follow within the limits?
  bool derives(const Equation& equation, const DerivationLimits& limits) const {
    return derives(equation, limits, forms_, std::nullopt);
  }
  // The same with forms of one's own, so that several threads may ask at once; and without one of the equations.
  bool derives(const Equation& equation, const DerivationLimits& limits, Forms& forms,
               std::optional<std::uint32_t> without) const;

 private:
  friend class EGraph;
  struct Rewrite {
    Equation equation;
    std::uint32_t from, to;              // roots
    std::uint32_t number;                // of the equation
    std::array<std::uint64_t, 3> wants;  // of each operand of `from`: what it begins with, as a bit; 0 for a variable
  };
  Forms& forms_;
  std::vector<Rewrite> rewrites_;
  std::vector<bool> active_;
  std::multimap<std::uint64_t, std::uint32_t> by_hash_;                                    // of an equation: its number
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> by_root_;  // kind and number of the root
};

}  // namespace rewright::generator
