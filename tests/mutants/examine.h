// The prover's and the sampler's results for mutants.
#pragma once

#include "rules/instance.h"
#include "tests/mutants/mutate.h"
#include "verifier/verify.h"

namespace rewright::testing {

struct Examined {
  enum class Finding {
    kRefuted,    // by the verifier
    kProved,     // and both sides agree on independently sampled instances
    kVoid,       // vacuous: the source is never well-typed, or the conditions contradict each other
    kUndecided,  // neither
    kUnsound,    // proved, but refuted by sampling
  };
  Finding finding = Finding::kUndecided;
  std::string explanation;
  double seconds = 0;
};
std::string_view name(Examined::Finding finding);

// Verifies on this many threads, and samples each proved mutant `instances` times, with seeds that the verifier does not use.
// Results are in the order of the mutants.
std::vector<Examined> examine(const std::vector<Mutant>& mutants, int instances, int threads);

}  // namespace rewright::testing
