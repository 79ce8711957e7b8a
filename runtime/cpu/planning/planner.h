// Builds a plan: what the kernel families see of it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cpu/kernels/product/packed_matrix.h"
#include "runtime/cpu/planning/plan.h"
#include "runtime/cpu/tile/program.h"
#include "runtime/planning/grouping.h"

namespace rewright::cpu {

using planning::ValueInfo;

// A step that can compute in both layouts, or only with channels last: what it takes in each beside what is the same, in
// nanoseconds (kNoSuchKernel: not at all), and the operands that lie as the result does. All other operands are read as they
// are.
struct LayoutNeeds {
  double plain = 0, channels_last = 0;
  std::vector<ValueId> operands = {};
};
// To be derived from by plans of nodes that are such steps. All others read and compute plain tensors.
class ChoosesLayout {
 public:
  virtual ~ChoosesLayout() = default;
  virtual LayoutNeeds layout_needs(const Planner& planner) const = 0;
};

// Channels that a step puts side by side, not below `low` and not above `high`.
struct GatheredChannels {
  std::vector<ValueId> parts;
  float low, high;
};
// To be derived from by plans of nodes that do nothing else: steps before them may write the parts where they belong.
class GathersChannels {
 public:
  virtual ~GathersChannels() = default;
  // Nothing if more is done, or channels do not stand last in the result.
  virtual std::optional<GatheredChannels> gathered(const Planner& planner, ValueId result) const = 0;
};

class Planner {
 public:
  // Constants that nothing else holds are given back as soon as they are packed.
  Planner(Graph graph, const PlanOptions& options);
  Plan make();

  const Graph& graph() const { return graph_; }
  const PlanOptions& options() const { return plan_.options; }
  ValueInfo info(ValueId value) const;
  bool has(const Node& node, std::size_t input) const { return input < node.inputs.size() && node.inputs[input] != kNoValue; }
  // The value, if it is known now; an empty tensor otherwise.
  const Tensor& constant(ValueId value) const;
  // Is it known now? Other than `constant` this makes no tensor of a matrix that lies in another one.
  bool is_constant(ValueId value) const { return constants_[value] || matrices_.contains(value); }
  // A constant matrix, where it lies.
  struct ConstantMatrix {
    Tensor in;
    std::int64_t offset = 0, row_stride = 0, column_stride = 1;
  };
  ConstantMatrix constant_matrix(ValueId value) const;
  // A constant that is no value of the graph.
  ValueId add_constant_value(Tensor tensor);
  // A number that a value with one element is known to be.
  std::optional<double> known_number(ValueId value) const;
  Definition define(const Node& node) const;
  const Node* producer(ValueId value) const;  // null: none
  // Will the value be in memory whatever the tile engine fuses? Inputs, constants and results of kernels taken so far.
  bool is_stored(ValueId value) const { return stored_[value] || is_constant(value); }

  // ---- Values in memory
  // The layouts that the value is in already, the one it was computed in first. Empty before its step is planned.
  std::vector<Layout> layouts(ValueId value) const;
  // The layout that the whole plan is the fastest with, of what a group computes; nothing where that has no choice.
  std::optional<Layout> assigned_layout(ValueId result) const;
  // The storage of a value in a layout; a reordering step is added if it is not there yet.
  int storage(ValueId value, Layout layout);
  // Makes room for a value that a step computes.
  int add_value(ValueId value, Layout layout);
  // Room for a value among the channels of another one whose channels stand last, where that is made of it and nothing else
  // reads it. The step writes it there, within the bounds, and it is done.
  struct Room {
    int storage;
    std::int64_t stride;  // floats from pixel to pixel
    float low, high;
  };
  std::optional<Room> room(ValueId value, bool bounded);
  bool is_in_room(ValueId value) const { return housed_.contains(value); }
  // What a failed check says to compute a node by; nothing: its kernel.
  std::optional<Instead> instead(int node) const;
  // Says that a value lies where another one does (same bytes).
  void alias(ValueId value, int storage, Layout layout);
  int add_constant(Tensor tensor);
  // Bytes made from constants alone, as packed weights are, for a group that computes `result`: written by `make` into memory
  // aligned to 64, unless a plan cache has them from an earlier process. `how` tells apart what is made for one result, in ways
  // that the configuration of the plan does not say.
  // Counts as read by the next step.
  Tensor prepared(ValueId result, std::string_view how, std::size_t bytes, const std::function<void(std::byte*)>& make);
  int add_scratch(std::size_t bytes);
  void count_constant(std::size_t bytes) { step_constants_ += bytes; }
  // Weights of products, packed once for all steps that use them.
  const std::shared_ptr<PackedConstants>& packed_constants();

