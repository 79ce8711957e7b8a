// Measures the links between the processes of a run: alpha, a message's latency, and beta, the time of a byte.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/namespaces.h"
#include "distribution/communicator.h"

namespace rewright::plans {

struct MessageTime {
  double bytes = 0, seconds = 0;
};

struct MeasuredLink {
  double latency = 0, bytes_per_second = 0;
  double median_error = 0;              // of the times, by these two, relative to what was measured
  std::vector<MessageTime> times = {};  // by size
};

// Fits seconds = latency + bytes / bytes_per_second by least squares of the relative errors, so that short messages count as
// much as long ones; the latency is at least 0. Times of two sizes at least, all above 0.
MeasuredLink fit_link(std::vector<MessageTime> times);

struct MeasuredLinks {
  std::size_t per_node = 1;
  std::optional<MeasuredLink> node;     // between processes of a machine, if there are several
  std::optional<MeasuredLink> cluster;  // between machines, if there are several
};

struct MeasureLinksOptions {
  std::size_t most_bytes = std::size_t{4} << 20;  // of a message
  double seconds = 2;                             // for each kind of link, about
  std::stop_token cancel = {};
};

// Messages go around rings, as they do in sums of gradients: on each machine all processes send at the same time, then the
// first processes of the machines do. Of each size the best round counts, as other work only makes it longer; a round takes as
// long as in its slowest process. All processes get the same result. Throws Error(kUnsupported) where processes are not
// numbered machine by machine with equally many on each, which a machine file cannot say; Error(kCancelled).
MeasuredLinks measure_links(distribution::Communicator& processes, const MeasureLinksOptions& options = {});

}  // namespace rewright::plans
