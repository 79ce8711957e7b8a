// Reading and writing rule files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "rules/rule.h"

namespace rewright::rules {

enum class RuleFormat { kAlgebra, kText, kBinary };  // docs/rules.md; protobuf's text format; protobuf's binary format

// Recognizes the format by its first bytes. Throws Error(kBadInput) with file, line and what is wrong; a file is refused whole.
std::vector<Rule> read_rules(const std::filesystem::path& file);
std::vector<Rule> read_rules(std::string_view bytes, const std::string& name);

// A rule of a file that is refused, and why.
struct BadRule {
  std::string name;  // empty if not even that can be read
  int line = 0;      // in a file of algebra
  std::string what;
};
// The same, for files of which the good rules are wanted although others are bad: these are added to `bad`. What is no file of
// rules at all still throws. The proof of a rule that was changed since is left out instead of being refused.
std::vector<Rule> read_rules(const std::filesystem::path& file, std::vector<BadRule>& bad);
std::vector<Rule> read_rules(std::string_view bytes, const std::string& name, std::vector<BadRule>& bad);

std::string write_rules(const std::vector<Rule>& rules, RuleFormat format);

// The algebra alone. `name` is the file's, for messages.
std::vector<Rule> parse_algebra(std::string_view text, const std::string& name);
std::vector<Rule> parse_algebra(std::string_view text, const std::string& name, std::vector<BadRule>& bad);
// parse_algebra(to_algebra(rule)) is the rule, apart from its proof and origin, which only the Protobuf forms keep.
std::string to_algebra(const Rule& rule);
// Parts of rules in the same notation.
std::string to_algebra(const PatternInput& input);
std::string to_algebra(const Expression& expression);
std::string to_algebra(const Predicate& predicate);
// Of the rule's algebra, the same on every machine: which rule was proved, or applied.
std::uint64_t hash(const Rule& rule);

}  // namespace rewright::rules
