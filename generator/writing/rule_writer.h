// Writes equations as rewrite rules, as general as they can be shown to hold.
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

// Returns the rule with the conditions it needs, if it is proved.
using Prover = std::function<std::optional<Rule>(const Rule&)>;

struct WriterOptions {
  int instances = 20;  // on which a generalization has to hold; fewer if it is to be proved
  std::uint64_t seed = 1;
  Prover prove{};  // only proved rules are written; empty: those that hold on the instances
};

class RuleWriter {
 public:
  RuleWriter(Forms& forms, WriterOptions options) : forms_(forms), options_(std::move(options)) {}

  // The rules towards the cheaper side; in both directions if the sides have equally many operators or the cheaper one has
  // more. Empty if no rule holds for sizes other than those enumerated, or none can be stated. Named `name`, `name_reversed`,
  // with a number if there are several.
  std::vector<Rule> write(const Equation& equation, const std::string& name);
  // The rules with exactly the sizes that were found.
  std::vector<Rule> write_as_found(const Equation& equation, const std::string& name);
  // The rule with the sizes and attributes that were found, in whichever direction it can be stated.
  std::optional<Rule> as_found(const Equation& equation) const;

 private:
  // Appends the typings of the rules to `used`.
  std::vector<Rule> write(const Equation& equation, bool reversed, const std::string& name, std::vector<Typing>& used);
  // The rules of the other direction with the same typings; empty if that is impossible.
  std::vector<Rule> write_as(const Equation& equation, bool reversed, const std::string& name, const std::vector<Typing>& used);
  std::optional<Rule> rule(const Equation& equation, const Typing& typing, bool reversed, const std::string& name) const;
  bool agrees(const Rule& rule);
  std::optional<Rule> proved(const Rule& rule);
  Rule with_tested_rounding(Rule rule) const;

  Forms& forms_;
  WriterOptions options_;
  std::map<std::string, bool> agreed_;  // keyed by the rule's contents, since equations may share a generalization
  std::map<std::string, std::optional<Rule>> proved_;  // keyed the same way
};

// The rule's content without its name.
std::string contents(Rule rule);

}  // namespace rewright::generator
