#include "runtime/planned/planned_links.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plans/simulation/price.h"

namespace rewright::runtime {

namespace {

// Groups that exchange with each other at the same time.
std::vector<plans::Devices> members_of(const plans::Machine& machine, std::size_t groups, bool across) {
  const std::size_t size = machine.devices() / groups;
  std::vector<plans::Devices> members(across ? size : groups);
  for (std::uint32_t device = 0; device < groups * size; ++device)
    members[across ? device % size : device / size].push_back(device);
  return members;
}

}  // namespace

void set_links(const plans::Machine& machine, std::size_t stride, std::size_t count, plans::PartitionOptions& options,
               bool fastest) {
  options.exchange_seconds = machine.exchange_seconds();
  for (std::size_t d = 0; d + 1 < count; ++d) {
    const double short_one = machine.message_seconds(d * stride, (d + 1) * stride, 0);
    const double long_one = machine.message_seconds(d * stride, (d + 1) * stride, 1e6);
    const double per_byte = (long_one - short_one) / 1e6;
    const auto pick = [&](double known, double now) {
      return d == 0 ? now : fastest ? std::min(known, now) : std::max(known, now);
    };
    options.latency = pick(options.latency, short_one);
    options.seconds_per_byte = pick(options.seconds_per_byte, per_byte);
  }
  if (machine.rings().empty() || stride * count != machine.devices()) return;
  // Around all rings at once; for a bound as if a node used all of its cables.
  double together = 0;
  for (const plans::Ring& ring : machine.rings()) together += ring.bytes_per_second;
  if (fastest) {
    std::vector<double> out(machine.nodes());
    const std::size_t of_cluster = machine.cluster_links();
    for (const plans::Link& link : machine.links().last(of_cluster))
      if (link.from < out.size()) out[link.from] += link.bytes_per_second;
    together = *std::max_element(out.begin(), out.end());
    // Neighbours on a ring need not follow each other by number.
    for (const plans::Link& link : machine.links()) options.latency = std::min(options.latency, link.latency);
  }
  options.seconds_per_byte = 1 / together;
  if (count % machine.nodes() != 0) return;
  // Within nodes a vector is reduced and gathered apart from that (MemberRing): fewer rounds, and fewer bytes between nodes.
  const auto nodes = static_cast<double>(machine.nodes()), all = static_cast<double>(count);
  options.seconds_per_byte *= (nodes - 1) / nodes / ((all - 1) / all);
  options.latency *= (nodes - 1 + all / nodes - 1) / (all - 1);
}

distribution::PairLimits pairs_among(const plans::Machine& machine, std::size_t groups, bool across) {
  return plans::fastest_pairs(machine, members_of(machine, groups, across));
}

double all_to_all_share(const plans::Machine& machine, std::size_t groups, bool across, const plans::PartitionOptions& links) {
  const std::vector<plans::Devices> members = members_of(machine, groups, across);
  const auto count = static_cast<double>(members.front().size());
  if (count < 2 || !(links.seconds_per_byte > 0)) return 1;
  const auto seconds = [&](double bytes) {
    return price(machine, plans::Collective{plans::CollectiveKind::kAllToAll, members, bytes}).seconds;
  };
  constexpr double kMany = 1e9;
  // Between groups a value is divided among the processes of each, which share the links.
  const double sharing = across ? static_cast<double>(members.size()) : 1;
  return (seconds(kMany) - seconds(1)) / kMany / sharing / ((count - 1) / count * links.seconds_per_byte);
}

}  // namespace rewright::runtime
