// Equations as rewrite rules, as general as they can be shown to hold.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "generator/enumeration/expressions.h"
#include "generator/writing/typing.h"
#include "rules/rule.h"

namespace rewright::generator {

// The rule with the conditions that it needs beyond its own, if it is proved.
using Prover = std::function<std::optional<Rule>(const Rule&)>;

struct WriterOptions {
  int instances = 20;  // that a generalization has to hold on; fewer where it is to be proved
  std::uint64_t seed = 1;
  Prover prove{};  // what is written; without it, what holds on the instances
};

class RuleWriter {
 public:
  RuleWriter(Forms& forms, WriterOptions options) : forms_(forms), options_(std::move(options)) {}

  // Towards the cheaper side; both ways where the sides have equally many operators, or the cheaper one has more. Empty if no
  // form of the rule holds for sizes other than those enumerated, or none can be said as a rule. Named `name`,
  // `name_reversed`, and with a number where it takes several.
  std::vector<Rule> write(const Equation& equation, const std::string& name);
  // These rules with the sizes they were found with.
  std::vector<Rule> write_as_found(const Equation& equation, const std::string& name);
  // With the sizes and attributes that were found, in a direction in which it can be said.
  std::optional<Rule> as_found(const Equation& equation) const;

 private:
  // Appends the typings that were used to `used`.
  std::vector<Rule> write(const Equation& equation, bool reversed, const std::string& name, std::vector<Typing>& used);
  // The same rules in the other direction, as they were said in the first; empty where that is not possible.
  std::vector<Rule> write_as(const Equation& equation, bool reversed, const std::string& name, const std::vector<Typing>& used);
  std::optional<Rule> rule(const Equation& equation, const Typing& typing, bool reversed, const std::string& name) const;
  bool agrees(const Rule& rule);
  std::optional<Rule> proved(const Rule& rule);

  Forms& forms_;
  WriterOptions options_;
  std::map<std::string, bool> agreed_;                 // by what a rule says: equations may have one generalization
  std::map<std::string, std::optional<Rule>> proved_;  // the same
};

// The content of a rule without its name.
std::string contents(Rule rule);

}  // namespace rewright::generator
