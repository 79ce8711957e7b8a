#include "plans/simulation/price.h"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_set>

#include "base/error.h"

namespace rewright::plans {

namespace {

constexpr double kMostInPairs = 1e12;

// The rounds of a schedule one after the other. Tables by link and device are kept between them: a group may have thousands.
class RoundPrices {
 public:
  explicit RoundPrices(const Machine& machine)
      : machine_(machine), uses_(machine.links().size()), load_(machine.links().size()), sent_(machine.devices()) {}

  void add(const Phase& phase) {
    links_.clear(), ends_.clear();
    for (const Message& m : phase.messages) {
      if (m.bytes > 0) machine_.route(m.from, m.to, links_);  // empty ones are not sent
      ends_.push_back(links_.size());
    }
    for (const LinkNumber l : links_) uses_[l] += 1;
    const auto rounds = static_cast<double>(phase.rounds);
    double least = std::numeric_limits<double>::infinity(), latency = 0, sending = 0, bytes = 0;
    std::size_t begin = 0;
    for (std::size_t n = 0; n < phase.messages.size(); begin = ends_[n++]) {
      const Message& m = phase.messages[n];
      const std::span<const LinkNumber> route(links_.data() + begin, ends_[n] - begin);
      const auto [its_latency, share] = along(route);
      const double its_bytes = route.empty() ? 0 : m.bytes, its_sending = its_bytes / share;
      least = std::min(least, its_latency + its_sending);
      if (its_latency + its_sending > latency + sending) latency = its_latency, sending = its_sending, bytes = its_bytes;
      for (const LinkNumber l : route) load_[l] += rounds * its_bytes;
      if (m.from != m.to) sent_[m.from] += rounds * m.bytes;
    }
    for (const LinkNumber l : links_) uses_[l] = 0;
    price_.latency += rounds * latency;
    price_.bytes += rounds * bytes;
    sending_ += rounds * sending;
    price_.is_exact = price_.is_exact && least == latency + sending && has_the_same_members(phase);
  }

  ExchangePrice take() {
    price_.seconds = price_.latency + sending_;
    if (sending_ > 0) price_.bytes_per_second = price_.bytes / sending_;
    for (std::uint32_t device = 0; device < sent_.size(); ++device)
      if (sent_[device] > 0) price_.sent.emplace_back(device, sent_[device]);
    // Links that rounds use in turn are used in part all the time, and by no more than what leaves the exchange its own rate.
    for (LinkNumber l = 0; l < load_.size(); ++l)
      if (load_[l] > 0)
        price_.uses.push_back(
            {l, std::min(load_[l] / price_.bytes, machine_.links()[l].bytes_per_second / price_.bytes_per_second)});
    return std::move(price_);
  }

 private:
  // Latency, and the least share of a link.
  std::pair<double, double> along(std::span<const LinkNumber> route) const {
    double latency = 0, share = std::numeric_limits<double>::infinity();
    for (const LinkNumber l : route) {
      latency += machine_.links()[l].latency;
      share = std::min(share, machine_.links()[l].bytes_per_second / uses_[l]);
    }
    return {latency, share};
  }

  bool has_the_same_members(const Phase& phase) {
    std::vector<bool> members(machine_.devices());
    for (const Message& m : phase.messages) members[m.from] = members[m.to] = true;
    if (members_.empty()) members_ = members;
    return members == members_;
  }

  const Machine& machine_;
  std::vector<double> uses_, load_, sent_;  // messages and bytes by link, bytes by device
  std::vector<LinkNumber> links_;           // of all messages of a round
  std::vector<std::size_t> ends_;           // of each message's in links_
  std::vector<bool> members_;               // of the first phase
  double sending_ = 0;
  ExchangePrice price_;
};

}  // namespace

std::vector<MemberRing> rings_of(const Machine& machine, const std::vector<Devices>& groups) {
  std::vector<MemberRing> result;
  if (machine.rings().empty() || groups.empty() || groups.front().size() % machine.nodes() != 0) return result;
  const std::size_t on_node = groups.front().size() / machine.nodes();
  for (const Devices& group : groups)
    for (std::size_t member = 0; member < group.size(); ++member)
      if (machine.node_of(group[member]) != member / on_node) return result;
  double together = 0;
  for (const Ring& ring : machine.rings()) together += ring.bytes_per_second;
  for (const Ring& ring : machine.rings()) {
    MemberRing& of_members = result.emplace_back(MemberRing{{}, ring.bytes_per_second / together, on_node});
    for (const std::uint32_t node : ring.order)
      for (std::size_t k = 0; k < on_node; ++k) of_members.order.push_back(static_cast<std::uint32_t>(node * on_node + k));
  }
  return result;
}

Schedule device_schedule(const Collective& collective) {
  if (collective.groups.empty()) return {};
  std::unordered_set<std::uint32_t> taken;
  const std::size_t size = collective.groups.front().size();
  const Schedule one = make_schedule(collective.kind, collective.how, size, collective.bytes, collective.rings);
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
  RoundPrices prices(machine);
  for (const Phase& phase : schedule) prices.add(phase);
  return prices.take();
}

ExchangePrice price(const Machine& machine, const Collective& collective) {
  return price(machine, device_schedule(collective));
}

distribution::PairLimits fastest_pairs(const Machine& machine, const std::vector<Devices>& groups) {
  distribution::PairLimits result;
  if (groups.empty() || !distribution::can_pair(groups.front().size())) return result;
  const std::vector<MemberRing> rings = rings_of(machine, groups);
  const auto seconds = [&](double bytes, distribution::ExchangeWay way) {
    const bool in_pairs = way != distribution::ExchangeWay::kAtOnce;
    return price(
               machine,
               Collective{
                   CollectiveKind::kAllReduce, groups, bytes, {strategy_of(way)}, in_pairs ? std::vector<MemberRing>() : rings})
        .seconds;
  };
  for (double bytes = 64; bytes <= kMostInPairs; bytes *= 2) {
    const double whole = seconds(bytes, distribution::ExchangeWay::kWhole),
                 halves = seconds(bytes, distribution::ExchangeWay::kHalves),
                 ring = seconds(bytes, distribution::ExchangeWay::kAtOnce);
    if (std::min(whole, halves) > ring) break;
    if (whole <= halves) result.whole = bytes;
    result.halves = bytes;
  }
  return result;
}

}  // namespace rewright::plans
