// Equality saturation (egg, POPL'21; Tensat, MLSys'21): all rules are applied everywhere, nothing is taken away, until nothing
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
  // Back-off: a rule that is found more often in one iteration is left out of the next ones; both numbers double each time.
  std::size_t matches = 400;
  std::size_t ban = 2;
  // Rules with several roots are left out after so many iterations: each pair of results that they join gives another to join.
  std::size_t joint_iterations = 2;
};

// A rule that was applied.
struct Application {
  EMatch match;
  EMatcher::Made made;
};

class Saturation {
 public:
  // The graph must be tidy, and outlive this.
  Saturation(const Graph& graph, const RuleIndex& rules, const SaturationOptions& options);

  // kSaturated, kNodes, kDone (as many iterations as allowed), or what the limits say. May be called again.
  StopReason run(Limits& limits);

  EGraph& graph() { return graph_; }
  const EGraph& graph() const { return graph_; }
  const EMatcher& matcher() const { return matcher_; }
  const RuleIndex& rules() const { return rules_; }
  const std::vector<Application>& applications() const { return applications_; }
  // The application that made an e-node; nothing for those of the graph.
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
  std::unordered_set<std::uint64_t> seen_;  // skeletons of what was added
  std::size_t iteration_ = 0;
};

// The rewrites that a choice of e-nodes rests on, in an order in which they can be done again, and the chosen e-nodes: as a
// step of a certificate with no region yet. `chosen`: e-nodes, each after what it reads, that make all outputs of the graph.
CertificateStep explain_choice(const Saturation& saturation, std::span<const ENodeId> chosen);

// The graph that a step's choice makes of a region's graph; nullopt if the step does not fit. The names in the step become
// those of this region.
std::optional<Graph> apply_step(const Graph& region, const RuleIndex& rules, CertificateStep& step);

}  // namespace rewright::optimizer
