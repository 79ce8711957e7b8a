// Commands that run in several processes under mpirun.
#pragma once

#include <functional>
#include <string>

#include "base/namespaces.h"
#include "distribution/communicator.h"

namespace rewright::cli {

// Messages and status when one of the processes is killed.
struct WhenOneEnds {
  std::string afterwards = {};  // added to the message that says so: what the user can do
  bool others_go_on = false;    // else all end
};

// Runs a command in the processes that mpirun started, or in this one alone. A failure, or a killed process, is reported once.
// A failure ends all processes.
int run_in_processes(const std::function<int(Communicator&)>& command, const WhenOneEnds& when_one_ends = {});

}  // namespace rewright::cli
