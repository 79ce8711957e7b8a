// Choices of e-nodes: which values they compute, their order, and their cost.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "optimizer/saturation/extraction.h"

namespace rewright::optimizer {

// The part of a problem's e-graph that choices are made from, computed once. The problem must outlive this object.
class ENodeChoices {
 public:
  explicit ENodeChoices(const ExtractionProblem& problem);

  // The e-nodes that a choice may contain: reachable from the outputs, with operands that others compute.
  std::span<const ENodeId> useful() const { return useful_; }
  std::span<const ClassId> roots() const { return roots_; }  // classes of the graph's outputs
  bool is_output(ClassId id) const { return is_output_[id]; }
  // Inputs and constants need no choice.
  bool is_given(ClassId id) const { return has_leaf_[id] || graph_.constant(id); }

  template <class F>
  void for_each_read(ENodeId id, const F& visit) const {
    for (const ClassId value : graph_.inputs(id))
      if (value != kNoClass) visit(graph_.find(value));
    for (const ClassId value : graph_.parameters(id))
      if (value != kNoClass) visit(graph_.find(value));
  }

  // Sorts operands first, drops e-nodes that the outputs do not need, and adds those that compute constants; empty if the
  // choice does not compute all outputs.
  std::vector<ENodeId> ordered(std::vector<ENodeId> selected) const;
  double cost(std::span<const ENodeId> chosen) const;
  // The savings that a choice realizes.
  std::vector<bool> savings_of(std::span<const ENodeId> chosen) const;

  // The choice for the original graph.
  std::vector<ENodeId> given() const;
  // The cheapest e-node of each class as if nothing were shared; e-nodes of `free` are almost free. Never has cycles.
  std::vector<ENodeId> greedy(std::span<const ENodeId> free = {}) const;

 private:
  bool varying(ENodeId id) const;
  bool reads_itself(ENodeId id) const;
  std::vector<ENodeId> cheapest(const std::function<double(ENodeId)>& seconds, std::span<const ENodeId> among) const;
  void choose_constants();
  void find_useful();

  const ExtractionProblem& problem_;
  const EGraph& graph_;
  std::vector<ClassId> roots_;
  std::vector<bool> is_output_, has_leaf_;
  bool constants_known_ = false;
  std::vector<ENodeId> constants_;  // for each constant class one that computes it
  std::vector<ENodeId> useful_;
};

}  // namespace rewright::optimizer
