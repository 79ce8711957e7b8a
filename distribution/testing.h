// Threads in place of processes, for tests of communication.
#pragma once

#include <functional>

#include "base/namespaces.h"
#include "distribution/communicator.h"
#include "distribution/mail.h"

namespace rewright::testing {

// Runs `process` in `count` threads, each with a communicator as if it were a process. An exception in one of them ends all,
// and is thrown here.
void run_as_processes(std::size_t count, const std::function<void(Communicator&)>& process);

// Runs `process` in `count` threads that exchange letters over sockets. A thread that returns is a process that has ended.
void run_with_mail(std::size_t count, const std::function<void(Mail)>& process);

// The processes that mpirun started; one object, because MPI can start only once in a program.
Communicator& started_processes();

}  // namespace rewright::testing
