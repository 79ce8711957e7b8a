// For tests: certificates with one thing in them changed.
#pragma once

#include <random>
#include <string>

#include "verifier/certificate.h"

namespace rewright::proof {

// Changes one thing that a proof needs, and says which. What the checker does not rest on is left alone: the rule's name and
// its class of rounding, which are not proved, and questions that only the normalizer asked.
std::string mutate(Certificate& certificate, std::mt19937_64& random);

}  // namespace rewright::proof
