// The steps of an optimization, recorded so that they can be replayed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "optimizer/matching/match.h"
#include "optimizer/matching/steps.h"

namespace rewright::optimizer {

struct Certificate {
  std::uint64_t before = 0, after = 0;  // Graph::hash() of the two graphs
  MatchOptions match;
  std::vector<CertificateStep> steps;
};

// JSON. parse_certificate throws Error(kBadInput) naming `name`; an invalid certificate is refused as a whole.
std::string to_json(const Certificate& certificate);
Certificate parse_certificate(std::string_view text, const std::string& name);

}  // namespace rewright::optimizer
