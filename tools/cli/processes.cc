#include "tools/cli/processes.h"

#include <chrono>
#include <memory>
#include <thread>

#include "tools/cli/command.h"

namespace rewright::cli {

int run_in_processes(const std::function<int(Communicator&)>& command) {
  const std::unique_ptr<Communicator> processes = make_communicator();
  int failure = kDone;
  try {
    return command(*processes);
  } catch (...) {
    if (processes->size() == 1) throw;
    // What fails in all processes is said by the first.
    if (processes->rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    failure = report_failure();
  }
  processes->abort(failure);
  return failure;  // never reached: the compiler does not see through virtual calls
}

}  // namespace rewright::cli
