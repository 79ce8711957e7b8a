// Searches for plans of one model share this on all machines with the same devices.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <tuple>

#include "plans/cuts/cut.h"
#include "plans/machines/machine.h"
#include "plans/partition/choices.h"

namespace rewright::runtime {

// The price of an operator on one of `parts` devices that share the work evenly, by their roofline.
plans::OperatorSeconds device_seconds(const plans::DeviceRates& rates, std::size_t parts = 1);

// The ways to divide nodes, proved and priced. Links do not count for them.
class PlanChoices {
 public:
  explicit PlanChoices(const plans::DeviceRates& rates) : rates_(rates) {}

  // For nodes that are divided among so many groups of so many devices. `alike`: only ways by which all groups compute the same
  // graph.
  plans::ChoiceFinder& among(std::size_t groups, std::size_t size, bool alike);
  const std::shared_ptr<plans::CutFinder>& cuts() const { return cuts_; }

 private:
  plans::DeviceRates rates_;
  std::shared_ptr<plans::CutFinder> cuts_ = std::make_shared<plans::CutFinder>();
  std::map<std::tuple<std::size_t, std::size_t, bool>, std::unique_ptr<plans::ChoiceFinder>> finders_;
};

}  // namespace rewright::runtime
