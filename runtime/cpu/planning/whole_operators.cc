#include "runtime/cpu/planning/whole_operators.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/onnx/calls.h"
#include "operators/contrib/attention_parts.h"
#include "operators/contrib/contrib.h"
#include "runtime/planning/attributes.h"

namespace rewright::cpu {

namespace {

using Nodes = std::optional<Node>;

const Registry& whole_operators() {
  static const auto* const made = [] {
    auto* const table = new Registry;
    table->add<BlockProduct>();
    table->add<CachedAttention>();
    table->add<ExpertMixture>();
    table->add<Rotation>();
    table->add<GridSampling>();
    table->add<BatchStatistics>();
    table->add<DeformedConvolution>();
    return table;
  }();
  return *made;
}

// Facts about the operands of a call.
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
  // Are those of the operands that are there all floats, or all of one type of 16 bits, which a plan turns into floats before
  // it asks kernels?
  bool are_floats(std::initializer_list<std::size_t> operands) const {
    const auto first = std::find_if(operands.begin(), operands.end(), [&](std::size_t i) { return has(i); });
    if (first == operands.end()) return false;
    const DataType type = value(*first).type.type;
    if (type != DataType::kFloat && type != DataType::kHalf && type != DataType::kBfloat16) return false;
    return std::all_of(operands.begin(), operands.end(), [&](std::size_t i) { return !has(i) || is(i, type); });
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
  if (!in.has(0) || in.has(1) != in.has(2) || in.has(3) != in.has(4) || !in.has(5)) return std::nullopt;
  if (!in.are_floats({0, 1, 2, 3, 4, 7, 8, 11, 14, 15})) return std::nullopt;
  for (const std::size_t i : {10, 12, 13})  // a bias, scales of the cache
    if (in.has(i)) return std::nullopt;
  if (in.has(14) != in.has(15)) return std::nullopt;
  const bool rotates = in.number("do_rotary", 0) != 0;
  if (rotates && !(in.has(7) && in.has(8))) return std::nullopt;
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
  for (const std::size_t i : {11, 14, 15}) inputs.push_back(in.id(i));
  op.evicts = in.number("sliding_window_cache", 0) != 0;
  op.smooth = !in.has(11) && in.number("smooth_softmax", 0) == 1;
  op.epsilon = call.attributes.real("qk_norm_epsilon", 1e-6f);
  return whole_node(op, std::move(inputs), {call.outputs[0], call.outputs[1], call.outputs[2]});
}

// Constant weights and biases of two layers, or null where something else is asked for.
Nodes expert_mixture(const Operands& in, const WholeCall& call, bool quantized) {
  const auto inputs = [&](std::size_t first, std::size_t second) { return std::pair{in.id(first), in.id(second)}; };
  const auto weights = quantized ? std::pair<std::size_t, std::size_t>{2, 5} : std::pair<std::size_t, std::size_t>{2, 4};
  const auto biases = quantized ? std::pair<std::size_t, std::size_t>{4, 7} : std::pair<std::size_t, std::size_t>{3, 5};
  if (!in.is(0, DataType::kFloat) || !in.is(1, DataType::kFloat) || in.has(quantized ? 8 : 6)) return std::nullopt;
  const auto constant = [&](std::size_t i, DataType type) { return in.is_constant(i, type); };
  const auto if_there = [&](std::size_t i, DataType type) { return !in.has(i) || constant(i, type); };
  const DataType stored = quantized ? DataType::kUint8 : DataType::kFloat;
  if (!constant(weights.first, stored) || !constant(weights.second, stored)) return std::nullopt;
  if (!if_there(biases.first, DataType::kFloat) || !if_there(biases.second, DataType::kFloat)) return std::nullopt;
  ExpertMixture op;
  op.chosen = in.number("k", 1), op.normalized = in.number("normalize_routing_weights", 0) != 0;
  op.activation = call.attributes.text("activation_type", "relu");
  if (op.activation == "swiglu") op.fusion = in.number("swiglu_fusion", 0);
  op.alpha = call.attributes.real("activation_alpha", 1), op.beta = call.attributes.real("activation_beta", 0);
  const double limit = call.attributes.real("swiglu_limit", 0);
  if (call.attributes.has("swiglu_limit") && !(limit > 0)) return std::nullopt;
  if (limit < static_cast<double>(std::numeric_limits<float>::max())) op.limit = limit;
  std::vector<ValueId> operands{in.id(0), in.id(1)};
  const auto add = [&](std::pair<ValueId, ValueId> layers) {
    operands.push_back(layers.first), operands.push_back(layers.second);
  };
  add(inputs(weights.first, weights.second)), add(inputs(biases.first, biases.second));
  if (quantized) {
    for (const std::size_t i : {3, 6})
      if (!constant(i, DataType::kFloat)) return std::nullopt;
    for (const std::size_t i : {11, 12})
      if (!if_there(i, DataType::kUint8)) return std::nullopt;
    if (in.has(14) && !in.is(14, DataType::kFloat)) return std::nullopt;
    const std::int64_t bits = in.number("expert_weight_bits", 4);
    op.bits1 = in.number("fc1_expert_weight_bits", bits), op.bits2 = in.number("fc2_expert_weight_bits", bits);
    op.block = in.number("block_size", 0), op.accuracy = in.number("accuracy_level", 0);
    op.normalized = op.normalized || !in.has(14);
    add(inputs(3, 6)), add(inputs(11, 12));
    operands.push_back(in.id(14));
  }
  const std::int64_t width = in.shape(0).back().value(), packed = quantized ? 8 / op.bits2.value() : 1;
  op.inner = element_count(in.value(weights.second).constant.sizes()) / in.shape(1)[1].value() * packed / width;
  return whole_node(op, std::move(operands), {call.outputs[0]});
}

// In both domains. `positions` and `cosines`: the numbers of these inputs; the sines follow the cosines.
Nodes rotation(const Operands& in, const WholeCall& call, std::size_t positions, std::size_t cosines) {
  const std::size_t sines = cosines + 1;
  if (!in.has(0) || !in.has(cosines) || !in.has(sines) || !in.are_floats({0, cosines, sines})) return std::nullopt;
  const bool has_positions = in.has(positions);
  if (has_positions && !in.is(positions, DataType::kInt64) && !in.is(positions, DataType::kInt32)) return std::nullopt;
  if (in.number("is_packed_batching", 0) != 0 || call.attributes.real("scale", 1) != 1 || !in.has_output(0))
    return std::nullopt;
  const Indices &x = in.shape(0), &table = in.shape(cosines);
  Rotation op;
  op.interleaved = in.number("interleaved", 0) != 0;
  op.heads = in.number("num_heads", 0);
  const bool has_heads = x.size() == 4;
  if ((!has_heads && x.size() != 3) || !all_constant(table) || !x.back().is_constant() || table != in.shape(sines))
    return std::nullopt;
  const std::int64_t half = table.back().value(), width = x.back().value();
  const std::int64_t turned = in.number("rotary_embedding_dim", 0);
  if (half <= 0) return std::nullopt;
  if (!has_heads && call.domain == kContribDomain && turned == 0) op.heads = width / (2 * half);
  const std::int64_t heads = has_heads ? 1 : op.heads.value();
  if (heads <= 0 || width % heads != 0 || 2 * half > width / heads) return std::nullopt;
  if (turned != 0 && turned != 2 * half) return std::nullopt;
  const Index &batch = x[0], &length = x[has_heads ? 2 : 1];
  if (has_positions) {
    const Indices& at = in.shape(positions);
    const bool is_first = call.domain == kContribDomain && at == Indices{1}, is_each = at == Indices{batch, length};
    if (table.size() != 2 || (!is_first && !is_each)) return std::nullopt;
  } else if (table != Indices{batch, length, half}) {
    return std::nullopt;
  }
  return whole_node(op, {in.id(0), in.id(cosines), in.id(sines), in.id(positions)}, {call.outputs[0]});
}

Nodes grid_sampling(const Operands& in, const WholeCall& call) {
  constexpr std::int64_t kMostTaps = 16, kMostArea = 1 << 24;
  if (!in.has(0) || !in.has(1) || !in.are_floats({0, 1}) || !in.has_output(0)) return std::nullopt;
  const Indices &x = in.shape(0), &grid = in.shape(1);
  if (x.size() < 3 || grid.size() != x.size() || !all_constant(x) || !all_constant(grid)) return std::nullopt;
  GridSampling op;
  op.mode = call.attributes.text("mode", "linear"), op.padding = call.attributes.text("padding_mode", "zeros");
  op.aligned = in.number("align_corners", 0) != 0;
  if (op.mode == "bilinear") op.mode = "linear";
  if (op.mode == "bicubic") op.mode = "cubic";
  const bool known = (op.mode == "nearest" || op.mode == "linear" || op.mode == "cubic") &&
                     (op.padding == "zeros" || op.padding == "border" || op.padding == "reflection");
  std::int64_t taps = 1, area = 1;
  for (std::size_t a = 2; a < x.size(); ++a) {
    taps *= op.mode == "nearest" ? 1 : op.mode == "linear" ? 2 : 4;
    if (taps > kMostTaps || x[a].value() <= 0 || x[a].value() > kMostArea / area) return std::nullopt;
    area *= x[a].value();
  }
  if (!known || product(x) == Index(0) || product(grid) == Index(0)) return std::nullopt;
  return whole_node(op, {in.id(0), in.id(1)}, {call.outputs[0]});
}

Nodes deformed_convolution(const Operands& in, const WholeCall& call) {
  constexpr std::int64_t kMost = 1 << 24;
  if (!in.are_floats({0, 1, 2, 3, 4})) return std::nullopt;
  for (std::size_t i = 0; i < 3; ++i)
    if (!in.has(i) || in.shape(i).size() != 4 || !all_constant(in.shape(i)) || product(in.shape(i)) == Index(0))
      return std::nullopt;
  if (!in.has_output(0)) return std::nullopt;
  const Sizes x = values(in.shape(0)), w = values(in.shape(1)), offsets = values(in.shape(2));
  const auto list = [&](std::string_view name, std::size_t count, std::int64_t otherwise) {
    std::vector<std::int64_t> given = call.attributes.integers(name);
    if (given.empty()) given.assign(count, otherwise);
    return given;
  };
  const auto strides = list("strides", 2, 1), dilations = list("dilations", 2, 1), pads = list("pads", 4, 0);
  const std::int64_t groups = in.number("group", 1), of_offsets = in.number("offset_group", 1), taps = w[2] * w[3];
  if (strides.size() != 2 || dilations.size() != 2 || pads.size() != 4 || groups < 1 || of_offsets < 1) return std::nullopt;
  if (x[1] % of_offsets != 0 || w[1] * groups != x[1] || w[0] % groups != 0) return std::nullopt;
  // Channels of a group of both kinds that are next to each other have the same points.
  const std::int64_t depth = w[1], alike = x[1] / of_offsets;
  if (depth % alike != 0 && alike % depth != 0) return std::nullopt;
  if (offsets[0] != x[0] || offsets[1] != 2 * of_offsets * taps || x[2] > kMost || x[3] > kMost) return std::nullopt;
  for (std::size_t a = 0; a < 2; ++a) {
    if (strides[a] < 1 || dilations[a] < 1 || std::max({strides[a], dilations[a], w[a + 2], pads[a], pads[a + 2]}) > kMost)
      return std::nullopt;
    const std::int64_t extent = dilations[a] * (w[a + 2] - 1) + 1, room = x[a + 2] + pads[a] + pads[a + 2] - extent;
    if (room < 0 || offsets[a + 2] != room / strides[a] + 1) return std::nullopt;
  }
  if (in.has(3) && in.shape(3) != Indices{w[0]}) return std::nullopt;
  if (in.has(4) && in.shape(4) != Indices{x[0], of_offsets * taps, offsets[2], offsets[3]}) return std::nullopt;
  DeformedConvolution op;
  op.strides = to_indices(strides), op.dilations = to_indices(dilations), op.pads = Indices{pads[0], pads[1]};
  op.groups = groups, op.offset_groups = of_offsets;
  return whole_node(op, {in.id(0), in.id(1), in.id(2), in.id(3), in.id(4)}, {call.outputs[0]});
}

Nodes batch_statistics(const Operands& in, const WholeCall& call) {
  constexpr std::int64_t kShortRow = 8;
  if (in.number("training_mode", 0) == 0 || !in.has_output(0) || call.outputs.size() > 3) return std::nullopt;
  for (std::size_t i = 0; i < 5; ++i)
    if (!in.has(i)) return std::nullopt;
  if (!in.are_floats({0, 1, 2, 3, 4}))
    for (std::size_t i = 0; i < 5; ++i)
      if (!in.is(i, DataType::kDouble)) return std::nullopt;
  const Indices& x = in.shape(0);
  if (x.size() < 2 || !all_constant(x) || product(x) == Index(0)) return std::nullopt;
  if (product(Indices(x.begin() + 2, x.end())).value() < kShortRow) return std::nullopt;
  for (std::size_t i = 1; i < 5; ++i)
    if (in.shape(i) != Indices{x[1]}) return std::nullopt;
  BatchStatistics op;
  op.epsilon = Real(call.attributes.real("epsilon", 1e-5f)), op.momentum = Real(call.attributes.real("momentum", 0.9f));
  return whole_node(op, {in.id(0), in.id(1), in.id(2), in.id(3), in.id(4)}, call.outputs);
}

// ---- Products with what DequantizeLinear makes of integers in blocks

// Integers of 4 or 8 bits, each in a byte; signed ones with half of their range added.
class NarrowIntegers {
 public:
  explicit NarrowIntegers(const Tensor& tensor)
      : bytes_(reinterpret_cast<const std::uint8_t*>(tensor.bytes().data())), mask_((1u << packed_bits(tensor.type())) - 1) {
    if (is_signed(tensor.type())) flip_ = (mask_ + 1) / 2;
  }
  static bool is_signed(DataType type) { return type == DataType::kInt4 || type == DataType::kInt8; }

