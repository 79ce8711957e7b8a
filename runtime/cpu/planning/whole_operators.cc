#include "runtime/cpu/planning/whole_operators.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "graph/onnx/calls.h"
#include "operators/contrib/attention_parts.h"
#include "operators/contrib/contrib.h"

namespace rewright::cpu {

namespace {

using Nodes = std::optional<Node>;

const Registry& whole_operators() {
  static const auto* const made = [] {
    auto* const table = new Registry;
    table->add<BlockProduct>();
    table->add<CachedAttention>();
    return table;
  }();
  return *made;
}

// What is known about the operands of a call.
class Operands {
 public:
  Operands(const Graph& graph, const WholeCall& call) : graph_(graph), call_(call) {}

  ValueId id(std::size_t i) const { return i < call_.inputs.size() ? call_.inputs[i] : kNoValue; }
  bool has(std::size_t i) const { return id(i) != kNoValue; }
  // Is the operand there, with sizes and of this type?
  bool is(std::size_t i, DataType type) const { return has(i) && is_known(id(i)) && value(i).type.type == type; }
  bool is_constant(std::size_t i, DataType type) const {
    return has(i) && value(i).constant && value(i).constant.type() == type;
  }
  const Value& value(std::size_t i) const { return graph_.value(id(i)); }
  const Indices& shape(std::size_t i) const { return value(i).type.shape; }
  bool has_output(std::size_t o) const {
    return o < call_.outputs.size() && call_.outputs[o] != kNoValue && is_known(call_.outputs[o]);
  }
  std::int64_t number(std::string_view attribute, std::int64_t otherwise) const {
    return call_.attributes.integer(attribute, otherwise);
  }

 private:
  bool is_known(ValueId v) const { return graph_.value(v).shape_known; }

