// Makes plans: passes over the graph, then groups of nodes, their layouts, their steps, and memory.
#include <algorithm>
#include <map>
#include <utility>

#include "runtime/cpu/base/libraries.h"
#include "runtime/cpu/planning/fused_groups.h"
#include "runtime/cpu/planning/grouping.h"
#include "runtime/cpu/planning/layouts.h"
#include "runtime/cpu/planning/loop_choices.h"
#include "runtime/cpu/planning/matching.h"
#include "runtime/cpu/planning/memory.h"
#include "runtime/cpu/planning/passes.h"
#include "runtime/cpu/planning/plan_together.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/planning/split_view.h"
#include "runtime/planning/strided_read.h"
#include "runtime/planning/traits.h"

namespace rewright::cpu {

namespace {

using planning::Group;

class PlanMaker final : public Planner {
 public:
  PlanMaker(Graph graph, const PlanOptions& options) : Planner(std::move(graph), options) {}

  Plan make() {
    if (options().checked) plan_.graph = graph();
    bind_inputs();
    std::vector<Group> groups = make_groups(*this, stored_);
    plan_.steps.reserve(groups.size()), plan_.storages.reserve(2 * groups.size());
    assigned_ = choose_layouts(*this, groups);
    values_.set_parts(find_parts(*this, groups));
    plan_groups(groups);
    plan_outputs();
    find_lifetimes(plan_);
    reuse_inputs(plan_);
    if (options().checked) {
      plan_.values = values_.planned_values();
      keep_values(plan_);
    }
    assign_memory(plan_);
    return std::move(plan_);
  }

  std::optional<View> view(ValueId value) const override {
    const Chain* const read = only_read(value);
    if (read == nullptr) return std::nullopt;
    const ValueId source = read->operands()[0];
    if (info(source).type != info(value).type) return std::nullopt;
    const auto strides = planning::read_strides(*read->element(), read->position(), info(value).sizes, info(source).sizes);
    if (!strides) return std::nullopt;
    return View{source, strides->constant, strides->coefficients};
  }

  ValueId narrow_source(ValueId value) const override {
    const auto converted = find_conversion(value);
    if (!converted || info(converted->source).sizes != info(value).sizes) return kNoValue;
    const Chain& read = *only_read(value);
    return at_result_position(*read.element(), read.position(), info(value).sizes) ? converted->source : kNoValue;
  }

  std::optional<View> find_narrow_view(ValueId value) const {
    if (const auto converted = find_conversion(value)) return converted;
    auto result = view(value);  // of what was converted in its order
    const ValueId narrow = result ? narrow_source(result->source) : kNoValue;
    if (narrow == kNoValue) return std::nullopt;
    result->source = narrow;
    return result;
  }

  std::optional<SplitView> find_split_view(ValueId value) const {
    const Chain* const read = only_read(value);
    if (read == nullptr) return std::nullopt;
    const ValueId source = read->operands()[0];
    if (info(source).type != info(value).type) return std::nullopt;
    auto strides = planning::read_split_strides(*read->element(), read->position(), info(value).sizes, info(source).sizes);
    if (!strides) return std::nullopt;
    return SplitView{source, *std::move(strides)};
  }

 private:
  // A view of the narrower value that was converted.
  std::optional<View> find_conversion(ValueId value) const {
    const Chain* const read = only_read(value);
    if (read == nullptr) return std::nullopt;
    const ValueId source = read->operands()[0];
    if (byte_size(info(source).type) >= byte_size(info(value).type)) return std::nullopt;
    const auto strides = planning::read_strides(*read->element(), read->position(), info(value).sizes, info(source).sizes);
    return strides ? std::optional(View{source, strides->constant, strides->coefficients}) : std::nullopt;
  }

  // The chain of a value that only has other places for the elements of one operand, and was not planned yet; null: it is none.
  const Chain* only_read(ValueId value) const {
    const auto found = copies_.find(value);
    if (found == copies_.end()) return nullptr;
    const Chain& chain = *found->second->chain;
    const bool only_reads = chain.operands().size() == 1 && chain.element()->kind == ElementNode::Kind::kRead;
    return only_reads && !chain.element()->zero_outside ? &chain : nullptr;
  }

  void bind_inputs() {
    const auto inputs = graph().inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      values_.add_input(inputs[i], static_cast<int>(i));
      stored_[inputs[i]] = true;
    }
  }

