// Derives rules from rules of any generality: on instances of known sizes, in an e-graph where they are applied in both
// directions for a bounded number of rounds.
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
  std::size_t applications = 400;  // the most applications of operators
  int instances = 4;               // of the derived rule, all of which must follow
  std::uint64_t seed = 1;
};

// Rules as equations: applied to the target, and back if the target binds all that the source needs.
class RuleTheory {
 public:
  RuleTheory();
  ~RuleTheory();
  RuleTheory(RuleTheory&&) noexcept;

  // Returns the rule's number.
  std::size_t add(const Rule& rule);
  // Inactive rules are not applied.
  void set_active(std::size_t number, bool active);
  // Do the active rules, except `without`, make both sides of a rule equal on sampled instances? False if no instance can be
  // sampled. Thread-safe.
  bool derives(const Rule& rule, const RuleDerivationLimits& limits = {}, std::span<const std::size_t> without = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewright::generator
