#include "runtime/cpu/planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "operators/interpreter.h"
#include "operators/operation_count.h"
#include "runtime/cpu/dnnl_support.h"
#include "runtime/cpu/layout_assignment.h"
#include "runtime/cpu/precision.h"
#include "runtime/cpu/prefix.h"
#include "runtime/cpu/product/bfloat16_product.h"
#include "runtime/cpu/quantized/byte_table.h"
#include "runtime/cpu/quantized/quantized.h"
#include "runtime/cpu/runner.h"
#include "runtime/cpu/tile/stages.h"
#include "runtime/fusion/contraction.h"
#include "runtime/fusion/pieces.h"

namespace rewright::cpu {

namespace {

constexpr std::size_t kWorthReleasing = 64 << 10;  // bytes

// Of a change of layout, in nanoseconds: of each byte, read and written, and of the step.
constexpr double kChangedByte = 0.25, kChange = 1000;

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

 private:
  std::shared_ptr<const Node> node_;
  std::vector<TensorType> types_;
};

class TileKernel final : public Kernel {
 public:
  explicit TileKernel(StagedProgram program) : program_(std::move(program)) {}
  void run(const Call& call) const override { program_.run(call.inputs, call.outputs[0], call.scratch, call.workers); }
  std::size_t scratch_bytes() const override { return program_.scratch_bytes(); }

 private:
  StagedProgram program_;
};

// Do the two layouts put the elements in the same places?
bool same_bytes(const Sizes& sizes, Layout a, Layout b) {
  if (a == b) return true;
  std::int64_t spatial = 1;
  for (std::size_t i = 2; i < sizes.size(); ++i) spatial *= sizes[i];
  const auto trivial = [&](Layout l) {
    if (l.plain()) return true;
    if (l.channels_last()) return spatial == 1 || sizes[1] == 1;
    return spatial == 1 && sizes[1] % l.channels == 0;
  };
  return trivial(a) && trivial(b);
}

}  // namespace

Planner::Planner(Graph graph, const PlanOptions& options)
    : graph_(fusion::with_pieces_apart(std::move(graph))),
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
  assign_memory(plan_);
  return std::move(plan_);
}

// ---- Layouts
// Those that choose, by the cut whose cost is that of their steps and of the changes between them.
void Planner::assign_layouts(const std::vector<Group>& groups) {
  std::vector<LayoutStep> steps;
  std::vector<ValueId> results;  // of each step that chooses; else kNoValue
  const auto is_picture = [&](ValueId v) {
    if (v == kNoValue || v >= graph_.value_count() || is_constant(v)) return false;
    const Value& value = graph_.value(v);
    // What has no known sizes is for its own step to complain of.
    return value.shape_known && value.type.type != DataType::kUndefined && value.type.shape.size() > 2;
  };
  for (const Group& group : groups) {
    const LayoutNeeds needs = layout_needs(group);
    LayoutStep step{needs.plain, needs.channels_last, {}, {}};
    for (const ValueId v : needs.operands)
      if (is_picture(v)) step.reads.push_back(static_cast<int>(v));
    std::vector<ValueId> computed{group.result};
    if (group.result == kNoValue) computed = graph_.nodes()[group.nodes.back()]->outputs;
    for (const ValueId v : computed)
      if (is_picture(v)) step.computes.push_back(static_cast<int>(v));
    steps.push_back(std::move(step));
    results.push_back(std::isfinite(needs.plain) && std::isfinite(needs.channels_last) ? group.result : kNoValue);
  }
  LayoutStep outputs{0, kNoSuchKernel, {}, {}};
  for (const GraphOutput& o : graph_.outputs())
    if (is_picture(o.value)) outputs.reads.push_back(static_cast<int>(o.value));
  steps.push_back(std::move(outputs));
  if (std::all_of(results.begin(), results.end(), [](ValueId v) { return v == kNoValue; })) return;
  std::vector<double> changes(graph_.value_count());
  for (const LayoutStep& step : steps)
    for (const int v : step.reads) {
      const ValueInfo i = info(static_cast<ValueId>(v));
      changes[v] =
          same_bytes(i.sizes, kPlain, kChannelsLast)
              ? 0
              : kChange + kChangedByte * static_cast<double>(element_count(i.sizes)) * static_cast<double>(byte_size(i.type));
    }
  const std::vector<bool> channels_last = cpu::assign_layouts(steps, changes);
  for (std::size_t s = 0; s < results.size(); ++s)
    if (results[s] != kNoValue) assigned_[results[s]] = channels_last[s] ? kChannelsLast : kPlain;
}

