// The checker's questions: those that the certificate answers, and a few of its own.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "verifier/solver.h"

namespace rewright::proof {

// Why a certificate is no proof. Not an Error: nothing that works on rules may catch it.
struct Refusal {
  std::string reason;
};
inline void require(bool holds, const char* reason) {
  if (!holds) throw Refusal{reason};
}

// A program that reads SMT-LIB from its standard input ("z3 -in"). Throws Error(kMissing) if it cannot be started or ends.
Engine external_solver(const std::string& command);

class Questions {
 public:
  // Solves every one of these again. Throws Refusal where a verdict is another one. Where `same_solver` is false, a solver may
  // know less of what is no proof.
  Questions(const std::vector<Query>& queries, const SolverOptions& options, Engine engine, bool same_solver);

  // For what a certificate must hold: throws Refusal for a question that it does not.
  Solver& recorded() { return recorded_; }
  // For what the prover did not ask: how its steps follow from each other.
  Solver& own() { return own_; }
  std::size_t own_count() const { return own_count_; }

 private:
  std::unordered_map<std::string, Query> known_;
  Engine engine_;
  Solver recorded_, own_;
  std::size_t own_count_ = 0;
};

}  // namespace rewright::proof
