#include "runtime/cpu/planning/planner.h"

#include <algorithm>
#include <set>
#include <utility>

#include "operators/readings/interpreter.h"
#include "operators/readings/operation_count.h"
#include "runtime/cpu/kernels/product/bfloat16_product.h"
#include "runtime/cpu/kernels/quantized/byte_table.h"
#include "runtime/cpu/kernels/quantized/quantized.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/planning/precision.h"
#include "runtime/cpu/planning/prefix.h"
#include "runtime/cpu/running/runner.h"
#include "runtime/cpu/tile/stages.h"
#include "runtime/planning/contraction.h"
#include "runtime/planning/in_place.h"
#include "runtime/planning/pieces.h"

namespace rewright::cpu {

namespace {

// Executes a node by its denotation, element by element.
class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(std::shared_ptr<const Node> node, std::vector<TensorType> inputs)
      : node_(std::move(node)), types_(std::move(inputs)) {}
  void run(const Call& call) const override {
    std::vector<Tensor> inputs(node_->inputs.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (node_->inputs[i] == kNoValue) continue;
      inputs[i] = Tensor(types_[next].type, values(types_[next].shape), nullptr, call.inputs[next]);
      ++next;
    }
    const std::vector<Tensor> outputs = interpret(*node_->op, node_->attributes, inputs);
    next = 0;
    for (std::size_t o = 0; o < node_->outputs.size(); ++o) {
      if (node_->outputs[o] == kNoValue) continue;
      const auto bytes = outputs.at(o).bytes();
      std::copy(bytes.begin(), bytes.end(), call.outputs[next++]);
    }
  }
  std::string source() const override { return "the interpreter"; }

 private:
  std::shared_ptr<const Node> node_;
  std::vector<TensorType> types_;
};

class TileKernel final : public Kernel {
 public:
  explicit TileKernel(StagedProgram program) : program_(std::move(program)) {}
  void run(const Call& call) const override { program_.run(call.inputs, call.outputs[0], call.scratch, call.workers); }
  std::size_t scratch_bytes() const override { return program_.scratch_bytes(); }
  std::string source() const override { return kGeneratedCode; }

 private:
  StagedProgram program_;
};

}  // namespace

Planner::Planner(Graph graph, const PlanOptions& options)
    : graph_(planning::with_pieces_apart(std::move(graph))),
      constants_(graph_.value_count()),
      producers_(graph_.producers()),
      needed_(graph_.nodes().size()),
      stored_(graph_.value_count()),
      places_(graph_.value_count()) {
  plan_.options = options;
}

ValueInfo Planner::info(ValueId value) const {
  if (value >= graph_.value_count()) return {constants_[value].type(), constants_[value].sizes()};
  const Value& v = graph_.value(value);
  if (v.constant) return {v.constant.type(), v.constant.sizes()};
  if (!v.shape_known || v.type.type == DataType::kUndefined)
    throw Error(ErrorCode::kUnsupported, "the sizes of a tensor are not known before the model runs", v.name);
  return {v.type.type, values(v.type.shape)};
}

Definition Planner::define(const Node& node) const {
  return node.op->define(node.attributes, Inputs::of(std::span<const std::optional<TensorType>>(graph_.operand_types(node))));
}

const Node* Planner::producer(ValueId value) const {
  return value >= producers_.size() || producers_[value] < 0
             ? nullptr
             : graph_.nodes()[static_cast<std::size_t>(producers_[value])].get();
}

ValueId Planner::add_constant_value(Tensor tensor) {
  constants_.push_back(std::move(tensor));
  places_.emplace_back();
  return static_cast<ValueId>(constants_.size() - 1);
}

std::optional<double> Planner::known_number(ValueId value) const {
  const Tensor& t = constant(value);
  if (!t || t.size() != 1) return std::nullopt;
  return t.reals()[0];
}

Plan Planner::make() {
  if (plan_.options.cache != nullptr) hashes_ = graph_.value_hashes();  // before constants are released
  find_constants();
  if (plan_.options.checked) plan_.graph = graph_;
  find_needed();
  bind_inputs();
  std::vector<Group> groups = make_groups(*this);
  assign_layouts(groups);
  find_rooms(groups);
  const std::vector<std::vector<ValueId>> constants = constants_by_group(groups);
  std::map<ValueId, int> users;
  for (const GraphOutput& o : graph_.outputs()) ++users[o.value];
  for (const std::vector<ValueId>& list : constants)
    for (const ValueId v : list) ++users[v];
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].copy) {  // planned when something asks for it, if ever: its constants stay
      pending_[groups[g].result] = &groups[g];
      continue;
    }
    plan_group(groups[g]);
    groups[g].taken.reset();
    for (const ValueId v : constants[g])
      if (--users[v] == 0) release(v);
  }
  plan_outputs();
  find_lifetimes();
  replace_inputs();
  if (plan_.options.checked) keep_values();
  assign_memory(plan_);
  return std::move(plan_);
}

