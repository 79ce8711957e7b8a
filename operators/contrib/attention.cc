// Attention and MultiHeadAttention, and QAttention, which is the former on integers of 8 bits; rotary embeddings.
#include <algorithm>
#include <vector>

#include "operators/contrib/attention_parts.h"
#include "operators/integer_products.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

// The mask as an addend of the scores, broadcast to [batch, heads, queries, keys]; kNoGradient if there is none. Positions that
// it hides get the attribute mask_filter_value. nullopt, with a reason, for forms that only GPUs have.
std::optional<ValueId> mask_bias(ContribNode& n, std::size_t input, DataType type, const Index& batch, const Index& past,
                                 const Index& queries, const Index& keys, std::string& reason) {
  if (!n.has(input)) return kNoGradient;
  GraphBuilder& b = n.b;
  ValueId mask = b.cast(n.input(input), DataType::kInt64);
  const Indices shape = b.shape_of(mask);
  ValueId is_seen = kNoGradient;
  const auto ends = [&](const Index& first) { return b.reshaped(n.entries(mask, 0, first, batch), {batch, 1, 1, 1}); };
  if (shape.size() == 1 && (shape[0] == batch || shape[0] == 2 * batch)) {  // the ends of the sequences, then their begins
    is_seen = b.add("Less", {n.range(keys), ends(0)});
    if (!(shape[0] == batch)) is_seen = b.add("And", {is_seen, b.add("GreaterOrEqual", {n.range(keys), ends(batch)})});
  } else if (shape.size() == 2 || shape.size() == 3 || shape.size() == 4) {
    if (shape.size() == 2) mask = b.reshaped(mask, {shape[0], 1, 1, shape[1]});
    if (shape.size() == 3) mask = b.reshaped(mask, {shape[0], 1, shape[1], shape[2]});
    if (shape.size() == 4) mask = n.entries(n.entries(mask, 2, past, queries), 3, 0, keys);
    is_seen = b.add("Not", {b.add("Equal", {mask, b.scalar(DataType::kInt64, 0)})});
  } else {
    reason = "masks with these sizes are not known";
    return std::nullopt;
  }
  const double hidden = n.source.real("mask_filter_value", -10000);
  return b.add("Where", {is_seen, b.scalar(type, 0), b.scalar(type, hidden)});
}

// Is key t before or at query s, with `past` keys before the first query? [queries, keys].
ValueId causal(ContribNode& n, const Index& past, const Index& queries, const Index& keys) {
  ValueId rows = n.b.reshaped(n.range(queries), {queries, 1});
  if (!(past == Index(0)))
    rows = n.b.add("Add", {rows, n.b.add("Range", {}, {{"start", past}, {"count", Index(1)}, {"type", DataType::kInt64}})});
  return n.b.add("LessOrEqual", {n.range(keys), rows});
}

// The rest of Attention, once q, k and v [batch, heads, length, size] are known. Inputs of the node by their numbers.
struct Places {
  std::size_t mask, past, attention_bias, past_length;
};
Results self_attention(ContribNode& n, ValueId q, ValueId k, ValueId v, const Places& at, std::string& reason) {
  if (n.source.integer("do_rotary", 0) != 0 || n.source.integer("past_present_share_buffer", 0) != 0 || n.has(at.past_length)) {
    reason = "rotation, and caches that are changed in place, are not known here";
    return std::nullopt;
  }
  GraphBuilder& b = n.b;
  Index past = 0;
  if (n.has(at.past)) {  // [2, batch, heads, past, size]
    n.require_rank(at.past, 5);
    const Indices sizes = n.shape(at.past);
    past = sizes[3];
    const auto part = [&](std::int64_t i) {
      return b.reshaped(n.entries(n.input(at.past), 0, i, 1), Indices(sizes.begin() + 1, sizes.end()));
    };
    k = n.joined({part(0), k}, 2), v = n.joined({part(1), v}, 2);
  }
  const Indices qs = b.shape_of(q), ks = b.shape_of(k);
  const auto mask = mask_bias(n, at.mask, b.type_of(q).type, qs[0], past, qs[2], ks[2], reason);
  if (!mask) return std::nullopt;
  Attended a{.q = q, .k = k, .v = v, .scale = attention_scale(n.source, qs[3]), .bias = *mask};
  if (n.has(at.attention_bias)) a.bias = n.plus(n.input(at.attention_bias), a.bias);
  if (n.source.integer("unidirectional", 0) != 0) a.is_seen = causal(n, past, qs[2], ks[2]);
  std::vector<ValueId> results{from_heads(n, attended(n, a))};
  if (n.source.output_count() > 1 && b.shape_of(k) == b.shape_of(v)) {
    Indices one = b.shape_of(k);
    one.insert(one.begin(), 1);
    results.push_back(n.joined({b.reshaped(k, one), b.reshaped(v, one)}, 0));
  }
  return n.results(results);
}

