// Max-min fair shares of links for messages that are on their way at the same time. All rates rise together; where a link is
// full or a message has the rate that it can have at most, those of its messages stay as they are, and the others rise on
// (Bertsekas and Gallager, Data Networks, 6.5.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/namespaces.h"
#include "plans/simulation/task_graph.h"

namespace rewright::plans {

// Computes rates of messages that are connected by links which they share. The rates depend on the messages alone, to the bit,
// if they are added in the same order.
class FairShares {
 public:
  explicit FairShares(std::span<const Link> links) : links_(links), at_(links.size()) {}

  void add(std::span<const LinkUse> uses, double most_bytes_per_second);
  // In the order in which the messages were added, which are then forgotten. Valid until the next call.
  std::span<const double> rates();

 private:
  struct Sharing {
    LinkNumber link;
    double left, messages;  // of its rate; of those whose rates still rise
    std::size_t rising;     // how many flows these are
    std::vector<std::pair<std::size_t, double>> flows;
  };
  struct Flow {
    std::span<const LinkUse> uses;
    double most;
  };
  void fix(std::size_t flow, double rate);

  std::span<const Link> links_;
  std::vector<std::size_t> at_;  // of a link in sharing_, from 1; 0: not there
  std::vector<Sharing> sharing_;
  std::vector<Flow> flows_;
  std::vector<double> rates_;
};

}  // namespace rewright::plans
