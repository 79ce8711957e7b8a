// A test of normal forms, no proof of them: both sides of a rule are interpreted at small sizes that satisfy a case's
// hypotheses, and elements compared with what the normal forms come to there.
#pragma once

#include <cstdint>

#include "verifier/cases.h"
#include "verifier/certificate.h"

namespace rewright::proof {

// The number of elements that were compared; none if no sizes were found. Throws Refusal for one that differs.
std::size_t check_instances(const SymbolicCase& symbolic, const CaseProof& proof, std::uint64_t seed);

}  // namespace rewright::proof
