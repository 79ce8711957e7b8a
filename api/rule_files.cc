#include "api/rule_files.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "rules/io.h"

namespace rewright::api {

bool is_part_of_shipped_rules(const std::string& argument) {
  std::error_code error;
  return (argument == "generated" || argument == "handwritten") && !std::filesystem::exists(argument, error);
}

std::vector<Rule> read_all_rules(const std::vector<std::string>& files) {
  if (files.empty()) return shipped_rules().rules();
  std::vector<Rule> rules;
  for (const std::string& file : files) {
    if (!is_part_of_shipped_rules(file)) {
      for (Rule& rule : read_rules(file)) rules.push_back(std::move(rule));
      continue;
    }
    const bool generated = file == "generated";
    for (const Rule& rule : shipped_rules().rules())
      if (rule.origin == RuleOrigin::kBoth || (rule.origin == RuleOrigin::kGenerated) == generated) rules.push_back(rule);
  }
  return RuleSet(std::move(rules)).rules();
}

std::vector<Rule> read_proved_rules(const std::vector<std::string>& files, bool unproved) {
  std::vector<Rule> rules = read_all_rules(files);
  if (files.empty())
    std::erase_if(rules, [](const Rule& rule) {
      return rule.origin == RuleOrigin::kGenerated && rule.target.nodes.size() >= rule.source.nodes.size();
    });
  for (const Rule& rule : rules)
    if (rule.proof.status != RuleStatus::kProved && !unproved)
      throw Error(ErrorCode::kBadInput, "the rule is not proved", "rule " + rule.name,
                  "give what rewright verify -o writes, or --unproved");
  return rules;
}

}  // namespace rewright::api
