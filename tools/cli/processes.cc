#include "tools/cli/processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <memory>

#include "api/processes.h"
#include "tools/cli/command.h"
#include "tools/cli/version.h"

namespace rewright::cli {

namespace {

// Forwards signals to the child, and reports if it is killed. Returns its exit status.
int watch(pid_t child, const StartedAs& place, const WhenOneEnds& when, const sigset_t& heard) {
  bool told_to_end = false;
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child && WIFEXITED(status)) return WEXITSTATUS(status);
    if (ended == child && WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      if (!told_to_end)
        std::cerr << "rewright: " << (when.others_go_on ? "warning: " : "error: ") << process_name(place.rank, place.size)
                  << " was ended by signal " << signal << " (" << strsignal(signal) << ")"
                  << (when.afterwards.empty() ? "" : "; " + when.afterwards) << std::endl;
      return when.others_go_on ? kDone : kMissing;  // mpirun ends all if one ends with a failure
    }
    int signal = 0;
    sigwait(&heard, &signal);
    if (signal == SIGCHLD) continue;
    told_to_end = true;
    kill(child, signal);
  }
}

// Forks: returns only in the child, while the parent waits. A process that is killed cannot report it, and mpirun does not know
// its work, but the parent does. Must be called before any thread starts.
void leave_a_watcher(const StartedAs& place, const WhenOneEnds& when) {
  sigset_t heard, before;
  sigemptyset(&heard);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&heard, signal);
  sigprocmask(SIG_BLOCK, &heard, &before);
  const pid_t parent = getpid(), child = fork();
  if (child > 0) {
    const int status = watch(child, place, when, heard);
    std::cout.flush();
    _exit(status);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) return;  // continues without a watcher
  setpgid(0, 0);          // signals to a group are forwarded by the watcher
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kMissing);
}

// The threads that MPI starts keep the signals blocked that an Interruption waits for: one of them would take a signal, and end
// the process.
std::unique_ptr<Communicator> communicator_without_signals() {
  sigset_t before;
  const sigset_t interrupts = interrupt_signals();
  pthread_sigmask(SIG_BLOCK, &interrupts, &before);
  std::unique_ptr<Communicator> processes = make_communicator();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return processes;
}

}  // namespace

int run_in_processes(const std::function<int(Communicator&)>& command, const WhenOneEnds& when_one_ends) {
  const StartedAs place = started_as();
  if (place.size > 1) leave_a_watcher(place, when_one_ends);
  const std::unique_ptr<Communicator> processes = communicator_without_signals();
  int status = kDone;
  work_together(
      *processes, version_text(), [&] { status = command(*processes); }, report_failure);
  return status;
}

}  // namespace rewright::cli
