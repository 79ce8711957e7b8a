// Counts and bounds how many updates a gradient misses. Of one shard of the weights; for one thread, or under a lock.
//
//   Staleness staleness(4);
//   if (staleness.may_read()) staleness.read(worker);
//   if (staleness.may_apply(worker)) staleness.apply(worker);
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace rewright::training {

struct StalenessCounts {
  std::int64_t updates = 0, total = 0, most = 0;  // updates applied; the sum and the maximum of what they missed
  void add(std::int64_t missed);
  void add(const StalenessCounts& other);
  double mean() const { return updates > 0 ? static_cast<double>(total) / static_cast<double>(updates) : 0; }
};

// With a bound S, a read of version v must be followed by its update before version v + S is exceeded: a deadline. Reads and
// updates are admitted as long as all who have read can still keep theirs, one after another in the order of their deadlines.
// So whoever has the earliest one is always admitted, and nobody waits for each other in a circle.
class Staleness {
 public:
  explicit Staleness(std::optional<std::int64_t> bound) : bound_(bound) {}

  bool may_read(std::size_t worker) const;
  void read(std::size_t worker);  // replaces the worker's earlier read
  bool has_read(std::size_t worker) const { return reads_.contains(worker); }
  bool may_apply(std::size_t worker) const;
  // The worker's update is applied now. Its read stays valid (for another update) only if `reads_on` and the bound allows:
  // returns whether. An update of a worker without a read misses nothing.
  bool apply(std::size_t worker, bool reads_on);
  void forget(std::size_t worker);  // it will not update

  std::int64_t version() const { return version_; }
  const StalenessCounts& counts() const { return counts_; }

 private:
  // Can all who have read keep their deadlines if the version is `version`, with this worker's read replaced by another one, or
  // (empty) left out?
  bool feasible(std::int64_t version, std::size_t worker, std::optional<std::int64_t> read) const;

  std::optional<std::int64_t> bound_;
  std::int64_t version_ = 0;
  std::map<std::size_t, std::int64_t> reads_;  // versions, by worker
  StalenessCounts counts_;
};

}  // namespace rewright::training
