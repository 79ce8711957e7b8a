// Reading and writing rule files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "rules/rule.h"

namespace rewright::rules {

enum class RuleFormat { kAlgebra, kText, kBinary };  // docs/rules.md; protobuf's text format; protobuf's binary format

// Reads a file of any format, recognized by its first bytes. Throws Error(kBadInput) with file, line and reason; one bad rule
// refuses the whole file.
std::vector<Rule> read_rules(const std::filesystem::path& file);
std::vector<Rule> read_rules(std::string_view bytes, const std::string& name);

// A refused rule of a file, and the reason.
struct BadRule {
  std::string name;  // empty if not even that can be read
  int line = 0;      // in algebra
  std::string what;
};
// Reads the good rules of a file and adds the bad ones to `bad`. Throws if it is no rule file at all. If a rule was changed
// since it was proved, its proof is dropped instead of refusing the rule.
std::vector<Rule> read_rules(const std::filesystem::path& file, std::vector<BadRule>& bad);
std::vector<Rule> read_rules(std::string_view bytes, const std::string& name, std::vector<BadRule>& bad);

std::string write_rules(const std::vector<Rule>& rules, RuleFormat format);

// Reads algebra only. `name` is the file's name in messages.
std::vector<Rule> parse_algebra(std::string_view text, const std::string& name);
std::vector<Rule> parse_algebra(std::string_view text, const std::string& name, std::vector<BadRule>& bad);
// parse_algebra(to_algebra(rule)) is the rule, apart from its proof and origin, which only the Protobuf forms keep.
std::string to_algebra(const Rule& rule);
// Parts of rules in the same notation.
std::string to_algebra(const PatternInput& input);
std::string to_algebra(const Expression& expression);
std::string to_algebra(const Predicate& predicate);
// A hash of the rule's algebra, the same on every machine. Identifies the rule that was proved or applied.
std::uint64_t hash(const Rule& rule);

}  // namespace rewright::rules
