// Searches for plans of one model share this on all machines with the same devices.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "plans/cuts/cut.h"
#include "plans/machines/machine.h"
#include "plans/partition/choices.h"

namespace rewright::runtime {

// The price of an operator on one of `parts` devices that share the work evenly: the roofline of the machine's rates, times the
// factor that operators of its name and about its size take on that in the machine's device profile, if there is one, and at
// least its bytes at the memory's rate. `trains`: are weights variables, as kernels are others where they are constants? None:
// not known. `for_bound`: with the least factor of all sizes, so that no part of the operator takes less.
plans::OperatorSeconds device_seconds(const plans::Machine& machine, std::optional<bool> trains = {}, std::size_t parts = 1,
                                      bool for_bound = false);

// The ways to divide nodes, proved (or proposed, where proofs come later) and priced. Links do not count for them.
class PlanChoices {
 public:
  PlanChoices(const plans::Machine& machine, bool trains, bool proves = true)
      : machine_(machine), trains_(trains), cuts_(std::make_shared<plans::CutFinder>(proves)) {}

  // For nodes that are divided among so many groups of so many devices. `alike`: only ways by which all groups compute the same
  // graph. Groups of several devices divide nodes further, so that they have the prices of bounds.
  plans::ChoiceFinder& among(std::size_t groups, std::size_t size, bool alike, bool for_bound = false);
  // The price of a device's part.
  plans::OperatorSeconds seconds() const { return device_seconds(machine_, trains_); }
  const std::shared_ptr<plans::CutFinder>& cuts() const { return cuts_; }

 private:
  plans::Machine machine_;
  bool trains_;
  std::shared_ptr<plans::CutFinder> cuts_;
  std::map<std::tuple<std::size_t, std::size_t, bool, bool>, std::unique_ptr<plans::ChoiceFinder>> finders_;
};

}  // namespace rewright::runtime
