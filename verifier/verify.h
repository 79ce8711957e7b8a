// Is a rule true for all sizes?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rules/rule.h"
#include "verifier/proof.h"

namespace rewright {

enum class Outcome { kProved, kRefuted, kUndecided };
std::string_view name(Outcome outcome);

struct VerifyOptions {
  proof::ProofLimits limits;
  int instances = 200;  // sampled for a counterexample where there is no proof
  std::uint64_t seed = 1;
  proof::SolverOptions solver;
};

struct Verdict {
  Outcome outcome = Outcome::kUndecided;
  // kRefuted: sizes, attributes and the values that differ. kUndecided: the question that stayed open. kProved: empty.
  std::string explanation;
  std::vector<std::string> missing;  // conditions that the target needs and the source does not give
  std::size_t ranks = 0;             // kProved: up to which rank of the inputs
  bool all_ranks = false;            // up to the limit that was asked for, or the rule has fixed ranks
  std::size_t cases = 0;             // that the proof consists of
  std::vector<proof::Query> queries;
};

// Assumes that the source is well-typed, that the rule's conditions hold and that no tensor is without elements; shows that the
// target is well-typed too, with outputs of the same types and shapes, and that all their elements are equal, over the reals.
// Never throws for what a rule says.
Verdict verify(const Rule& rule, const VerifyOptions& options = {});

}  // namespace rewright
