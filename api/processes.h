// Work of several processes together.
#pragma once

#include <functional>
#include <string>

#include "base/namespaces.h"
#include "distribution/communicator.h"

namespace rewright::api {

// "process 1 of 4"
std::string process_name(std::size_t rank, std::size_t size);

// Runs `work`, the same in all processes, which must be of the same `version`. If one of several processes fails, it calls
// `report` in the handler of an exception that names the process, and all processes end with the status that `report` returns.
// A process that is alone throws.
void work_together(Communicator& processes, const std::string& version, const std::function<void()>& work,
                   const std::function<int()>& report);

}  // namespace rewright::api
