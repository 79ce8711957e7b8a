// Weights in blocks of few bits: MatMulNBits, MatMulBnb4, GatherBlockQuantized.
#include "operators/contrib/packed_weights.h"

#include <algorithm>
#include <cmath>

namespace rewright::operators {

void require_block_size(std::int64_t size) {
  ContribNode::require(size >= 16 && (size & (size - 1)) == 0,
                       "block_size is " + std::to_string(size) + ", must be a power of two and at least 16");
}

ValueId unpacked(ContribNode& n, ValueId v, std::int64_t bits) {
  if (bits == 8) return v;
  const auto bytes = [&](const std::vector<std::int64_t>& values) {
    return n.b.constant(Tensor::from_integers(DataType::kUint8, {static_cast<std::int64_t>(values.size())}, values));
  };
  // Each byte becomes pieces of this many bits: the integers themselves, or single bits, which are put together again.
  const std::int64_t piece = 8 % bits == 0 ? bits : 1, pieces = 8 / piece;
  std::vector<std::int64_t> shifts;
  for (std::int64_t i = 0; i < pieces; ++i) shifts.push_back(i * piece);
  Indices shape = n.b.shape_of(v), one_more = shape;
  one_more.emplace_back(1);
  const ValueId shifted =
      n.b.add("BitShift", {n.b.reshaped(v, one_more), bytes(shifts)}, {{"direction", std::string("RIGHT")}});
  const ValueId parts = n.b.add("BitwiseAnd", {shifted, bytes({(1 << piece) - 1})});
  shape.back() = shape.back() * pieces;
  if (piece == bits) return n.b.reshaped(parts, shape);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < bits; ++i) places.push_back(i);
  Indices by_integer = shape;
  by_integer.back() = floor_div(shape.back(), bits);
  const ValueId used = n.entries(n.b.reshaped(parts, shape), shape.size() - 1, 0, by_integer.back() * bits);
  by_integer.emplace_back(bits);
  const ValueId placed =
      n.b.add("BitShift", {n.b.reshaped(used, by_integer), bytes(places)}, {{"direction", std::string("LEFT")}});
  const ValueId wide = n.b.cast(placed, DataType::kInt32);
  return n.b.cast(n.b.summed(wide, {Index(by_integer.size() - 1)}), DataType::kUint8);
}