// The three projections in the columns of x, as heads.
struct Projections {
  ValueId q, k, v;
};
Projections split_columns(ContribNode& n, ValueId x) {
  const std::int64_t heads = n.positive("num_heads");
  const Index all = n.b.shape_of(x).back();
  n.require(all.is_constant(), "the number of its weights' columns is not known");
  std::vector<std::int64_t> widths = n.source.integers("qkv_hidden_sizes");
  if (widths.empty()) widths.assign(3, all.value() / 3);
  n.require(widths.size() == 3 && widths[0] > 0 && widths[1] == widths[0] && widths[2] > 0 &&
                widths[0] + widths[1] + widths[2] == all.value(),
            "its weights have " + all.to_string() + " columns, which are no queries, keys and values");
  const auto part = [&](std::int64_t first, std::int64_t width) {
    return to_heads(n, n.entries(x, n.b.shape_of(x).size() - 1, first, width), heads);
  };
  return {part(0, widths[0]), part(widths[0], widths[1]), part(widths[0] + widths[1], widths[2])};
}

Results attention(ContribNode& n, std::string& reason) {
  n.require_rank(0, 3), n.require_rank(1, 2);
  const ValueId x = n.plus(n.b.add("MatMul", {n.input(0), n.input(1)}), n.optional_input(2));
  const Projections p = split_columns(n, x);
  return self_attention(n, p.q, p.k, p.v, {3, 4, 5, 6}, reason);
}

// Inputs: x, weights, bias, the scales of x and of the weights, mask, their zero points, past.
Results quantized_attention(ContribNode& n, std::string& reason) {
  n.require_rank(0, 3), n.require_rank(1, 2);
  const ValueId product =
      scaled_integer_product(n.b, n.input(0), n.input(1), n.input(3), n.input(4), n.optional_input(6), n.optional_input(7));
  const ValueId x = n.plus(product, n.input(2));
  const Projections p = split_columns(n, x);
  constexpr std::size_t kNone = 99;  // an input that this operator does not have
  return self_attention(n, p.q, p.k, p.v, {5, 8, kNone, kNone}, reason);
}

