// Instances of rules: both sides as graphs, for given or sampled values of the variables.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "rules/bindings.h"
#include "rules/rule.h"

namespace rewright::rules {

// One side as a graph whose inputs are the rule's, in order and with their names. Types and values of variables may be known
// or symbolic. Throws Error(kBadInput) if the side is ill-typed.
Graph instantiate(const Rule& rule, const Pattern& side, const std::vector<TensorType>& input_types, const Bindings& bindings);

// The conditions under which a side is well-typed, beyond those decided already, and the types of its outputs, for symbolic
// values of the variables. Throws Error: kBadInput if the side is ill-typed for all of them, kUnsupported if an operator needs
// to know more of them.
struct SideTyping {
  std::vector<Condition> conditions;
  std::vector<TensorType> outputs;
};
SideTyping infer_side(const Rule& rule, const Pattern& side, const std::vector<TensorType>& input_types,
                      const Bindings& bindings);

struct RuleInstance {
  std::vector<TensorType> input_types;
  Bindings bindings;
  Graph source;
};

// Random instances with known sizes that satisfy all conditions and whose source is well-typed: small sizes, often 1, boundary
// strides and pads. Equations between sizes are solved, what is left is sampled.
class InstanceSampler {
 public:
  enum class Spread {
    kUsual,  // mostly ranks at which instances are found quickly
    kWide,   // all possible ranks equally, and computed sizes of 1 that broadcast
  };
  InstanceSampler(const Rule& rule, std::uint64_t seed, Spread spread = Spread::kUsual);
  // Nothing if none was found in this many attempts.
  std::optional<RuleInstance> sample(int attempts = 3000);

 private:
  enum class Sort { kIndex, kList, kReal, kText, kBool, kType };
  struct Variable {
    Sort sort;
    bool in_shape = false;        // it occurs in the shape of an input
    bool permutation = false;     // it must be a permutation
    AttributeValue example;       // a value of its sort: the default of a field that it is used for
    std::vector<DataType> types;  // the possible types
  };
  // The lengths of lists and of the unnamed open parts of shapes, by name and by number of the input.
  struct Ranks {
    std::size_t spatial = 0;      // the most common length
    std::vector<DataType> types;  // types of inputs without a type variable
    std::map<std::string, std::size_t> lists;
    std::vector<std::size_t> open;
    bool operator==(const Ranks&) const = default;
  };

  void find_variables();
  Ranks sample_ranks(std::size_t spatial);
  std::optional<RuleInstance> attempt(const Ranks& ranks);
  AttributeValue sample_value(const std::string& name, const Variable& variable, const Ranks& ranks, bool symbolic);
  Indices sample_list(std::size_t length);
  Ranks varied(Ranks ranks);
  void remember(const Ranks& ranks);
  void broadcast_some(std::vector<Condition>& conditions);
  bool solve(std::vector<Condition>& conditions, std::map<std::string, Index>& values);
  bool choose(std::vector<Condition> conditions, std::map<std::string, Index>& values);
  std::vector<TensorType> input_types(const Bindings& bindings, const Ranks& ranks) const;
  std::int64_t pick(std::initializer_list<std::int64_t> values);
  std::int64_t pick_near_constant(std::int64_t otherwise);
  bool chance(double probability);

  const Rule& rule_;
  std::mt19937_64 random_;
  Spread spread_;
  std::map<std::string, Variable> variables_;
  std::map<std::size_t, std::vector<Ranks>> good_;  // ranks for which an instance was found, by their spatial part
  std::vector<std::int64_t> constants_;             // the rule's constants; interesting boundaries are near them
  std::size_t next_ = 0;                            // instances requested so far
  double known_ = 0;                                // the share of sizes chosen before equations are solved
};

// The instance with these sizes and values of the variables (without quantities); nullopt if a condition does not hold. Throws
// Error if the source is ill-typed.
std::optional<RuleInstance> make_instance(const Rule& rule, std::vector<TensorType> input_types,
                                          const std::map<std::string, AttributeValue>& variables);

}  // namespace rewright::rules
