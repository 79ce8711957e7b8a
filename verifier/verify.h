// Verifies rules: is a rule true for all sizes?
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "rules/rule.h"
#include "verifier/proof.h"

namespace rewright::proof {

enum class Outcome {
  kProved,     // true, for all sizes
  kRefuted,    // there is a counterexample
  kUndecided,  // neither was found
  kInvalid,    // vacuous: a side is ill-typed for all sizes, or the conditions contradict each other
};
std::string_view name(Outcome outcome);

struct VerifyOptions {
  proof::ProofLimits limits;
  int instances = 200;  // sampled for a counterexample if there is no proof; 0: none
  std::uint64_t seed = 1;
  proof::SolverOptions solver;
  std::filesystem::path certificates;  // folder for a proved rule's certificate; empty: none is written
  bool suggest_conditions = true;      // searches conditions under which a false rule holds
  bool infer_conditions = false;       // and adds them
};

struct Verdict {
  Outcome outcome = Outcome::kUndecided;
  // kRefuted: sizes, attributes, inputs and the differing values. kUndecided: the open question. kInvalid: the reason. kProved:
  // empty.
  std::string explanation;
  Rule rule;                                      // the rule with added conditions
  std::vector<std::string> conditions;            // kProved: conditions that were added because the target needs them
  std::vector<std::string> suggested_conditions;  // kRefuted, kUndecided: conditions with which it is proved
  std::size_t ranks = 0;                          // kProved: up to this rank of the inputs
  bool all_ranks = false;                         // up to the requested limit, or the rule has fixed ranks
  bool any_rank = false;                          // kProved: for all ranks (verifier/ranks.h)
  std::string bounded_by;                         // kProved: why it is not known to be for all ranks
  std::size_t cases = 0;                          // in the proof
  std::vector<proof::Query> queries;
  std::string certificate, digest;  // kProved: the name of the certificate's file, and its SHA-256
};

// Assumes that the source is well-typed, that the rule's conditions hold and that no tensor is empty. Proves that the target is
// well-typed with outputs of the same types and shapes, and that all their elements are equal over the reals. Further
// conditions that the target needs to be well-typed are added to the rule, if its variables can express them. Never throws
// because of a rule's content; Error(kMissing) if a certificate cannot be written.
Verdict verify(const Rule& rule, const VerifyOptions& options = {});

}  // namespace rewright::proof