// Queries, keys and values of MultiHeadAttention, with their part of the bias: rows of 3 axes, heads of 4, or packed with 5.
std::optional<Projections> given_projections(ContribNode& n, std::int64_t heads, std::string& reason) {
  GraphBuilder& b = n.b;
  const Indices query = n.shape(0);
  const auto packed = [&](std::size_t i, std::int64_t which) {  // [batch, length, heads, count, size]
    const Indices sizes = n.shape(i);
    const ValueId one = n.entries(n.input(i), 3, which, 1);
    return n.swapped(b.reshaped(one, {sizes[0], sizes[1], sizes[2], sizes[4]}), 1, 2);
  };
  const auto with_bias = [&](ValueId v, const Index& first) {
    if (!n.has(3)) return v;
    return n.plus(v, n.entries(n.input(3), 0, first, b.shape_of(v).back()));
  };
  const bool has_key = n.has(1), has_value = n.has(2);
  if (query.size() == 5 && !has_key && !has_value && !n.has(3)) return Projections{packed(0, 0), packed(0, 1), packed(0, 2)};
  n.require_rank(0, 3);
  const Index width = query[2];
  const ValueId q = to_heads(n, with_bias(n.input(0), 0), heads);
  if (has_key && n.shape(1).size() == 5 && !has_value && !n.has(3)) return Projections{q, packed(1, 0), packed(1, 1)};
  if (has_key && has_value && n.shape(1).size() == 4 && n.shape(2).size() == 4) return Projections{q, n.input(1), n.input(2)};
  if (!has_key || !has_value || n.shape(1).size() != 3 || n.shape(2).size() != 3) {
    reason = "its operands are packed in a way that is not known";
    return std::nullopt;
  }
  return Projections{q, to_heads(n, with_bias(n.input(1), width), heads), to_heads(n, with_bias(n.input(2), 2 * width), heads)};
}

Results multi_head_attention(ContribNode& n, std::string& reason) {
  if (n.has(8) || n.has(9)) {
    reason = "caches that are changed in place are not known here";
    return std::nullopt;
  }
  GraphBuilder& b = n.b;
  const auto p = given_projections(n, n.positive("num_heads"), reason);
  if (!p) return std::nullopt;
  ValueId k = p->k, v = p->v;
  Index past = 0;
  if (n.has(6) && n.has(7)) {
    n.require_rank(6, 4), n.require_rank(7, 4);
    past = n.shape(6)[2];
    k = n.joined({n.input(6), k}, 2), v = n.joined({n.input(7), v}, 2);
  }
  const Indices qs = b.shape_of(p->q), ks = b.shape_of(k);
  const auto mask = mask_bias(n, 4, b.type_of(p->q).type, qs[0], past, qs[2], ks[2], reason);
  if (!mask) return std::nullopt;
  Attended a{.q = p->q, .k = k, .v = v, .scale = attention_scale(n.source, qs[3]), .bias = *mask};
  if (n.has(5)) a.bias = n.plus(n.input(5), a.bias);
  if (n.source.integer("unidirectional", 0) != 0) a.is_seen = causal(n, past, qs[2], ks[2]);
  return n.results({from_heads(n, attended(n, a)), k, v});
}

// Input 0 as heads of the size that the tables of inputs 2 and 3 rotate, unless the attributes say how many they are.
ValueId heads_to_rotate(ContribNode& n) {
  const Indices shape = n.shape(0), table = n.shape(2);
  n.require_rank(2, 2), n.require_rank(3, 2);
  if (shape.size() == 4) return n.input(0);
  n.require(shape.size() == 3, "its input has rank " + std::to_string(shape.size()) + ", must be 3 or 4");
  std::int64_t heads = n.source.integer("num_heads", 0);
  if (n.source.integer("rotary_embedding_dim", 0) == 0) {
    n.require(table[1].is_constant() && shape[2].is_constant() && table[1].value() > 0, "the size of its heads is not known");
    heads = shape[2].value() / (2 * table[1].value());
  }
  n.require(heads > 0, "the number of its heads is not known");
  return to_heads(n, n.input(0), heads);
}

bool is_plain_rotation(const ContribNode& n, std::string& reason) {
  if (n.source.integer("is_packed_batching", 0) == 0 && n.source.real("scale", 1) == 1) return true;
  reason = "packed batches and scales are not known here";
  return false;
}

