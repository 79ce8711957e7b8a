// Compares both sides of a rule on instances, and shrinks counterexamples.
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

// The difference between the sides on an instance.
struct SideDifference {
  enum class Kind {
    kIllTyped,  // only the target is ill-typed
    kType,      // an output has another type or shape
    kValue,     // an element of an output has another value
  };
  static constexpr int kKindsOfInputs = 5;  // kinds that are sampled in turn

  Kind kind = Kind::kValue;
  std::string what;
  std::vector<Tensor> inputs{};  // kValue
  bool finite = true;            // kValue: the target's value is finite
};

struct Counterexample {
  RuleInstance instance;
  SideDifference difference;
};

// Compares over the prime field under two keys, and in double. A difference in the field only counts if there is one in double
// (or in integers) too: in the field functions are hashes, without identities. `number` selects the kind of inputs.
std::optional<SideDifference> compare_sides(const Rule& rule, const RuleInstance& instance, int number,
                                            std::mt19937_64& random);

// Tests the rule on given inputs. nullopt where the source is not finite.
std::optional<SideDifference> compare_on(const Graph& source, const Graph& target, const std::vector<Tensor>& inputs);

// Reduces axes, sizes and attributes, and simplifies inputs to zeros and ones, as long as the sides differ in the same way.
Counterexample shrunk(const Rule& rule, Counterexample example);

// Sizes, attributes, inputs, and the difference, on one line.
std::string to_string(const Rule& rule, const Counterexample& example);
std::string to_text(double value);  // as to_string prints numbers

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

// A longer search for rules that otherwise stay undecided: other and more kinds of instances, and more attempts where none are
// found.
RuleTest test_rule_widely(const Rule& rule, int instances, std::uint64_t seed);

}  // namespace rewright::rules
