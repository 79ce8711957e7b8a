// Consequences of rules of any generality: on instances of known sizes they are applied both ways in an e-graph, for a
// bounded number of rounds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rules/rule.h"

namespace rewright::generator {

struct RuleDerivationLimits {
  std::size_t rounds = 10;
  std::size_t applications = 400;  // of operators
  int instances = 4;               // of the rule that is to follow: it has to on each
  std::uint64_t seed = 1;
};

// Rules as equations: towards the target, and back where the target binds all that the source needs.
class RuleTheory {
 public:
  RuleTheory();
  ~RuleTheory();
  RuleTheory(RuleTheory&&) noexcept;

  // Returns its number.
  std::size_t add(const Rule& rule);
  // Rules that are not active are not applied.
  void set_active(std::size_t number, bool active);
  // Are both sides of a rule equal by the active rules, on sampled instances of it? False where none can be sampled.
  // Thread-safe. The rules of `without` are not applied either.
  bool derives(const Rule& rule, const RuleDerivationLimits& limits = {}, std::span<const std::size_t> without = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewright::generator
