// Is a rule true for all sizes?
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
  kInvalid,    // it says nothing: a side that is ill-typed whatever the sizes, conditions that contradict each other
};
std::string_view name(Outcome outcome);

struct VerifyOptions {
  proof::ProofLimits limits;
  int instances = 200;  // sampled for a counterexample where there is no proof; 0: none is looked for
  std::uint64_t seed = 1;
  proof::SolverOptions solver;
  std::filesystem::path certificates;  // the folder that a proved rule's certificate is written to; empty: to none
  bool suggest_conditions = true;      // looks for conditions under which a rule holds that does not
  bool infer_conditions = false;       // and adds them
};

struct Verdict {
  Outcome outcome = Outcome::kUndecided;
  // kRefuted: sizes, attributes, inputs and the values that differ. kUndecided: the question that stayed open. kInvalid: what
  // is wrong. kProved: empty.
  std::string explanation;
  Rule rule;                                      // the rule, with the conditions that were added
  std::vector<std::string> conditions;            // kProved: that were added, because the target needs them
  std::vector<std::string> suggested_conditions;  // kRefuted, kUndecided: with these it is proved
  std::size_t ranks = 0;                          // kProved: up to which rank of the inputs
  bool all_ranks = false;                         // up to the limit that was asked for, or the rule has fixed ranks
  std::size_t cases = 0;                          // that the proof consists of
  std::vector<proof::Query> queries;
  std::string certificate, digest;  // kProved: the name of its file, and the file's SHA-256
};

// Assumes that the source is well-typed, that the rule's conditions hold and that no tensor is without elements; shows that the
// target is well-typed too, with outputs of the same types and shapes, and that all their elements are equal, over the reals.
// What the target needs beyond that to be well-typed becomes a condition of the rule, if the rule's variables can express it.
// Never throws for what a rule says; Error(kMissing) if a certificate cannot be written.
Verdict verify(const Rule& rule, const VerifyOptions& options = {});

}  // namespace rewright::proof
