// The plans of one graph for the sets of sizes that it was called with lately, and what they share.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cpu/planning/prepared_constants.h"
#include "runtime/cpu/planning/recognitions.h"
#include "runtime/cpu/running/runner.h"
#include "runtime/session.h"

namespace rewright::cpu {

// Constants, recognitions and memory that all plans of a session share, those of a mixed graph's parts as well.
struct CpuResources final : SharedResources {
  explicit CpuResources(int graphs) : constants(graphs) {}
  PreparedConstants constants;
  Recognitions recognitions;
  ArenaPool arenas;
};

// May be used by several threads at once.
class SizedPlans {
 public:
  using Make = std::function<std::unique_ptr<PlanRunner>()>;
  // The plan for inputs of these sizes; `make` makes it where there is none. One plan is made at a time, and meanwhile those
  // that are there are found. The plan of the sizes that were asked for the longest time ago is dropped where there are too
  // many: it costs little to make again, as constants stay packed.
  std::shared_ptr<PlanRunner> get(const std::vector<Sizes>& sizes, const Make& make);
  // The plan that was asked for last; null: none was.
  std::shared_ptr<PlanRunner> last() const;

 private:
  struct Entry {
    std::shared_ptr<PlanRunner> plan;
    std::uint64_t used = 0;  // a number that grows with time
  };
  std::shared_ptr<PlanRunner> find(const std::vector<Sizes>& sizes);
  void drop_oldest();

  std::mutex making_;
  mutable std::mutex mutex_;  // of what follows
  std::map<std::vector<Sizes>, Entry> plans_;
  std::shared_ptr<PlanRunner> last_;
  std::uint64_t time_ = 0;
};

}  // namespace rewright::cpu
