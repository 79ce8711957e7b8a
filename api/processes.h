// Work that several processes do together.
#pragma once

#include <functional>
#include <string>

#include "base/namespaces.h"
#include "distribution/communicator.h"

namespace rewright::api {

// "process 1 of 4"
std::string process_name(std::size_t rank, std::size_t size);

// Does work that all processes do alike; they must be of the same `version`. Where one of several fails, it says so by
// `report`, called in the handler of an exception that names the process, and all processes end with the status that it
// returns. What fails in a process that is alone is thrown.
void work_together(Communicator& processes, const std::string& version, const std::function<void()>& work,
                   const std::function<int()>& report);

}  // namespace rewright::api
