#include "plans/simulation/price.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"

namespace rewright::plans {

namespace {

// One round of a phase.
class RoundPrice {
 public:
  RoundPrice(const Machine& machine, const Phase& phase) {
    for (const Message& m : phase.messages) {
      const std::size_t before = links_.size();
      if (m.bytes > 0) machine.route(m.from, m.to, links_);  // empty ones are not sent
      ends_.push_back(links_.size());
      for (std::size_t n = before; n < links_.size(); ++n) uses_[links_[n]] += 1;
    }
    double least = std::numeric_limits<double>::infinity();
    std::size_t begin = 0;
    for (std::size_t n = 0; n < phase.messages.size(); begin = ends_[n++]) {
      double latency = 0, share = std::numeric_limits<double>::infinity();
      for (std::size_t k = begin; k < ends_[n]; ++k) {
        const Link& link = machine.links()[links_[k]];
        latency += link.latency;
        share = std::min(share, link.bytes_per_second / uses_[links_[k]]);
      }
      const double bytes = begin < ends_[n] ? phase.messages[n].bytes : 0, sending = bytes / share;
      least = std::min(least, latency + sending);
      if (latency + sending > latency_ + sending_) latency_ = latency, sending_ = sending, bytes_ = bytes;
      for (std::size_t k = begin; k < ends_[n]; ++k) load_[links_[k]] += bytes;
    }
    is_even_ = least == latency_ + sending_;
  }

  // Of the slowest message.
  double latency() const { return latency_; }
  double sending() const { return sending_; }  // seconds
  double bytes() const { return bytes_; }
  bool is_even() const { return is_even_; }
  const std::map<LinkNumber, double>& load() const { return load_; }  // bytes by link

 private:
  std::vector<LinkNumber> links_;
  std::vector<std::size_t> ends_;
  std::map<LinkNumber, double> uses_, load_;
  double latency_ = 0, sending_ = 0, bytes_ = 0;
  bool is_even_ = true;
};

std::set<std::uint32_t> members(const Phase& phase) {
  std::set<std::uint32_t> result;
  for (const Message& m : phase.messages) result.insert({m.from, m.to});
  return result;
}

}  // namespace

Schedule device_schedule(const Collective& collective) {
  if (collective.groups.empty()) return {};
  std::set<std::uint32_t> taken;
  const std::size_t size = collective.groups.front().size();
  const Schedule one = make_schedule(collective.kind, collective.how, size, collective.bytes);
  Schedule result;
  for (const Phase& phase : one) result.push_back({{}, phase.rounds});
  for (const Devices& group : collective.groups) {
    if (group.size() != size) throw Error(ErrorCode::kUsage, "its groups have different sizes", "a collective");
    for (const std::uint32_t device : group)
      if (!taken.insert(device).second)
        throw Error(ErrorCode::kUsage, "device " + std::to_string(device) + " is in it twice", "a collective");
    for (std::size_t r = 0; r < one.size(); ++r)
      for (const Message& m : one[r].messages) result[r].messages.push_back({group[m.from], group[m.to], m.bytes});
  }
  return result;
}

ExchangePrice price(const Machine& machine, const Schedule& schedule) {
  ExchangePrice result;
  std::map<LinkNumber, double> load;
  std::map<std::uint32_t, double> sent;
  double sending = 0;
  for (const Phase& phase : schedule) {
    const RoundPrice round(machine, phase);
    const auto rounds = static_cast<double>(phase.rounds);
    result.latency += rounds * round.latency();
    sending += rounds * round.sending();
    result.bytes += rounds * round.bytes();
    result.is_exact = result.is_exact && round.is_even() && members(phase) == members(schedule.front());
    for (const Message& m : phase.messages)
      if (m.from != m.to) sent[m.from] += rounds * m.bytes;
    for (const auto& [link, bytes] : round.load()) load[link] += rounds * bytes;
  }
  result.seconds = result.latency + sending;
  result.sent.assign(sent.begin(), sent.end());
  if (sending > 0) result.bytes_per_second = result.bytes / sending;
  // Links that rounds use in turn are used in part all the time, and by no more than what leaves the exchange its own rate.
  for (const auto& [link, bytes] : load)
    result.uses.push_back(
        {link, std::min(bytes / result.bytes, machine.links()[link].bytes_per_second / result.bytes_per_second)});
  return result;
}

ExchangePrice price(const Machine& machine, const Collective& collective) {
  return price(machine, device_schedule(collective));
}

}  // namespace rewright::plans
