// For each node of a graph, the ways in which its work can be divided among processes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "plans/cuts/cut.h"
#include "plans/partition/holding.h"

namespace rewright::plans {

struct NodeChoice {
  std::optional<Cut> cut;      // none: each process computes all of it
  std::vector<Need> needs;     // of the operands; of absent ones without meaning
  std::vector<Holding> gives;  // of the outputs
  double seconds = 0;          // of the longest part on one device
};

// The needs and results (without a type: absent ones) of a node that is cut so, without its cost; nothing if there are fewer
// units of work than processes, or halos longer than a part.
std::optional<NodeChoice> make_choice(OperandTypes types, const std::vector<TensorType>& results, const Cut& cut,
                                      std::int64_t processes);
// Every process computes all of it.
NodeChoice whole_choice(const Node& node);
// Operands that are zero everywhere (a Fill) need not be added by one process alone: that is dropped from the choice's needs.
void share_zeros(const Graph& graph, const Node& node, NodeChoice& choice);

// The cost of an operator on one device, of whose bytes a share passes through memory (plans/partition/moved_shares.h).
using OperatorSeconds =
    std::function<double(const Operator& op, const Attributes& attributes, OperandTypes types, double moved)>;

// Seconds of the longest part on one device.
double choice_seconds(const Node& node, OperandTypes types, const NodeChoice& choice, std::int64_t processes,
                      const OperatorSeconds& seconds, double moved);

// Choices of nodes whose sizes are known. Cuts are proved by `cuts`, which keeps proofs of equal nodes.
class ChoiceFinder {
 public:
  ChoiceFinder(std::int64_t processes, OperatorSeconds seconds, std::shared_ptr<CutFinder> cuts = std::make_shared<CutFinder>())
      : processes_(processes), seconds_(std::move(seconds)), cuts_(std::move(cuts)) {}

  // Only choices of which this is true, beside the whole operator.
  void keep_only(std::function<bool(const NodeChoice&)> wanted) { wanted_ = std::move(wanted); }
  // Adds choices of opaque nodes, by why they are opaque; others are computed by each process.
  void add_opaque(const std::string& reason, std::vector<NodeChoice> choices) { opaque_[reason] = std::move(choices); }

  // The first one is the whole operator. A cut into fewer units than processes is none. `moved`: the node's share, for its
  // cost.
  const std::vector<NodeChoice>& of(const Graph& graph, const Node& node, double moved = 1);
  // Without those that need partial sums of what can only be had otherwise.
  std::vector<NodeChoice> within_reach(const Graph& graph, std::span<const std::int32_t> producers, const Node& node,
                                       double moved);

 private:
  std::int64_t processes_;
  OperatorSeconds seconds_;
  std::shared_ptr<CutFinder> cuts_;
  std::function<bool(const NodeChoice&)> wanted_;
  std::map<std::string, std::vector<NodeChoice>, std::less<>> opaque_;
  std::map<std::string, std::vector<NodeChoice>, std::less<>> known_;  // by operator, attributes, types and share
};

}  // namespace rewright::plans