LayoutNeeds Planner::layout_needs(const Group& group) const {
  if (group.taken) {
    if (const auto* const chooses = dynamic_cast<const ChoosesLayout*>(group.taken.get())) return chooses->layout_needs(*this);
  } else if (group.chain && group.result != kNoValue) {
    // Operands of the result's sizes but for some axes.
    const ValueInfo out = info(group.result);
    LayoutNeeds needs;
    if (out.sizes.size() < 3) return {0, kNoSuchKernel};
    for (const ValueId v : group.chain->operands) {
      if (v == kNoValue || is_constant(v)) continue;
      const Sizes sizes = info(v).sizes;
      if (sizes.size() != out.sizes.size()) continue;
      if (sizes[1] == out.sizes[1] || std::equal(sizes.begin() + 2, sizes.end(), out.sizes.begin() + 2))
        needs.operands.push_back(v);
    }
    if (needs.operands.empty()) needs.channels_last = kNoSuchKernel;
    return needs;
  }
  LayoutNeeds plain{0, kNoSuchKernel};
  for (const int n : group.nodes)
    for (const ValueId v : graph_.nodes()[n]->inputs)
      if (std::none_of(group.nodes.begin(), group.nodes.end(), [&](int other) {
            const auto& outputs = graph_.nodes()[other]->outputs;
            return std::find(outputs.begin(), outputs.end(), v) != outputs.end();
          }))
        plain.operands.push_back(v);
  return plain;
}

std::optional<Layout> Planner::assigned_layout(ValueId result) const {
  const auto found = assigned_.find(result);
  if (found == assigned_.end()) return std::nullopt;
  return found->second;
}

// ---- Parts of other values
void Planner::find_rooms(const std::vector<Group>& groups) {
  std::vector<int> readers(graph_.value_count());
  for (const auto& node : graph_.nodes())
    for (const ValueId i : node->inputs)
      if (i != kNoValue) ++readers[i];
  for (const GraphOutput& output : graph_.outputs()) ++readers[output.value];
  for (const Group& group : groups) {
    const auto* const gathers = dynamic_cast<const GathersChannels*>(group.taken.get());
    if (gathers == nullptr) continue;
    const std::optional<GatheredChannels> gathered = gathers->gathered(*this, group.result);
    if (!gathered) continue;
    std::int64_t first = 0;
    for (const ValueId part : gathered->parts) {
      if (readers[part] == 1) rooms_[part] = {group.result, first, gathered->low, gathered->high};
      first += info(part).sizes[1];
    }
  }
}

std::optional<Planner::Room> Planner::room(ValueId value, bool bounded) {
  const auto found = rooms_.find(value);
  if (found == rooms_.end()) return std::nullopt;
  const ChannelsOf& of = found->second;
  if (!bounded && (of.low > -std::numeric_limits<float>::infinity() || of.high < std::numeric_limits<float>::infinity()))
    return std::nullopt;
  int whole = known_storage(of.whole, kChannelsLast);
  if (whole < 0) whole = add_value(of.whole, kChannelsLast);
  Storage storage;
  storage.bytes = static_cast<std::size_t>(element_count(info(value).sizes)) * sizeof(float);
  storage.part_of = whole;
  storage.part_at = static_cast<std::size_t>(of.first) * sizeof(float);
  plan_.storages.push_back(std::move(storage));
  housed_.insert(value);
  return Room{static_cast<int>(plan_.storages.size()) - 1, info(of.whole).sizes[1], of.low, of.high};
}

// ---- Constants and inputs
// Those that planning a group may ask for: what its nodes read, and what that is computed from.
std::vector<std::vector<ValueId>> Planner::constants_by_group(const std::vector<Group>& groups) const {
  constexpr int kDepth = 3;  // a weight, scaled or dequantized, transposed
  std::vector<std::vector<ValueId>> result;
  for (const Group& group : groups) {
    std::set<ValueId> found;
    const std::function<void(const Node&, int)> add = [&](const Node& node, int depth) {
      for (const ValueId i : node.inputs) {
        if (i == kNoValue) continue;
        if (is_constant(i)) found.insert(i);
        if (const Node* const from = producer(i); from != nullptr && depth > 1) add(*from, depth - 1);
      }
    };
    for (const int n : group.nodes) add(*graph_.nodes()[n], kDepth);
    result.emplace_back(found.begin(), found.end());
  }
  return result;
}

// Nothing will ask for a constant any more.
void Planner::release(ValueId value) {
  matrices_.erase(value);
  const Tensor& t = constants_[value];
  if (t.byte_count() < kWorthReleasing) return;
  if (packed_constants_) packed_constants_->forget(t.bytes());
  if (graph_.is_constant(value)) {
    Value without = graph_.value(value);
    without.type = {t.type(), to_indices(t.sizes())};
    without.shape_known = true;
    without.constant = {};
    graph_.set_value(value, std::move(without));
  }
  constants_[value] = {};
}