  // The value as a strided view of another one, if its producer only moves elements and its step is not planned yet.
  struct View {
    ValueId source;
    std::int64_t offset;
    std::vector<std::int64_t> strides;
  };
  std::optional<View> view(ValueId value) const;

  // Adds a step; its name and cost are those of the nodes being planned.
  Step& add_step(std::unique_ptr<Kernel> kernel, std::vector<int> inputs, std::vector<int> outputs);
  // Adds the step(s) that compute an element expression in the given layout (plain if the expression does not allow it).
  // False if it cannot be compiled.
  bool add_tiles(const Element& element, const Indices& position, ValueId result, const std::vector<ValueId>& operands);

 private:
  friend class Grouping;
  using Group = planning::Group;

  void find_constants();
  void find_matrices();
  void find_needed();
  void bind_inputs();
  void assign_layouts(const std::vector<Group>& groups);
  void find_rooms(const std::vector<Group>& groups);
  LayoutNeeds layout_needs(const Group& group) const;
  std::vector<std::vector<ValueId>> constants_by_group(const std::vector<Group>& groups) const;
  void release(ValueId value);
  void plan_group(const Group& group);
  void plan_view(const Group& group);
  void plan_pending(ValueId value);
  void plan_outputs();
  void find_lifetimes();
  void replace_inputs();
  void plan_reference(int node, bool may_generate = true);
  void keep_values();
  // Adds a step if the expression is a running sum; false if it is none.
  bool add_prefix(const Element& element, const Indices& position, ValueId result, const std::vector<ValueId>& operands);
  void describe(const Group& group);
  Layout layout_for(const Chain& chain) const;
  int known_storage(ValueId value, Layout layout) const;

  Graph graph_;
  Plan plan_;
  mutable std::vector<Tensor> constants_;  // by value
  // Constants that are others with their elements moved, as transposed weights are. Mostly nobody needs them but products,
  // which pack them from where they lie.
  std::map<ValueId, ConstantMatrix> matrices_;
  std::vector<std::int32_t> producers_;                      // by value
  std::vector<bool> needed_;                                 // by node
  std::vector<bool> stored_;                                 // by value
  std::vector<std::vector<std::pair<Layout, int>>> places_;  // by value
  std::map<ValueId, const Group*> pending_;                  // copies that nothing has asked for yet
  std::map<ValueId, Layout> assigned_;                       // of groups with a choice
  // What may be written among the channels of a whole, from `first` on; and what was.
  struct ChannelsOf {
    ValueId whole;
    std::int64_t first;
    float low, high;
  };
  std::map<ValueId, ChannelsOf> rooms_;
  std::set<ValueId> housed_;
  std::vector<PlannedValue> values_in_rooms_;
  std::vector<int> step_nodes_;
  std::string step_node_, step_operators_;
  double step_flops_ = 0;
  std::size_t step_constants_ = 0;  // bytes that the next step reads beside its inputs
  std::shared_ptr<PackedConstants> packed_constants_;
  std::vector<std::uint64_t> hashes_;  // by value, with a plan cache
};

// Which nodes are planned together.
std::vector<planning::Group> make_groups(Planner& planner);

}  // namespace rewright::cpu
