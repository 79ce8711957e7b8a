// The steps of an optimization, so that it can be done again.
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

// JSON. parse_certificate throws Error(kBadInput) naming `name`; a certificate is refused whole.
std::string to_json(const Certificate& certificate);
Certificate parse_certificate(std::string_view text, const std::string& name);

}  // namespace rewright::optimizer
