#include "rules/merge.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "rules/isomorphism.h"

namespace rewright::rules {

namespace {

// The operators of both sides; equal for equal rules.
std::string signature(const Rule& rule) {
  std::string text;
  for (const Pattern* side : {&rule.source, &rule.target}) {
    std::vector<std::string> names;
    for (const PatternNode& node : side->nodes) names.push_back(node.op->name());
    std::sort(names.begin(), names.end());
    for (const std::string& n : names) text += n + " ";
    text += "=> ";
  }
  return text;
}

using Buckets = std::unordered_map<std::string, std::vector<std::size_t>>;  // positions of rules by signature

Buckets by_signature(const std::vector<Rule>& rules) {
  Buckets buckets;
  for (std::size_t i = 0; i < rules.size(); ++i) buckets[signature(rules[i])].push_back(i);
  return buckets;
}

}  // namespace

RuleDifference difference(const std::vector<Rule>& first, const std::vector<Rule>& second) {
  RuleDifference result;
  std::map<std::string, std::size_t> named;
  for (std::size_t i = 0; i < second.size(); ++i) named.emplace(second[i].name, i);
  std::vector<bool> paired(second.size());
  std::vector<const Rule*> left;
  for (const Rule& rule : first) {
    const auto found = named.find(rule.name);
    if (found == named.end()) {
      left.push_back(&rule);
      continue;
    }
    paired[found->second] = true;
    if (!same_rule(rule, second[found->second])) result.changed.push_back(rule.name);
  }
  const Buckets buckets = by_signature(second);
  for (const Rule* rule : left) {
    const auto bucket = buckets.find(signature(*rule));
    const auto same = [&](std::size_t i) { return !paired[i] && same_rule(*rule, second[i]); };
    if (bucket == buckets.end()) {
      result.only_first.push_back(rule->name);
    } else if (const auto at = std::find_if(bucket->second.begin(), bucket->second.end(), same); at != bucket->second.end()) {
      paired[*at] = true;
      result.renamed.emplace_back(rule->name, second[*at].name);
    } else {
      result.only_first.push_back(rule->name);
    }
  }
  for (std::size_t i = 0; i < second.size(); ++i)
    if (!paired[i]) result.only_second.push_back(second[i].name);
  return result;
}

MergedRules merge(std::span<const NamedRules> sets) {
  std::map<std::string, std::pair<const Rule*, const std::string*>> named;  // by name, with the file
  for (const NamedRules& set : sets)
    for (const Rule& rule : set.rules) {
      const auto [at, first] = named.emplace(rule.name, std::pair(&rule, &set.file));
      if (!first && !same_rule(*at->second.first, rule))
        throw Error(ErrorCode::kBadInput, "different rules are called " + rule.name, *at->second.second + ", " + set.file,
                    "rename one of them");
    }
  MergedRules result;
  std::vector<const std::string*> files;  // by kept rule
  Buckets buckets;
  for (const NamedRules& set : sets)
    for (const Rule& rule : set.rules) {
      std::vector<std::size_t>& bucket = buckets[signature(rule)];
      const auto at =
          std::find_if(bucket.begin(), bucket.end(), [&](std::size_t i) { return same_rule(result.rules[i], rule); });
      if (at == bucket.end()) {
        bucket.push_back(result.rules.size());
        result.rules.push_back(rule);
        files.push_back(&set.file);
        continue;
      }
      Rule& kept = result.rules[*at];
      const bool better = rule.proof.status == RuleStatus::kProved && kept.proof.status != RuleStatus::kProved;
      result.dropped.push_back(better ? MergedRules::Duplicate{kept.name, *files[*at], rule.name}
                                      : MergedRules::Duplicate{rule.name, set.file, kept.name});
      if (better) {
        kept = rule;
        files[*at] = &set.file;
      }
    }
  return result;
}

}  // namespace rewright::rules
