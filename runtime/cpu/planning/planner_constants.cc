// What a planner knows of constants, and of what is computed from them.
#include <functional>
#include <set>
#include <utility>

#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/stages.h"

namespace rewright::cpu {

namespace {

constexpr std::size_t kWorthReleasing = 64 << 10;  // bytes

}  // namespace

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
    if (info(node->outputs[0]).type != DataType::kFloat)
      continue;  // a cast reads elements as they are, but stores them otherwise
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

}  // namespace rewright::cpu
