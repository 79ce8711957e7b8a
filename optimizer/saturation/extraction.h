// Choosing the cheapest graph out of an e-graph. An e-node that several others read is paid once, so the best choice of one
// class depends on the others: an integer program, as in Tensat (MLSys'21).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/saturation/e_graph.h"

namespace rewright::optimizer {

// Seconds less, if all of `nodes` are chosen, nothing else that is chosen reads `inner`, none of these is an output of the
// graph, and one of the other savings in `one_of` is made (if any are named). An e-node is in `spent` of at most one saving
// that is made; those of `nodes` that read `inner` are all spent.
struct Saving {
  std::vector<ENodeId> nodes, spent;
  std::vector<ClassId> inner;
  std::vector<std::uint32_t> one_of;
  double seconds = 0;
  bool operator==(const Saving&) const = default;
};

struct ExtractionProblem {
  const EGraph* graph = nullptr;
  std::vector<double> seconds;  // of each e-node alone, positive. What is computed from constants is free
  std::vector<Saving> savings;
  bool operator==(const ExtractionProblem&) const = default;
};

struct ExtractionOptions {
  double gap = 1e-3;
  std::int64_t nodes = 50;         // of branch and bound
  std::int64_t iterations = 2000;  // of the simplex method: the first node alone may take long
  double hopeless = 0.8;           // as IntegerProgram::Options; 0: never
  double seconds = 20;
  int seed = 0;
};

struct Extraction {
  std::vector<ENodeId> chosen;  // each after what it reads; they make all outputs of the graph
  double seconds = 0;
  double bound = 0;             // no choice costs less
  bool optimal = false;         // within the gap
  std::int64_t iterations = 0;  // of the simplex method
  bool timed_out = false;       // another time it may be another choice
};

// The graph that the e-graph began as, and the choice of the cheapest e-node in each class as if nothing were shared.
std::vector<ENodeId> given_choice(const ExtractionProblem& problem);
std::vector<ENodeId> greedy_choice(const ExtractionProblem& problem);
double cost_of(const ExtractionProblem& problem, std::span<const ENodeId> chosen);

// By integer programming, begun with the better of the two above; what comes back is never worse.
Extraction extract(const ExtractionProblem& problem, const ExtractionOptions& options);

}  // namespace rewright::optimizer
