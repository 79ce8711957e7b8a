// Is a certificate a proof of its rule? Checked independently: without the prover's normalizer and comparison.
//
// Cases are enumerated again and questions solved again; derivations are followed step by step; normal forms are tested against
// the interpreter on sampled instances.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rewright::proof {

struct CheckOptions {
  std::string solver{};    // a program that reads SMT-LIB from its standard input, with its arguments; empty: the linked Z3
  std::uint64_t seed = 1;  // of the instances
  std::size_t tested_cases = 12;  // number of cases in which normal forms are tested, spread evenly
};

struct CertificateCheck {
  bool accepted = false;
  std::string reason;  // why it was refused
  std::string rule;    // its name
  std::size_t cases = 0, questions = 0;
  std::size_t own_questions = 0;  // that the prover had not asked
  std::size_t elements = 0;       // of normal forms, tested
  std::size_t ranks = 0;
  bool all_ranks = false;
  bool any_rank = false;  // of all ranks, beyond those of the cases
  std::string digest;     // the file's SHA-256
};

// Throws Error(kBadInput) for a file that is damaged or no certificate; Error(kMissing) if the solver cannot be run.
CertificateCheck check_certificate(std::string_view bytes, const std::string& name, const CheckOptions& options = {});

}  // namespace rewright::proof