void Planner::find_constants() {
  for (ValueId v = 0; v < graph_.value_count(); ++v) {
    const Value& value = graph_.value(v);
    if (value.constant) {
      constants_[v] = value.constant;
    } else if (value.contents && value.shape_known && all_constant(value.type.shape) && all_constant(*value.contents)) {
      constants_[v] = Tensor::from_integers(value.type.type, values(value.type.shape), values(*value.contents));
    }
  }
  if (!plan_.options.fold_constants) return;
  find_matrices();
  std::vector<bool> left_out(graph_.value_count());
  for (const auto& [value, matrix] : matrices_) left_out[value] = true;
  std::vector<Tensor> folded = evaluate_constants(graph_, plan_.options, left_out);
  for (ValueId v = 0; v < folded.size(); ++v)
    if (folded[v] && !constants_[v]) constants_[v] = std::move(folded[v]);
}

void Planner::find_matrices() {
  for (const auto& node : graph_.nodes()) {
    if (node->op == nullptr || node->outputs.size() != 1 || node->inputs.size() != 1 || node->inputs[0] == kNoValue) continue;
    const Tensor& source = constants_[node->inputs[0]];
    if (!source || source.type() != DataType::kFloat || source.sizes().size() != 2) continue;
    const Definition definition = define(*node);
    if (!definition.has_denotation()) continue;
    const Output& output = definition.outputs()[0];
    if (output.element->kind != ElementNode::Kind::kRead || output.element->zero_outside || output.position.size() != 2)
      continue;
    const auto read = read_strides(*output.element, output.position, info(node->outputs[0]).sizes, source.sizes());
    if (read) matrices_[node->outputs[0]] = {source, read->constant, read->coefficient(0), read->coefficient(1)};
  }
}

const Tensor& Planner::constant(ValueId value) const {
  const auto found = matrices_.find(value);
  if (constants_[value] || found == matrices_.end()) return constants_[value];
  const ConstantMatrix& m = found->second;
  const float* const from = m.in.data<float>().data() + m.offset;
  Tensor made(DataType::kFloat, info(value).sizes);
  float* to = made.mutable_data<float>().data();
  for (std::int64_t r = 0; r < made.sizes()[0]; ++r)
    for (std::int64_t c = 0; c < made.sizes()[1]; ++c) *to++ = from[r * m.row_stride + c * m.column_stride];
  return constants_[value] = std::move(made);
}

Planner::ConstantMatrix Planner::constant_matrix(ValueId value) const {
  const auto found = matrices_.find(value);
  if (found != matrices_.end()) return found->second;
  return {constants_[value], 0, constants_[value].sizes()[1], 1};
}

void Planner::find_needed() {
  std::vector<bool> wanted(graph_.value_count());
  for (const GraphOutput& output : graph_.outputs()) wanted[output.value] = true;
  const auto nodes = graph_.nodes();
  for (std::size_t n = nodes.size(); n-- > 0;) {
    for (const ValueId o : nodes[n]->outputs)
      if (o != kNoValue && wanted[o] && !is_constant(o)) needed_[n] = true;
    if (!needed_[n]) continue;
    for (const ValueId i : nodes[n]->inputs)
      if (i != kNoValue) wanted[i] = true;
  }
}

void Planner::bind_inputs() {
  const auto inputs = graph_.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Storage storage;
    storage.kind = Storage::Kind::kInput;
    storage.number = static_cast<int>(i);
    const ValueInfo v = info(inputs[i]);
    storage.bytes = static_cast<std::size_t>(element_count(v.sizes)) * byte_size(v.type);
    places_[inputs[i]].emplace_back(kPlain, static_cast<int>(plan_.storages.size()));
    stored_[inputs[i]] = true;
    plan_.storages.push_back(std::move(storage));
  }
}

// ---- Values in memory
std::vector<Layout> Planner::layouts(ValueId value) const {
  std::vector<Layout> result;
  for (const auto& [layout, storage] : places_[value]) result.push_back(layout);
  if (result.empty() && is_constant(value)) result.push_back(kPlain);
  return result;
}

int Planner::known_storage(ValueId value, Layout layout) const {
  for (const auto& [known, storage] : places_[value])
    if (known == layout) return storage;
  return -1;
}