  unsigned operator[](std::int64_t i) const { return (bytes_[i] & mask_) ^ flip_; }

 private:
  const std::uint8_t* bytes_;
  unsigned mask_, flip_ = 0;
};

// The right operand of a product as MatMulNBits has it: BlockProduct's constants.
class DequantizedWeights {
 public:
  explicit DequantizedWeights(Graph& graph) : graph_(graph), producers_(graph.producers()) {}

  // The node in the place of a product; nullopt if its weights are not in blocks along its depth.
  Nodes product(const Node& node) {
    if (node.op == nullptr || node.op->name() != "MatMul" || node.inputs.size() != 2) return std::nullopt;
    const Value& a = graph_.value(node.inputs[0]);
    if (!a.shape_known || a.type.type != DataType::kFloat || a.type.shape.empty() || graph_.is_constant(node.inputs[0]))
      return std::nullopt;
    const Weights* const found = find(node.inputs[1]);
    if (found == nullptr) return std::nullopt;
    return whole_node(found->op, {node.inputs[0], found->integers, kNoValue, found->scales, found->zeros}, node.outputs);
  }

 private:
  struct Weights {
    BlockProduct op;
    ValueId integers = kNoValue, scales = kNoValue, zeros = kNoValue;
  };

  const Node* producer(ValueId v) const {
    return v >= producers_.size() || producers_[v] < 0 ? nullptr
                                                       : graph_.nodes()[static_cast<std::size_t>(producers_[v])].get();
  }

