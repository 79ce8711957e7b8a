// Processes that must be started alike.
#pragma once

#include <map>
#include <string>

#include "distribution/communicator.h"

namespace rewright::distribution {

// Throws Error(kUsage) in all processes, naming the first fact in which one differs from the first, and what both say. Called
// by all of them.
void require_agreement(Communicator& processes, const std::map<std::string, std::string>& facts);

}  // namespace rewright::distribution
