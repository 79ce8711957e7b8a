// Searches integer models of assumptions without a solver: most false statements have a counterexample among small numbers,
// found at a fraction of a solver's cost.
//
// The result depends only on the assumptions in their order, not on earlier questions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "verifier/guard.h"

namespace rewright::proof {

class Models {
 public:
  // Was a model of the assumptions found in which the goal does not hold?
  bool refutes(const Guards& assumptions, const Guard& goal);
  // Was a model of the assumptions found?
  bool satisfies(const Guards& assumptions);

 private:
  using Number = std::size_t;  // index of an expression, variable, condition or node in its table
  using Values = std::vector<std::int64_t>;

  struct Product {
    std::int64_t coefficient;
    std::vector<Number> factors;  // expressions
  };
  struct Expression {
    enum class Kind { kVariable, kSum, kFloorDiv, kMod, kMin, kMax };
    Kind kind;
    Number variable = 0;
    std::int64_t constant = 0;        // kSum
    std::vector<Product> products;    // kSum
    Number arguments[2] = {0, 0};     // of the other kinds
    std::vector<Number> variables{};  // that occur in it
  };
  struct Condition {
    Guard guard;
    Number value = 0;           // an expression
    std::vector<Number> parts;  // conditions
    std::vector<Number> variables;
  };
  // A list of assumptions (its parent's and one more), and some of their models.
  struct Node {
    Number parent = 0;
    Number condition = 0;
    std::size_t depth = 0;
    std::vector<Number> variables;  // that occur in the assumptions
    std::vector<Values> models;
    std::map<Number, Number> children;  // by condition
  };

  Number variable(const Atom& atom);
  Number expression(const Index& index);
  Number expression(const Atom& atom);
  Number condition(const Guard& guard);
  Number node(const Guards& assumptions);
  Number child(Number parent, Number condition);
  std::int64_t value(Number expression, const Values& values) const;
  bool holds(Number condition, const Values& values) const;
  bool repair(const std::vector<Number>& conditions, Values& values, std::uint64_t& random, int steps) const;
  void move(Number condition, Values& values, std::uint64_t& random) const;

  std::map<std::string, Number> symbols_;
  std::unordered_map<std::uint64_t, Number> bound_;
  std::size_t variables_ = 0;
  std::vector<Expression> expressions_;
  std::unordered_map<std::uint64_t, std::vector<std::pair<Index, Number>>> indices_;  // by hash
  std::vector<Condition> conditions_;
  std::unordered_map<std::uint64_t, std::vector<Number>> known_conditions_;  // by hash
  std::vector<Node> nodes_;
};

}  // namespace rewright::proof
