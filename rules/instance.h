// Instances of rules: both sides as graphs, for given or sampled values of the variables; and the comparison of the two.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "rules/bindings.h"
#include "rules/rule.h"

namespace rewright {

struct RuleInstance {
  std::vector<TensorType> input_types;
  Bindings bindings;
  Graph source, target;  // inputs in the order of the rule's, with their names
};

// Both sides with the rule's own index variables as symbolic sizes where `values` has none: what a prover starts from. Input
// ranks follow from `ranks` (for open shapes, the length of the middle part: one an input with an open shape).
// Throws Error(kBadInput) if a side is ill-typed, or if both have different types.
RuleInstance instantiate(const Rule& rule, std::vector<TensorType> input_types, Bindings bindings);

// One random instance with known sizes that satisfies all conditions and whose source is well-typed; nullopt if none was found
// in this many attempts.
std::optional<RuleInstance> sample_instance(const Rule& rule, std::mt19937_64& random, int attempts = 400);

struct RuleTest {
  RuleStatus status = RuleStatus::kUnknown;  // kTested, kRefuted; kUndecided: too few instances were found
  int instances = 0;
  std::string counterexample;  // for people: sizes, attributes, the first values that differ
};

// Samples instances and compares both sides over the prime field (two keys) and in double. A target that is ill-typed where the
// source is well-typed refutes the rule.
RuleTest test_rule(const Rule& rule, int instances, std::uint64_t seed);

}  // namespace rewright
