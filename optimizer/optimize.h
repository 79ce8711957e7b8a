// The optimizer: from a graph to the fastest equivalent one for a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "optimizer/certificates/certificate.h"
#include "optimizer/checking/check.h"
#include "optimizer/checking/fault.h"
#include "optimizer/checking/written_check.h"
#include "optimizer/costs/database.h"
#include "optimizer/devices/device.h"
#include "optimizer/folding/fold.h"
#include "optimizer/inputs/inputs.h"
#include "optimizer/limits/budget.h"
#include "optimizer/search/search.h"

namespace rewright::optimizer {

struct OptimizeProgress {
  std::string stage;             // "folding", "searching", "measuring", "checking"
  double fraction = 0;           // of the stage
  double predicted_gain = 1;     // predicted time before / of the best graph so far
  double predicted_seconds = 0;  // of the best graph so far; 0: not known yet
};

struct OptimizeOptions {
  MathClass math = MathClass::kReassociates;
  bool for_training = false;  // weights are variables: they are not folded
  Strategy strategy = Strategy::kAuto;
  Objective objective = Objective::kLatency;  // others are predicted: graphs are timed for the report alone
  double alpha = 1.05;
  double budget_seconds = 18;  // wall-clock, of everything: search, measuring, checking, and writing what is found
  std::optional<Budget::Clock::time_point> started;  // when they began; none: with the call of optimize()
  Budget::Now now;                                   // the clock by which phases are given their time; none: the usual one
  std::size_t memory = std::size_t{8} << 30;         // bytes of the process
  SearchOptions search;                       // its other limits; what is said above and `cancel` and `progress` go before
  std::map<std::string, std::int64_t> sizes;  // of the model's symbolic sizes; 1 where none is given
  int check_runs = 1;                         // 0: the results are not compared
  Device* second_device = nullptr;            // executes for the check what the device cannot; then the interpreter does
  ReferenceCheck reference_check;             // of what the check executed; none: both sides are compared alone
  // A graph as it comes back from the file that it will be written to: that is what is compared. None: the graph itself.
  std::function<Graph(const Graph&)> written;
  std::uint64_t seed = 0;
  FoldOptions fold;
  TimingOptions timing;     // of the whole graphs at the end
  bool measure = true;      // false: predicted costs alone decide, by a roofline with the same rates everywhere
  bool time_graphs = true;  // false: predicted costs alone decide
  std::function<void(const OptimizeProgress&)> progress;
  std::stop_token cancel;  // ends the search; what was found is still measured and checked
};

struct AppliedRule {
  std::string rule;
  std::vector<std::string> where;  // names of nodes or values
};

struct OpaqueNode {
  std::string node, reason;
};

struct OptimizeReport {
  std::string device;
  std::string strategy;     // "backtrack", "saturate", "auto"
  std::string stop_reason;  // of the search: "done", "saturated", "nodes", "time", "memory", "cancelled"
  double search_seconds = 0;
  std::size_t graphs_explored = 0, e_nodes = 0, operators_measured = 0;
  std::vector<AppliedRule> rules_applied;
  std::string objective;                             // "latency", "memory", "energy-proxy"
  Quantities quantities_before, quantities_after;    // predicted
  std::vector<FrontPoint> front;                     // of latency and peak memory, predicted, before constants are folded
  double predicted_before = 0, predicted_after = 0;  // seconds
  double measured_before = 0, measured_after = 0;    // seconds, medians; 0: not measured
  double speedup = 1;                                // measured: the lesser of two measurements in processes of their own
  bool changed = false;                              // false: no gain was found, it is the input's graph, tidied
  std::string outcome;                               // one line: why this graph came back
  std::size_t nodes_before = 0, nodes_after = 0;
  std::vector<OpaqueNode> opaque;
  CheckReport check;
  std::size_t peak_bytes = 0;  // of the process
};

struct OptimizeResult {
  Graph graph;
  Certificate certificate;
  OptimizeReport report;
};

// Folds constants, searches, measures the best graphs end to end in turn with the given one, and compares the results of the
// winner with the given graph's on random inputs. What is not significantly faster in two measurements in processes of their
// own (Device::time_afresh) is thrown away, and so is what nothing here can execute, or what the budget leaves no time to
// measure or to check: then the given graph comes back, without nodes and constants that nothing needs or that are there twice,
// if that can be compared. Where results differ, the step that made the difference is left out and named
// (CheckReport::differs), and the search is repeated without it. `database` may be null. Throws Error if the device is gone.
OptimizeResult optimize(const Graph& graph, const std::vector<Rule>& rules, Device& device, Evaluator& evaluator,
                        CostDatabase* database, const OptimizeOptions& options);

}  // namespace rewright::optimizer
