// Keeps a certificate while a proof is searched for.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <unordered_map>

#include "verifier/cases.h"
#include "verifier/certificate.h"

namespace rewright::proof {

// Questions are written to a file before they are solved: where a solver does not come back, the last one of the file says why.
// The file is there as long as the recording is.
class Recording : public QueryObserver {
 public:
  // Throws Error(kMissing) if the file cannot be written.
  Recording(const Rule& rule, const SolverOptions& solver, std::filesystem::path questions);
  ~Recording() override;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void asked(const Query& query) override;
  void answered(const Query& query) override;

  // The next case. What is returned is to be filled in until the next one begins.
  CaseProof& add_case(const SymbolicCase& c);
  void add_target(const DefinedSide& target) { versions_.add(target); }

  // Cases of one rank: those of one that was not completed do not count.
  void begin_rank();
  void drop_rank();

  // The whole, once the proof was found.
  Certificate finish(std::size_t ranks, bool all_ranks);

 private:
  std::filesystem::path file_;
  std::ofstream questions_;
  std::unordered_map<std::string, std::size_t> numbers_;  // of queries, by text
  DefinitionVersions versions_;
  Certificate certificate_;
  struct {
    std::size_t cases = 0, queries = 0;
    DefinitionVersions versions;
  } before_;
};

}  // namespace rewright::proof
