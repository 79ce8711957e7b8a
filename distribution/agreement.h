// Checks that all processes were started with the same options.
#pragma once

#include <map>
#include <string>

#include "distribution/communicator.h"

namespace rewright::distribution {

// Compares facts (name to value) of all processes with those of process 0. Where one differs, throws Error(kUsage) in all
// processes, with the fact's name and both values. All processes call it.
//
//   require_agreement(processes, {{"seed", std::to_string(seed)}});
void require_agreement(Communicator& processes, const std::map<std::string, std::string>& facts);

}  // namespace rewright::distribution
