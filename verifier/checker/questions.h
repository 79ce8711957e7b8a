// The checker's questions: those answered in the certificate, and a few of its own.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "verifier/solver.h"

namespace rewright::proof {

// Why a certificate is not a proof. Not an Error, so that no code that works on rules catches it.
struct Refusal {
  std::string reason;
};
inline void require(bool holds, const char* reason) {
  if (!holds) throw Refusal{reason};
}

// A program that reads SMT-LIB from its standard input ("z3 -in"). Throws Error(kMissing) if it cannot be started or exits.
Engine external_solver(const std::string& command);

class Questions {
 public:
  // Solves all of these queries again. Throws Refusal if a verdict differs. If `same_solver` is false, the solver may leave
  // open what the certificate says is not proved.
  Questions(const std::vector<Query>& queries, const SolverOptions& options, Engine engine, bool same_solver);

  // Answers only questions recorded in the certificate; throws Refusal for others.
  Solver& recorded() { return recorded_; }
  // For the checker's own questions: whether one step follows from another.
  Solver& own() { return own_; }
  std::size_t own_count() const { return own_count_; }

 private:
  std::unordered_map<std::string, Query> known_;
  Engine engine_;
  Solver recorded_, own_;
  std::size_t own_count_ = 0;
};

}  // namespace rewright::proof
