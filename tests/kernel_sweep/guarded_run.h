// Executes a plan with each of its storages between pages that cannot be touched.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cpu/planning/plan.h"

namespace rewright::cpu {

// A kernel, ours or a library's, that reads or writes outside of a storage is stopped by the processor (SIGSEGV), also where no
// sanitizer looks. So is one that touches a value before its first step or after its last, or that writes inputs or constants.
//
//   GuardedRun run(plan, inputs, GuardedRun::Side::kEnd);
//   run.execute(observe);                                // Error if the bytes beside a storage have changed
class GuardedRun {
 public:
  // The end of a storage that touches its guarding page. Storages of the arena begin at multiples of 64 bytes, as in a session,
  // so that up to 63 bytes may lie between their end and the page: these hold a pattern that is looked at after each step.
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
  std::vector<std::unique_ptr<Pages>> pages_;  // by storage; null for those that are part of another
  std::vector<std::byte*> addresses_;
};

// Says on standard error which step runs when a guarded page is touched, before the process ends of it.
void name_guarded_step(const std::string& text);

}  // namespace rewright::cpu
