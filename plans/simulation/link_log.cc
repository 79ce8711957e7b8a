#include "plans/simulation/link_log.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace rewright::plans {

namespace {

constexpr double kRounding = 1e-14;

bool comes_before(const Passage& a, const Passage& b) { return std::tie(a.begin, a.task) < std::tie(b.begin, b.task); }

}  // namespace

void LinkLog::change(std::vector<Passage> removed, std::vector<Passage> added) {
  std::sort(removed.begin(), removed.end(), comes_before);
  std::sort(added.begin(), added.end(), comes_before);
  // Entries before the first change are not touched.
  std::size_t next = 0;
  auto out =
      removed.empty() ? passages_.end() : std::lower_bound(passages_.begin(), passages_.end(), removed.front(), comes_before);
  for (auto at = out; at != passages_.end(); ++at) {
    if (next < removed.size() && *at == removed[next])
      ++next;
    else
      *out++ = *at;
  }
  passages_.erase(out, passages_.end());
  for (const Passage& p : added) longest_ = std::max(longest_, (p.end - p.begin) + kRounding * p.end);
  if (added.empty()) return;
  const auto from = std::lower_bound(passages_.begin(), passages_.end(), added.front(), comes_before) - passages_.begin();
  const auto middle = static_cast<std::ptrdiff_t>(passages_.size());
  passages_.insert(passages_.end(), added.begin(), added.end());
  std::inplace_merge(passages_.begin() + from, passages_.begin() + middle, passages_.end(), comes_before);
}

std::size_t LinkLog::first_after(double time) const {
  const auto at =
      std::upper_bound(passages_.begin(), passages_.end(), time, [](double t, const Passage& p) { return t < p.begin; });
  return static_cast<std::size_t>(at - passages_.begin());
}

}  // namespace rewright::plans
