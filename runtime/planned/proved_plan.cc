// Plans that are searched for and proved.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plans/plan.h"
#include "runtime/planned/planner.h"

namespace rewright::runtime {

using plans::Machine, plans::Plan;

namespace {

// The least seconds for another search.
constexpr double kLeastSearch = 0.5;

// Why the plan is not proved; empty if it is.
std::string open_question(FoundPlan& found, const PlannedGraph& planned) {
  if (found.plan.pipeline) return {};
  const auto begin = std::chrono::steady_clock::now();
  const PlannedGraph divided = divided_by(found.plan, planned);
  const plans::PlanCheck proof = check_plan(found.plan, divided.graph, divided.replaced);
  found.rules = proof.rules;
  found.proof_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return proof.proved ? "" : proof.reason;
}

// If the best plan is not proved: the best of those that were found before it and that are, as long as there is time.
std::optional<FoundPlan> next_best(const FoundPlan& best, const PlannedGraph& planned, const std::function<bool()>& has_time) {
  std::vector<const Plan*> plans;
  for (const Plan& plan : best.tried) plans.push_back(&plan);
  std::ranges::stable_sort(plans, {}, [](const Plan* plan) { return plan->predicted->seconds; });
  FoundPlan result = best;
  for (const Plan* plan : plans) {
    if (plan != plans.front() && !has_time()) return std::nullopt;
    result.plan = *plan;
    result.plan.predicted->lower_bound = std::min(best.plan.predicted->lower_bound, plan->predicted->seconds);
    if (!open_question(result, planned).empty()) continue;
    // Times of plans that are not proved are no times of strategies.
    std::erase_if(result.strategies, [&](const auto& s) { return s.second < plan->predicted->seconds; });
    result.strategies[plan->strategy] = plan->predicted->seconds;
    return result;
  }
  return std::nullopt;
}

}  // namespace

FoundPlan find_plan(const PlannedGraph& planned, const Machine& machine, const PlanSearch& search) {
  // To prove all cuts that there are takes longer than most searches need. Few are not proved in the end.
  PlanChoices proposed(machine, is_step(planned), false);
  return find_plan(planned, machine, search, proposed);
}

FoundPlan find_plan(const PlannedGraph& planned, const Machine& machine, const PlanSearch& search, PlanChoices& proposed) {
  const auto begin = std::chrono::steady_clock::now();
  const auto left = [&] {
    return search.seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  FoundPlan result;
  std::optional<FoundPlan> other;
  try {
    result = search_plan(planned, machine, search, proposed);
    if (open_question(result, planned).empty()) return result;
    other = next_best(result, planned, [&] { return left() > 0; });
  } catch (const Error& e) {  // parts by a cut that is none fit nowhere
    if (e.code() != ErrorCode::kBadInput && e.code() != ErrorCode::kUnsupported) throw;
  }
  if (other && left() < kLeastSearch) return std::move(*other);
  PlanChoices proved(machine, is_step(planned));
  PlanSearch again = search;
  again.seconds = std::max(kLeastSearch, left());
  const double searched = search.seconds - left() - result.proof_seconds;
  FoundPlan found;
  try {
    found = search_plan(planned, machine, again, proved);
    found.search_seconds += searched, found.proof_seconds += result.proof_seconds;
    prove_plan(found, planned);
  } catch (const Error& e) {
    if (!other || (e.code() != ErrorCode::kMissing && e.code() != ErrorCode::kUnsupported && e.code() != ErrorCode::kBadInput))
      throw;
    return std::move(*other);
  }
  const auto seconds = [](const FoundPlan& f) { return f.plan.predicted->seconds_alone.value_or(f.plan.predicted->seconds); };
  if (!other || seconds(found) <= seconds(*other)) return found;
  other->search_seconds = found.search_seconds;
  return std::move(*other);
}

void prove_plan(FoundPlan& found, const PlannedGraph& planned) {
  const std::string question = open_question(found, planned);
  if (!question.empty()) throw Error(ErrorCode::kUnsupported, "the plan was not proved, and is not written: " + question);
}

}  // namespace rewright::runtime
