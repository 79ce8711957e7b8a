#include "plans/simulation/schedule.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace rewright::plans {

namespace {

using distribution::AllReduce;
using distribution::AllReduceStrategy;

class ScheduleMaker {
 public:
  explicit ScheduleMaker(std::size_t processes, std::span<const MemberRing> rings = {}) : rings_(rings) {
    for (std::size_t p = 0; p < processes; ++p) ranks_.push_back(static_cast<std::uint32_t>(p));
  }
  explicit ScheduleMaker(std::vector<std::uint32_t> ranks) : ranks_(std::move(ranks)) {}

  std::size_t size() const { return ranks_.size(); }
  Schedule take() { return std::move(schedule_); }

  // A vector is reduced to parts, gathered from them, or both.
  void around(double bytes, bool reduces, bool gathers) {
    const std::size_t width = rings_.empty() ? 1 : rings_.front().on_node, nodes = size() / width;
    const double part = bytes / static_cast<double>(width);
    const std::size_t times = (reduces ? 1 : 0) + (gathers ? 1 : 0);
    if (reduces) within(part, width);
    across(part / static_cast<double>(nodes), width, times * (nodes - 1));
    if (gathers) within(part, width);
  }

  void all_at_once(double part) {
    Phase phase;
    for (std::size_t p = 0; p < size(); ++p)
      for (std::size_t q = 1; q < size(); ++q) phase.messages.push_back(message(p, (p + q) % size(), part));
    add(std::move(phase));
  }

  // Along a binomial tree to the first member, or from it.
  void up(double bytes) {
    for (std::size_t bit = 1; bit < size(); bit *= 2) add(level(bit, bytes, true));
  }
  void down(double bytes) {
    for (std::size_t bit = std::bit_ceil(size()) / 2; bit > 0; bit /= 2) add(level(bit, bytes, false));
  }

  void server(double bytes) {
    for (std::size_t p = 1; p < size(); ++p) add({{message(p, 0, bytes)}});
    for (std::size_t p = 1; p < size(); ++p) add({{message(0, p, bytes)}});
  }

  // Members beyond a power of 2 hand their vectors to partners, and get the sum at the end.
  template <class Rounds>
  void among_power_of_2(double bytes, const Rounds& rounds) {
    const std::size_t power = std::bit_floor(size());
    Phase before, after;
    for (std::size_t p = power; p < size(); ++p) {
      before.messages.push_back(message(p, p - power, bytes));
      after.messages.push_back(message(p - power, p, bytes));
    }
    add(std::move(before));
    rounds(power);
    add(std::move(after));
  }
  // Halves of the vector between neighbours, then quarters between pairs of them, ...; and back.
  void halve(std::size_t power, double bytes) {
    for (std::size_t bit = 1; bit < power; bit *= 2) swap(power, bit, bytes /= 2);
  }
  void gather_halves(std::size_t power, double bytes) {
    double part = bytes / static_cast<double>(power);
    for (std::size_t bit = power / 2; bit > 0; bit /= 2, part *= 2) swap(power, bit, part);
  }
  void swap(std::size_t power, std::size_t bit, double bytes) {
    Phase phase;
    for (std::size_t p = 0; p < power; ++p) phase.messages.push_back(message(p, p ^ bit, bytes));
    add(std::move(phase));
  }

  void add(Phase phase) {
    if (!phase.messages.empty() && phase.rounds > 0) schedule_.push_back(std::move(phase));
  }

 private:
  Message message(std::size_t from, std::size_t to, double bytes) const { return {ranks_[from], ranks_[to], bytes}; }

  // Each member sends a part to the next of its node.
  void within(double part, std::size_t width) {
    Phase phase{{}, width - 1};
    for (const MemberRing& ring : rings_)
      for (std::size_t k = 0; k < size(); ++k)
        phase.messages.push_back(message(ring.order[k], ring.order[k - k % width + (k + 1) % width], part * ring.share));
    add(std::move(phase));
  }

  // Each member sends a part to that of its place on the next node.
  void across(double part, std::size_t width, std::size_t rounds) {
    Phase phase{{}, rounds};
    for (const MemberRing& ring : rings_)
      for (std::size_t k = 0; k < size(); ++k)
        phase.messages.push_back(message(ring.order[k], ring.order[(k + width) % size()], part * ring.share));
    if (rings_.empty())
      for (std::size_t p = 0; p < size(); ++p) phase.messages.push_back(message(p, (p + 1) % size(), part));
    add(std::move(phase));
  }

