// Choices of e-nodes: what they make, in which order, and what they cost.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "optimizer/saturation/extraction.h"

namespace rewright::optimizer {

// The part of a problem's e-graph that choices are made from, found once. The problem must outlive this.
class ENodeChoices {
 public:
  explicit ENodeChoices(const ExtractionProblem& problem);

  // The e-nodes that a choice may hold: reached from the outputs, and with all they read made by others.
  std::span<const ENodeId> useful() const { return useful_; }
  std::span<const ClassId> roots() const { return roots_; }  // classes of the graph's outputs
  bool is_output(ClassId id) const { return is_output_[id]; }
  // Nothing has to be chosen for it: an input, or constant.
  bool is_given(ClassId id) const { return has_leaf_[id] || graph_.constant(id); }

  template <class F>
  void for_each_read(ENodeId id, const F& visit) const {
    for (const ClassId value : graph_.inputs(id))
      if (value != kNoClass) visit(graph_.find(value));
    for (const ClassId value : graph_.parameters(id))
      if (value != kNoClass) visit(graph_.find(value));
  }

  // In an order in which each comes after what it reads, without those that the outputs do not need, and with what makes
  // constants; empty if these do not make all outputs.
  std::vector<ENodeId> ordered(std::vector<ENodeId> selected) const;
  double cost(std::span<const ENodeId> chosen) const;
  // Which savings a choice makes.
  std::vector<bool> savings_of(std::span<const ENodeId> chosen) const;

  // The graph that the e-graph began as.
  std::vector<ENodeId> given() const;
  // The cheapest e-node of each class as if nothing were shared; e-nodes of `free` cost next to nothing. Never has cycles.
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
  std::vector<ENodeId> constants_;  // for each constant class one that makes it
  std::vector<ENodeId> useful_;
};

}  // namespace rewright::optimizer
