#include "operators/contrib/attention_parts.h"

#include <cmath>
#include <limits>

namespace rewright::operators {

ValueId to_heads(ContribNode& n, ValueId v, std::int64_t heads) {
  const Indices shape = n.b.shape_of(v);
  const Index width = shape.back();
  n.require(shape.size() == 3, "an operand has rank " + std::to_string(shape.size()) + ", must be 3");
  n.require(width.is_constant() && width.value() % heads == 0,
            width.to_string() + " columns cannot be divided into " + std::to_string(heads) + " heads");
  return n.swapped(n.b.reshaped(v, {shape[0], shape[1], heads, width.value() / heads}), 1, 2);
}

ValueId from_heads(ContribNode& n, ValueId v) {
  const ValueId rows = n.swapped(v, 1, 2);
  const Indices shape = n.b.shape_of(rows);
  return n.b.reshaped(rows, {shape[0], shape[1], shape[2] * shape[3]});
}

double attention_scale(const OnnxAttributes& source, const Index& head_size) {
  const double given = source.real("scale", 0);
  if (given != 0) return given;
  ContribNode::require(head_size.is_constant() && head_size.value() > 0, "the size of its heads is not known");
  return 1 / std::sqrt(static_cast<double>(head_size.value()));
}

double lowest_score(DataType type) {
  constexpr double kLargestHalf = 65504;
  return type == DataType::kHalf ? -kLargestHalf : static_cast<double>(std::numeric_limits<float>::lowest());
}

ValueId attended(ContribNode& n, const Attended& a) {
  GraphBuilder& b = n.b;
  const DataType type = b.type_of(a.q).type;
  const std::size_t rank = b.shape_of(a.k).size();
  ValueId scores = n.scaled(b.add("MatMul", {a.q, n.swapped(a.k, rank - 2, rank - 1)}), a.scale);
  if (a.softcap != 0) scores = n.scaled(b.add("Tanh", {n.scaled(scores, 1 / a.softcap)}), a.softcap);
  scores = n.plus(scores, a.bias);
  if (a.is_seen != kNoGradient) scores = b.add("Where", {a.is_seen, scores, b.scalar(type, lowest_score(type))});
  if (a.sink == kNoGradient) return b.add("MatMul", {b.add("Softmax", {scores}, {{"axis", Index(-1)}}), a.v});
  Indices column = b.shape_of(scores);
  const Index keys = column.back();
  column.back() = 1;
  const ValueId more = n.joined({scores, b.add("Expand", {a.sink}, {{"shape", column}})}, column.size() - 1);
  const ValueId shares = b.add("Softmax", {more}, {{"axis", Index(-1)}});
  return b.add("MatMul", {n.entries(shares, column.size() - 1, 0, keys), a.v});
}

ValueId rotated(ContribNode& n, ValueId x, ValueId positions, ValueId cosines, ValueId sines, bool is_interleaved) {
  n.require(
      n.b.shape_of(cosines).size() == 2 && n.b.shape_of(sines) == n.b.shape_of(cosines) && n.b.shape_of(positions).size() == 2,
      "its tables of cosines and sines, or its positions, have the wrong number of axes");
  const auto at_positions = [&](ValueId table) { return n.b.add("Gather", {table, positions}, {{"axis", Index(0)}}); };
  const ValueId c = at_positions(cosines), s = at_positions(sines);
  return rotated_by(n, x, c, s, is_interleaved);
}

ValueId rotated_by(ContribNode& n, ValueId x, ValueId cosines, ValueId sines, bool is_interleaved) {
  GraphBuilder& b = n.b;
  const Indices shape = b.shape_of(x);
  const Index half = b.shape_of(cosines).back();
  n.require(half.is_constant() && shape[3].is_constant() && 2 * half.value() <= shape[3].value(),
            "its tables rotate " + half.to_string() + " pairs, its heads have " + shape[3].to_string() + " elements");
  const auto for_heads = [&](ValueId rows) {
    const Indices sizes = b.shape_of(rows);
    Indices with_heads{sizes[0], 1, sizes[1], half};
    if (is_interleaved) with_heads.emplace_back(1);
    return b.reshaped(rows, with_heads);
  };
  const ValueId c = for_heads(cosines), s = for_heads(sines);
  const Index turned = 2 * half.value();
  ValueId all = n.entries(x, 3, 0, turned);
  const std::size_t axis = is_interleaved ? 4 : 3;
  if (is_interleaved) all = b.reshaped(all, {shape[0], shape[1], shape[2], half, 2});
  const Index piece = is_interleaved ? Index(1) : half;
  const ValueId one = n.entries(all, axis, 0, piece), other = n.entries(all, axis, piece, piece);
  Formulas f(b, b.type_of(x).type);
  ValueId y = n.joined({f.difference(f.times(one, c), f.times(other, s)), f.sum(f.times(one, s), f.times(other, c))}, axis);
  if (is_interleaved) y = b.reshaped(y, {shape[0], shape[1], shape[2], turned});
  if (turned == shape[3]) return y;
  return n.joined({y, n.entries(x, 3, turned, shape[3] - turned)}, 3);
}

}  // namespace rewright::operators
