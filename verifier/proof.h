// Searches a proof of a rule as stated, for all sizes: case by case, comparing the normal forms of both sides.
#pragma once

#include <string>
#include <vector>

#include "rules/rule.h"
#include "verifier/recording.h"
#include "verifier/solver.h"

namespace rewright::proof {

struct ProofLimits {
  std::size_t maximum_rank = 5;     // of inputs that may have any rank
  std::size_t maximum_cases = 600;  // of one rule; larger ranks are left out, and `ranks` of the result tells it
  // Whether positions that depend on elements (a Gather's) are within the tensor is not asked: they must be known to be,
  // wherever the target is used. Otherwise an element of the target may have no others than the source's; elements that are
  // computed and not used are not looked at, so such rules are also tested on instances. Long fractions are unknown numbers.
  bool positions_are_inside = false;
};

struct ProofSearch {
  bool found = false;
  std::string open_question;  // if there is no proof
  bool empty = false;         // no sizes satisfy the conditions: there was nothing to prove
  bool ill_typed = false;     // it is open whether the target is well-typed with the source's types and shapes
  std::size_t ranks = 0;      // proved up to this rank of the inputs
  bool all_ranks = false;     // up to the requested limit, or the rule has fixed ranks
  bool any_rank = false;      // and so it holds for all ranks (verifier/ranks.h)
  std::string bounded_by;     // why it is not known to; empty if it is
  std::size_t cases = 0;      // in the proof
  bool has_contents = false;  // positions depend on elements
};

// Assumes that the source is well-typed, that the rule's conditions hold and that no tensor is empty. Proves that the target is
// well-typed with outputs of the same types and shapes, and that all their elements are equal over the reals. Never throws
// because of a rule's content. `recording`, if not null, then has the certificate.
ProofSearch search_proof(const Rule& rule, const ProofLimits& limits, Solver& solver, Recording* recording = nullptr);

}  // namespace rewright::proof
