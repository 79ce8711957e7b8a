// Measures what exchanges take as plans are executed: with the handing over between the thread that computes and the one that
// exchanges, and with the copies of parts into wholes.
#pragma once

#include <cstddef>
#include <stop_token>
#include <vector>

#include "distribution/communicator.h"
#include "plans/machines/measure_links.h"
#include "runtime/session.h"

namespace rewright::runtime {

struct MeasureExchangesOptions {
  std::size_t most_bytes = std::size_t{8} << 20;  // of a tensor that is gathered
  double seconds = 2;                             // about
  std::stop_token cancel = {};
};

// Gathers tensors from all processes in turn with computing a little, by PlannedRun. A time's bytes are those that a process
// sends in an exchange; the time of the computing is taken off. Of each size the best round counts, as long as in its slowest
// process. All processes get the same result. At least two processes. Throws Error(kCancelled).
std::vector<plans::MessageTime> measure_exchanges(distribution::Communicator& processes, const Backend& backend,
                                                  const SessionOptions& session, const MeasureExchangesOptions& options = {});

// The bytes that all processes together read and write in a second, copying at the same time.
double measure_shared_memory(distribution::Communicator& processes);

}  // namespace rewright::runtime
