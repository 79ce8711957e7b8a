// Plans a graph: each group becomes steps. Internal to make_plan().
#pragma once

#include <optional>
#include <vector>

#include "runtime/cuda/planning/grouping.h"
#include "runtime/cuda/planning/step_list.h"

namespace rewright::cuda {

class Planner {
 public:
  Planner(const Graph& graph, const PlanOptions& options)
      : graph_(graph), facts_(graph, options.folded), options_(options), builder_(facts_), main_(builder_) {}

  // Called once.
  Plan make();

 private:
  void bind_inputs();
  void bind_outputs();
  void list_values();
  Step described(const std::vector<int>& nodes, ValueId result) const;
  const Node& node(int number) const { return *graph_.nodes()[static_cast<std::size_t>(number)]; }

  // ---- Groups (plan_groups.cc)
  // Plans a group as one step, or if that is impossible, in parts.
  void plan_group(const Group& group);
  // False if it is impossible; then no value of the group is placed.
  bool plan_as_one(StepList& steps, const Group& group);
  bool plan_view(StepList& steps, const Group& group);
  bool plan_alternatives(StepList& steps, const Group& group);
  bool plan_library(StepList& steps, const Group& group);
  bool plan_kernel(StepList& steps, const Group& group);
  bool add_library_step(StepList& steps, Step step, const LibraryShape& shape, const std::vector<LibraryStep::Start>& starts,
                        Placed result, const std::vector<Placed>& operands);
  bool add_kernel_step(StepList& steps, Step step, const Element& element, const Indices& position, Placed result,
                       const std::vector<Placed>& operands);
  std::vector<int> operands_in_place(const Element& element, const Indices& position, Placed result,
                                     const std::vector<Placed>& operands) const;
  Layout layout_for(const StepList& steps, ValueId result, const std::vector<ValueId>& operands) const;
  std::optional<Layout> choose_layout(const StepList& steps, LibraryNode& node) const;
  std::optional<Instead> instead_of(const Group& group) const;
  void plan_instead(const Group& group, Instead instead);

  // ---- Single nodes (plan_nodes.cc)
  // Plans each output by its denotation, or if that is impossible, the whole node by the interpreter.
  void plan_node(int number);
  bool plan_outputs(int number, const Step& step);
  bool plan_scatter(const Node& node, const Step& step);
  void plan_on_host(int number, Step step);

  const Graph& graph_;
  GraphFacts facts_;
  const PlanOptions options_;
  PlanBuilder builder_;
  StepList main_;
};

}  // namespace rewright::cuda