  const Weights* find(ValueId b) {
    const auto [entry, is_new] = known_.try_emplace(b);
    if (is_new) {
      const Node* node = producer(b);
      const bool transposed = node != nullptr && node->op != nullptr && node->op->name() == "Transpose";
      if (transposed) node = graph_.value(b).type.shape.size() == 2 ? producer(node->inputs[0]) : nullptr;
      if (node != nullptr && node->op != nullptr && node->op->name() == "DequantizeLinear")
        entry->second = read(*node, transposed);
    }
    return entry->second ? &*entry->second : nullptr;
  }

  const Tensor& constant(const Node& node, std::size_t i) const {
    static const Tensor none;
    return i < node.inputs.size() && node.inputs[i] != kNoValue ? graph_.value(node.inputs[i]).constant : none;
  }

  // `transposed`: the matrix is [columns, depth].
  std::optional<Weights> read(const Node& node, bool transposed) {
    const planning::AttributeReader attributes(node);
    const Tensor &q = constant(node, 0), &scale = constant(node, 1), &zero = constant(node, 2);
    const bool has_zero = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
    const std::int64_t block = attributes.number("block_size"), axis = attributes.number("axis");
    if (!q || !scale || (has_zero && !zero) || q.sizes().size() != 2 || scale.type() != DataType::kFloat) return std::nullopt;
    const DataType type = q.type();
    if (type != DataType::kInt4 && type != DataType::kUint4 && type != DataType::kInt8 && type != DataType::kUint8)
      return std::nullopt;
    const std::size_t along = transposed ? 1 : 0;
    if ((axis < 0 ? axis + 2 : axis) != static_cast<std::int64_t>(along) || block < 16 || (block & (block - 1)) != 0)
      return std::nullopt;
    const Layout l{q.sizes()[along], q.sizes()[1 - along], block, static_cast<std::int64_t>(packed_bits(type)), transposed};
    const bool needs_zeros = has_zero || !NarrowIntegers::is_signed(type);  // absent ones of unsigned integers are 0
    Weights result;
    result.op.columns = l.columns, result.op.depth = l.depth, result.op.block = block, result.op.bits = l.bits;
    result.integers = graph_.add_constant(integers(l, q));
    result.scales = graph_.add_constant(scales(l, scale));
    if (needs_zeros) result.zeros = graph_.add_constant(zeros(l, zero));
    return result;
  }

