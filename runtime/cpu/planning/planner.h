// The interface for a kernel that plans a node: facts about values (known_values.h), the plan's storages, and adding steps.
// plan_maker.cc implements it.
//
//   void SomePlan::emit(Planner& planner, ValueId result) {
//     const int x = planner.storage(node_.inputs[0], kPlain);
//     const int y = planner.add_value(result, kPlain);
//     planner.add_step(std::make_unique<SomeKernel>(...), {x}, {y});
//   }
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cpu/planning/kernels.h"
#include "runtime/cpu/planning/known_values.h"
#include "runtime/cpu/planning/plan.h"
#include "runtime/cpu/planning/prepared_constants.h"
#include "runtime/cpu/planning/stored_values.h"

namespace rewright::cpu {

class Planner : public KnownValues {
 public:
  const PlanOptions& options() const { return plan_.options; }

  // ---- Before steps are planned
  // Will the value be stored, however nodes are grouped? True for inputs, constants and results of kernels planned so far.
  bool is_stored(ValueId value) const { return stored_[value] || is_constant(value); }

  // ---- Values in memory
  // The value's stored layouts, starting with the one it was computed in. Empty before its step is planned.
  std::vector<Layout> layouts(ValueId value) const;
  // The layout for a group's result that makes the whole plan fastest; nullopt if the group has no choice.
  std::optional<Layout> assigned_layout(ValueId result) const;
  // The storage of a value in a layout. Adds a conversion step if the value is not stored in it yet.
  int storage(ValueId value, Layout layout);
  // The row-major storages of the node's inputs that are there.
  std::vector<int> plain_inputs(const Node& node);
  // A new storage for a value that a step computes.
  int add_value(ValueId value, Layout layout) { return values_.add(value, layout); }
  // See StoredValues.
  std::optional<Slot> take_slot(ValueId value, bool bounded) { return values_.take_slot(value, bounded); }
  bool is_in_slot(ValueId value) const { return values_.is_in_slot(value); }
  // As above for a value that is a cache, [.., .., positions, ..].
  int add_cache(ValueId value) {
    caches_.insert(value);
    return add_value(value, kPlain);
  }
  // A storage for data that one step passes to another.
  int add_scratch(std::size_t bytes) { return values_.add_scratch(bytes); }

  // A value that is a strided view of another one, since its producer only moves elements; in elements.
  struct View {
    ValueId source;
    std::int64_t offset;
    std::vector<std::int64_t> strides;
  };
  // nullopt if the value is not a view, or its step was already planned.
  virtual std::optional<View> view(ValueId value) const = 0;
  // The value of 16 bits whose elements these floats are, in the same order; kNoValue: there is none, or the conversion's step
  // was already planned.
  virtual ValueId narrow_source(ValueId value) const = 0;

  // ---- Packed constants
  // As PreparedConstants::get; counts the bytes as read by the next step.
  Tensor prepared(const ConstantOrigin& origin, std::string_view how, std::size_t bytes,
                  const std::function<void(std::byte*)>& make);
  bool is_prepared(const ConstantOrigin& origin, std::string_view how) const { return prepared_->has(origin, how); }

  // ---- Steps
  // Adds a step with the name and operation count of the nodes being planned.
  Step& add_step(std::unique_ptr<Kernel> kernel, std::vector<int> inputs, std::vector<int> outputs);

 protected:
  Planner(Graph graph, const PlanOptions& options);
  ~Planner() = default;

  // Adds the step of a node that only moves elements, if nothing has requested its result yet.
  virtual void plan_copy(ValueId value) = 0;

  // How profiles describe the next step.
  struct StepDescription {
    std::string node, operators;
    double flops = 0;
    std::size_t constant_bytes = 0;
    std::vector<int> nodes;
  };

  Plan plan_;
  StoredValues values_;
  std::shared_ptr<PreparedConstants> prepared_;
  std::vector<bool> stored_;                     // by value
  std::vector<std::optional<Layout>> assigned_;  // by value: results of groups with a choice; may be empty
  StepDescription description_;
  std::set<ValueId> caches_;
};

}  // namespace rewright::cpu
