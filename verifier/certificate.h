// Certificates: a rule's proof as a file, complete enough for a checker that does not search.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rules/rule.h"
#include "verifier/derivation.h"
#include "verifier/side.h"
#include "verifier/solver.h"
#include "verifier/sum.h"

namespace rewright::proof {

struct OutputProof {
  Sum source, target;     // the element at the position o!0, o!1, ...
  Derivation derivation;  // shows that their difference is 0
  Contents contents{};    // symbols that both normal forms may mention
};

struct CaseProof {
  std::string description;  // types and attributes, as text
  Guards hypotheses;
  Guards typing;  // conditions for the target to be well-typed
  std::vector<OutputProof> outputs;
};

struct Certificate {
  std::string prover;
  Rule rule;
  std::size_t ranks = 0;                           // the cases cover inputs up to this rank
  bool all_ranks = false;                          // those are all that are enumerated
  bool any_rank = false;                           // and so it holds for all higher ranks (verifier/ranks.h)
  SolverOptions solver{};                          // budgets and seed
  std::map<std::string, std::string> definitions;  // versions of the operators' definitions, by name
  std::vector<CaseProof> cases;
  std::vector<Query> queries;
};

// The version of a definition: the SHA-256 of the types and denotations that it gave in the cases of a proof.
class DefinitionVersions {
 public:
  void add(const DefinedSide& side);
  std::map<std::string, std::string> digests() const;

 private:
  std::map<std::string, std::string> texts_;
};

std::string sha256(std::string_view bytes);  // 32 bytes
std::string hexadecimal(std::string_view bytes);

inline constexpr std::uint32_t kCertificateVersion = 1;
inline constexpr std::string_view kCertificateHeader = "rewright certificate\n";

// The part of a rule that is proved: without description, origin and status.
Rule proved_part(Rule rule);

// The file's bytes; equal for equal proofs.
std::string write_certificate(const Certificate& certificate);
// The Protobuf message inside; around it are header, compression and digest.
std::string certificate_message(const Certificate& certificate);
std::string certificate_file(const std::string& message);
// Throws Error(kBadInput): not a certificate, damaged, of another format, references out of range. `name` is the file's.
Certificate read_certificate(std::string_view bytes, const std::string& name);

}  // namespace rewright::proof
