// The last level: graphs on which nothing is built. Each is evaluated once, and only its fingerprint and its application are
// stored, distributed over processes by fingerprint and spilled to disk beyond the allowed memory. Partitions are then compared
// one by one; the equations are sorted by form, and the first of each form is a candidate. The result does not depend on
// memory, the number of processes, or interruptions.
#pragma once

#include <vector>

#include "generator/enumeration/candidates.h"
#include "generator/enumeration/count.h"
#include "generator/enumeration/enumeration.h"
#include "generator/enumeration/partitions.h"
#include "generator/enumeration/state.h"

namespace rewright::generator {

struct CollectOptions {
  bool renamings = true;   // count equations that are equal up to names of variables once
  bool zeros = true;       // state that an operator is zero everywhere once, not for each of its operands
  std::size_t buffer = 0;  // records in memory; 0: as many as the enumeration's memory allows
  std::function<void(const char* phase, double fraction, const std::string& note)> progress{};
};

struct Collection {
  std::vector<Candidate> candidates;  // in order; of all processes, in each of them
  Counters counters;                  // sums over all processes
  bool complete = true;               // false: the last level is left out
};

// For an enumeration that was run. All processes call it. Resumes from the state.
Collection collect(Enumeration& enumeration, const CollectOptions& options, State& state, Communicator& communicator);
// Collects in one process, without a state on disk.
Collection collect(Enumeration& enumeration, const CollectOptions& options = {});

}  // namespace rewright::generator