Results rotary_embedding(ContribNode& n, std::string& reason) {
  if (!is_plain_rotation(n, reason)) return std::nullopt;
  GraphBuilder& b = n.b;
  const ValueId x = heads_to_rotate(n);
  ValueId positions = b.cast(n.input(1), DataType::kInt64);
  const Index length = b.shape_of(x)[2];
  if (b.shape_of(positions).size() == 1)  // that of the first
    positions = b.reshaped(b.add("Add", {positions, n.range(length)}), {1, length});
  const ValueId y = rotated(n, x, positions, n.input(2), n.input(3), n.source.integer("interleaved", 0) != 0);
  return n.results({n.shape(0).size() == 4 ? y : from_heads(n, y)});
}

// Positions in time, height and width, [3, batch, length]: each pair of elements is rotated by one of them. In turns (layout 1)
// these are time, height, width, time, ... as long as a section goes on, then time.
Results rotary_embedding_of_three(ContribNode& n, std::string& reason) {
  if (!is_plain_rotation(n, reason)) return std::nullopt;
  GraphBuilder& b = n.b;
  const ValueId x = heads_to_rotate(n);
  const std::vector<std::int64_t> sections = n.source.integers("mrope_section");
  const Index half = n.shape(2)[1];
  constexpr std::int64_t kMostPairs = 1 << 16;
  n.require(half.is_constant(), "the size of its tables is not known");
  if (half.value() > kMostPairs) {
    reason = "its heads are too large";
    return std::nullopt;
  }
  n.require(sections.size() == 3 &&
                std::ranges::all_of(sections, [&](std::int64_t s) { return s >= 0 && s <= half.value(); }) &&
                sections[0] + sections[1] + sections[2] == half.value(),
            "mrope_section must have three numbers that add up to " + half.to_string());
  n.require_rank(1, 3);
  n.require_equal(n.shape(1)[0], 3, "axis 0 of its positions");
  n.require_equal(n.shape(3)[1], half, "the width of its sines");
  const std::int64_t layout = n.source.integer("mrope_layout", 0);
  n.require(layout == 0 || layout == 1, "mrope_layout is " + std::to_string(layout) + ", must be 0 or 1");
  const auto stream_of = [&](std::int64_t i) {
    if (layout == 0) return i < sections[0] ? 0 : i < sections[0] + sections[1] ? 1 : 2;
    const auto turn = static_cast<int>(i % 3);
    return turn > 0 && i < 3 * sections[static_cast<std::size_t>(turn)] ? turn : 0;
  };
  const auto is_of = [&](int stream) {
    std::vector<std::int64_t> flags;
    for (std::int64_t i = 0; i < half.value(); ++i) flags.push_back(stream_of(i) == stream ? 1 : 0);
    return b.constant(Tensor::from_integers(DataType::kBool, {half.value()}, flags));
  };
  const ValueId positions = b.cast(n.input(1), DataType::kInt64), of_height = is_of(1), of_width = is_of(2);
  const Indices sizes = b.shape_of(positions);
  const auto rows_of = [&](std::size_t table) {
    const auto rows = [&](std::int64_t stream) {
      const ValueId at = b.reshaped(n.entries(positions, 0, stream, 1), {sizes[1], sizes[2]});
      return b.add("Gather", {n.input(table), at}, {{"axis", Index(0)}});
    };
    const ValueId time = rows(0), height = rows(1), width = rows(2);
    return b.add("Where", {of_height, height, b.add("Where", {of_width, width, time})});
  };
  const ValueId cosines = rows_of(2), sines = rows_of(3);
  const ValueId y = rotated_by(n, x, cosines, sines, n.source.integer("interleaved", 0) != 0);
  return n.results({n.shape(0).size() == 4 ? y : from_heads(n, y)});
}

}  // namespace

void register_contrib_attention(ContribOperators& c) {
  c.add("Attention", attention);
  c.add("QAttention", quantized_attention);
  c.add("MultiHeadAttention", multi_head_attention);
  c.add("RotaryEmbedding", rotary_embedding);
  c.add("MRotaryEmbedding", rotary_embedding_of_three);
}

}  // namespace rewright::operators
