#include "runtime/cuda/planning/plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "operators/readings/operation_count.h"
#include "runtime/cuda/planning/grouping.h"
#include "runtime/cuda/planning/layout.h"
#include "runtime/cuda/planning/scatter.h"
#include "runtime/planning/in_place.h"

namespace rewright::cuda {

namespace {

constexpr double kWorthTrying = 1e8;  // operations of what libraries are good at, for a kernel of ours

std::size_t byte_count(const ValueInfo& v) {
  const std::size_t size = byte_size(v.type);
  if (size == 0) throw Error(ErrorCode::kUnsupported, "a GPU has no tensors of type " + std::string(name(v.type)));
  return static_cast<std::size_t>(element_count(v.sizes)) * size;
}

class Planner {
 public:
  Planner(const Graph& graph, const PlanOptions& options) : graph_(graph), facts_(graph), options_(options) {}

  Plan make() {
    bind_inputs();
    for (const Group& group : make_groups(facts_)) plan_group(group);
    for (const GraphOutput& output : graph_.outputs()) {
      plan_.outputs.push_back(buffer(output.value, kRows));
      const ValueInfo v = facts_.info(output.value);
      plan_.output_types.push_back({v.type, to_indices(v.sizes)});
    }
    list_values();
    compute_in_places(plan_, options_.places);
    order_steps(plan_, options_.most_streams);
    return std::move(plan_);
  }

 private:
  enum Layout : bool { kRows, kChannelsLast };
  using Placed = std::pair<ValueId, Layout>;
  // The result of the ways that are being planned.
  struct Final {
    ValueId value;
    std::optional<Layout> layout;  // as the first way leaves it
    int buffer = -1;
    bool inside = false;  // of another's ways
  };

  void bind_inputs() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId value = graph_.inputs()[i];
      const ValueInfo v = facts_.info(value);
      Buffer b;
      b.kind = Buffer::Kind::kInput;
      b.number = static_cast<int>(i);
      b.bytes = byte_count(v);
      plan_.input_places.push_back(options_.places.inputs.empty() ? -1 : options_.places.inputs.at(i));
      if (const int place = plan_.input_places.back(); place >= 0) b.kind = Buffer::Kind::kResident, b.number = place;
      plan_.input_types.push_back({v.type, to_indices(v.sizes)});
      places_[{value, kRows}] = add(std::move(b));
    }
  }

  void list_values() {
    for (const auto& [placed, buffer] : places_) {
      const auto& [value, layout] = placed;
      if (value >= graph_.value_count() || facts_.constant(value)) continue;
      const bool is_listed =
          !plan_.values.empty() && plan_.values.back().value == value && plan_.values.back().buffer == buffer;
      if (!is_listed) plan_.values.push_back({value, buffer, layout == kChannelsLast});
    }
  }

