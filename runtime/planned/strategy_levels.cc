#include "runtime/planned/strategy_levels.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "runtime/planned/planned_graph.h"

namespace rewright::runtime {

Levels levels_of(const std::string& strategy) {
  const std::size_t plus = strategy.find('+');
  return plus == std::string::npos ? Levels{strategy, ""} : Levels{strategy.substr(0, plus), strategy.substr(plus + 1)};
}

std::string name_of(const Levels& levels) { return levels.inner.empty() ? levels.outer : levels.outer + "+" + levels.inner; }

std::vector<Levels> wanted_levels(const std::string& strategy, bool has_groups, bool has_images) {
  const auto require_known = [](const std::string& name) {
    if (std::ranges::find(strategies(), name, &PlanStrategy::name) != strategies().end()) return;
    std::string all;
    for (const PlanStrategy& one : strategies()) all += (all.empty() ? "" : ", ") + one.name;
    throw Error(ErrorCode::kUsage, "there is no strategy \"" + name + "\"", "--strategy",
                "it is one of " + all + ", or two of them as in data+tensor");
  };
  const Levels given = levels_of(strategy);
  if (strategy.find('+') != std::string::npos) {
    if (!has_groups)
      throw Error(ErrorCode::kUsage, "there are no groups to divide between", "--strategy", "--groups says how many there are");
    require_known(given.inner);
  }
  require_known(given.outer);
  if (strategy != "auto") return {given};
  std::vector<Levels> result;
  // First those that people choose by hand, of which a plan is found in little time: data parallelism, Megatron's cuts,
  // Krizhevsky's hybrid.
  if (has_groups)
    result = {{"data", ""},     {"data", "tensor"}, {"zero", ""},    {"data", "data"},
              {"data", "auto"}, {"data", "zero"},   {"auto", "auto"}};
  const auto& all = strategies();
  const auto add = [&](const PlanStrategy& one) {
    const bool is_there = std::ranges::any_of(result, [&](const Levels& l) { return l.inner.empty() && l.outer == one.name; });
    if (!is_there && (one.data != PlanStrategy::Data::kImages || has_images)) result.push_back({one.name, ""});
  };
  for (auto one = all.begin() + 1; one != all.end(); ++one)
    if (std::none_of(all.begin(), one, [&](const PlanStrategy& other) { return one->is_like(other); })) add(*one);
  add(all.front());  // any holding, which takes longest
  return result;
}

}  // namespace rewright::runtime
