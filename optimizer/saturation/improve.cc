#include "optimizer/saturation/improve.h"

#include <algorithm>

#include "optimizer/saturation/costs.h"

namespace rewright::optimizer {

namespace {

std::optional<double> measured_cost(const Graph& graph, const RuleIndex& rules, CostModel& costs) {
  return costs.measured_cost(MatchedGraph(graph, rules.options().for_training));
}

}  // namespace

Improvement improve(const Graph& region, const RuleIndex& rules, CostModel& costs, const ImproveOptions& options,
                    Limits& limits) {
  Improvement result;
  const std::optional<double> given = measured_cost(region, rules, costs);
  if (!given) return result;
  result.seconds = *given;
  result.step.emplace().kind = CertificateStep::Kind::kSaturate;
  Saturation saturation(region, rules, options.saturation);
  result.reason = saturation.run(limits);
  result.nodes = saturation.graph().live_count();
  std::optional<ExtractionProblem> known;
  std::vector<std::vector<ENodeId>> tried;
  for (int round = 0; round < options.rounds; ++round) {
    if (limits.reached() && round > 0) break;
    ExtractionProblem problem = make_problem(saturation.graph(), costs, rules.options().for_training);
    if (known == problem) break;  // measuring changed nothing
    known = std::move(problem);
    ExtractionOptions extraction = options.extraction;
    const std::chrono::duration<double> left = limits.deadline() - std::chrono::steady_clock::now();
    extraction.seconds = std::clamp(left.count(), 0.0, extraction.seconds);
    const Extraction found = extract(*known, extraction);
    if (round == 0) result.estimated = found.seconds;
    result.iterations += found.iterations;
    if (found.timed_out) result.reason = StopReason::kTime;
    result.bound = found.bound;
    result.optimal = found.optimal;
    if (std::find(tried.begin(), tried.end(), found.chosen) != tried.end()) break;
    tried.push_back(found.chosen);
    CertificateStep step = explain_choice(saturation, found.chosen);
    if (step.rewrites.empty()) break;
    const std::optional<Graph> graph = apply_step(region, rules, step);
    if (!graph) break;  // near a node of unknown shape
    const std::optional<double> seconds = measured_cost(*graph, rules, costs);
    if (!seconds) result.step.reset();
    if (!seconds || limits.reached()) break;
    if (*seconds < result.seconds * (1 - 1e-9)) {
      result.seconds = *seconds;
      result.step = std::move(step);
    }
  }
  return result;
}

}  // namespace rewright::optimizer
