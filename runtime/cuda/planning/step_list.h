// Steps of a plan while they are planned, and alternatives for one of them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "runtime/cuda/planning/plan_builder.h"

namespace rewright::cuda {

// The result that alternatives have in common. All leave it in one buffer, in the layout that the first one gives it.
struct CommonResult {
  ValueId value;
  bool nested;  // the alternatives stand in an alternative of another result
  std::optional<Layout> layout = {};
  int buffer = -1;
};

// Steps in order, with the buffers of the values that they compute. The plan has one list; each alternative has a list of its
// own, which sees the values of the list around it, and whose own values lie in the workspace but for the common result.
class StepList {
 public:
  explicit StepList(PlanBuilder& plan) : plan_(plan) {}
  StepList(StepList& around, CommonResult& result) : plan_(around.plan_), around_(&around), result_(&result) {}

  // The buffer of a value in this layout; -1 for kNoValue. A step that changes the layout is added where it has another one:
  // to the plan's list if the value comes from there, so that all alternatives read the same copy. nullopt if the value is not
  // computed yet, or is a common result in another layout.
  std::optional<int> buffer(ValueId value, Layout layout);
  std::optional<std::vector<int>> buffers(const std::vector<Placed>& values);
  // Throws Error(kUnsupported) in place of nullopt.
  int required_buffer(ValueId value, Layout layout);

  // The buffer for a value that the next step computes; nullopt if it is a common result that has another layout.
  std::optional<int> add_value(ValueId value, Layout layout);
  // Says that the value lies in a buffer that there is already.
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

// Lists of steps that compute the same result, as one step of a list:
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

  // `last_resort`: too slow to be tried where another one works.
  void add(const std::function<bool(StepList&)>& plan, bool last_resort = false);
  // Adds the step, whose work is then the alternatives, or the only step of the only one.
  bool finish(Step step);

 private:
  void complete(Step& step) const;

  StepList& list_;
  CommonResult own_;
  CommonResult& result_;  // `own_`, or that of the alternatives around these
  EitherStep either_;
};

}  // namespace rewright::cuda
