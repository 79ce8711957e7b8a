// The graphs with the most operators, on which nothing is built: they are evaluated once, and of each only its fingerprint and
// what it consists of is kept, by processes according to the fingerprint and on disk past the memory that is allowed. Then
// partition by partition they are compared, and all equations sorted by their form, of which the first of each is a candidate.
// The outcome does not depend on the memory, the number of processes, or where the run was interrupted.
#pragma once

#include <vector>

#include "generator/enumeration/candidates.h"
#include "generator/enumeration/count.h"
#include "generator/enumeration/enumeration.h"
#include "generator/enumeration/partitions.h"
#include "generator/enumeration/state.h"

namespace rewright::generator {

struct CollectOptions {
  bool renamings = true;   // equations that are the same up to names of variables count once
  bool zeros = true;       // what is zero everywhere is said once for each operator, not for all that it may be applied to
  std::size_t buffer = 0;  // records in memory; 0: as many as the enumeration's memory allows
  std::function<void(const char* phase, double fraction, const std::string& note)> progress{};
};

struct Collection {
  std::vector<Candidate> candidates;  // in order; of all processes, in each of them
  Counters counters;                  // of all processes
  bool complete = true;               // false: of the last level nothing is said
};

// Of an enumeration that was run: all processes call it. Goes on where the state stands.
Collection collect(Enumeration& enumeration, const CollectOptions& options, State& state, Communicator& communicator);
// In one process, with nothing kept on disk.
Collection collect(Enumeration& enumeration, const CollectOptions& options = {});

}  // namespace rewright::generator