  const Graph& graph_;
  const WholeCall& call_;
};

template <class T>
Node whole_node(T op, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  Node node;
  node.op = &whole_operators().get(T::kName);
  node.attributes = to_attributes(std::move(op));
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return node;
}

Nodes block_product(const Operands& in, const WholeCall& call) {
  const std::int64_t bits = in.number("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) return std::nullopt;
  if (!in.is(0, DataType::kFloat) || !in.is_constant(1, DataType::kUint8) || !in.is_constant(2, DataType::kFloat) ||
      (in.has(3) && !in.is_constant(3, DataType::kUint8)) || in.has(4))
    return std::nullopt;
  if (in.has(5) && (!in.is_constant(5, DataType::kFloat) || in.shape(5).size() != 1)) return std::nullopt;
  BlockProduct op;
  op.columns = in.number("N", 0), op.depth = in.number("K", 0), op.block = in.number("block_size", 0), op.bits = bits;
  op.accuracy = in.number("accuracy_level", 0);
  return whole_node(op, {in.id(0), in.id(1), in.id(5), in.id(2), in.id(3)}, call.outputs);
}

Nodes cached_attention(const Operands& in, const WholeCall& call) {
  if (!in.is(0, DataType::kFloat) || in.has(1) != in.has(2) || in.has(3) != in.has(4) || !in.has(5)) return std::nullopt;
  for (const std::size_t i : {1, 2, 3, 4, 7, 8})
    if (in.has(i) && !in.is(i, DataType::kFloat)) return std::nullopt;
  for (const std::size_t i : {10, 11, 12, 13, 14, 15})  // a bias, sinks, scales of the cache, norms
    if (in.has(i)) return std::nullopt;
  const bool rotates = in.number("do_rotary", 0) != 0;
  if (in.number("smooth_softmax", 0) == 1 || (rotates && !(in.has(7) && in.has(8)))) return std::nullopt;
  const auto& total = in.has(6) ? in.value(6).contents : std::nullopt;
  if (!total || total->size() != 1 || in.shape(0).size() != 3 || !in.has_output(0) || !in.has_output(1) || !in.has_output(2))
    return std::nullopt;
  CachedAttention op;
  op.heads = in.number("num_heads", 0), op.shared = in.number("kv_num_heads", 0), op.total = total->front();
  op.window = in.number("local_window_size", -1), op.causal = in.number("causal", 1) != 0;
  op.interleaved = in.number("rotary_interleaved", 0) != 0, op.softcap = call.attributes.real("softcap", 0);
  if (op.window == Index(0)) return std::nullopt;  // nothing is seen
  const Index width = in.shape(0)[2], all = in.has(1) ? op.heads : op.heads + 2 * op.shared;
  if (!width.is_constant() || !op.causal) return std::nullopt;
  op.scale = attention_scale(call.attributes, width.value() / all.value());
  std::vector<ValueId> inputs{in.id(0), in.id(1), in.id(2), in.id(3), in.id(4), in.id(5)};
  for (const std::size_t i : {7, 8, 9}) inputs.push_back(rotates ? in.id(i) : kNoValue);
  return whole_node(op, std::move(inputs), {call.outputs[0], call.outputs[1], call.outputs[2]});
}

}  // namespace

Definition BlockProduct::define(const Inputs& in) const {
  Definition d(in);
  Indices shape = in[0].shape();
  shape.back() = columns;
  d.require(equal(in[0].shape().back(), depth), [] { return std::string("the depths of a product differ"); });
  d.output_without_denotation(in[0].type(), std::move(shape));
  return d;
}

Definition CachedAttention::define(const Inputs& in) const {
  Definition d(in);
  const Index batch = in[0].size(0), length = in[0].size(1);
  const Index all = in.has(1) ? heads : heads + 2 * shared, size = floor_div(in[0].size(2), all);
  const Index present = max(in.has(3) ? in[3].size(2) : Index(0), total);
  const auto require_shape = [&](std::size_t i, const Indices& shape) {
    if (!in.has(i)) return;
    d.require_rank(in[i], shape.size(), "attention");
    for (std::size_t a = 0; a < shape.size(); ++a)
      d.require(equal(in[i].size(a), shape[a]), [] { return std::string("sizes of attention do not fit"); });
  };
  for (const std::size_t i : {1, 2}) require_shape(i, {batch, length, shared * size});
  for (const std::size_t i : {3, 4})
    if (in.has(i)) require_shape(i, {batch, shared, in[3].size(2), size});
  d.output_without_denotation(in[0].type(), {batch, length, heads * size});
  for (int i = 0; i < 2; ++i) d.output_without_denotation(in[0].type(), {batch, shared, present, size});
  return d;
}

Graph with_whole_operators(const Graph& graph) {
  return with_whole_calls(graph, [&](const WholeCall& call) -> Nodes {
    if (call.domain != kContribDomain) return std::nullopt;
    const Operands operands(graph, call);
    if (call.attributes.type() == "MatMulNBits") return block_product(operands, call);
    if (call.attributes.type() == "GroupQueryAttention") return cached_attention(operands, call);
    return std::nullopt;
  });
}

bool only_caches_are_empty(const Graph& graph, std::span<const Tensor> inputs) {
  constexpr std::size_t kPositions = 2;  // the axis
  std::set<std::string> lengths;
  std::set<ValueId> caches;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] || inputs[i].size() > 0) continue;
    const Value& value = graph.value(graph.inputs()[i]);
    const Sizes& sizes = inputs[i].sizes();
    if (sizes.size() != 4 || !value.shape_known || std::count(sizes.begin(), sizes.end(), 0) != 1 || sizes[kPositions] != 0)
      return false;
    const Atom* const length = value.type.shape[kPositions].as_atom();
    if (length == nullptr || length->kind != Atom::Kind::kSymbol) return false;
    caches.insert(graph.inputs()[i]);
    lengths.insert(length->name);
  }
  const auto depends = [&](const Index& size) {
    bool found = false;
    for_each_atom(
        size, [&](const Atom& atom) { found = found || (atom.kind == Atom::Kind::kSymbol && lengths.contains(atom.name)); });
    return found;
  };
  if (caches.empty()) return false;
  for (const auto& node : graph.nodes()) {
    const bool is_cached = node->op != nullptr && node->op->name() == CachedAttention::kName;
    for (std::size_t i = 0; i < node->inputs.size(); ++i)
      if (caches.contains(node->inputs[i]) && !is_cached) return false;
    if (is_cached) continue;
    for (const ValueId v : node->outputs)
      if (v != kNoValue && std::any_of(graph.value(v).type.shape.begin(), graph.value(v).type.shape.end(), depends))
        return false;
  }
  return true;
}

}  // namespace rewright::cpu
