// Comparing both sides of a rule on instances; counterexamples, as small as they can be made.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "expressions/tensor.h"
#include "rules/instance.h"
#include "rules/rule.h"

namespace rewright::rules {

// How the two sides differ on an instance.
struct SideDifference {
  enum class Kind {
    kIllTyped,  // the target is, where the source is not
    kType,      // an output has another type or shape
    kValue,     // an element of an output has another value
  };
  static constexpr int kKindsOfInputs = 5;  // that are sampled in turn

  Kind kind = Kind::kValue;
  std::string what;
  std::vector<Tensor> inputs{};  // kValue
  bool finite = true;            // kValue: the target's value is a number
};

struct Counterexample {
  RuleInstance instance;
  SideDifference difference;
};

// Compares over the prime field under two keys, and in double. A difference over the field counts where one in double (or in
// integers) is found too: functions are hashes there, which know no identities. `number` chooses the kind of inputs.
std::optional<SideDifference> compare_sides(const Rule& rule, const RuleInstance& instance, int number,
                                            std::mt19937_64& random);

// Tests the rule on given inputs. nullopt where the source has no finite value.
std::optional<SideDifference> compare_on(const Graph& source, const Graph& target, const std::vector<Tensor>& inputs);

// Fewer axes, smaller sizes and attributes, inputs of zeros and ones as far as the sides still differ in the same way.
Counterexample shrunk(const Rule& rule, Counterexample example);

// Sizes, attributes, inputs, and what differs, on one line.
std::string to_string(const Rule& rule, const Counterexample& example);
std::string to_text(double value);  // as it is shown there

enum class TestOutcome {
  kAgreed,   // both sides agreed on all instances
  kRefuted,  // they differed on one
  kTooFew,   // not enough instances were found
};

struct RuleTest {
  TestOutcome outcome = TestOutcome::kTooFew;
  int instances = 0;
  std::optional<Counterexample> counterexample;  // kRefuted
};

// Samples instances and compares the sides on each. The counterexample refers to the rule, which must outlive it.
RuleTest test_rule(const Rule& rule, int instances, std::uint64_t seed);

// A longer search, for a rule that stays without verdict otherwise: other instances, more kinds of them, and on where none is
// found for a while.
RuleTest test_rule_widely(const Rule& rule, int instances, std::uint64_t seed);

}  // namespace rewright::rules
