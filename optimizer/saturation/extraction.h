// Extracts the cheapest graph from an e-graph. An e-node with several readers is paid once, so the best choice for one class
// depends on the others: an integer program, as in Tensat (MLSys'21).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/saturation/e_graph.h"

namespace rewright::optimizer {

// Seconds saved if all of `nodes` are chosen, no other chosen e-node reads `inner`, none of these is an output of the graph,
// and one of the savings in `one_of` (if any) is realized. An e-node is in `spent` of at most one realized saving; those of
// `nodes` that read `inner` are all in `spent`.
struct Saving {
  std::vector<ENodeId> nodes, spent;
  std::vector<ClassId> inner;
  std::vector<std::uint32_t> one_of;
  double seconds = 0;
  bool operator==(const Saving&) const = default;
};

struct ExtractionProblem {
  const EGraph* graph = nullptr;
  std::vector<double> seconds;  // of each e-node alone, positive. Constants are free
  std::vector<Saving> savings;
  bool operator==(const ExtractionProblem&) const = default;
};

struct ExtractionOptions {
  double gap = 1e-3;
  std::int64_t nodes = 50;         // of branch and bound
  std::int64_t iterations = 2000;  // of the simplex method: the first node alone may take many
  double hopeless = 0.8;           // as in IntegerProgram::Options; 0: never
  double seconds = 20;
  int seed = 0;
};

struct Extraction {
  std::vector<ENodeId> chosen;  // operands first; they compute all outputs of the graph
  double seconds = 0;
  double bound = 0;             // lower bound on the cost of any choice
  bool optimal = false;         // within the gap
  std::int64_t iterations = 0;  // of the simplex method
  bool timed_out = false;       // the result may differ in another run
};

// The choice for the original graph; and the cheapest e-node of each class as if nothing were shared.
std::vector<ENodeId> given_choice(const ExtractionProblem& problem);
std::vector<ENodeId> greedy_choice(const ExtractionProblem& problem);
double cost_of(const ExtractionProblem& problem, std::span<const ENodeId> chosen);

// By integer programming, started from the better of these two; the result is never worse.
Extraction extract(const ExtractionProblem& problem, const ExtractionOptions& options);

}  // namespace rewright::optimizer
