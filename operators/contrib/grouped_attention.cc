// GroupQueryAttention: attention with fewer heads of keys and values than of queries, and a cache of both.
//
// The cache has room for some positions, of which the first past[b] of sequence b are filled. Those of the call are written
// behind them, and query s attends to the positions up to past[b] + s.
//
// A cache of a window (sliding_window_cache) has C rows, of which the first ones are the last positions of a sequence of T: T
// as long as they fit, then those that are left when G = C - window + 1 at a time are dropped from the front.
#include <optional>

#include "operators/contrib/attention_parts.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

class GroupedAttention {
 public:
  GroupedAttention(ContribNode& node, Index total)
      : n_(node),
        b_(node.b),
        heads_(node.positive("num_heads")),
        shared_(node.positive("kv_num_heads")),
        total_(std::move(total)) {
    n_.require(heads_ % shared_ == 0, std::to_string(heads_) + " heads cannot share " + std::to_string(shared_));
    n_.require_rank(0, 3);
    read_operands();
    batch_ = b_.shape_of(q_)[0], length_ = b_.shape_of(q_)[2], size_ = b_.shape_of(q_)[3];
    find_past();
    if (n_.source.integer("sliding_window_cache", 0) != 0) find_rows();
  }

  Results run() {
    if (n_.has(14)) normalize_heads();
    if (n_.source.integer("do_rotary", 0) != 0) rotate();
    if (rows_) {
      const ValueId keys = stored(3, k_), values = stored(4, v_);
      return n_.results({output(keys, values), kept(keys), kept(values)});
    }
    const ValueId keys = present(3, k_), values = present(4, v_);
    return n_.results({output(keys, values), keys, values});
  }

 private:
  void read_operands() {
    const Index width = n_.shape(0)[2];
    if (n_.has(1)) {
      q_ = to_heads(n_, n_.input(0), heads_), k_ = to_heads(n_, n_.input(1), shared_), v_ = to_heads(n_, n_.input(2), shared_);
      return;
    }
    const std::int64_t all = heads_ + 2 * shared_;
    n_.require(width.is_constant() && width.value() % all == 0,
               width.to_string() + " columns cannot be divided into " + std::to_string(all) + " heads");
    const std::int64_t size = width.value() / all;
    const auto part = [&](std::int64_t first, std::int64_t count) {
      return to_heads(n_, n_.entries(n_.input(0), 2, first * size, count * size), count);
    };
    q_ = part(0, heads_), k_ = part(heads_, shared_), v_ = part(heads_ + shared_, shared_);
  }

  ValueId number(const Index& index) {
    return b_.add("Range", {}, {{"start", index}, {"count", Index(1)}, {"type", DataType::kInt64}});
  }

  // past[b]: the length of sequence b without the call's positions; 0 if these are all that there are.
  void find_past() {
    const ValueId last = b_.reshaped(b_.cast(n_.input(5), DataType::kInt64), {batch_, 1});
    const ValueId before = b_.add("Add", {last, number(1 - length_)});
    const ValueId is_first = b_.add("Equal", {number(length_), number(total_)});
    past_ = b_.add("Where", {is_first, b_.scalar(DataType::kInt64, 0), before});
  }

  // Root mean square norms of each head of queries and keys.
  void normalize_heads() {
    const Real epsilon(n_.source.real("qk_norm_epsilon", 1e-6f));
    q_ = b_.add("RMSNormalization", {q_, n_.input(14)}, {{"axis", Index(-1)}, {"epsilon", epsilon}});
    k_ = b_.add("RMSNormalization", {k_, n_.input(15)}, {{"axis", Index(-1)}, {"epsilon", epsilon}});
  }

  void rotate() {
    const ValueId positions =
        n_.has(9) ? b_.cast(n_.input(9), DataType::kInt64) : b_.add("Add", {past_, n_.range(length_)});  // [batch, length]
    const bool is_interleaved = n_.source.integer("rotary_interleaved", 0) != 0;
    q_ = rotated(n_, q_, positions, n_.input(7), n_.input(8), is_interleaved);
    k_ = rotated(n_, k_, positions, n_.input(7), n_.input(8), is_interleaved);
  }

