// Derives equations from the kept ones in a small e-graph: applies them in both directions for a bounded number of rounds.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "generator/enumeration/expressions.h"
#include "generator/pruning/rewrite_index.h"

namespace rewright::generator {

struct DerivationLimits {
  std::size_t rounds = 2;
  std::size_t nodes = 150;
};

// The kept equations, as rewrites of one value each.
class Theory {
 public:
  explicit Theory(Forms& forms) : forms_(forms), symbols_(forms.configuration()) {}
  // Returns the equation's number.
  std::uint32_t add(const Equation& equation);
  // Inactive equations are not applied.
  void set_active(std::uint32_t number, bool active) { active_[number] = active; }
  // Do the equations of all outputs follow within the limits?
  bool derives(const Equation& equation, const DerivationLimits& limits) const {
    return derives(equation, limits, forms_, std::nullopt);
  }
  // With forms of the caller, so that several threads may call it, and without one of the equations.
  bool derives(const Equation& equation, const DerivationLimits& limits, Forms& forms,
               std::optional<std::uint32_t> without) const;

 private:
  friend class EGraph;
  Forms& forms_;
  Symbols symbols_;
  RewriteIndex index_;
  std::vector<bool> active_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_hash_;  // equation numbers
};

}  // namespace rewright::generator
