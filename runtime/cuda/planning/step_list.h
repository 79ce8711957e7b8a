// Steps of a plan under construction, and alternatives for a step.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "runtime/cuda/planning/plan_builder.h"

namespace rewright::cuda {

// The common result of alternatives. All of them write it to one buffer, in the layout that the first one chooses.
struct CommonResult {
  ValueId value;
  bool nested;  // the alternatives are within an alternative of another result
  std::optional<Layout> layout = {};
  int buffer = -1;
};

// Steps in order, with the buffers of the values they compute. The plan has one list. Each alternative has its own, which sees
// the values of the enclosing list; its own values are in the workspace, except the common result.
class StepList {
 public:
  explicit StepList(PlanBuilder& plan) : plan_(plan) {}
  StepList(StepList& around, CommonResult& result) : plan_(around.plan_), around_(&around), result_(&result) {}

  // The buffer of a value in this layout; -1 for kNoValue. If the value only exists in another layout, a step that converts it
  // is added: to the plan's list if the value comes from there, so that all alternatives share the copy. nullopt if the value
  // is not computed yet, or is a common result in another layout.
  std::optional<int> buffer(ValueId value, Layout layout);
  std::optional<std::vector<int>> buffers(const std::vector<Placed>& values);
  // As buffer(), but throws Error(kUnsupported) instead of returning nullopt.
  int required_buffer(ValueId value, Layout layout);

  // A buffer for a value that the next step computes; nullopt if it is a common result in another layout.
  std::optional<int> add_value(ValueId value, Layout layout);
  // Records that the value is in an existing buffer.
  void place(Placed value, int buffer) { places_[value] = buffer; }

  // The value's existing layout: row-major unless it exists only channels-last.
  Layout layout_of(ValueId value) const;
  std::vector<Placed> as_placed(const std::vector<ValueId>& values) const;

  void add(Step step);
  std::vector<Step>& steps() { return steps_; }
  const std::map<Placed, int>& places() const { return places_; }
  PlanBuilder& plan() { return plan_; }
  CommonResult* result() const { return result_; }  // null: the plan's list

 private:
  std::optional<int> find(Placed value) const;
  StepList& outermost() { return around_ == nullptr ? *this : around_->outermost(); }

  PlanBuilder& plan_;
  StepList* const around_ = nullptr;
  CommonResult* const result_ = nullptr;
  std::vector<Step> steps_;
  std::map<Placed, int> places_;
};

// Lists of steps for the same result, combined into one step of a list:
//
//   Alternatives alternatives(list, result);
//   alternatives.add([&](StepList& steps) { return plan_one(steps); });      // false: this is impossible
//   alternatives.add([&](StepList& steps) { return plan_another(steps); });
//   return alternatives.finish(step);                                        // false: none is possible
class Alternatives {
 public:
  Alternatives(StepList& list, ValueId result);
  Alternatives(const Alternatives&) = delete;
  Alternatives& operator=(const Alternatives&) = delete;

  // `last_resort`: slow; tried only if no other alternative works.
  void add(const std::function<bool(StepList&)>& plan, bool last_resort = false);
  // Adds the step. Its work is the alternatives, or, of a single one, its only step.
  bool finish(Step step);

 private:
  void complete(Step& step) const;

  StepList& list_;
  CommonResult own_;
  CommonResult& result_;  // `own_`, or the result of enclosing alternatives
  EitherStep either_;
};

}  // namespace rewright::cuda
