// Commands that run in several processes under mpirun.
#pragma once

#include <functional>
#include <string>

#include "base/namespaces.h"
#include "distribution/communicator.h"

namespace rewright::cli {

// Runs a command in the processes that mpirun started, or in this one alone. A failure, or a killed process, is reported once
// and ends all processes. `afterwards` is added to the message: what the user can do.
int run_in_processes(const std::function<int(Communicator&)>& command, const std::string& afterwards = {});

}  // namespace rewright::cli
