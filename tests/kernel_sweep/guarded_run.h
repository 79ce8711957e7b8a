// Executes a plan with each storage between inaccessible pages.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cpu/planning/plan.h"

namespace rewright::cpu {

// A kernel (ours or a library's) that reads or writes outside of a storage gets SIGSEGV, also where no sanitizer looks. So does
// one that accesses a value before its first or after its last step, or that writes inputs or constants.
//
//   GuardedRun run(plan, inputs, GuardedRun::Side::kEnd);
//   run.execute(observe);                                // Error if the bytes beside a storage have changed
class GuardedRun {
 public:
  // The end of a storage that touches its guard page. Storages of the arena begin at multiples of 64 bytes, as in a session, so
  // up to 63 bytes may be between their end and the page: these hold a pattern that is checked after each step.
  enum class Side { kBegin, kEnd };
  GuardedRun(const Plan& plan, std::span<const Tensor> inputs, Side side);
  ~GuardedRun();

  using Observe = std::function<void(std::size_t step, std::span<std::byte* const> addresses)>;
  void execute(const Observe& observe = {});

 private:
  class Pages;
  void make_accessible(std::size_t step);
  void check_patterns(std::size_t step) const;

  const Plan& plan_;
  std::vector<std::unique_ptr<Pages>> pages_;  // by storage; null for parts of other storages
  std::vector<std::byte*> addresses_;
};

// Prints the current step on standard error if a guard page is touched, before the process ends.
void name_guarded_step(const std::string& text);

}  // namespace rewright::cpu