  struct Layout {
    std::int64_t depth, columns, block, bits;
    bool transposed;
    std::int64_t blocks() const { return (depth + block - 1) / block; }
    // Positions of an element and of a block's scale in the matrix.
    std::int64_t at(std::int64_t c, std::int64_t k) const { return transposed ? c * depth + k : k * columns + c; }
    std::int64_t scale_at(std::int64_t c, std::int64_t b) const { return transposed ? c * blocks() + b : b * columns + c; }
  };

  static void put(std::uint8_t* row, std::int64_t n, std::int64_t bits, unsigned value) {
    row[n * bits / 8] = static_cast<std::uint8_t>(row[n * bits / 8] | value << (n * bits % 8));
  }
  static Tensor integers(const Layout& l, const Tensor& q) {
    const std::int64_t row = l.blocks() * l.block * l.bits / 8;
    Tensor result(DataType::kUint8, {l.columns, l.blocks(), l.block * l.bits / 8});
    auto* const to = reinterpret_cast<std::uint8_t*>(result.mutable_bytes().data());
    std::fill_n(to, l.columns * row, std::uint8_t{0});
    const NarrowIntegers from(q);
    for (std::int64_t c = 0; c < l.columns; ++c)
      for (std::int64_t k = 0; k < l.depth; ++k) put(to + c * row, k, l.bits, from[l.at(c, k)]);
    return result;
  }
  static Tensor scales(const Layout& l, const Tensor& scale) {
    Tensor result(DataType::kFloat, {l.columns, l.blocks()});
    float* to = result.mutable_data<float>().data();
    for (std::int64_t c = 0; c < l.columns; ++c)
      for (std::int64_t b = 0; b < l.blocks(); ++b) *to++ = scale.data<float>()[static_cast<std::size_t>(l.scale_at(c, b))];
    return result;
  }
  static Tensor zeros(const Layout& l, const Tensor& zero) {
    const std::int64_t row = (l.blocks() * l.bits + 7) / 8;
    Tensor result(DataType::kUint8, {l.columns, row});
    auto* const to = reinterpret_cast<std::uint8_t*>(result.mutable_bytes().data());
    std::fill_n(to, l.columns * row, std::uint8_t{0});
    for (std::int64_t c = 0; c < l.columns && zero; ++c)
      for (std::int64_t b = 0; b < l.blocks(); ++b) put(to + c * row, b, l.bits, NarrowIntegers(zero)[l.scale_at(c, b)]);
    return result;
  }

