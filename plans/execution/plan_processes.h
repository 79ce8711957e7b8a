// The processes that execute a plan: all of them, those of this one's group, and those of the same number in all groups.
#pragma once

#include <cstddef>
#include <memory>

#include "distribution/communicator.h"

namespace rewright::plans {

enum class PlanLevel { kBetween, kWithin };  // groups; the processes of a group

class PlanProcesses {
 public:
  // Groups of equally many consecutive ranks. `all` must outlive this object.
  explicit PlanProcesses(Communicator& all, std::size_t groups = 1);

  Communicator& all() const { return all_; }
  // Without groups, the processes within are all.
  Communicator& within() const { return within_ ? *within_ : all_; }
  Communicator& between() const { return *between_; }
  Communicator& at(PlanLevel level) const { return level == PlanLevel::kBetween ? between() : within(); }

 private:
  Communicator& all_;
  std::unique_ptr<Communicator> within_, between_;
};

}  // namespace rewright::plans
