#include "runtime/planned/asynchronous_gain.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "optimizer/costs/cost_model.h"

namespace rewright::runtime {

namespace {

using plans::Machine;

constexpr double kStraggler = 2;  // times as slow

// Seconds in which each device sends and receives a value of so many bytes, of which servers on all nodes, or all devices of a
// single one, hold as much each.
double exchange_seconds(const Machine& machine, double bytes) {
  const std::size_t of_cluster = machine.cluster_links(), ends = of_cluster > 0 ? machine.nodes() : machine.devices();
  const auto links = of_cluster > 0 ? machine.links().last(of_cluster) : machine.links();
  std::vector<double> out(ends);
  for (const plans::Link& link : links)
    if (link.from < ends) out[link.from] += link.bytes_per_second;
  const double rate = *std::max_element(out.begin(), out.end());
  const double sharing = static_cast<double>(machine.devices()) / static_cast<double>(ends);
  return rate > 0 ? sharing * bytes * (1 - 1 / static_cast<double>(ends)) / rate : 0;
}

}  // namespace

double asynchronous_gain(double seconds, double computing, double exchanging, std::size_t processes, double slowness) {
  const double together = seconds + (slowness - 1) * computing;
  const double fast = std::max(computing, exchanging), slow = std::max(slowness * computing, exchanging);
  const auto n = static_cast<double>(processes);
  return together * ((n - 1) / fast + 1 / slow) / n;
}

std::optional<AsynchronousGain> asynchronous_gain(const plans::Plan& plan, const PlannedGraph& planned,
                                                  const Machine& machine) {
  const auto processes = static_cast<std::size_t>(plan.all_processes());
  if (plan.purpose != "training" || processes < 2 || !plan.predicted) return std::nullopt;
  double bytes = 0;
  for (std::size_t p = 0; p < planned.trained; ++p) bytes += bytes_of(planned.graph.value(planned.parameters[p]).type);
  if (2 * bytes > machine.memory()) return std::nullopt;
  const std::vector<double>& all = plan.predicted->computing_seconds;
  const double computing = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(processes);
  if (computing <= 0) return std::nullopt;
  const double seconds = plan.predicted->seconds_alone.value_or(plan.predicted->seconds),
               moved = exchange_seconds(machine, bytes);
  return AsynchronousGain{asynchronous_gain(seconds, computing, moved, processes, 1),
                          asynchronous_gain(seconds, computing, moved, processes, kStraggler)};
}

}  // namespace rewright::runtime