  Phase level(std::size_t bit, double bytes, bool up) const {
    Phase phase;
    for (std::size_t p = 0; p + bit < size(); p += 2 * bit)
      phase.messages.push_back(up ? message(p + bit, p, bytes) : message(p, p + bit, bytes));
    return phase;
  }

  std::vector<std::uint32_t> ranks_;
  std::span<const MemberRing> rings_;
  Schedule schedule_;
};

// Trees within all nodes at the same time, and a ring of their first members between.
Schedule hierarchical(std::size_t processes, std::size_t node, double bytes) {
  const std::size_t width = node == 0 ? processes : std::min(node, processes);
  std::vector<Schedule> ups, downs;
  std::vector<std::uint32_t> firsts;
  for (std::size_t first = 0; first < processes; first += width) {
    std::vector<std::uint32_t> members;
    for (std::size_t p = first; p < std::min(first + width, processes); ++p) members.push_back(static_cast<std::uint32_t>(p));
    firsts.push_back(members[0]);
    ScheduleMaker up(members), down(members);
    up.up(bytes), down.down(bytes);
    ups.push_back(up.take()), downs.push_back(down.take());
  }
  Schedule result;
  const auto side_by_side = [&](const std::vector<Schedule>& all) {
    std::size_t rounds = 0;
    for (const Schedule& one : all) rounds = std::max(rounds, one.size());
    for (std::size_t r = 0; r < rounds; ++r) {
      Phase phase;
      for (const Schedule& one : all)
        if (r < one.size()) phase.messages.insert(phase.messages.end(), one[r].messages.begin(), one[r].messages.end());
      result.push_back(std::move(phase));
    }
  };
  side_by_side(ups);
  ScheduleMaker across(firsts);
  if (firsts.size() > 1) across.around(bytes, true, true);
  for (Phase& phase : across.take()) result.push_back(std::move(phase));
  side_by_side(downs);
  return result;
}

Schedule all_reduce_schedule(AllReduce how, std::size_t processes, double bytes, std::span<const MemberRing> rings) {
  ScheduleMaker make(processes, rings);
  switch (how.strategy) {
    case AllReduceStrategy::kEngine:
    case AllReduceStrategy::kRing:
      make.around(bytes, true, true);
      break;
    case AllReduceStrategy::kParameterServer:
      make.server(bytes);
      break;
    case AllReduceStrategy::kNaive:
      make.all_at_once(bytes);
      break;
    case AllReduceStrategy::kTree:
      make.up(bytes), make.down(bytes);
      break;
    case AllReduceStrategy::kButterfly:
      make.among_power_of_2(bytes, [&](std::size_t power) {
        make.halve(power, bytes);
        make.gather_halves(power, bytes);
      });
      break;
    case AllReduceStrategy::kRecursiveDoubling:
      make.among_power_of_2(bytes, [&](std::size_t power) {
        for (std::size_t bit = 1; bit < power; bit *= 2) make.swap(power, bit, bytes);
      });
      break;
    case AllReduceStrategy::kHierarchical:
      return hierarchical(processes, how.node, bytes);
  }
  return make.take();
}

}  // namespace

AllReduceStrategy strategy_of(distribution::ExchangeWay way) {
  switch (way) {
    case distribution::ExchangeWay::kAtOnce:
      break;
    case distribution::ExchangeWay::kHalves:
      return AllReduceStrategy::kButterfly;
    case distribution::ExchangeWay::kWhole:
      return AllReduceStrategy::kRecursiveDoubling;
  }
  return AllReduceStrategy::kRing;
}

Schedule make_schedule(CollectiveKind kind, AllReduce how, std::size_t processes, double bytes,
                       std::span<const MemberRing> rings) {
  if (processes <= 1 || !(bytes > 0)) return {};
  ScheduleMaker make(processes, rings);
  const double part = bytes / static_cast<double>(processes);
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return all_reduce_schedule(how, processes, bytes, rings);
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather:
      if ((how.strategy != AllReduceStrategy::kButterfly && how.strategy != AllReduceStrategy::kRecursiveDoubling) ||
          !std::has_single_bit(processes))
        make.around(bytes, kind == CollectiveKind::kReduceScatter, kind == CollectiveKind::kAllGather);
      else if (kind == CollectiveKind::kReduceScatter)
        make.halve(processes, bytes);
      else
        make.gather_halves(processes, bytes);
      break;
    case CollectiveKind::kReduceInOrder:
    case CollectiveKind::kAllToAll:
      make.all_at_once(part);
      break;
    case CollectiveKind::kBroadcast:
      make.down(bytes);
      break;
  }
  return make.take();
}

}  // namespace rewright::plans