  // Constants are released when no later group can request them; shared constants are not this plan's to release.
  void plan_groups(std::vector<Group>& groups) {
    std::vector<std::vector<ValueId>> constants(groups.size());
    for (std::size_t g = 0; g < groups.size() && !options().constants; ++g) constants[g] = constants_read_by(groups[g].nodes);
    std::map<ValueId, int> users;
    for (const GraphOutput& o : graph().outputs()) ++users[o.value];
    for (const std::vector<ValueId>& list : constants)
      for (const ValueId v : list) ++users[v];
    const std::vector<FusedGroups> sets = fused_groups(groups);
    std::map<std::size_t, const FusedGroups*> set_of;
    for (const FusedGroups& set : sets)
      for (const std::size_t g : set.groups) set_of[g] = &set;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].copy) {  // planned on demand, so its constants stay
        copies_[groups[g].result] = &groups[g];
        continue;
      }
      if (const auto set = set_of.find(g); set == set_of.end()) {
        plan_group(groups[g]);
      } else if (const std::size_t last = set->second->groups.back(); g == last) {
        plan_set(*set->second, groups);
      } else {  // where the last one is
        constants[last].insert(constants[last].end(), constants[g].begin(), constants[g].end());
        continue;
      }
      groups[g].kernel.reset();
      for (const ValueId v : constants[g])
        if (--users[v] == 0)
          if (const Tensor released = release(v)) prepared_->forget(released.bytes());
    }
  }

  void plan_group(const Group& group) {
    planning::require_operator(*graph().nodes()[group.nodes.back()]);
    describe(group);
    if (group.view) return plan_view(group);
    const auto is_by_reference = [&](int n) { return instead_of(*this, n) == Instead::kReference; };
    if (std::any_of(group.nodes.begin(), group.nodes.end(), is_by_reference)) {
      for (const int n : group.nodes) plan_interpreted(n);
      return;
    }
    if (group.kernel) return static_cast<NodePlan&>(*group.kernel).emit(*this, group.result);
    if (group.chain) {
      const Chain& chain = *group.chain;
      if (add_expression({chain.element(), chain.position(), group.result, chain.operands(), chain.expression().name})) return;
      // The nodes may have kernels individually.
      for (const int n : group.nodes) plan_alone(n);
      return;
    }
    plan_alone(group.nodes.back());
  }

  // Steps that replace inputs by outputs need to know which elements they read in place, which sets do not tell.
  std::vector<FusedGroups> fused_groups(const std::vector<Group>& groups) const {
    return options().replacements.empty() ? find_fused_groups(*this, groups) : std::vector<FusedGroups>();
  }

  void plan_set(const FusedGroups& set, const std::vector<Group>& groups) {
    std::vector<Expression> expressions;
    Group all;
    bool prepared = true;
    for (const std::size_t g : set.groups) {
      const Chain& chain = *groups[g].chain;
      expressions.push_back({chain.element(), chain.position(), groups[g].result, chain.operands(), chain.expression().name});
      all.nodes.insert(all.nodes.end(), groups[g].nodes.begin(), groups[g].nodes.end());
      for (const ValueId v : chain.operands()) {
        const bool is_own =
            std::any_of(expressions.begin(), expressions.end(), [&](const Expression& e) { return e.result == v; });
        if (!is_own) prepared = prepared && prepare_operands({v});
      }
    }
    std::sort(all.nodes.begin(), all.nodes.end());
    all.result = groups[set.groups.back()].result;
    describe(all);
    if (prepared && plan_fused(*this, expressions, set.is_result)) return;
    for (const std::size_t g : set.groups) plan_group(groups[g]);
  }

  static ValueId first_output(const Node& node) {  // nobody may read the others
    return *std::find_if(node.outputs.begin(), node.outputs.end(), [](ValueId o) { return o != kNoValue; });
  }

  void describe(const Group& group) {
    planning::Description found = planning::describe(graph(), group.nodes, options().counts_operations);
    const ValueId result = group.result == kNoValue ? first_output(*graph().nodes()[group.nodes.back()]) : group.result;
    description_.node = found.node.empty() ? graph().value(result).name : std::move(found.node);
    description_.operators = std::move(found.operators);
    description_.flops = found.flops;
    description_.nodes = group.nodes;
  }

  void plan_copy(ValueId value) override {
    const auto found = copies_.find(value);
    if (found == copies_.end()) return;
    const Group& group = *found->second;
    copies_.erase(found);
    StepDescription outer = std::exchange(description_, {});
    plan_group(group);
    description_ = std::move(outer);
  }

  void plan_view(const Group& group) {
    const Node& node = *graph().nodes()[group.nodes[0]];
    values_.alias(group.result, storage(node.inputs[0], kPlain), kPlain);
  }

  // Plans one node without a kernel: each output as an expression, or otherwise the node by the interpreter.
  void plan_alone(int n) {
    const auto& node = graph().nodes()[n];
    const std::vector<ValueId> operands(node->inputs.begin(), node->inputs.end());
    const Definition& definition = define(*node);
    bool planned = definition.has_denotation();
    if (planned && add_together(*node, definition, operands)) return;
    for (std::size_t o = 0; o < node->outputs.size() && planned; ++o) {
      if (node->outputs[o] == kNoValue || !values_.copies(node->outputs[o]).empty()) continue;
      const Output& output = definition.outputs()[o];
      planned = add_expression({output.element, output.position, node->outputs[o], operands});
    }
    if (!planned) plan_interpreted(n);
  }

  // Computes all outputs of a node in one step if they share reductions.
  bool add_together(const Node& node, const Definition& definition, const std::vector<ValueId>& operands) {
    std::vector<Expression> expressions;
    bool reduces = false;
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == kNoValue || !values_.copies(node.outputs[o]).empty()) continue;
      const Output& output = definition.outputs()[o];
      if (!computable_by_expressions(info(node.outputs[o]).type)) return false;
      expressions.push_back({output.element, output.position, node.outputs[o], operands});
      reduces = reduces || planning::has_reduction(output.element);
    }
    if (expressions.size() < 2 || !reduces || !prepare_operands(operands)) return false;
    return plan_row_statistics(*this, node) || plan_dynamic_quantization(*this, node) || plan_together(*this, expressions);
  }

  // Are the operands' types computable? Plans those that have not been requested yet.
  bool prepare_operands(const std::vector<ValueId>& operands) {
    for (const ValueId v : operands)
      if (v != kNoValue && !computable_by_expressions(info(v).type)) return false;
    for (const ValueId v : operands)
      if (v != kNoValue) plan_copy(v);
    return true;
  }

  void plan_interpreted(int n) {
    const auto& node = graph().nodes()[n];
    std::vector<int> inputs, outputs;
    std::vector<TensorType> types;
    for (const ValueId i : node->inputs) {
      if (i == kNoValue) continue;
      inputs.push_back(storage(i, kPlain));
      const ValueInfo v = info(i);
      types.push_back({v.type, to_indices(v.sizes)});
    }
    for (const ValueId o : node->outputs) {
      if (o == kNoValue) continue;
      values_.forget(o);
      outputs.push_back(add_value(o, kPlain));
    }
    add_step(make_interpreted(node, std::move(types)), std::move(inputs), std::move(outputs));
  }

  // False if no kernel computes the expression.
  bool add_expression(const Expression& expression) {
    if (!computable_by_expressions(info(expression.result).type)) return false;
    if (!prepare_operands(expression.operands)) return false;
    const auto kernels = expression_kernels();
    return std::any_of(kernels.begin(), kernels.end(), [&](ExpressionKernel plan) { return plan(*this, expression); });
  }

  void plan_outputs() {
    for (std::size_t o = 0; o < graph().outputs().size(); ++o) {
      const ValueId value = graph().outputs()[o].value;
      const int at = storage(value, kPlain);
      const ValueInfo v = info(value);
      plan_.outputs.push_back(at);
      plan_.output_types.push_back({v.type, to_indices(v.sizes)});
      plan_.caches.push_back(caches_.contains(value));
      Storage& s = plan_.storages[at];
      if (s.kind == Storage::Kind::kArena && s.part_of < 0) {
        s.kind = Storage::Kind::kOutput;
        s.number = static_cast<int>(o);
      }
    }
  }

  std::map<ValueId, const Group*> copies_;  // groups that only move elements and have not been requested yet
};

}  // namespace

std::optional<SplitView> split_view(const Planner& planner, ValueId value) {
  return static_cast<const PlanMaker&>(planner).find_split_view(value);
}

std::optional<Planner::View> narrow_view(const Planner& planner, ValueId value) {
  return static_cast<const PlanMaker&>(planner).find_narrow_view(value);
}

Plan make_plan(Graph graph, const PlanOptions& options) {
  const LibrariesOnOneThread alone;  // oneDNN's primitives are made for the current number of threads
  if (options.choices != nullptr && options.searches_loops) {
    std::vector<LoopProblem> problems;
    PlanOptions once = options;
    once.loop_problems = &problems;
    if (once.constants) once.constants->begin_plan();
    Plan plan = PlanMaker(run_passes(Graph(graph), once), once).make();
    plan.options.loop_problems = nullptr;
    if (!search_loops(std::move(problems), *options.choices)) return plan;
  }
  if (options.constants) options.constants->begin_plan();
  return PlanMaker(run_passes(std::move(graph), options), options).make();
}

}  // namespace rewright::cpu
