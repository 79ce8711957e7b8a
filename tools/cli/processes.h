// Commands that several processes work on together, under mpirun.
#pragma once

#include <functional>
#include <string>

#include "base/namespaces.h"
#include "distribution/communicator.h"

namespace rewright::cli {

// Runs a command in the processes that mpirun started, or in this one. What fails is said once, and ends all of them; so is a
// process that is killed. `afterwards` says what to do then.
int run_in_processes(const std::function<int(Communicator&)>& command, const std::string& afterwards = {});

}  // namespace rewright::cli
