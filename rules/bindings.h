// Values of a rule's variables. Matching a rule in a graph and instantiating it both bind variables by unification.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/rule.h"

namespace rewright::rules {

// Unification of patterns with values. Functions that return a bool return whether pattern and value can still be equal. After
// false the bindings must not be used. Copyable: a matcher copies them where it branches.
class Bindings {
 public:
  explicit Bindings(const Rule& rule) : rule_(&rule) {}

  // Binds pattern input `number` to a tensor of this type.
  bool bind_input(std::size_t number, const TensorType& type);
  // The attributes of a node (normalized for its inputs) against those of a source node. What the pattern writes out is
  // normalized too before it is compared: an absent list, an axis counted from the back.
  bool bind_attributes(const PatternNode& pattern, const Attributes& values, const Inputs& inputs);
  // One attribute's value against its pattern.
  bool bind_attribute(const Expression& pattern, const AttributeValue& value);
  // Requires an index expression of the pattern to equal a value: binds a variable, decides, or defers until more is bound.
  bool bind_index(const Index& pattern, const Index& value);

  // Called when the whole source is bound: evaluates the quantities, solves deferred equations, checks conditions and
  // predicates. Also false if a condition cannot be decided (symbolic sizes): then the rule must not be applied.
  bool complete();

  // The value of an expression once everything in it is bound. Throws Error(kBadInput) if something is not.
  AttributeValue evaluate(const Expression& expression) const;
  Index evaluate(const Index& expression) const;

  const std::map<std::string, AttributeValue, std::less<>>& values() const { return values_; }
  const Rule& rule() const { return *rule_; }
  // Binds or compares a variable of any sort.
  bool bind(std::string_view variable, const AttributeValue& value);
  std::optional<AttributeValue> try_evaluate(const Expression& expression) const;
  std::optional<Index> try_evaluate(const Index& expression) const;

 private:
  bool settle();  // solves deferred equations until nothing changes
  bool solve(const Index& pattern, const Index& value, bool& progress);
  bool split_join(const Expression& join, const AttributeValue& value, bool& progress);
  bool holds(const Predicate& predicate) const;
  std::optional<AttributeValue> call(const Expression& expression) const;
  std::optional<std::size_t> input_number(std::string_view name) const;
  struct Kept {
    Index pattern, value;
  };
  struct KeptCall {
    Expression pattern;
    AttributeValue value;
  };
  const Rule* rule_;
  std::map<std::string, AttributeValue, std::less<>> values_;  // index variables too
  std::vector<std::optional<TensorType>> inputs_;
  std::vector<Kept> kept_;
  std::vector<KeptCall> kept_calls_;
};

}  // namespace rewright::rules
