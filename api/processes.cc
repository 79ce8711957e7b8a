#include "api/processes.h"

#include <chrono>
#include <thread>

#include "base/error.h"
#include "distribution/agreement.h"

namespace rewright::api {

std::string process_name(std::size_t rank, std::size_t size) {
  return "process " + std::to_string(rank) + " of " + std::to_string(size);
}

void work_together(Communicator& processes, const std::string& version, const std::function<void()>& work,
                   const std::function<int()>& report) {
  if (processes.size() == 1) return work();
  int status = 1;
  try {
    require_agreement(processes, {{"version", version}});
    return work();
  } catch (...) {
    // A failure of all processes is reported by the first, which then ends the others: on a busy machine not within a second.
    if (processes.rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(3));
    try {
      try {
        throw;
      } catch (const Error& error) {
        if (processes.rank() == 0) throw;
        throw error.within(process_name(processes.rank(), processes.size()));
      }
    } catch (...) {
      status = report();
    }
  }
  processes.abort(status);
}

}  // namespace rewright::api
