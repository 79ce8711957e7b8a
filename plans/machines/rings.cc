#include "plans/machines/rings.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>

namespace rewright::plans {

namespace {

constexpr int kAttempts = 16;           // at all cycles together
constexpr int kAttemptsAtCycle = 8;     // within one of these
constexpr std::size_t kMostSteps = 30;  // of a member, to extend or rotate a path

using Cycle = std::vector<std::uint32_t>;

class CycleFinder {
 public:
  CycleFinder(std::span<const Link> links, std::size_t members) : near_(members) {
    for (const Link& link : links)
      if (link.from < members && link.to < members) rates_[{link.from, link.to}] = link.bytes_per_second;
    for (const auto& [ends, rate] : rates_)
      if (rates_.contains({ends.second, ends.first})) near_[ends.first].insert(ends.second);
  }

  std::vector<Ring> rings() {
    const auto all = near_;
    std::vector<Cycle> best;
    std::size_t degree = std::numeric_limits<std::size_t>::max();
    for (const auto& near : all) degree = std::min(degree, near.size());
    const std::size_t most = members() == 2 ? degree : degree / 2;
    for (int attempt = 0; attempt < kAttempts && best.size() < most; ++attempt) {
      near_ = all;
      std::vector<Cycle> found = strides();
      while (auto cycle = next_cycle()) {
        remove(*cycle);
        found.push_back(std::move(*cycle));
      }
      if (found.size() > best.size()) best = std::move(found);
    }
    std::vector<Ring> result;
    for (Cycle& cycle : best) {
      Cycle back(cycle.rbegin(), cycle.rend());
      result.push_back(ring(std::move(cycle)));
      if (members() > 2) result.push_back(ring(std::move(back)));  // of two, both directions are one ring
    }
    return result;
  }

 private:
  std::size_t members() const { return near_.size(); }

  std::vector<Cycle> strides() {
    std::vector<Cycle> found;
    const std::size_t n = members();
    for (std::size_t stride = 1; stride <= n / 2; ++stride) {
      if (std::gcd(stride, n) != 1 || (stride == 1 && n < 2)) continue;
      Cycle cycle(n);
      for (std::size_t k = 0; k < n; ++k) cycle[k] = static_cast<std::uint32_t>(k * stride % n);
      bool is_joined = true;
      for (std::size_t k = 0; k < n; ++k) is_joined = is_joined && near_[cycle[k]].contains(cycle[(k + 1) % n]);
      if (!is_joined) continue;
      remove(cycle);
      found.push_back(std::move(cycle));
    }
    return found;
  }

  void remove(const Cycle& cycle) {
    for (std::size_t k = 0; k < cycle.size(); ++k) {
      const std::uint32_t a = cycle[k], b = cycle[(k + 1) % cycle.size()];
      near_[a].erase(b), near_[b].erase(a);
    }
  }

  std::optional<Cycle> next_cycle() {
    if (members() < 3 || std::ranges::any_of(near_, [](const auto& near) { return near.size() < 2; })) return std::nullopt;
    for (int attempt = 0; attempt < kAttemptsAtCycle; ++attempt)
      if (auto cycle = cycle_from(static_cast<std::uint32_t>(random_() % members()))) return cycle;
    return std::nullopt;
  }

  std::optional<Cycle> cycle_from(std::uint32_t start) {
    Cycle path{start};
    std::vector<std::size_t> place(members(), members());  // in the path
    place[start] = 0;
    for (std::size_t step = 0; step < kMostSteps * members(); ++step) {
      const auto& near = near_[path.back()];
      if (path.size() == members() && near.contains(path.front())) return path;
      // To a new member, with the fewest ways on; otherwise the rest of the path behind a neighbour is turned around.
      std::uint32_t next = 0;
      std::size_t fewest = std::numeric_limits<std::size_t>::max();
      const std::size_t first = random_() % near.size();
      std::vector<std::uint32_t> in_turn(near.begin(), near.end());
      std::rotate(in_turn.begin(), in_turn.begin() + static_cast<std::ptrdiff_t>(first), in_turn.end());
      for (const std::uint32_t other : in_turn) {
        if (place[other] < members()) continue;
        const auto ways = static_cast<std::size_t>(
            std::ranges::count_if(near_[other], [&](std::uint32_t m) { return place[m] == members(); }));
        if (ways < fewest) fewest = ways, next = other;
      }
      if (fewest < std::numeric_limits<std::size_t>::max()) {
        place[next] = path.size();
        path.push_back(next);
        continue;
      }
      const std::size_t turn = place[in_turn.front()] + 1;
      std::reverse(path.begin() + static_cast<std::ptrdiff_t>(turn), path.end());
      for (std::size_t k = turn; k < path.size(); ++k) place[path[k]] = k;
    }
    return std::nullopt;
  }

  Ring ring(Cycle order) const {
    Ring result{{}, std::numeric_limits<double>::infinity()};
    for (std::size_t k = 0; k < order.size(); ++k)
      result.bytes_per_second = std::min(result.bytes_per_second, rates_.at({order[k], order[(k + 1) % order.size()]}));
    result.order = std::move(order);
    return result;
  }

  std::map<std::pair<std::uint32_t, std::uint32_t>, double> rates_;
  std::vector<std::set<std::uint32_t>> near_;  // by member: those joined to it by links of no ring yet
  std::mt19937 random_{1};
};

}  // namespace

std::vector<Ring> rings_over(std::span<const Link> links, std::size_t members) {
  return members < 2 ? std::vector<Ring>() : CycleFinder(links, members).rings();
}

}  // namespace rewright::plans
