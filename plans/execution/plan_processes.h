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
  explicit PlanProcesses(distribution::Communicator& all, std::size_t groups = 1);

  distribution::Communicator& all() const { return all_; }
  // Without groups, the processes within are all.
  distribution::Communicator& within() const { return within_ ? *within_ : all_; }
  distribution::Communicator& between() const { return *between_; }
  distribution::Communicator& at(PlanLevel level) const { return level == PlanLevel::kBetween ? between() : within(); }

 private:
  distribution::Communicator& all_;
  std::unique_ptr<distribution::Communicator> within_, between_;
};

}  // namespace rewright::plans
