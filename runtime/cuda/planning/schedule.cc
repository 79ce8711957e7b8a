#include "runtime/cuda/planning/schedule.h"

#include <algorithm>

namespace rewright::cuda {

namespace {

bool has(const std::vector<std::uint64_t>& bits, int n) { return bits[static_cast<std::size_t>(n) / 64] >> (n % 64) & 1; }

}  // namespace

Schedule::Schedule(const std::vector<std::vector<int>>& needs, int most_streams) {
  const std::size_t words = needs.size() / 64 + 1;
  const auto add = [](Bits& bits, const Bits& others) {
    for (std::size_t w = 0; w < bits.size(); ++w) bits[w] |= others[w];
  };
  for (const std::vector<int>& needed : needs) {
    const int step = static_cast<int>(stream_.size());
    Bits before(words);
    for (const int n : needed) {
      add(before, before_[static_cast<std::size_t>(n)]);
      before[static_cast<std::size_t>(n) / 64] |= std::uint64_t{1} << (n % 64);
    }
    const int stream = choose_stream(before, needed, most_streams);
    if (stream == static_cast<int>(last_.size())) last_.push_back(-1);
    const int last = last_[static_cast<std::size_t>(stream)];
    std::vector<int>& waits = waits_.emplace_back();
    for (const int n : needed) {
      const auto covers = [&](int other) {
        return other >= 0 && other != n && has(before_[static_cast<std::size_t>(other)], n);
      };
      if (n == last || covers(last) || std::any_of(needed.begin(), needed.end(), covers)) continue;
      if (std::find(waits.begin(), waits.end(), n) == waits.end()) waits.push_back(n);
    }
    if (last >= 0) {
      add(before, before_[static_cast<std::size_t>(last)]);
      before[static_cast<std::size_t>(last) / 64] |= std::uint64_t{1} << (last % 64);
    }
    before_.push_back(std::move(before));
    stream_.push_back(stream);
    last_[static_cast<std::size_t>(stream)] = step;
  }
  streams_ = std::max<int>(1, static_cast<int>(last_.size()));
}

// Prefers a stream whose last step this step needs; then one where it waits only for steps that it needs.
int Schedule::choose_stream(const Bits& before, const std::vector<int>& needs, int most_streams) const {
  int best = -1;
  const auto later = [&](int stream) {
    return best < 0 || last_[static_cast<std::size_t>(stream)] > last_[static_cast<std::size_t>(best)];
  };
  for (int s = 0; s < static_cast<int>(last_.size()); ++s)
    if (std::find(needs.begin(), needs.end(), last_[static_cast<std::size_t>(s)]) != needs.end() && later(s)) best = s;
  if (best >= 0) return best;
  for (int s = 0; s < static_cast<int>(last_.size()); ++s)
    if (has(before, last_[static_cast<std::size_t>(s)]) && later(s)) best = s;
  if (best >= 0) return best;
  if (static_cast<int>(last_.size()) < most_streams) return static_cast<int>(last_.size());
  return static_cast<int>(std::min_element(last_.begin(), last_.end()) - last_.begin());
}

bool Schedule::before(int first, int second) const { return has(before_[static_cast<std::size_t>(second)], first); }

}  // namespace rewright::cuda
