// The plans of one graph for recently used sets of sizes, and the resources they share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/cpu/planning/prepared_constants.h"
#include "runtime/cpu/planning/recognitions.h"
#include "runtime/cpu/running/runner.h"
#include "runtime/session.h"

namespace rewright::cpu {

// Constants, recognitions and memory shared by all plans of a session, including those for parts of a mixed graph.
struct CpuResources final : SharedResources {
  explicit CpuResources(int graphs) : constants(graphs) {}
  PreparedConstants constants;
  Recognitions recognitions;
  ArenaPool arenas;
  TensorPool outputs;
  std::atomic<std::size_t> plan_bytes = 0;  // of all plans of the session and of the graphs within it
};

// Thread-safe.
class SizedPlans {
 public:
  using Make = std::function<std::unique_ptr<PlanRunner>()>;
  SizedPlans() = default;
  ~SizedPlans();
  SizedPlans(const SizedPlans&) = delete;
  SizedPlans& operator=(const SizedPlans&) = delete;

  // Counts bytes together with others that share this number. Called before all else.
  void share_bytes(std::shared_ptr<std::atomic<std::size_t>> bytes) { bytes_ = std::move(bytes); }
  // The plan for inputs of these sizes, made by `make` if there is none. One plan is made at a time; existing ones can be found
  // meanwhile. The 16 that were used last are kept, and more as far as they are small. Others are dropped: making them again is
  // cheap, since constants stay packed.
  std::shared_ptr<PlanRunner> get(const std::vector<Sizes>& sizes, const Make& make);
  // The plan requested last; null if there was none.
  std::shared_ptr<PlanRunner> last() const;

 private:
  struct Entry {
    std::shared_ptr<PlanRunner> plan;
    std::uint64_t used = 0;  // time stamp of the last use
    std::size_t bytes = 0;   // about
  };
  std::shared_ptr<PlanRunner> find(const std::vector<Sizes>& sizes);
  void drop_oldest();

  std::mutex making_;
  mutable std::mutex mutex_;  // guards the members below
  std::map<std::vector<Sizes>, Entry> plans_;
  std::shared_ptr<PlanRunner> last_;
  std::uint64_t time_ = 0;
  std::shared_ptr<std::atomic<std::size_t>> bytes_ = std::make_shared<std::atomic<std::size_t>>(0);  // of plans
};

}  // namespace rewright::cpu