  // The cache with the call's entries behind the past ones, and zeros behind these. It is as long as before, or as the longest
  // sequence.
  ValueId present(std::size_t input, ValueId entries) {
    if (n_.has(input)) n_.require_rank(input, 4);
    const Index room = n_.has(input) ? n_.shape(input)[2] : Index(0);
    const Index size = max(room, total_);
    const ValueId all = n_.has(input) ? n_.joined({n_.input(input), entries}, 2) : entries;
    const ValueId at = n_.range(size), past = past_;
    const ValueId since = b_.add("Sub", {at, past});  // [batch, size]
    ValueId from = b_.add("Where", {b_.add("Less", {at, past}), at, b_.add("Add", {since, number(room)})});
    from = b_.add("Min", {from, number(room + length_ - 1)});
    return taken(all, from, b_.add("Less", {since, number(length_)}), size);
  }

  // The rows `from` of all, zeros where they are not used: [batch, shared, size, elements].
  ValueId taken(ValueId all, ValueId from, ValueId is_used, const Index& size) {
    const Indices shape{batch_, shared_, size, size_};
    const ValueId spread = b_.add("Expand", {b_.reshaped(from, {batch_, 1, size, 1})}, {{"shape", shape}});
    const ValueId found = b_.add("GatherElements", {all, spread}, {{"axis", Index(2)}});
    return b_.add("Where", {b_.reshaped(is_used, {batch_, 1, size, 1}), found, b_.scalar(b_.type_of(all).type, 0)});
  }

  // ---- Caches of a window

  void find_rows() {
    n_.require(n_.has(3) && n_.has(4), "a cache of a window has no past");
    n_.require_rank(3, 4);
    n_.require(n_.source.integer("local_window_size", -1) > 0, "a cache of a window needs local_window_size");
    rows_ = n_.shape(3)[2];
    resident_ = resident(past_);
  }

  // The positions that are kept of sequences of these lengths: [batch, 1].
  ValueId resident(ValueId lengths) {
    const Index at_once = max(*rows_ - n_.source.integer("local_window_size", -1) + 1, Index(1));
    const ValueId beyond = b_.add("Sub", {lengths, number(*rows_)});
    const ValueId times = b_.add("Div", {b_.add("Add", {beyond, number(at_once - 1)}), number(at_once)});
    const ValueId dropped = b_.add("Mul", {times, number(at_once)});
    const ValueId fits = b_.add("LessOrEqual", {lengths, number(*rows_)});
    return b_.add("Where", {fits, lengths, b_.add("Sub", {lengths, dropped})});
  }

  // The cache's rows, and behind them the call's: [batch, shared, rows + length, elements].
  ValueId stored(std::size_t input, ValueId entries) { return n_.joined({n_.input(input), entries}, 2); }

  // The rows that stay in the cache after the call.
  ValueId kept(ValueId all) {
    const ValueId end = b_.add("Add", {past_, number(length_)}), count = resident(end), row = n_.range(*rows_);
    const ValueId position = b_.add("Add", {b_.add("Sub", {end, count}), row}), since = b_.add("Sub", {position, past_});
    const ValueId old = b_.add("Add", {since, resident_}), added = b_.add("Add", {since, number(*rows_)});
    const ValueId from = b_.add("Where", {b_.add("Less", {position, past_}), old, added});
    return taken(all, b_.add("Min", {from, number(*rows_ + length_ - 1)}), b_.add("Less", {row, count}), *rows_);
  }

  // May query s read row r of those that are stored? [batch, 1, 1, queries, rows].
  ValueId row_is_seen() {
    const Index count = *rows_ + length_;
    const ValueId row = n_.range(count), is_new = b_.add("LessOrEqual", {number(*rows_), row});
    const ValueId old = b_.add("Sub", {b_.add("Add", {past_, row}), resident_});
    const ValueId position = b_.add("Where", {is_new, b_.add("Sub", {b_.add("Add", {past_, row}), number(*rows_)}), old});
    const ValueId is_there = b_.add("Or", {is_new, b_.add("Less", {row, resident_})});
    const auto by_row = [&](ValueId v) { return b_.reshaped(v, {batch_, 1, 1, 1, count}); };
    return b_.add("And", {by_row(is_there), is_within(by_row(position))});
  }