namespace {

using Results = ContribNode::Results;

// An input with the elements of these sizes, in these sizes.
ValueId resized(ContribNode& n, std::size_t i, const Indices& sizes, const char* what) {
  const Index count = product(n.shape(i));
  ContribNode::require_equal(count, product(sizes), std::string("the number of elements of its ") + what);
  return n.b.reshaped(n.input(i), sizes);
}

// Y = A W' + bias, W[n, k] = (q[n, k] - zero_point[n, k / block_size]) * scale[n, k / block_size]. accuracy_level, which allows
// a kernel to round A, is not part of the meaning.
Results matmul_n_bits(ContribNode& n, std::string& reason) {
  const std::int64_t k = n.positive("K"), columns = n.positive("N"), block = n.positive("block_size");
  const std::int64_t bits = n.source.integer("bits", 4);
  n.require(bits >= 2 && bits <= 8, "bits is " + std::to_string(bits) + ", must be from 2 to 8");
  require_block_size(block);
  if (n.source.integer("weight_prepacked", 0) != 0) {
    reason = "its weights are packed for a device";
    return std::nullopt;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  n.require(k <= kMost / columns && block <= kMost, "K and N are too large");
  n.require(n.shape(0).size() >= 1, "its input A has no axes");
  n.require_equal(n.shape(0).back(), k, "the number of A's columns");
  n.require(n.type(1) == DataType::kUint8, "its input B must consist of bytes");
  const std::int64_t blocks = (k + block - 1) / block;
  const DataType type = n.type(0);
  const ValueId q = unpacked(n, resized(n, 1, {columns, blocks, block / 8 * bits}, "input B"), bits);
  const ValueId scales = resized(n, 2, {columns, blocks}, "scales");
  ValueId zero = n.b.scalar(type, std::ldexp(1, static_cast<int>(bits - 1)));
  if (n.has(3) && n.type(3) == DataType::kUint8) {
    const std::int64_t row = (blocks * bits + 7) / 8;
    const ValueId all = unpacked(n, resized(n, 3, {columns, row}, "zero points"), bits);
    zero = n.b.cast(n.entries(all, 1, 0, blocks), type);
  } else if (n.has(3)) {
    zero = n.b.cast(resized(n, 3, {columns, blocks}, "zero points"), type);
  }
  ValueId weights = n.b.cast(q, type), factors = n.b.cast(scales, type);
  if (n.has(4)) {  // each column of W names its block
    weights = n.entries(n.b.reshaped(weights, {columns, blocks * block}), 1, 0, k);
    const ValueId groups = n.entries(n.input(4), 0, 0, k);
    const auto by_column = [&](ValueId v) {
      return n.b.shape_of(v).empty() ? v : n.b.add("Gather", {v, groups}, {{"axis", Index(1)}});
    };
    weights = n.b.add("Mul", {n.b.add("Sub", {weights, by_column(zero)}), by_column(factors)});
  } else {
    const auto by_block = [&](ValueId v) { return n.b.shape_of(v).empty() ? v : n.b.reshaped(v, {columns, blocks, 1}); };
    weights = n.b.add("Mul", {n.b.add("Sub", {weights, by_block(zero)}), by_block(factors)});
    weights = n.entries(n.b.reshaped(weights, {columns, blocks * block}), 1, 0, k);
  }
  const ValueId y = n.b.add("MatMul", {n.input(0), n.swapped(weights, 0, 1)});
  return n.results({n.plus(y, n.optional_input(5))});
}

std::size_t axis_of(ContribNode& n, const char* name, std::int64_t otherwise, std::size_t rank) {
  const std::int64_t axis = n.source.integer(name, otherwise), count = static_cast<std::int64_t>(rank);
  n.require(axis >= -count && axis < count,
            std::string(name) + " is " + std::to_string(axis) + ", its data have rank " + std::to_string(rank));
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

// (data - zero_point) * scale of the gathered entries, with a scale and a zero point for each block of quantize_axis.
Results gather_block_quantized(ContribNode& n, std::string& reason) {
  const std::size_t rank = n.shape(0).size();
  n.require(rank >= 1, "its data have no axes");
  const std::size_t from = axis_of(n, "gather_axis", 0, rank), along = axis_of(n, "quantize_axis", 1, rank);
  const std::int64_t block = n.source.integer("block_size", 128);
  const DataType stored = n.type(0), type = n.type(2);
  if (!is_integer(stored)) {
    reason = "its data are no integers";
    return std::nullopt;
  }
  require_block_size(block);
  n.require_rank(2, rank);
  const bool is_packed = stored == DataType::kUint8;
  const std::int64_t bits = is_packed ? n.source.integer("bits", 4) : 8;
  n.require(bits == 2 || bits == 4 || bits == 8, "bits is " + std::to_string(bits) + ", must be 2, 4 or 8");
  if (from == along || (is_packed && bits < 8 && along + 1 != rank)) {
    reason = "it gathers along the axis of its blocks, or packs another axis than the last";
    return std::nullopt;
  }
  const auto gathered = [&](std::size_t i) { return n.b.add("Gather", {n.input(i), n.input(1)}, {{"axis", Index(from)}}); };
  ValueId q = gathered(0);
  if (is_packed) q = unpacked(n, q, bits);
  const std::size_t axis = from < along ? along + n.shape(1).size() - 1 : along;  // of the blocks, after gathering
  const Index size = n.b.shape_of(q)[axis];
  // The block of each entry: spread over the entries, as there may be fewer of the last block.
  const ValueId places = n.b.add("Div", {n.range(size), n.b.scalar(DataType::kInt64, static_cast<double>(block))});
  const auto spread = [&](ValueId v) { return n.b.add("Gather", {v, places}, {{"axis", Index(axis)}}); };
  ValueId y = n.b.cast(q, type);
  if (n.has(3)) {
    n.require(n.type(3) == stored, "its zero points are of another type than its data");
    n.require_rank(3, rank);
    const ValueId zero = is_packed ? unpacked(n, gathered(3), bits) : gathered(3);
    y = n.b.add("Sub", {y, n.b.cast(spread(zero), type)});
  } else if (is_packed) {
    y = n.b.add("Sub", {y, n.b.scalar(type, std::ldexp(1, static_cast<int>(bits - 1)))});
  }
  return n.results({n.b.add("Mul", {y, spread(gathered(2))})});
}

// The numbers that 4 bits stand for: fractions of a block's largest magnitude. Floats of 4 bits as bitsandbytes defines them (a
// sign, then 3 bits in no order of size), and the quantiles of a normal distribution (Dettmers et al., QLoRA, appendix E).
const std::vector<double>& numbers_of_4_bits(bool are_quantiles) {
  static const std::vector<double> kFloats = [] {
    std::vector<double> all{0, 1.0 / 192, 2.0 / 3, 1, 1.0 / 3, 1.0 / 2, 1.0 / 6, 1.0 / 4};
    for (std::size_t i = 0; i < 8; ++i) all.push_back(-all[i]);
    return all;
  }();
  static const std::vector<double> kQuantiles{-1.0,
                                              -0.6961928009986877,
                                              -0.5250730514526367,
                                              -0.39491748809814453,
                                              -0.28444138169288635,
                                              -0.18477343022823334,
                                              -0.09105003625154495,
                                              0.0,
                                              0.07958029955625534,
                                              0.16093020141124725,
                                              0.24611230194568634,
                                              0.33791524171829224,
                                              0.44070982933044434,
                                              0.5626170039176941,
                                              0.7229568362236023,
                                              1.0};
  return are_quantiles ? kQuantiles : kFloats;
}

// Y = A W', where W's elements, in the order of its rows, are looked up by 4 bits each, the upper ones of a byte first, and
// multiplied by the magnitude of their block.
Results matmul_bnb4(ContribNode& n, std::string& reason) {
  const std::int64_t k = n.positive("K"), columns = n.positive("N"), given_block = n.positive("block_size");
  const std::int64_t table = n.source.integer("quant_type", 1);
  require_block_size(given_block);
  n.require(table == 0 || table == 1, "quant_type is " + std::to_string(table) + ", must be 0 or 1");
  if (n.source.integer("transB", 1) != 1) {
    reason = "its weights are not transposed";
    return std::nullopt;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  n.require(k <= kMost / columns, "K and N are too large");
  n.require(n.shape(0).size() >= 1, "its input A has no axes");
  n.require_equal(n.shape(0).back(), k, "the number of A's columns");
  n.require(n.type(1) == DataType::kUint8, "its input B must consist of bytes");
  const std::int64_t count = k * columns, block = std::min(given_block, count), blocks = (count + block - 1) / block,
                     bytes = (count + 1) / 2;
  const DataType type = n.type(0);
  const ValueId low_first = n.b.reshaped(unpacked(n, resized(n, 1, {bytes}, "input B"), 4), {bytes, 2});
  const ValueId codes =
      n.b.add("Slice", {low_first}, {{"begin", Indices{0, 1}}, {"length", Indices{bytes, 2}}, {"step", Indices{1, -1}}});
  const std::vector<double>& numbers = numbers_of_4_bits(table == 1);
  const ValueId values = n.b.constant(Tensor::from_reals(type, {static_cast<std::int64_t>(numbers.size())}, numbers));
  const ValueId fractions = n.b.add("Gather", {values, n.b.cast(codes, DataType::kInt64)}, {{"axis", Index(0)}});
  // The last block may be shorter: the magnitudes are spread over the elements.
  const ValueId magnitudes = n.b.add("Expand", {n.b.reshaped(resized(n, 2, {blocks}, "magnitudes"), {blocks, 1})},
                                     {{"shape", Indices{blocks, block}}});
  const auto flat = [&](ValueId v, std::int64_t size) { return n.entries(n.b.reshaped(v, {size}), 0, 0, count); };
  const ValueId weights = n.b.add("Mul", {flat(fractions, 2 * bytes), flat(magnitudes, blocks * block)});
  return n.results({n.b.add("MatMul", {n.input(0), n.swapped(n.b.reshaped(weights, {columns, k}), 0, 1)})});
}

}  // namespace

void register_contrib_packed_weights(ContribOperators& c) {
  c.add("MatMulNBits", matmul_n_bits);
  c.add("MatMulBnb4", matmul_bnb4);
  c.add("GatherBlockQuantized", gather_block_quantized);
}

}  // namespace rewright::operators
