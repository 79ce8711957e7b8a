#include "generator/pruning/provenance.h"

#include <algorithm>
#include <numeric>

#include "rules/isomorphism.h"

namespace rewright::generator {

namespace {

std::size_t size(const Rule& rule) { return rule.source.nodes.size() + rule.target.nodes.size(); }

bool reverse_each_other(const Rule& a, const Rule& b) {
  if (a.source.nodes.size() != b.target.nodes.size() || a.target.nodes.size() != b.source.nodes.size()) return false;
  Rule back = a;
  std::swap(back.source, back.target);
  back.source = canonical(back.source);
  back.target = canonical(back.target);
  return same_rule(back, b);
}

// For each rule the first rule with the same equation.
std::vector<std::size_t> equations(const std::vector<Rule>& rules) {
  std::vector<std::size_t> first(rules.size());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    first[i] = i;
    for (std::size_t j = 0; j < i && first[i] == i; ++j)
      if (first[j] == j && rules[i].math == rules[j].math && reverse_each_other(rules[j], rules[i])) first[i] = j;
  }
  return first;
}

}  // namespace

std::string_view name(Standing::Kind kind) {
  switch (kind) {
    case Standing::Kind::kSame:
      return "same";
    case Standing::Kind::kFollows:
      return "follows";
    case Standing::Kind::kInPart:
      return "in part";
    case Standing::Kind::kNot:
      return "no";
  }
  return "";
}

std::vector<Standing> standings(std::span<const Rule> rules, std::span<const Rule> given, int instances,
                                const RuleDerivationLimits& limits) {
  RuleTheory theory;
  for (const Rule& rule : given) theory.add(rule);
  std::vector<Standing> result;
  for (const Rule& rule : rules) {
    Standing standing;
    const auto same = std::find_if(given.begin(), given.end(), [&](const Rule& other) { return same_rule(rule, other); });
    if (same != given.end()) {
      standing.kind = Standing::Kind::kSame;
      standing.same = same->name;
    } else {
      RuleDerivationLimits one = limits;
      one.instances = 1;
      for (; standing.instances < instances; ++standing.instances, ++one.seed)
        if (theory.derives(rule, one)) ++standing.derived;
      if (standing.derived > 0)
        standing.kind = standing.derived == standing.instances ? Standing::Kind::kFollows : Standing::Kind::kInPart;
    }
    result.push_back(std::move(standing));
  }
  return result;
}

ReducedRules reduced(std::vector<Rule> rules, const RuleDerivationLimits& limits) {
  const std::vector<std::size_t> equation = equations(rules);
  std::vector<bool> kept(rules.size(), true);
  std::vector<std::size_t> order(rules.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size(rules[a]) != size(rules[b]) ? size(rules[a]) > size(rules[b]) : a > b;
  });
  for (const MathClass math : {MathClass::kExact, MathClass::kReassociates, MathClass::kCancels, MathClass::kNeedsFinite}) {
    RuleTheory theory;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      theory.add(rules[i]);
      theory.set_active(i, kept[i] && rules[i].math <= math);
    }
    for (const std::size_t i : order) {
      if (rules[i].math != math || equation[i] != i) continue;
      const auto keep = [&](bool keeps) {
        for (std::size_t j = i; j < rules.size(); ++j) {
          if (equation[j] != i) continue;
          kept[j] = keeps;
          theory.set_active(j, keeps);
        }
      };
      keep(false);
      if (!theory.derives(rules[i], limits)) keep(true);
    }
  }
  ReducedRules result;
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (kept[i])
      result.rules.push_back(std::move(rules[i]));
    else
      result.dropped.push_back(rules[i].name);
  return result;
}

}  // namespace rewright::generator
