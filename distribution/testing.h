// Processes that are threads of one: for tests of what processes do together.
#pragma once

#include <functional>

#include "base/namespaces.h"
#include "distribution/communicator.h"

namespace rewright::testing {

// Runs this in `count` threads, each of which takes itself for a process. What one throws ends all of them, and is thrown here.
void run_as_processes(std::size_t count, const std::function<void(Communicator&)>& process);

// The processes that mpirun started. MPI starts once in a program.
Communicator& started_processes();

}  // namespace rewright::testing