  Graph& graph_;
  const std::vector<std::int32_t> producers_;
  std::map<ValueId, std::optional<Weights>> known_;
};

Graph with_block_products(Graph graph) {
  const bool any = std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return node->op != nullptr && node->op->name() == "DequantizeLinear" &&
           planning::AttributeReader(*node).number("block_size") > 0;
  });
  if (!any) return graph;
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  DequantizedWeights weights(graph);
  std::vector<Nodes> products;
  for (const auto& node : nodes) products.push_back(weights.product(*node));
  graph.drop_nodes_from(0);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (products[n])
      graph.add_raw(std::move(*products[n]));
    else
      graph.add_shared(nodes[n]);
  }
  graph.tidy();
  return graph;
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
  const Index past = in.has(3) ? in[3].size(2) : Index(0), present = evicts ? past : max(past, total);
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

Definition ExpertMixture::define(const Inputs& in) const {
  Definition d(in);
  d.require_rank(in[kScores], 2, "the scores of experts");
  d.output_without_denotation(in[kX].type(), in[kX].shape());
  return d;
}

Definition Rotation::define(const Inputs& in) const {
  Definition d(in);
  d.output_without_denotation(in[0].type(), in[0].shape());
  return d;
}

Definition GridSampling::define(const Inputs& in) const {
  Definition d(in);
  Indices shape{in[0].size(0), in[0].size(1)};
  for (std::size_t a = 1; a + 1 < in[1].rank(); ++a) shape.push_back(in[1].size(a));
  d.output_without_denotation(in[0].type(), std::move(shape));
  return d;
}

