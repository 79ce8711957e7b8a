#include "runtime/training/asynchronous/staleness.h"

#include <algorithm>
#include <vector>

namespace rewright::training {

void StalenessCounts::add(std::int64_t missed) {
  ++updates;
  total += missed;
  most = std::max(most, missed);
}

void StalenessCounts::add(const StalenessCounts& other) {
  updates += other.updates;
  total += other.total;
  most = std::max(most, other.most);
}

bool Staleness::feasible(std::int64_t version, std::size_t worker, std::optional<std::int64_t> read) const {
  if (!bound_) return true;
  std::vector<std::int64_t> deadlines;
  for (const auto& [reader, at] : reads_)
    if (reader != worker) deadlines.push_back(at + *bound_);
  if (read) deadlines.push_back(*read + *bound_);
  std::ranges::sort(deadlines);
  for (std::size_t n = 0; n < deadlines.size(); ++n)
    if (deadlines[n] < version + static_cast<std::int64_t>(n)) return false;
  return true;
}

bool Staleness::may_read(std::size_t worker) const { return feasible(version_, worker, version_); }

void Staleness::read(std::size_t worker) { reads_[worker] = version_; }

bool Staleness::may_apply(std::size_t worker) const { return feasible(version_ + 1, worker, std::nullopt); }

bool Staleness::apply(std::size_t worker, bool reads_on) {
  const auto read = reads_.find(worker);
  counts_.add(read == reads_.end() ? 0 : version_ - read->second);
  ++version_;
  if (read == reads_.end()) return false;
  const std::int64_t own = read->second + 1;  // its own update is not missed
  if (reads_on && feasible(version_, worker, own)) {
    read->second = own;
    return true;
  }
  reads_.erase(read);
  return false;
}

void Staleness::forget(std::size_t worker) { reads_.erase(worker); }

}  // namespace rewright::training
