// Equality saturation (egg, POPL'21; Tensat, MLSys'21): applies all rules everywhere without removing anything, until nothing
// is new or a limit is reached.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "optimizer/limits/limits.h"
#include "optimizer/matching/steps.h"
#include "optimizer/saturation/e_graph.h"
#include "optimizer/saturation/e_match.h"

namespace rewright::optimizer {

struct SaturationOptions {
  std::size_t nodes = 600;  // live e-nodes
  std::size_t iterations = 30;
  // Back-off: a rule with more matches in one iteration is skipped in the following ones; both numbers double each time.
  std::size_t matches = 400;
  std::size_t ban = 2;
  // Rules with several roots are skipped after this many iterations: each pair of results that they join makes another one.
  std::size_t joint_iterations = 2;
};

// An application of a rule.
struct Application {
  EMatch match;
  EMatcher::Made made;
};

class Saturation {
 public:
  // The graph must be tidied, and outlive this object.
  Saturation(const Graph& graph, const RuleIndex& rules, const SaturationOptions& options);

  // Returns kSaturated, kNodes, kDone (all allowed iterations), or the limits' reason. May be called again.
  StopReason run(Limits& limits);

  EGraph& graph() { return graph_; }
  const EGraph& graph() const { return graph_; }
  const EMatcher& matcher() const { return matcher_; }
  const RuleIndex& rules() const { return rules_; }
  const std::vector<Application>& applications() const { return applications_; }
  // The application that created an e-node; nullopt for the graph's.
  std::optional<std::uint32_t> creator(ENodeId id) const;
  std::size_t iterations() const { return iteration_; }

 private:
  struct Schedule {
    std::size_t banned_until = 0, times = 0;
  };
  std::vector<EMatch> find_matches(bool all, bool& left_out, Limits& limits);
  bool apply(const EMatch& match);

  const RuleIndex& rules_;
  SaturationOptions options_;
  EGraph graph_;
  EMatcher matcher_;
  std::vector<Application> applications_;
  std::vector<std::uint32_t> creators_;
  std::vector<Schedule> schedules_;
  std::unordered_set<std::uint64_t> seen_;  // skeletons of added targets
  std::size_t iteration_ = 0;
};

// The rewrites that a choice of e-nodes depends on, in an order in which they can be repeated, and the chosen e-nodes: a
// certificate step without a region. `chosen`: operands first; they compute all outputs of the graph.
CertificateStep explain_choice(const Saturation& saturation, std::span<const ENodeId> chosen);

// A region's graph after a step; nullopt if the step does not fit. The step's names become those of this region.
std::optional<Graph> apply_step(const Graph& region, const RuleIndex& rules, CertificateStep& step);

}  // namespace rewright::optimizer
