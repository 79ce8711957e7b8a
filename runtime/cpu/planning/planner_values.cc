// Values in memory: the layouts they come in, and where they lie.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/planning/layout_assignment.h"
#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

namespace {

// Of a change of layout, in nanoseconds: of each byte, read and written, and of the step.
constexpr double kChangedByte = 0.25, kChange = 1000;

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
  values_in_rooms_.push_back(
      {value, static_cast<int>(plan_.storages.size()) - 1, kChannelsLast, false, info(of.whole).sizes[1], of.low, of.high});
  return Room{static_cast<int>(plan_.storages.size()) - 1, info(of.whole).sizes[1], of.low, of.high};
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
  if (plan_.options.checked) step.nodes = step_nodes_;
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

}  // namespace rewright::cpu
