// For tests: certificates with one thing changed.
#pragma once

#include <random>
#include <string>

#include "verifier/certificate.h"

namespace rewright::proof {

// Changes one thing that the proof needs, and returns what. Leaves alone what the checker does not rely on: the rule's name and
// class of rounding, which are not proved, and questions that only the normalizer asked.
std::string mutate(Certificate& certificate, std::mt19937_64& random);

}  // namespace rewright::proof