Definition DeformedConvolution::define(const Inputs& in) const {
  Definition d(in);
  d.output_without_denotation(in[0].type(), {in[0].size(0), in[1].size(0), in[2].size(2), in[2].size(3)});
  return d;
}

Definition BatchStatistics::define(const Inputs& in) const {
  Definition d(in);
  for (const std::size_t i : {0, 3, 4}) d.output_without_denotation(in[i].type(), in[i].shape());
  return d;
}

Graph with_whole_operators(const Graph& graph) {
  return with_block_products(with_whole_calls(graph, [&](const WholeCall& call) -> Nodes {
    const Operands operands(graph, call);
    const std::string& type = call.attributes.type();
    if (call.domain == kContribDomain) {
      if (type == "MatMulNBits") return block_product(operands, call);
      if (type == "GroupQueryAttention") return cached_attention(operands, call);
      if (type == "RotaryEmbedding") return rotation(operands, call, 1, 2);
      if (type == "MoE") return expert_mixture(operands, call, false);
      if (type == "QMoE") return expert_mixture(operands, call, true);
    }
    if (!call.domain.empty()) return std::nullopt;
    if (type == "RotaryEmbedding") return rotation(operands, call, 3, 1);
    if (type == "BatchNormalization") return batch_statistics(operands, call);
    if (type == "DeformConv") return deformed_convolution(operands, call);
    if (type == "GridSample") return grid_sampling(operands, call);
    return std::nullopt;
  }));
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