void Planner::describe(const Group& group) {
  const auto nodes = graph_.nodes();
  const Node& last = *nodes[group.nodes.back()];
  step_node_ = graph_.value(group.result == kNoValue ? last.outputs[0] : group.result).name;
  for (const int n : group.nodes)
    if (nodes[n]->origin && !nodes[n]->origin->name.empty()) step_node_ = nodes[n]->origin->name;
  step_operators_.clear();
  step_flops_ = 0;
  for (const int n : group.nodes) {
    if (!step_operators_.empty()) step_operators_ += "+";
    step_operators_ += nodes[n]->op == nullptr ? "?" : nodes[n]->op->name();
    if (nodes[n]->op == nullptr) continue;
    const Definition definition = define(*nodes[n]);
    if (definition.outputs().empty() || !definition.outputs()[0].element) continue;
    const Output& output = definition.outputs()[0];
    if (all_constant(output.type.shape)) step_flops_ += operation_count(output);
  }
}

void Planner::plan_pending(ValueId value) {
  const auto found = pending_.find(value);
  if (found == pending_.end()) return;
  const Group& group = *found->second;
  pending_.erase(found);
  const std::string node = step_node_, operators = step_operators_;
  const double flops = step_flops_;
  const std::size_t constants = std::exchange(step_constants_, 0);
  const std::vector<int> nodes = step_nodes_;
  plan_group(group);
  step_nodes_ = nodes;
  step_node_ = node;
  step_operators_ = operators;
  step_flops_ = flops;
  step_constants_ = constants;
}

void Planner::plan_group(const Group& group) {
  const Node& node = *graph_.nodes()[group.nodes.back()];
  const std::string where = node.origin ? node.origin->name : std::string();
  if (node.op == nullptr)
    throw Error(ErrorCode::kUnsupported, node.opaque_reason.empty() ? "an operator is not known" : node.opaque_reason,
                where.empty() ? where : "node \"" + where + "\"");
  describe(group);
  step_nodes_ = group.nodes;
  if (group.view) return plan_view(group);
  if (std::any_of(group.nodes.begin(), group.nodes.end(), [&](int n) { return instead(n) == Instead::kReference; })) {
    for (const int n : group.nodes) plan_reference(n, false);
    return;
  }
  if (group.taken) return static_cast<NodePlan&>(*group.taken).emit(*this, group.result);
  if (group.chain) {
    const Chain& chain = *group.chain;
    if (add_tiles(chain.element, chain.position, group.result, chain.operands)) return;
    // The parts may still be possible one by one.
    for (const int n : group.nodes) plan_reference(n);
    return;
  }
  plan_reference(group.nodes.back());
}

// One node: each output by its own denotation, or the whole node by the interpreter.
void Planner::plan_reference(int n, bool may_generate) {
  const auto& node = graph_.nodes()[n];
  std::vector<ValueId> operands;
  for (const ValueId i : node->inputs) operands.push_back(i);
  const Definition definition = define(*node);
  bool tiled = may_generate && definition.has_denotation();
  for (std::size_t o = 0; o < node->outputs.size() && tiled; ++o) {
    if (node->outputs[o] == kNoValue || !places_[node->outputs[o]].empty()) continue;
    const Output& output = definition.outputs()[o];
    tiled = add_tiles(output.element, output.position, node->outputs[o], operands);
  }
  if (tiled) return;
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
    places_[o].clear();
    outputs.push_back(add_value(o, kPlain));
  }
  add_step(std::make_unique<ReferenceKernel>(node, std::move(types)), std::move(inputs), std::move(outputs));
}

void Planner::plan_view(const Group& group) {
  const Node& node = *graph_.nodes()[group.nodes[0]];
  alias(group.result, storage(node.inputs[0], kPlain), kPlain);
}

std::optional<Planner::View> Planner::view(ValueId value) const {
  const auto found = pending_.find(value);
  if (found == pending_.end()) return std::nullopt;
  const Chain& chain = *found->second->chain;
  if (chain.operands.size() != 1 || chain.element->kind != ElementNode::Kind::kRead || chain.element->zero_outside)
    return std::nullopt;
  const auto strides = read_strides(*chain.element, chain.position, info(value).sizes, info(chain.operands[0]).sizes);
  if (!strides) return std::nullopt;
  return View{chain.operands[0], strides->constant, strides->coefficients};
}

