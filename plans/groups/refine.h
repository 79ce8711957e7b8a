// Changes of a partition that make the simulated step shorter, by the Metropolis algorithm (Z. Jia, M. Zaharia and A. Aiken,
// "Beyond Data and Model Parallelism for Deep Neural Networks", MLSys 2019): a class of nodes, or of given values, is cut in
// another way; what is better is kept, and what is worse sometimes. The integer program takes computing and exchanging one
// after the other; the simulation knows what runs beside what, which links are shared, and what memory is held when.
#pragma once

#include <cstddef>

#include "plans/groups/step.h"

namespace rewright::plans {

struct RefineLimits {
  std::size_t moves = 200;
  double seconds = 10;  // of wall-clock time
  unsigned seed = 0;
  // A move that makes the step longer by this share of it is taken with probability 1/e.
  double temperature = 0.002;
  std::size_t most_plans = 200'000;  // of which all are tried
};

struct Refined {
  Partition partition;  // the best
  double seconds = 0;   // of a step
  std::size_t moves = 0, taken = 0;
  bool timed_out = false;  // another run may find another one
};

// From a partition whose step fits into the machine's memory. The same for the same seed unless time runs out. A graph of few
// partitions gets the best of all, if half of the time is enough to try them; then `moves` are those that were tried.
Refined refine(const Machine& machine, const Graph& graph, Partition start, ChoiceFinder& choices,
               const PartitionOptions& options, const StepGroups& groups, const RefineLimits& limits);

}  // namespace rewright::plans
