#include "generator/rule_selection.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "rules/io.h"

namespace rewright::generator {

namespace {

std::string numbered(std::size_t number) {
  const std::string digits = std::to_string(number);
  return "generated_" + std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits;
}

// What a rule says, without what it is called.
std::string contents(Rule rule) {
  rule.name = "rule";
  rule.description.clear();
  return to_algebra(rule);
}

// Rules that one equation became: both directions.
struct Group {
  std::vector<Rule> rules;
  std::vector<std::size_t> numbers;  // in the theory
};

}  // namespace

RuleSelection select_rules(const std::vector<Equation>& equations, Forms& forms, const RuleSelectionOptions& options) {
  RuleSelection result;
  RuleWriter writer(forms, options.writer);
  RuleTheory theory;
  std::vector<Group> groups;
  std::set<std::string> known;
  const auto derived = [&](const std::vector<Rule>& rules) {
    return std::all_of(rules.begin(), rules.end(), [&](const Rule& r) { return theory.derives(r, options.limits); });
  };
  std::size_t count = 0;
  for (std::size_t n = 0; n < equations.size() && !options.stop.stop_requested(); ++n) {
    if (options.progress && n % 8 == 0) options.progress(static_cast<double>(n) / static_cast<double>(equations.size()), count);
    if (options.derivable)
      if (const auto found = writer.as_found(equations[n]); found && derived({*found})) {
        ++result.pruned["instance of a rule"];
        continue;
      }
    Group group;
    for (Rule& rule : writer.write(equations[n], numbered(n + 1)))
      if (known.insert(contents(rule)).second) group.rules.push_back(std::move(rule));
    if (group.rules.empty()) {
      ++result.pruned["not general"];
      continue;
    }
    for (const Rule& rule : group.rules) group.numbers.push_back(theory.add(rule));
    count += group.rules.size();
    groups.push_back(std::move(group));
  }
  // The general ones may have been found later.
  std::vector<bool> dropped(groups.size());
  if (options.derivable) {
    const auto set_active = [&](const Group& group, bool active) {
      for (const std::size_t number : group.numbers) theory.set_active(number, active);
    };
    for (std::size_t g = groups.size(); g-- > 0 && !options.stop.stop_requested();) {
      set_active(groups[g], false);
      dropped[g] = derived(groups[g].rules);
      set_active(groups[g], !dropped[g]);
    }
    // Chains of derivations may have become longer than the limits.
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (dropped[g] && !derived(groups[g].rules)) {
        dropped[g] = false;
        set_active(groups[g], true);
      }
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (dropped[g]) {
      ++result.pruned["instance of a rule"];
      continue;
    }
    for (Rule& rule : groups[g].rules) result.rules.push_back(std::move(rule));
  }
  return result;
}

}  // namespace rewright::generator