  int add(Buffer b) {
    plan_.buffers.push_back(std::move(b));
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  // Where a value lies in this layout. One that is computed in the other only is copied.
  int buffer(ValueId value, Layout layout) {
    if (value == kNoValue) return -1;
    if (const auto found = places_.find({value, layout}); found != places_.end()) return found->second;
    const Tensor& constant = facts_.constant(value);
    const Layout other = layout == kRows ? kChannelsLast : kRows;
    if (constant) {
      Buffer b;
      b.kind = Buffer::Kind::kConstant;
      b.constant = constant;
      b.channels_last = layout == kChannelsLast;
      b.bytes = b.constant.byte_count();
      return places_[{value, layout}] = add(std::move(b));
    }
    const auto found = places_.find({value, other});
    if (found == places_.end())
      throw Error(ErrorCode::kUnsupported, "a value is used before it is computed", graph_.value(value).name);
    const ValueInfo info = facts_.info(value);
    if (same_either_way(info.sizes)) return places_[{value, layout}] = found->second;
    const Operand operand(0, {info.type, to_indices(info.sizes)});
    Indices position;
    for (std::size_t a = 0; a < info.sizes.size(); ++a) position.push_back(Index::fresh("i"));
    Step step;
    step.node = value < graph_.value_count() ? graph_.value(value).name : std::string();
    step.operators = "(layout)";
    step.layout = true;
    step.work = KernelStep{add_kernel(kernel_for(operand(position), position, {value, layout}, {{value, other}}))};
    step.inputs = {found->second};
    // What ways need of a value from outside of them stands before them, for all that come after.
    const bool inside = final_ && (plan_.buffers[static_cast<std::size_t>(found->second)].kind == Buffer::Kind::kWorkspace ||
                                   value == final_->value);
    if (final_ && !inside) {
      Buffer b;
      b.bytes = byte_count(info);
      step.outputs = {kept_[{value, layout}] = places_[{value, layout}] = add(std::move(b))};
      before_.push_back(std::move(step));
      return places_[{value, layout}];
    }
    step.outputs = {add_value(value, layout)};
    const int copy = step.outputs[0];
    add_step(std::move(step));
    return copy;
  }

  // Within the ways to a result, all but that lies in the workspace.
  int add_value(ValueId value, Layout layout) {
    const bool is_final = final_ && final_->value == value;
    if (is_final && final_->layout && *final_->layout != layout)
      throw Error(ErrorCode::kUnsupported, "two ways to a result leave it in different layouts");
    if (is_final && final_->layout) return places_[{value, layout}] = final_->buffer;
    Buffer b;
    b.bytes = byte_count(facts_.info(value));
    const int number = final_ && (!is_final || final_->inside) ? add_workspace(b.bytes) : add(std::move(b));
    if (is_final) final_->layout = layout, final_->buffer = number;
    return places_[{value, layout}] = number;
  }

  int add_workspace(std::size_t bytes) {
    Buffer b;
    b.kind = Buffer::Kind::kWorkspace;
    b.bytes = bytes;
    b.offset = workspace_;
    workspace_ += (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    return add(std::move(b));
  }

  // How a value lies that was not made to lie otherwise.
  Layout layout_of(ValueId value) const {
    return value != kNoValue && !places_.contains({value, kRows}) && places_.contains({value, kChannelsLast}) ? kChannelsLast
                                                                                                              : kRows;
  }

  // An expression's result lies like the operands that it is as large as, at least in rank; those of the graph as it says.
  Layout layout_for(ValueId result, const std::vector<ValueId>& operands) const {
    for (const GraphOutput& output : graph_.outputs())
      if (output.value == result) return kRows;
    const std::size_t rank = facts_.info(result).sizes.size();
    const bool last = std::any_of(operands.begin(), operands.end(), [&](ValueId v) {
      return layout_of(v) == kChannelsLast && facts_.info(v).sizes.size() == rank;
    });
    return last ? kChannelsLast : kRows;
  }

  // Convolutions with channels last where the weights are known before: nothing has to move them. Pooling as its operand lies;
  // rows are not moved to be normalized.
  Layout layout_for(LibraryNode& node) const {
    if (auto* p = std::get_if<PoolingShape>(&node.shape)) {
      p->channels_last = layout_of(node.inputs[0]) == kChannelsLast;
      return layout_of(node.inputs[0]);
    }
    if (std::holds_alternative<NormalizationShape>(node.shape) && layout_of(node.inputs[0]) == kChannelsLast)
      throw Error(ErrorCode::kUnsupported, "the rows do not lie one after the other");
    auto* c = std::get_if<ConvolutionShape>(&node.shape);
    if (c == nullptr || !options_.channels_last || !facts_.constant(node.inputs[1])) return kRows;
    c->channels_last = true;
    return kChannelsLast;
  }

  // ---- Steps
  Step described(int node) const {
    Group alone;
    alone.nodes = {node};
    return described(alone);
  }

  Step described(const Group& group) const {
    Step step;
    step.nodes = group.nodes;
    const auto nodes = graph_.nodes();
    for (const int n : group.nodes) {
      const Node& node = *nodes[n];
      if (node.origin && !node.origin->name.empty()) step.node = node.origin->name;
      step.operators += (step.operators.empty() ? "" : "+") + (node.op == nullptr ? "?" : node.op->name());
      if (node.op == nullptr) continue;
      const Definition definition = facts_.define(node);
      if (definition.outputs().empty() || !definition.outputs()[0].element) continue;
      const Output& output = definition.outputs()[0];
      if (all_constant(output.type.shape)) step.flops += operation_count(output);
    }
    if (step.node.empty() && group.result < graph_.value_count()) step.node = graph_.value(group.result).name;
    return step;
  }

  void add_step(Step step) {
    for (const std::vector<int>* list : {&step.inputs, &step.outputs})
      for (const int b : *list)
        if (b >= 0) step.bytes += static_cast<double>(plan_.buffers[static_cast<std::size_t>(b)].bytes);
    plan_.steps.push_back(std::move(step));
  }

  std::size_t add_kernel(GeneratedKernel kernel) {
    plan_.checks_positions = plan_.checks_positions || kernel.checks_positions;
    const auto same = std::find_if(plan_.kernels.begin(), plan_.kernels.end(),
                                   [&](const GeneratedKernel& k) { return k.name == kernel.name; });
    if (same != plan_.kernels.end()) return static_cast<std::size_t>(same - plan_.kernels.begin());
    plan_.kernels.push_back(std::move(kernel));
    return plan_.kernels.size() - 1;
  }

  // Every value as it lies.
  std::vector<Placed> placed(const std::vector<ValueId>& values) const {
    std::vector<Placed> result;
    for (const ValueId v : values) result.emplace_back(v, layout_of(v));
    return result;
  }
  std::vector<int> buffers(const std::vector<Placed>& values) {
    std::vector<int> result;
    for (const auto& [value, layout] : values) result.push_back(buffer(value, layout));
    return result;
  }

  GeneratedKernel kernel_for(const Element& element, const Indices& position, Placed result,
                             const std::vector<Placed>& operands) const {
    const auto operand = [&](const Placed& v) {
      if (v.first == kNoValue) return KernelOperand{};
      const ValueInfo i = facts_.info(v.first);
      return KernelOperand{i.type, v.second == kRows ? i.sizes : channels_last(i.sizes)};
    };
    std::vector<KernelOperand> types;
    std::vector<bool> last;
    for (const Placed& v : operands) {
      types.push_back(operand(v));
      last.push_back(v.second == kChannelsLast);
    }
    return generate_kernel(over_channels_last(element, last), result.second == kRows ? position : channels_last(position),
                           operand(result), types);
  }

  // ---- Ways to one result
  // Several lists of steps to one result, as one step; those that are impossible are left out.
  struct Way {
    std::function<void()> plan;
    bool last_resort = false;
  };
  void add_ways(Step step, ValueId result, const std::vector<Way>& ways) {
    const std::optional<Final> outer = final_;
    if (!outer) workspace_ = 0;
    if (!outer || outer->value != result) final_ = Final{result, std::nullopt, -1, outer.has_value()};
    std::vector<Step> steps = std::exchange(plan_.steps, {});
    const auto places = places_;
    EitherStep either;
    std::optional<Error> failure;
    for (const Way& way : ways) {
      try {
        way.plan();
        either.ways.push_back({std::exchange(plan_.steps, {}), way.last_resort});
      } catch (const Error& e) {
        if (e.code() != ErrorCode::kUnsupported) throw;
        failure = e;
        plan_.steps.clear();
      }
      places_ = places;
      places_.insert(kept_.begin(), kept_.end());
    }
    plan_.steps = std::move(steps);
    if (!outer) {
      for (Step& earlier : std::exchange(before_, {})) add_step(std::move(earlier));
      kept_.clear();
    }
    const std::optional<Final> reached = std::exchange(final_, outer && outer->value == result ? final_ : outer);
    if (either.ways.empty()) throw *failure;
    places_[{result, *reached->layout}] = reached->buffer;
    step.outputs = {reached->buffer};
    if (either.ways.size() == 1 && either.ways[0].steps.size() == 1) {
      step.inputs = either.ways[0].steps[0].inputs;
      step.work = std::move(either.ways[0].steps[0].work);
    } else {
      step.inputs = complete(either, reached->buffer);
      step.work = std::move(either);
    }
    add_step(std::move(step));
  }

  // What all ways read, but for what they make themselves; how much workspace they take, and what they do.
  std::vector<int> complete(EitherStep& either, int result) const {
    std::vector<int> inputs;
    for (EitherStep::Way& way : either.ways) {
      either.key += either.key.empty() ? "either" : " or";
      for (const Step& step : way.steps) {
        if (const auto* library = std::get_if<LibraryStep>(&step.work))
          either.key += " " + to_string(library->shape) + " " + std::to_string(library->starts.size());
        else if (const auto* kernel = std::get_if<KernelStep>(&step.work))
          either.key += " " + plan_.kernels[kernel->kernel].name;
        else
          either.key += " " + std::get<EitherStep>(step.work).key;
        for (const std::vector<int>* list : {&step.inputs, &step.outputs})
          for (const int b : *list) {
            if (b < 0 || b == result) continue;
            const Buffer& buffer = plan_.buffers[static_cast<std::size_t>(b)];
            if (buffer.kind == Buffer::Kind::kWorkspace)
              way.workspace_bytes = std::max(way.workspace_bytes, buffer.offset + buffer.bytes);
            else if (std::find(inputs.begin(), inputs.end(), b) == inputs.end())
              inputs.push_back(b);
          }
      }
    }
    return inputs;
  }

  void plan_group(const Group& group) {
    const auto& node = graph_.nodes()[group.nodes.back()];
    const std::string where = node->origin ? node->origin->name : std::string();
    if (node->op == nullptr)
      throw Error(ErrorCode::kUnsupported, node->opaque_reason.empty() ? "an operator is not known" : node->opaque_reason,
                  where.empty() ? where : "node \"" + where + "\"");
    if (const auto instead = instead_of(group)) return plan_instead(group, *instead);
    try {
      if (group.view || group.element || !group.ways.empty()) return plan_as_one(group);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
    }
    // The parts may still be possible one by one.
    if (!group.element && !group.ways.empty())
      for (const Group& part : group.ways.back()) plan_group(part);
    else
      for (const int n : group.nodes) plan_outputs_one_by_one(n);
  }

  // The replacement for the group's kernel: the interpreter if any node of the group needs it.
  std::optional<Instead> instead_of(const Group& group) const {
    std::optional<Instead> result;
    for (const int n : group.nodes)
      if (const auto found = options_.instead.find(n); found != options_.instead.end())
        result = std::max(result.value_or(found->second), found->second);
    return result;
  }

  void plan_instead(const Group& group, Instead instead) {
    if (instead == Instead::kReference && !group.view) {
      for (const int n : group.nodes) plan_on_host(n);
      return;
    }
    try {
      Group alone = group;  // without the libraries
      alone.ways.clear();
      alone.library.reset();
      if (group.view || group.element) return plan_as_one(alone);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
    }
    for (const int n : group.nodes) plan_outputs_one_by_one(n);
  }

  // Throws Error(kUnsupported) where kernels cannot be generated for it.
  void plan_as_one(const Group& group) {
    if (group.view) {
      places_[{group.result, kRows}] = buffer(graph_.nodes()[group.nodes.back()]->inputs[0], kRows);
    } else if (!group.ways.empty()) {
      std::vector<Way> ways;
      for (const std::vector<Group>& parts : group.ways)
        ways.push_back({[this, &parts] {
          for (const Group& part : parts) plan_as_one(part);
        }});
      add_ways(described(group), group.result, ways);
    } else if (group.library) {
      plan_library(group);
    } else {
      const Layout layout = layout_for(group.result, group.operands);
      add_kernel_step(described(group), group.element, group.position, {group.result, layout}, placed(group.operands));
    }
  }

  void add_kernel_step(Step step, const Element& element, const Indices& position, Placed result,
                       const std::vector<Placed>& operands) {
    KernelStep work{add_kernel(kernel_for(element, position, result, operands))};
    if (!options_.places.outputs.empty()) work.in_place = in_place(element, position, result, operands);
    step.work = std::move(work);
    step.inputs = buffers(operands);
    step.outputs = {add_value(result.first, result.second)};
    add_step(std::move(step));
  }

  std::vector<int> in_place(const Element& element, const Indices& position, Placed result,
                            const std::vector<Placed>& operands) const {
    std::vector<int> found;
    const ValueInfo of_result = facts_.info(result.first);
    for (std::size_t k = 0; k < operands.size(); ++k) {
      if (operands[k].first == kNoValue || operands[k].second != kRows || result.second != kRows) continue;
      const ValueInfo v = facts_.info(operands[k].first);
      const int number = static_cast<int>(k);
      if (v.type == of_result.type && v.sizes == of_result.sizes && planning::is_read_in_place(element, position, number))
        found.push_back(number);
    }
    return found;
  }

  // By the library with its epilogue, or without and a kernel behind it, or by a kernel of the whole group.
  void plan_library(const Group& group) {
    LibraryNode library = *group.library;
    const Layout layout = layout_for(library);
    const Placed result{group.result, layout};
    std::vector<Placed> inputs;
    for (const ValueId v : library.inputs)
      inputs.emplace_back(v, layout == kChannelsLast && has_channels(facts_.info(v).sizes) ? kChannelsLast : kRows);
    const Step step = described(group);
    const auto add = [&](const LibraryShape& shape, const std::vector<Placed>& operands) {
      Step one = step;
      one.inputs = buffers(operands);
      one.outputs = {add_value(result.first, result.second)};
      one.work = LibraryStep{shape, library.starts, workspace_};
      add_step(std::move(one));
    };
    std::vector<Way> ways{{[&] { add(library.shape, inputs); }}};
    const Element epilogue = library.epilogue(facts_, facts_.info(group.result), group.position);
    if (epilogue)
      ways.push_back({[&] {
        add(library.without_epilogue(), {inputs[0], inputs[1]});
        std::vector<Placed> behind{result};
        behind.insert(behind.end(), inputs.begin() + 2, inputs.end());
        add_kernel_step(step, epilogue, group.position, result, behind);
      }});
    if (group.element)
      ways.push_back({[&] { add_kernel_step(step, group.element, group.position, result, placed(group.operands)); },
                      step.flops > kWorthTrying});
    add_ways(step, group.result, ways);
  }

  // Each output by its own denotation, or the whole node by the interpreter.
  void plan_outputs_one_by_one(int n) {
    const auto& node = graph_.nodes()[static_cast<std::size_t>(n)];
    Step step = described(n);
    try {
      const Definition definition = facts_.define(*node);
      if (definition.has_denotation() && !node->op->execute()) {
        std::vector<GeneratedKernel> kernels;
        for (std::size_t o = 0; o < node->outputs.size(); ++o) {
          const Output& output = definition.outputs()[o];
          if (node->outputs[o] != kNoValue)
            kernels.push_back(kernel_for(output.element, output.position, {node->outputs[o], kRows}, placed(node->inputs)));
        }
        auto kernel = kernels.begin();
        for (const ValueId o : node->outputs) {
          if (o == kNoValue) continue;
          Step one = step;
          one.work = KernelStep{add_kernel(std::move(*kernel++))};
          one.inputs = buffers(placed(node->inputs));
          one.outputs = {add_value(o, kRows)};
          add_step(std::move(one));
        }
        return;
      }
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
    }
    if (!plan_scatter(*node, step)) plan_on_host(n);
  }

  void plan_on_host(int n) {
    const auto& node = graph_.nodes()[static_cast<std::size_t>(n)];
    Step step = described(n);
    HostStep work{node, {}};
    for (const ValueId v : node->inputs) {
      step.inputs.push_back(buffer(v, kRows));
      const ValueInfo i = v == kNoValue ? ValueInfo{} : facts_.info(v);
      work.types.push_back({i.type, to_indices(i.sizes)});
    }
    for (const ValueId v : node->outputs) step.outputs.push_back(v == kNoValue ? -1 : add_value(v, kRows));
    step.work = std::move(work);
    add_step(std::move(step));
  }

  bool plan_scatter(const Node& node, const Step& step) {
    std::vector<KernelOperand> operands;
    for (const ValueId v : node.inputs) operands.push_back({facts_.info(v).type, facts_.info(v).sizes});
    auto kernels = scatter_kernels(node, operands);
    if (!kernels) return false;
    const int x = buffer(node.inputs[0], kRows), indices = buffer(node.inputs[1], kRows),
              updates = buffer(node.inputs[2], kRows);
    // One step, as lists that were linked twice would not end.
    const auto plan = [&] {
      const int lists = add_workspace(static_cast<std::size_t>(kernels->lists) * sizeof(std::int32_t));
      const auto start = [&](GeneratedKernel& kernel, std::vector<int> inputs, int output) {
        Step one = step;
        one.work = KernelStep{add_kernel(std::move(kernel))};
        one.inputs = std::move(inputs), one.outputs = {output};
        add_step(std::move(one));
      };
      start(kernels->clear, {}, lists);
      start(kernels->link, {indices, lists}, lists);
      start(kernels->sort, {lists}, lists);
      start(kernels->combine, {x, lists, updates}, add_value(node.outputs[0], kRows));
    };
    add_ways(step, node.outputs[0], {{plan}});
    return true;
  }

  const Graph& graph_;
  GraphFacts facts_;
  const PlanOptions options_;
  Plan plan_;
  std::map<Placed, int> places_;
  std::optional<Final> final_;
  std::vector<Step> before_;  // of the present step, and the places of what they make
  std::map<Placed, int> kept_;
  std::size_t workspace_ = 0;  // bytes that buffers of the present step take
};

}  // namespace

Plan make_plan(const Graph& graph, const PlanOptions& options) { return Planner(graph, options).make(); }

}  // namespace rewright::cuda
