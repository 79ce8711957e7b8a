// Records a certificate during the search for a proof.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <unordered_map>

#include "verifier/cases.h"
#include "verifier/certificate.h"

namespace rewright::proof {

struct ProofSearch;

// Questions are written to a file before they are solved: if a solver does not return, the file's last question shows why. The
// file exists as long as the recording.
class Recording : public QueryObserver {
 public:
  // Throws Error(kMissing) if the file cannot be written.
  Recording(const Rule& rule, const SolverOptions& solver, std::filesystem::path questions);
  ~Recording() override;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void asked(const Query& query) override;
  void answered(const Query& query) override;

  // Begins the next case. The result is to be filled in before the next one begins.
  CaseProof& add_case(const SymbolicCase& c);
  void add_target(const DefinedSide& target) { versions_.add(target); }

  // Begins the cases of one rank. Cases of an incomplete rank are dropped.
  void begin_rank();
  void drop_rank();

  // The certificate, once the proof was found.
  Certificate finish(const ProofSearch& proof);

 private:
  std::filesystem::path file_;
  std::ofstream questions_;
  std::unordered_map<std::string, std::size_t> numbers_;  // of queries by text
  DefinitionVersions versions_;
  Certificate certificate_;
  struct {
    std::size_t cases = 0, queries = 0;
    DefinitionVersions versions;
  } before_;
};

}  // namespace rewright::proof