  // May query s read position t? [batch, 1, 1, queries, keys].
  ValueId is_seen() {
    if (rows_) return row_is_seen();
    const ValueId at = n_.range(total_);
    if (n_.source.integer("causal", 1) == 0)  // all positions of the sequence
      return b_.add("Less", {at, b_.reshaped(b_.add("Add", {past_, number(length_)}), {batch_, 1, 1, 1, 1})});
    return is_within(at);
  }

  // Positions up to the queries' own, within the window.
  ValueId is_within(ValueId at) {
    const ValueId rows = b_.reshaped(b_.add("Add", {past_, n_.range(length_)}), {batch_, 1, 1, length_, 1});
    const ValueId before = b_.add("LessOrEqual", {at, rows});
    const std::int64_t window = n_.source.integer("local_window_size", -1);
    if (window < 0) return before;
    return b_.add("And", {before, b_.add("Greater", {b_.add("Add", {at, number(window)}), rows})});
  }

  // One more score a row, of each head: 0, or the head's sink.
  ValueId sink() {
    const DataType type = b_.type_of(q_).type;
    if (n_.has(11)) return b_.reshaped(b_.cast(n_.input(11), type), {1, shared_, heads_ / shared_, 1, 1});
    if (n_.source.integer("smooth_softmax", 0) != 1) return kNoGradient;
    return b_.reshaped(b_.scalar(type, 0), {1, 1, 1, 1, 1});
  }

  // Heads that share keys stand beside each other on an axis of their own.
  ValueId output(ValueId keys, ValueId values) {
    const std::int64_t group = heads_ / shared_;
    const Index count = rows_ ? *rows_ + length_ : total_;
    const auto once = [&](ValueId v) { return b_.reshaped(n_.entries(v, 2, 0, count), {batch_, shared_, 1, count, size_}); };
    Attended a{.q = b_.reshaped(q_, {batch_, shared_, group, length_, size_}), .k = once(keys), .v = once(values)};
    a.scale = attention_scale(n_.source, size_), a.softcap = n_.source.real("softcap", 0);
    a.is_seen = is_seen(), a.sink = sink();
    if (n_.has(10)) {
      n_.require_rank(10, 4);
      const Indices shape = n_.shape(10);
      const bool by_head = shape[1] == Index(heads_);
      a.bias = b_.reshaped(n_.input(10), {shape[0], by_head ? shared_ : 1, by_head ? group : 1, shape[2], shape[3]});
    }
    return from_heads(n_, b_.reshaped(attended(n_, a), {batch_, heads_, length_, size_}));
  }

  ContribNode& n_;
  GraphBuilder& b_;
  const std::int64_t heads_, shared_;
  const Index total_;  // the length of the longest sequence with the call's positions
  Index batch_, length_, size_;
  ValueId q_ = kNoGradient, k_ = kNoGradient, v_ = kNoGradient;  // [batch, heads, length, size]
  ValueId past_ = kNoGradient;                                   // [batch, 1]
  std::optional<Index> rows_;                                    // of a cache of a window
  ValueId resident_ = kNoGradient;                               // of them, the ones with past positions: [batch, 1]
};

Results group_query_attention(ContribNode& n, std::string& reason) {
  if (n.source.text("k_quant_type", "NONE") != "NONE" || n.source.text("v_quant_type", "NONE") != "NONE") {
    reason = "its cache is quantized";
    return std::nullopt;
  }
  if (n.source.integer("sliding_window_cache", 0) != 0 && (n.has(10) || n.source.integer("causal", 1) == 0)) {
    reason = "its cache drops positions that a bias or all queries read";
    return std::nullopt;
  }
  const auto total = n.source.contents(static_cast<OnnxValue>(n.input(6)));
  if (!total || total->size() != 1) {
    reason = "the length of its longest sequence does not follow from the sizes of the model's inputs";
    return std::nullopt;
  }
  return GroupedAttention(n, total->front()).run();
}

}  // namespace

void register_contrib_grouped_attention(ContribOperators& c) { c.add("GroupQueryAttention", group_query_attention); }

}  // namespace rewright::operators
