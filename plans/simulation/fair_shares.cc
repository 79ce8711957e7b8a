#include "plans/simulation/fair_shares.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace rewright::plans {

namespace {

constexpr double kRises = -1;  // a rate that is not yet known

}  // namespace

void FairShares::add(std::span<const LinkUse> uses, double most_bytes_per_second) {
  for (const LinkUse& use : uses) {
    std::size_t& at = at_[use.link];
    if (at == 0) {
      sharing_.push_back({use.link, links_[use.link].bytes_per_second, 0, 0, {}});
      at = sharing_.size();
    }
    sharing_[at - 1].messages += use.messages, ++sharing_[at - 1].rising;
    sharing_[at - 1].flows.emplace_back(flows_.size(), use.messages);
  }
  flows_.push_back({uses, most_bytes_per_second});
}

void FairShares::fix(std::size_t flow, double rate) {
  rates_[flow] = rate;
  for (const LinkUse& use : flows_[flow].uses) {
    Sharing& s = sharing_[at_[use.link] - 1];
    s.left -= use.messages * rate;
    s.messages -= use.messages, --s.rising;
  }
}

std::span<const double> FairShares::rates() {
  rates_.assign(flows_.size(), kRises);
  std::vector<std::size_t> by_most(flows_.size()), open(sharing_.size());
  std::iota(by_most.begin(), by_most.end(), 0);
  std::iota(open.begin(), open.end(), 0);
  std::stable_sort(by_most.begin(), by_most.end(),
                   [&](std::size_t a, std::size_t b) { return flows_[a].most < flows_[b].most; });
  double level = 0;  // that all rates have reached
  std::size_t next = 0, known = 0;
  while (known < flows_.size()) {
    // The link that is full first; rounding may not take a level back that was reached.
    double least = std::numeric_limits<double>::infinity();
    const Sharing* full = nullptr;
    std::size_t kept = 0;
    for (const std::size_t n : open) {
      const Sharing& s = sharing_[n];
      if (s.rising == 0) continue;
      open[kept++] = n;
      const double share = std::max(level, s.left / s.messages);
      if (share < least || (share == least && s.link < full->link)) least = share, full = &s;
    }
    open.resize(kept);
    // Messages with rates of their own below it leave the others no less.
    const std::size_t before = known;
    for (; next < by_most.size() && flows_[by_most[next]].most <= least; ++next) {
      if (rates_[by_most[next]] != kRises) continue;
      level = std::max(level, flows_[by_most[next]].most);
      fix(by_most[next], flows_[by_most[next]].most), ++known;
    }
    if (known > before) continue;
    level = least;
    for (const auto& [flow, messages] : full->flows)
      if (rates_[flow] == kRises) fix(flow, level), ++known;
  }
  for (const Sharing& s : sharing_) at_[s.link] = 0;
  sharing_.clear(), flows_.clear();
  return rates_;
}

}  // namespace rewright::plans
