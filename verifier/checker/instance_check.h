// Tests normal forms (without proving them): both sides of a rule are interpreted at small sizes that satisfy a case's
// hypotheses, and elements are compared with the normal forms' values.
#pragma once

#include <cstdint>

#include "verifier/cases.h"
#include "verifier/certificate.h"

namespace rewright::proof {

// Returns the number of compared elements; 0 if no sizes were found. Throws Refusal if one differs.
std::size_t check_instances(const SymbolicCase& symbolic, const CaseProof& proof, std::uint64_t seed);

}  // namespace rewright::proof
