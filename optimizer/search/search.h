// Searches for a cheaper equivalent graph, region by region: backtracking (as in TASO, SOSP'19), equality saturation (as in
// Tensat, MLSys'21), or both.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "optimizer/costs/cost_model.h"
#include "optimizer/limits/limits.h"
#include "optimizer/matching/match.h"
#include "optimizer/matching/steps.h"
#include "optimizer/saturation/improve.h"

namespace rewright::optimizer {

struct SearchProgress {
  double fraction = 0;               // of the current pass
  int pass = 0;                      // from 1
  double cost_before = 0, cost = 0;  // seconds
  std::size_t graphs = 0;
};

enum class Strategy { kBacktrack, kSaturate, kAuto };
std::string_view name(Strategy strategy);  // "backtrack", "saturate", "auto"

struct SearchOptions {
  Strategy strategy = Strategy::kBacktrack;
  double alpha = 1.05;  // a step may lead to a graph that costs up to this multiple of the best one
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::size_t memory = std::size_t{8} << 30;  // bytes of the process
  std::size_t region_nodes = 28;              // at most, in a region
  std::size_t patience = 24;                  // a region is finished after this many expansions without gain
  std::size_t max_graphs = 4000;              // in a region
  int max_passes = 6;
  ImproveOptions saturation;
  // Simplex iterations of all extractions together: with many regions, each gets fewer.
  std::int64_t iterations = 24000;
  double saturation_share = 0.3;  // of the time left when it begins, for kAuto
  int threads = 1;                // does not change the result
  std::stop_token cancel;
  std::function<void(const SearchProgress&)> progress;  // called by the searching thread
};

// A graph on the way to the best one.
struct Milestone {
  Graph graph;
  std::vector<CertificateStep> steps;  // from the original graph
  double cost = 0;                     // seconds
};

// Predictions for a graph of the search.
struct FrontPoint {
  Quantities quantities;
  std::size_t nodes = 0, rewrites = 0;
};

struct SearchResult {
  Graph graph;
  std::vector<CertificateStep> steps;  // from the original graph
  double cost_before = 0, cost = 0;
  StopReason stop_reason = StopReason::kDone;
  std::size_t graphs_explored = 0;
  std::size_t regions = 0, regions_reused = 0;
  std::size_t e_nodes = 0;  // live ones of the largest e-graph
  // The Pareto front of time and memory over all whole graphs examined; fastest first.
  std::vector<FrontPoint> front;
  std::vector<Milestone> milestones;  // further candidates to measure, cheapest first, at most kMilestones
};
inline constexpr std::size_t kMilestones = 3;

// Cuts the graph into regions where few values cross. Passes with different borders follow until nothing is gained. Steps found
// in a region are applied to all regions that are equal up to the contents of constants.
//
// Backtracking: in each region, graphs are expanded in order of cost by every matching rule; graphs above a cost threshold, or
// seen before (up to constants), are dropped. The threshold is the region's best cost plus (alpha - 1) times the whole graph's
// cost, or, in small graphs, plus a multiple of the region's.
//
// Saturation: each region becomes an e-graph, from which the cheapest choice is put back.
//
// Auto: first each region is saturated, and also cleaned up (rewrites that gain at once), and the better result counts; then
// saturation alone, until nothing is gained; then saturation and backtracking, with the better result for each region. Rules
// that are `later` come last: from what was found, backtracking takes a few steps with all rules, in a seventh of the work
// before.
//
// Deterministic for the same graph, rules, options and costs, unless time or memory runs out.
SearchResult search(const Graph& graph, const RuleIndex& rules, CostModel& costs, const SearchOptions& options);

}  // namespace rewright::optimizer