bool Planner::add_prefix(const Element& element, const Indices& position, ValueId result,
                         const std::vector<ValueId>& operands) {
  const ValueInfo out = info(result);
  const auto prefix = match_prefix(element, position, out.sizes);
  if (!prefix || std::find(operands.begin(), operands.end(), kNoValue) != operands.end()) return false;
  std::vector<TileOperand> types;
  for (const ValueId v : operands) types.push_back({info(v).type, info(v).sizes, kPlain});
  auto program = compile_stages(prefix->body, position, {out.type, out.sizes, kPlain}, types, {plan_.options.isa, false});
  if (!program) return false;
  auto kernel = make_prefix(*prefix, std::move(*program), out.type, out.sizes);
  if (!kernel) return false;
  std::vector<int> inputs;
  for (const ValueId v : operands) inputs.push_back(storage(v, kPlain));
  const int target = add_value(result, kPlain);
  add_step(std::move(kernel), std::move(inputs), {target});
  return true;
}

bool Planner::add_tiles(const Element& element, const Indices& position, ValueId result, const std::vector<ValueId>& operands) {
  const ValueInfo out = info(result);
  // Tiles have no loops for floats of 8 bits and less, and integers of less.
  const auto is_small = [](DataType type) { return packed_bits(type) < (is_real(type) ? 16 : 8); };
  if (is_small(out.type)) return false;
  for (const ValueId v : operands)
    if (v != kNoValue && is_small(info(v).type)) return false;
  for (const ValueId v : operands)
    if (v != kNoValue) plan_pending(v);
  if (auto table = make_byte_table(*this, element, position, result, operands)) {
    const int source = storage(table->operand, table->layout);
    add_step(std::move(table->kernel), {source}, {add_value(result, table->layout)});
    return true;
  }
  if (add_prefix(element, position, result, operands)) return true;
  // The layout that the most elements of operands are in is worth keeping.
  Layout wanted = kPlain;
  std::int64_t most = 0;
  for (const ValueId v : operands) {
    if (v == kNoValue || info(v).sizes.size() != out.sizes.size() || layouts(v).empty()) continue;
    const std::int64_t count = element_count(info(v).sizes);
    if (count <= most) continue;
    most = count;
    wanted = layouts(v)[0];
  }
  if (const auto assigned = assigned_layout(result); assigned && !wanted.blocked()) wanted = *assigned;
  if (wanted.blocked() && out.sizes[1] % wanted.channels != 0) wanted = kPlain;
  const auto can_be_changed = [](DataType type) { return type == DataType::kFloat || byte_size(type) == 1; };
  if (!can_be_changed(out.type)) wanted = kPlain;
  const auto lies_alike = [&](const Sizes& sizes) {
    return sizes.size() == out.sizes.size() && std::equal(sizes.begin() + 2, sizes.end(), out.sizes.begin() + 2) &&
           (!wanted.blocked() || sizes[1] % wanted.channels == 0);
  };
  for (int attempt = 0; attempt < 3; ++attempt) {
    const Layout layout = attempt == 0 ? wanted : kPlain;
    if (attempt == 0 && wanted.plain()) continue;
    std::vector<TileOperand> types;
    for (const ValueId v : operands) {
      if (v == kNoValue) {
        types.emplace_back();
        continue;
      }
      const ValueInfo i = info(v);
      Layout l = kPlain;
      if (attempt < 2 && i.sizes.size() >= 2) {
        if (attempt == 0 && can_be_changed(i.type) && lies_alike(i.sizes))
          l = layout;
        else if (!layouts(v).empty() && !(layouts(v)[0].blocked() && i.sizes[1] % layouts(v)[0].channels != 0))
          l = layouts(v)[0];
      }
      types.push_back({i.type, i.sizes, l});
    }
    auto program = compile_stages(element, position, {out.type, out.sizes, layout}, types, {plan_.options.isa, false});
    if (!program) continue;
    std::vector<int> inputs;
    for (std::size_t k = 0; k < operands.size(); ++k)
      inputs.push_back(operands[k] == kNoValue ? -1 : storage(operands[k], types[k].layout));
    // An absent operand is never read.
    int any = -1;
    for (const int s : inputs) any = std::max(any, s);
    for (int& s : inputs)
      if (s < 0) s = any;
    const int target = add_value(result, layout);
    if (any < 0) inputs.clear();
    std::vector<int> in_place;
    if (!plan_.options.replacements.empty())
      for (std::size_t k = 0; k < inputs.size(); ++k)
        if (types[k].type == out.type && types[k].sizes == out.sizes && types[k].layout == layout &&
            planning::is_read_in_place(element, position, static_cast<int>(k)))
          in_place.push_back(inputs[k]);
    add_step(std::make_unique<TileKernel>(std::move(*program)), std::move(inputs), {target}).read_in_place =
        std::move(in_place);
    return true;
  }
  return false;
}

