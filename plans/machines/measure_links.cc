#include "plans/machines/measure_links.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace rewright::plans {

namespace {

using distribution::Communicator;
using distribution::Incoming;
using distribution::Outgoing;

double clock_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The neighbours of this process in a ring; a ring of one sends nothing.
struct RingPlace {
  std::size_t next, previous;
  bool sends;
};

class RingTimes {
 public:
  RingTimes(Communicator& processes, RingPlace place, const MeasureLinksOptions& options)
      : processes_(processes), place_(place), options_(options), sent_(options.most_bytes), received_(options.most_bytes) {}

  std::vector<MessageTime> measure() {
    std::vector<std::size_t> sizes;
    for (std::size_t bytes = 64; bytes < options_.most_bytes; bytes *= 4) sizes.push_back(bytes);
    sizes.push_back(options_.most_bytes);
    std::vector<MessageTime> times;
    for (const std::size_t bytes : sizes)
      times.push_back({static_cast<double>(bytes), best_seconds(bytes, options_.seconds / static_cast<double>(sizes.size()))});
    return times;
  }

 private:
  // A round is as many messages one after the other as take a millisecond, and at least 4. At least 3 rounds, and what the time
  // allows: on a busy machine a round takes long.
  double best_seconds(std::size_t bytes, double budget) {
    const double end = clock_seconds() + budget;
    double best = round(bytes, 4, end).seconds;
    const auto messages = static_cast<std::size_t>(std::clamp(1e-3 / best, 4.0, 1000.0));
    for (int n = 0; n < 1000; ++n) {
      const Round r = round(bytes, messages, end);
      best = std::min(best, r.seconds);
      if (r.is_late && n >= 2) break;
    }
    return best;
  }

  struct Round {
    double seconds;  // of a message, in the slowest process
    bool is_late;
  };
  // Returns the same result in all processes.
  Round round(std::size_t bytes, std::size_t messages, double end) {
    processes_.barrier();
    const double start = clock_seconds();
    const Outgoing out{place_.next, std::span(sent_).first(bytes)};
    const Incoming in{place_.previous, std::span(received_).first(bytes)};
    for (std::size_t n = 0; place_.sends && n < messages; ++n) processes_.exchange({&out, 1}, {&in, 1});
    const double now = clock_seconds();
    const std::size_t count = processes_.size();
    std::vector<double> facts(count + 2);  // seconds by process, whether time is over, whether to stop
    if (place_.sends) facts[processes_.rank()] = (now - start) / static_cast<double>(messages);
    facts[count] = now > end ? 1 : 0;
    facts[count + 1] = options_.cancel.stop_requested() ? 1 : 0;
    processes_.sum(std::span(facts));
    if (facts[count + 1] > 0) throw Error(ErrorCode::kCancelled, "was interrupted", "measuring links");
    const double slowest = *std::max_element(facts.begin(), facts.begin() + static_cast<std::ptrdiff_t>(count));
    return {std::max(slowest, 1e-9), facts[count] > 0};
  }

  Communicator& processes_;
  const RingPlace place_;
  const MeasureLinksOptions& options_;
  std::vector<std::byte> sent_, received_;
};

std::size_t processes_of_a_node(Communicator& processes) {
  const std::vector<std::size_t> nodes = processes.nodes();
  std::size_t count = 1;
  while (count < nodes.size() && nodes[count] == nodes[0]) ++count;
  for (std::size_t p = 0; p < nodes.size(); ++p) {
    const bool is_first = p % count == 0;
    if (nodes.size() % count != 0 || (is_first ? p > 0 && nodes[p] == nodes[p - 1] : nodes[p] != nodes[p - 1]))
      throw Error(ErrorCode::kUnsupported, "the processes are not numbered machine by machine, equally many on each", {},
                  "start equally many on each machine, with mpirun --map-by slot");
  }
  return count;
}

double seconds_by(const MeasuredLink& link, double bytes) { return link.latency + bytes / link.bytes_per_second; }

}  // namespace

MeasuredLink fit_link(std::vector<MessageTime> times) {
  // Minimizes the sum of ((a + b n)/t - 1)^2: linear in a and b.
  double ones = 0, mixed = 0, squares = 0, left = 0, right = 0, least = std::numeric_limits<double>::infinity();
  for (const MessageTime& m : times) {
    const double u = 1 / m.seconds, v = m.bytes / m.seconds;
    ones += u * u, mixed += u * v, squares += v * v, left += u, right += v;
    least = std::min(least, m.bytes / m.seconds > 0 ? m.seconds / m.bytes : least);
  }
  const double determinant = ones * squares - mixed * mixed;
  double a = determinant > 0 ? (left * squares - right * mixed) / determinant : 0;
  double b = determinant > 0 ? (right * ones - left * mixed) / determinant : 0;
  if (!(a > 0)) a = 0, b = right / squares;
  if (!(b > 0)) a = 0, b = least;
  MeasuredLink link{a, 1 / b, 0, std::move(times)};
  std::vector<double> errors;
  for (const MessageTime& m : link.times) errors.push_back(std::abs(seconds_by(link, m.bytes) / m.seconds - 1));
  std::sort(errors.begin(), errors.end());
  link.median_error = errors[errors.size() / 2];
  return link;
}

MeasuredLinks measure_links(Communicator& processes, const MeasureLinksOptions& options) {
  MeasuredLinks result{processes_of_a_node(processes), {}, {}};
  const std::size_t node = result.per_node, nodes = processes.size() / node, me = processes.rank(), place = me % node;
  const std::size_t first = me - place;
  if (node > 1) {
    RingTimes times(processes, {first + (place + 1) % node, first + (place + node - 1) % node, true}, options);
    result.node = fit_link(times.measure());
  }
  if (nodes > 1) {
    const std::size_t all = processes.size();
    RingTimes times(processes, {(first + node) % all, (first + all - node) % all, place == 0}, options);
    result.cluster = fit_link(times.measure());
  }
  return result;
}

}  // namespace rewright::plans
