// How a kernel computes a node: which operators around the node it computes as well, the layouts it can compute in, and the
// steps that it adds to the plan.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "runtime/planning/attributes.h"
#include "runtime/planning/facts.h"

namespace rewright::cpu {

class Planner;

using planning::AttributeReader;
using planning::Chain;

// Made by a NodeKernel (planning/kernels.h). First it is offered the operators around its node, then asked to add its steps.
class NodePlan : public planning::Taken {
 public:
  // The functions below return true if the kernel computes the operators in question from then on.

  // The elementwise chain that is the only user of the result.
  virtual bool absorb(Planner&, const Chain&) { return false; }
  // The elementwise chain that computes the first input; the kernel then reads the chain's start.
  virtual bool absorb_before(Planner&, const Chain&) { return false; }
  // The group that computes a value which the kernel adds to its result. If true, the other plan was moved from.
  virtual bool absorb_addend(Planner&, ValueId, std::unique_ptr<planning::Taken>&) { return false; }
  // The node that is the only user of the result.
  virtual bool absorb_next(Planner&, const Node&) { return false; }
  // The node `rows` that is the only user of the result, and the node planned as `next` that is the only user of `rows`.
  virtual bool absorb_rows(Planner&, const Node&, const NodePlan&) { return false; }
  // A node that only moves elements of the result.
  virtual bool absorb_move(Planner&, const Node&) { return false; }

  // Adds the steps that compute `result`: the node's first output, or that of the last operator absorbed.
  virtual void emit(Planner& planner, ValueId result) = 0;
};

// The time of a step that can compute with channels last, or in both layouts, in nanoseconds beyond what both take;
// kNoSuchKernel (planning/layout_assignment.h) for a layout that it does not compute in. `operands`: those read in the result's
// layout; other operands are read as they are.
struct LayoutNeeds {
  double plain = 0, channels_last = 0;
  std::vector<ValueId> operands = {};
};

// Base of the NodePlans of such steps. All others read and compute row-major tensors.
class ChoosesLayout {
 public:
  virtual ~ChoosesLayout() = default;
  virtual LayoutNeeds layout_needs(const Planner& planner) const = 0;
};

// The parts of a concatenation along the channels, whose elements are bounded: low <= y <= high.
struct GatheredChannels {
  std::vector<ValueId> parts;
  float low, high;
};

// Base of the NodePlans that only concatenate: the steps that compute the parts may write them into the result.
class GathersChannels {
 public:
  virtual ~GathersChannels() = default;
  // nullopt if the step does more than that, or computes a layout other than channels last.
  virtual std::optional<GatheredChannels> gathered(const Planner& planner, ValueId result) const = 0;
};

}  // namespace rewright::cpu
