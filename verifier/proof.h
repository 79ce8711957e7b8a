// The search for a proof of a rule, as it stands, for all sizes: case by case, both sides brought to normal form and compared.
#pragma once

#include <string>
#include <vector>

#include "rules/rule.h"
#include "verifier/recording.h"
#include "verifier/solver.h"

namespace rewright::proof {

struct ProofLimits {
  std::size_t maximum_rank = 5;     // of inputs that may have any rank
  std::size_t maximum_cases = 600;  // of one rule; larger ranks are then left out, and `ranks` of the result says so
};

struct ProofSearch {
  bool found = false;
  std::string open_question;  // where none was found
  bool empty = false;         // no sizes satisfy the conditions: there was nothing to prove
  bool ill_typed = false;     // it stayed open whether the target is well-typed, with the types and shapes of the source
  std::size_t ranks = 0;      // up to which rank of the inputs it goes
  bool all_ranks = false;     // up to the limit that was asked for, or the rule has fixed ranks
  std::size_t cases = 0;      // that the proof consists of
};

// Assumes that the source is well-typed, that the rule's conditions hold and that no tensor is without elements; shows that the
// target is well-typed too, with outputs of the same types and shapes, and that all their elements are equal, over the reals.
// Never throws for what a rule says. A recording, if there is one, then has the proof's certificate.
ProofSearch search_proof(const Rule& rule, const ProofLimits& limits, Solver& solver, Recording* recording = nullptr);

}  // namespace rewright::proof