void Planner::plan_outputs() {
  for (std::size_t o = 0; o < graph_.outputs().size(); ++o) {
    const ValueId value = graph_.outputs()[o].value;
    const int at = storage(value, kPlain);
    const ValueInfo v = info(value);
    plan_.outputs.push_back(at);
    plan_.output_types.push_back({v.type, to_indices(v.sizes)});
    Storage& s = plan_.storages[at];
    if (s.kind == Storage::Kind::kArena && s.part_of < 0) {
      s.kind = Storage::Kind::kOutput;
      s.number = static_cast<int>(o);
    }
  }
}

void Planner::find_lifetimes() {
  const auto use = [&](int s, int step) {
    while (plan_.storages[s].part_of >= 0) s = plan_.storages[s].part_of;
    Storage& storage = plan_.storages[s];
    if (storage.first < 0) storage.first = step;
    storage.last = std::max(storage.last, step);
  };
  for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
    const Step& step = plan_.steps[n];
    for (const int s : step.inputs) use(s, static_cast<int>(n));
    for (const int s : step.outputs) use(s, static_cast<int>(n));
    if (step.scratch >= 0) use(step.scratch, static_cast<int>(n));
  }
  for (const int s : plan_.outputs) use(s, static_cast<int>(plan_.steps.size()));
}

std::optional<Instead> Planner::instead(int node) const {
  const auto found = plan_.options.instead.find(node);
  if (found == plan_.options.instead.end()) return std::nullopt;
  return found->second;
}

// Says where values lie, and lets them stay there to the end unless that takes too much memory.
void Planner::keep_values() {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  for (ValueId v = 0; v < graph_.value_count(); ++v)
    for (std::size_t p = 0; p < places_[v].size(); ++p)
      plan_.values.push_back({v, places_[v][p].second, places_[v][p].first, p > 0});
  plan_.values.insert(plan_.values.end(), values_in_rooms_.begin(), values_in_rooms_.end());
  std::size_t bytes = 0;
  for (const Storage& s : plan_.storages)
    if (s.kind == Storage::Kind::kArena && s.part_of < 0) bytes += s.bytes;
  if (bytes > kMostBytes) return;
  for (const PlannedValue& v : plan_.values) {
    int s = v.storage;
    while (plan_.storages[s].part_of >= 0) s = plan_.storages[s].part_of;
    if (plan_.storages[s].first >= 0) plan_.storages[s].last = static_cast<int>(plan_.steps.size());
  }
}

// Outputs that a step computes element by element from what they replace, which nothing reads later, lie there.
void Planner::replace_inputs() {
  for (const Replacement& r : plan_.options.replacements) {
    const int at = plan_.outputs.at(r.output);
    Storage& output = plan_.storages[at];
    if (output.kind != Storage::Kind::kOutput || output.number != static_cast<int>(r.output)) continue;
    const auto input = std::find_if(plan_.storages.begin(), plan_.storages.end(), [&](const Storage& s) {
      return s.kind == Storage::Kind::kInput && s.number == static_cast<int>(r.input);
    });
    if (input == plan_.storages.end() || input->bytes != output.bytes || output.first < 0 || input->last != output.first)
      continue;
    const Step& step = plan_.steps[output.first];
    const auto from = static_cast<int>(input - plan_.storages.begin());
    const auto reads = std::count(step.inputs.begin(), step.inputs.end(), from);
    if (reads > 0 && reads == std::count(step.read_in_place.begin(), step.read_in_place.end(), from))
      output.replaces = static_cast<int>(r.input);
  }
}

Plan make_plan(Graph graph, const PlanOptions& options) {
  const LibrariesOnOneThread alone;  // oneDNN's primitives are made for the number of threads in use
  const auto has_kernel = [](const Node& node) { return kernel_table().contains(node.op->name()); };
  const auto rounds = [&](const Node& node) { return is_bfloat16_product(graph, node, options.isa); };
  Graph planned = planning::with_matrix_products(with_dequantizations_by_use(in_float(graph, rounds)), has_kernel);
  graph = Graph();  // holds no constant any more
  return Planner(std::move(planned), options).make();
}

}  // namespace rewright::cpu
