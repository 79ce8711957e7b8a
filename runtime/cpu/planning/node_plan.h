// A node as a kernel computes it: the operators around it that it fuses, its layouts, and the steps it adds to the plan.
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

// Made by a NodeKernel (planning/kernels.h). It is first offered the surrounding operators, then asked to add its steps.
class NodePlan : public planning::MatchedKernel {
 public:
  // These return true if the kernel computes the given operators from then on.

  // The elementwise chain that is the only user of the result.
  virtual bool absorb(Planner&, const Chain&) { return false; }
  // The elementwise chain that computes the first input; the kernel then reads the chain's start.
  virtual bool absorb_before(Planner&, const Chain&) { return false; }
  // The group that computes the kernel's addend. If true, the other plan was moved from.
  virtual bool absorb_addend(Planner&, ValueId, std::unique_ptr<planning::MatchedKernel>&) { return false; }
  // The node that is the only user of the result.
  virtual bool absorb_next(Planner&, const Node&) { return false; }
  // The node `rows`, the only user of the result; `next` plans the only user of `rows`.
  virtual bool absorb_rows(Planner&, const Node&, const NodePlan&) { return false; }
  // A node that only moves the result's elements.
  virtual bool absorb_move(Planner&, const Node&) { return false; }
  // The expression that computes one of read_in_order().
  virtual bool absorb_operand(Planner&, const Chain&) { return false; }

  // Adds the steps that compute `result`: the node's first output, or that of the last absorbed operator.
  virtual void emit(Planner& planner, ValueId result) = 0;
};

// The time of a step in each layout, in nanoseconds beyond the common part; kNoSuchKernel (planning/layout_assignment.h) for an
// unsupported layout. `operands`: those read in the result's layout; others are read as they are.
struct LayoutNeeds {
  double plain = 0, channels_last = 0;
  std::vector<ValueId> operands = {};
};

// Base of NodePlans whose steps support channels last. All others use row-major tensors.
class ChoosesLayout {
 public:
  virtual ~ChoosesLayout() = default;
  virtual LayoutNeeds layout_needs(const Planner& planner) const = 0;
};

// The parts of a concatenation along the channels; elements are clamped to low and high.
struct GatheredChannels {
  std::vector<ValueId> parts;
  float low, high;
};

// Base of NodePlans that only concatenate: steps may write the parts directly into the result.
class GathersChannels {
 public:
  virtual ~GathersChannels() = default;
  // nullopt if the step does more than that, or its result is not channels-last.
  virtual std::optional<GatheredChannels> gathered(const Planner& planner, ValueId result) const = 0;
};

}  // namespace rewright::cpu