int Planner::storage(ValueId value, Layout layout) {
  plan_pending(value);
  if (const int known = known_storage(value, layout); known >= 0) return known;
  if (places_[value].empty()) {
    if (!is_constant(value))
      throw Error(ErrorCode::kUnsupported, "a value is used before it is computed", graph_.value(value).name);
    places_[value].emplace_back(kPlain, add_constant(constant(value)));
    if (layout.plain()) return places_[value][0].second;
  }
  const ValueInfo v = info(value);
  const auto [from, source] = places_[value][0];
  if (same_bytes(v.sizes, from, layout)) {
    places_[value].emplace_back(layout, source);
    return source;
  }
  const std::string node = step_node_, operators = step_operators_;
  const double flops = step_flops_;
  const std::size_t constants = std::exchange(step_constants_, 0);
  step_node_ = graph_.value(value).name;
  step_operators_ = "(layout)";
  step_flops_ = 0;
  const int target = add_value(value, layout);
  add_step(make_reorder(v.type, v.sizes, from, layout, plan_.options), {source}, {target}).changes_layout = true;
  step_node_ = node;
  step_operators_ = operators;
  step_flops_ = flops;
  step_constants_ = constants;
  return target;
}

int Planner::add_value(ValueId value, Layout layout) {
  const ValueInfo v = info(value);
  Storage storage;
  storage.bytes = static_cast<std::size_t>(stored_elements(v.sizes, layout)) * byte_size(v.type);
  plan_.storages.push_back(std::move(storage));
  places_[value].emplace_back(layout, static_cast<int>(plan_.storages.size()) - 1);
  return places_[value].back().second;
}

void Planner::alias(ValueId value, int storage, Layout layout) { places_[value].emplace_back(layout, storage); }

int Planner::add_constant(Tensor tensor) {
  Storage storage;
  storage.kind = Storage::Kind::kConstant;
  storage.bytes = tensor.byte_count();
  storage.fixed = tensor.bytes().data();
  storage.constant = std::move(tensor);
  plan_.storages.push_back(std::move(storage));
  return static_cast<int>(plan_.storages.size()) - 1;
}

Tensor Planner::prepared(ValueId result, std::string_view how, std::size_t bytes, const std::function<void(std::byte*)>& make) {
  count_constant(bytes);
  if (plan_.options.cache == nullptr) {
    const auto floats = static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float));
    const float* const made =
        packed_constants()->add(std::nullopt, floats, [&](float* to) { make(reinterpret_cast<std::byte*>(to)); });
    return {DataType::kUint8, {static_cast<std::int64_t>(bytes)}, packed_constants_, reinterpret_cast<const std::byte*>(made)};
  }
  return plan_.options.cache->get(cache_name(hashes_[result], how), bytes, make);
}

const std::shared_ptr<PackedConstants>& Planner::packed_constants() {
  if (!packed_constants_) packed_constants_ = std::make_shared<PackedConstants>();
  return packed_constants_;
}

int Planner::add_scratch(std::size_t bytes) {
  Storage storage;
  storage.bytes = bytes;
  plan_.storages.push_back(std::move(storage));
  return static_cast<int>(plan_.storages.size()) - 1;
}

Step& Planner::add_step(std::unique_ptr<Kernel> kernel, std::vector<int> inputs, std::vector<int> outputs) {
  Step step;
  step.node = step_node_;
  step.operators = step_operators_;
  step.flops = step_flops_;
  step.bytes = static_cast<double>(step_constants_);
  step_flops_ = 0;  // counted with the first step of a group
  step_constants_ = 0;
  for (const std::vector<int>* list : {&inputs, &outputs})
    for (const int s : std::set<int>(list->begin(), list->end())) step.bytes += static_cast<double>(plan_.storages[s].bytes);
  if (const std::size_t scratch = kernel->scratch_bytes()) step.scratch = add_scratch(scratch);
  step.kernel = std::move(kernel);
  step.inputs = std::move(inputs);
  step.outputs = std::move(outputs);
  plan_.steps.push_back(std::move(step));
  return plan_.steps.back();
}

// ---- Steps
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
  plan_group(group);
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
  if (group.view) return plan_view(group);
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
void Planner::plan_reference(int n) {
  const auto& node = graph_.nodes()[n];
  std::vector<ValueId> operands;
  for (const ValueId i : node->inputs) operands.push_back(i);
  const Definition definition = define(*node);
  bool tiled = definition.has_denotation();
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
    add_step(std::make_unique<TileKernel>(std::move(*program)), std::move(inputs), {target});
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

Plan make_plan(Graph graph, const PlanOptions& options) {
  const LibrariesOnOneThread alone;  // oneDNN's primitives are made for the number of threads in use
  const auto has_kernel = [](const Node& node) { return kernel_table().contains(node.op->name()); };
  const auto rounds = [&](const Node& node) { return is_bfloat16_product(graph, node, options.isa); };
  Graph planned = fusion::with_matrix_products(with_dequantizations_by_use(in_float(graph, rounds)), has_kernel);
  graph = Graph();  // holds no constant any more
  return Planner(std::move(planned), options).make();
}

}  // namespace rewright::cpu
