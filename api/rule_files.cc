#include "api/rule_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "rules/io.h"

namespace rewright::api {

namespace {

// The operators of sums and products.
constexpr std::array<std::string_view, 7> kAlgebra = {"Add", "Sub", "Mul", "MatMul", "ReduceSum", "ReduceMean", "Transpose"};
constexpr std::size_t kLargestSource = 3;  // nodes
constexpr std::array<std::string_view, 2> kReductions = {"ReduceSum", "ReduceMean"};

// Is it a rule of sums and products, with a reduction or with a row or column that is broadcast? It leaves no fewer operators,
// but lets sums meet that a later rule makes cheaper by a whole order, and its source is rare in networks.
bool is_of_sums(const Rule& rule) {
  const auto is_one_of = [](std::span<const std::string_view> names, const PatternNode& node) {
    return std::find(names.begin(), names.end(), node.op->name()) != names.end();
  };
  bool rare = std::any_of(rule.inputs.begin(), rule.inputs.end(), [](const PatternInput& input) {
    const auto has_one = [](const Indices& sizes) { return std::find(sizes.begin(), sizes.end(), Index(1)) != sizes.end(); };
    return has_one(input.shape.front) || has_one(input.shape.back);
  });
  for (const Pattern* side : {&rule.source, &rule.target})
    for (const PatternNode& node : side->nodes) {
      if (!is_one_of(kAlgebra, node)) return false;
      rare |= is_one_of(kReductions, node);
    }
  return rare && rule.source.nodes.size() <= kLargestSource;
}

// With all rules that were found, searches take many times as long and find little more: most repeat others in another order.
bool is_used_from_the_beginning(const Rule& rule) {
  return rule.origin != RuleOrigin::kGenerated || rule.target.nodes.size() < rule.source.nodes.size() || is_of_sums(rule);
}

}  // namespace

bool is_part_of_shipped_rules(const std::string& argument) {
  std::error_code error;
  return (argument == "generated" || argument == "handwritten") && !std::filesystem::exists(argument, error);
}

std::vector<Rule> read_all_rules(const std::vector<std::string>& files) {
  if (files.empty()) return shipped_rules().rules();
  const auto is_asked_for = [&](const Rule& rule) {  // both parts have rules that people and the generator found
    return std::any_of(files.begin(), files.end(), [&](const std::string& file) {
      return is_part_of_shipped_rules(file) &&
             (rule.origin == RuleOrigin::kBoth || (rule.origin == RuleOrigin::kGenerated) == (file == "generated"));
    });
  };
  std::vector<Rule> rules;
  std::copy_if(shipped_rules().rules().begin(), shipped_rules().rules().end(), std::back_inserter(rules), is_asked_for);
  for (const std::string& file : files)
    if (!is_part_of_shipped_rules(file))
      for (Rule& rule : read_rules(file)) rules.push_back(std::move(rule));
  return RuleSet(std::move(rules)).rules();
}

std::vector<Rule> read_proved_rules(const std::vector<std::string>& files, bool unproved) {
  std::vector<Rule> rules = read_all_rules(files);
  if (files.empty())
    for (Rule& rule : rules) rule.later = !is_used_from_the_beginning(rule);
  for (const Rule& rule : rules)
    if (rule.proof.status != RuleStatus::kProved && !unproved)
      throw Error(ErrorCode::kBadInput, "the rule is not proved", "rule " + rule.name,
                  "give what rewright verify -o writes, or --unproved");
  return rules;
}

}  // namespace rewright::api
