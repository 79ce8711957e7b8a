// Attention with a cache of keys and values: heads are rotated, written behind the past positions, and attended to. Heads that
// share keys are computed together, so that the cache is read once; masks are bounds of loops and never stored. Where the
// present lies in the memory of the past, only the new positions are written. A call that drops positions of a window's cache
// attends to a copy of it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "runtime/cpu/kernels/product/packed_matrix.h"
#include "runtime/cpu/loops/cache_loops.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/planning/whole_operators.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

constexpr Count kTileRows = 24;   // queries whose scores are in memory at a time, for each thread
constexpr Count kTileKeys = 192;  // about as many keys; as long as a sum's part
constexpr double kCacheFloats = 2.5, kCacheMultiplications = 40;  // a nanosecond

// Numbers of the call's step. Absent inputs are null.
struct CachedTask {
  Count batch = 0, length = 0, heads = 0, shared = 0, size = 0;
  Count past = 0, present = 0, total = 0;  // as CacheLengths
  Count window = -1;
  float scale = 1, softcap = 0;
  bool has_parts = false, has_past = false, rotates = false, has_positions = false, neighbours = false;
  bool last_is_long = false, positions_are_long = false;  // of 64 bits
  Count table = 0, half = 0;                              // positions and columns of the tables
  Count sinks = -1, norms = -1;  // numbers of inputs: sinks; the scales of queries, those of keys behind
  bool smooth = false;           // sinks are 0
  bool evicts = false;           // the cache is that of a window
  float epsilon = 0;             // of norms
  int threads = 1;

  Count group() const { return heads / shared; }
  Count rows() const { return group() * length; }                         // queries that share keys
  bool is_few() const { return rows() <= CachedAttention::kFewQueries; }  // keys and values are read in place
  // Into how many parts the positions of a head may be cut, where threads could not share the heads evenly.
  Count parts() const { return is_few() && batch * shared % threads != 0 ? threads : 1; }
};

Count position_at(const std::byte* at, Count i, bool is_long) {
  if (is_long) return reinterpret_cast<const std::int64_t*>(at)[i];
  return reinterpret_cast<const std::int32_t*>(at)[i];
}

// Extents that do not change from call to call.
struct CachedForm {
  CachedForm(const CachedTask& task, Isa isa)
      : t(task),
        products(loops_for<ProductLoops>(isa)),
        loops(loops_for<CacheLoops>(isa)),
        k(packed_shape(products, kTileRows, t.size, t.total)),
        v(packed_shape(products, kTileRows, t.total, t.size)),
        keys(t.is_few() ? kTileKeys : std::max<Count>(1, kTileKeys / k.width) * k.width),
        width(t.is_few() ? t.size : v.panels() * v.width),
        tile(t.is_few() ? t.rows() : std::min({kTileRows, products.most_rows[k.vectors] * 6, t.rows()})) {}

  Count query_floats() const { return t.batch * t.heads * t.length * t.size; }
  // Each thread's memory: packed keys and values, scores, and rows of the result.
  Count packed_floats() const { return t.is_few() ? 0 : k.floats() + v.floats(); }
  Count thread_floats() const { return (packed_floats() + tile * (keys + width) + 15) / 16 * 16; }
  // Floats for the sums of a part of a head, with each row's largest score and sum of exponentials.
  Count part_floats() const { return (tile * (width + 2) + 15) / 16 * 16; }
  Count parts_floats() const { return t.parts() > 1 ? t.batch * t.shared * t.parts() * part_floats() : 0; }

  CachedTask t;
  const ProductLoops& products;
  const CacheLoops& loops;
  PackedShape k, v;   // of all keys and values, if they are packed
  Count keys, width;  // keys at a time; floats of a row of sums
  Count tile;         // rows at a time
};

float* floats(std::byte* at) { return reinterpret_cast<float*>(at); }
const float* floats(const std::byte* at) { return reinterpret_cast<const float*>(at); }

class CachedAttentionRun {
 public:
  CachedAttentionRun(const CachedForm& form, const Call& call)
      : f_(form), t_(with_lengths(form.t, call.lengths)), call_(call), queries_(floats(call.scratch)) {
    find_past();
    for (const std::size_t which : {0, 1}) {
      present_[which] = floats(call.outputs[1 + which]);
      if (t_.has_past) given_[which] = floats(call.inputs[after_parts() + which]);
    }
    choose_rows();
    for (const std::size_t which : {0, 1}) in_place_[which] = t_.past == t_.present && given_[which] == rows_at_[which];
  }

  void run() const {
    const double elements = static_cast<double>(t_.batch * t_.shared * t_.total * t_.size);
    call_.workers.for_each(t_.batch * (t_.heads + t_.shared),
                           static_cast<double>(f_.query_floats()) + (t_.is_few() ? 0 : elements / kCacheFloats),
                           [&](Count unit, int) { prepare(unit); });
    if (t_.length == 0) return;
    const Count parts = std::min(t_.parts(), (t_.total + f_.keys - 1) / f_.keys);
    const Count tiles = (t_.rows() + f_.tile - 1) / f_.tile, units = t_.batch * t_.shared * tiles * parts;
    const double nanoseconds =
        elements * 2 * std::max(1 / kCacheFloats, static_cast<double>(t_.rows()) / kCacheMultiplications);
    const Count pieces = call_.workers.pieces(nanoseconds, units);
    call_.workers.share(pieces, [&](Count piece, int thread) {
      const Count first = first_unit(units, piece, pieces), last = first_unit(units, piece + 1, pieces);
      float* const own = queries_ + f_.query_floats() + thread * f_.thread_floats();
      float largest[kTileRows], total[kTileRows];
      for (Count u = first; u < last; ++u) {
        if (parts > 1) {
          const Count blocks = (used(u / parts) + f_.keys - 1) / f_.keys, part = u % parts;
          attend(u / parts, 0, first_unit(blocks, part, parts), first_unit(blocks, part + 1, parts), own, part_of(u));
          continue;
        }
        const Count head = u / tiles, row = u % tiles * f_.tile;
        if (!t_.is_few() && (u == first || row == 0)) pack_head(head, own);
        const Sums sums{own + f_.packed_floats() + f_.tile * f_.keys, largest, total};
        attend(head, row, 0, (used(head) + f_.keys - 1) / f_.keys, own, sums);
        finish(head, row, sums);
      }
    });
    for (Count head = 0; parts > 1 && head < t_.batch * t_.shared; ++head) join(head, parts);
    for (Count head = 0; rows_ != t_.present && head < t_.batch * t_.shared; ++head) keep(head);
  }

 private:
  // The rows' state so far: values times exponentials, the largest scores, and the sums of the exponentials.
  struct Sums {
    float *values, *largest, *total;
  };
  Sums part_of(Count unit) const {
    float* const at = queries_ + f_.query_floats() + t_.threads * f_.thread_floats() + unit * f_.part_floats();
    return {at, at + f_.tile * f_.width, at + f_.tile * (f_.width + 1)};
  }

  static CachedTask with_lengths(CachedTask task, const CacheLengths* lengths) {
    if (lengths != nullptr) task.past = lengths->past, task.present = lengths->present, task.total = lengths->total;
    if (task.evicts) task.present = task.past;
    return task;
  }

  // The inputs after q and, if they are apart, k and v.
  std::size_t after_parts() const { return t_.has_parts ? 3 : 1; }
  const std::byte* after_past(std::size_t i) const { return call_.inputs[after_parts() + (t_.has_past ? 2 : 0) + i]; }

  // The positions of each sequence before those of the call.
  void find_past() {
    first_.resize(static_cast<std::size_t>(t_.batch)), before_.resize(static_cast<std::size_t>(t_.batch));
    for (Count b = 0; b < t_.batch && t_.length != t_.total; ++b) {
      const Count last = position_at(after_past(0), b, t_.last_is_long), before = last + 1 - t_.length;
      if (before < 0 || last >= t_.total || (before > t_.past && !t_.evicts))
        throw Error(ErrorCode::kBadInput, "sequence " + std::to_string(b) + " ends at position " + std::to_string(last) +
                                              " of " + std::to_string(t_.total) + ", " + std::to_string(t_.length) +
                                              " of them new, in a cache of " + std::to_string(t_.past));
      first_[static_cast<std::size_t>(b)] = before;
      before_[static_cast<std::size_t>(b)] = t_.evicts ? resident(before) : before;
    }
  }
  // The rows of a window's cache that a sequence of this length takes.
  Count resident(Count length) const {
    const Count at_once = std::max<Count>(1, t_.past - t_.window + 1);
    return length <= t_.past ? length : length - (length - t_.past + at_once - 1) / at_once * at_once;
  }

  // Rows to attend to: those of the present, or, where some will be dropped, others.
  void choose_rows() {
    rows_ = t_.present;
    for (Count b = 0; b < t_.batch && t_.evicts; ++b)
      if (before(b) + t_.length > t_.present) rows_ = t_.past + t_.length;
    for (const std::size_t which : {0, 1}) {
      copies_[which].resize(static_cast<std::size_t>(rows_ == t_.present ? 0 : t_.batch * t_.shared * rows_ * t_.size));
      rows_at_[which] = rows_ == t_.present ? present_[which] : copies_[which].data();
    }
  }
  // The last rows of a copy, to the present.
  void keep(Count head) const {
    const Count b = head / t_.shared, all = before(b) + t_.length,
                left = resident(first_[static_cast<std::size_t>(b)] + t_.length);
    for (const std::size_t which : {0, 1}) {
      float* const to = present_[which] + head * t_.present * t_.size;
      std::copy_n(cache(which, head) + (all - left) * t_.size, left * t_.size, to);
      std::fill(to + left * t_.size, to + t_.present * t_.size, 0.0f);
    }
  }
  Count before(Count b) const { return before_[static_cast<std::size_t>(b)]; }

  // The call's heads: of queries, or of keys and values (which = 1, 2).
  const float* entry(std::size_t which, Count b, Count head, Count s) const {
    const Count all = t_.has_parts ? (which == 0 ? t_.heads : t_.shared) : t_.heads + 2 * t_.shared;
    if (!t_.has_parts && which > 0) head += t_.heads + (which == 2 ? t_.shared : 0);
    return floats(call_.inputs[t_.has_parts ? which : 0]) + ((b * t_.length + s) * all + head) * t_.size;
  }

  // A head of queries (which = 0) or keys, normalized and rotated.
  void turn(std::size_t which, const float* x, Count b, Count s, float factor, float* y) const {
    if (t_.norms >= 0) {
      const float* const scale = floats(call_.inputs[static_cast<std::size_t>(t_.norms) + which]);
      f_.products.normalize(y, x, t_.size, false, t_.epsilon, scale, nullptr);
      x = y;
    }
    if (!t_.rotates) return f_.loops.rotate(x, nullptr, nullptr, 0, t_.size, false, factor, y);
    const Count at = t_.has_positions ? position_at(after_past(3), b * t_.length + s, t_.positions_are_long)
                                      : first_[static_cast<std::size_t>(b)] + s;
    if (at < 0 || at >= t_.table)
      throw Error(ErrorCode::kBadInput,
                  "position " + std::to_string(at) + " is beyond the rotation's table of " + std::to_string(t_.table));
    f_.loops.rotate(x, floats(after_past(1)) + at * t_.half, floats(after_past(2)) + at * t_.half, t_.half, t_.size,
                    t_.neighbours, factor, y);
  }

  // Rotates a head of queries to the scratch memory, or adds a head of keys and values to the cache.
  void prepare(Count unit) const {
    const Count all = t_.heads + t_.shared, b = unit / all;
    Count head = unit % all;
    if (head < t_.heads) {
      float* const to = queries_ + (b * t_.heads + head) * t_.length * t_.size;
      for (Count s = 0; s < t_.length; ++s) turn(0, entry(0, b, head, s), b, s, t_.scale, to + s * t_.size);
      return;
    }
    head -= t_.heads;
    const std::size_t row_bytes = static_cast<std::size_t>(t_.size) * sizeof(float);
    for (const std::size_t which : {0, 1}) {
      float* const to = rows_at_[which] + (b * t_.shared + head) * rows_ * t_.size;
      for (Count s = 0; s < t_.length; ++s) {
        float* const row = to + (before(b) + s) * t_.size;
        if (which == 0)
          turn(1, entry(1, b, head, s), b, s, 1, row);
        else
          std::memcpy(row, entry(2, b, head, s), row_bytes);
      }
      if (in_place_[which]) continue;
      std::fill(to + (before(b) + t_.length) * t_.size, to + rows_ * t_.size, 0.0f);
      if (!t_.is_few() || t_.length == 0) copy(which, b * t_.shared + head, 0, before(b));
    }
  }

  // Positions of the past to the present; few queries copy them when they read them.
  void copy(std::size_t which, Count head, Count first, Count last) const {
    if (first >= last || in_place_[which]) return;
    std::memcpy(rows_at_[which] + (head * rows_ + first) * t_.size, given_[which] + (head * t_.past + first) * t_.size,
                static_cast<std::size_t>((last - first) * t_.size) * sizeof(float));
  }

  Count used(Count head) const { return before(head / t_.shared) + t_.length; }
  const float* cache(std::size_t which, Count head) const { return rows_at_[which] + head * rows_ * t_.size; }
  // Panels of the positions of this head only.
  PackedShape keys_of(Count head) const { return {t_.size, used(head), f_.k.vectors, f_.k.width}; }
  PackedShape values_of(Count head) const { return {used(head), t_.size, f_.v.vectors, f_.v.width}; }

  void pack_head(Count head, float* own) const {
    const PackedShape keys = keys_of(head), values = values_of(head);
    pack(f_.products, cache(0, head), {t_.size, used(head), 1, t_.size}, keys, {}, own, 0, keys.panels());
    pack(f_.products, cache(1, head), {used(head), t_.size, t_.size, 1}, values, {}, own + f_.k.floats(), 0, values.panels());
  }

  // A shared head's queries, some from `first` on, and some blocks of f_.keys positions.
  void attend(Count head, Count first, Count first_block, Count last_block, float* own, const Sums& sums) const {
    const Count b = head / t_.shared, rows = std::min(f_.tile, t_.rows() - first);
    float* const scores = own + f_.packed_floats();
    for (Count r = 0; r < rows; ++r)
      start(first_block == 0 && last_block > 0, head % t_.shared * t_.group() + (first + r) / t_.length, sums.largest[r],
            sums.total[r]);
    std::fill_n(sums.values, rows * f_.width, 0.0f);
    Count lowest = used(head), highest = 0;  // the positions that a row sees
    for (Count r = 0; r < rows; ++r) {
      const Count at = before(b) + (first + r) % t_.length;
      lowest = std::min(lowest, first_seen(at)), highest = std::max(highest, at + 1);
    }
    for (Count t = first_block * f_.keys; t < std::min(last_block * f_.keys, used(head)); t += f_.keys) {
      const Count end = std::min(t + f_.keys, used(head));
      if (t_.is_few())
        for (const std::size_t which : {0, 1}) copy(which, head, t, std::min(end, before(b)));
      if (t >= highest || end <= lowest) continue;
      const Count seen = std::min(end, highest) - t;
      find_scores(head, first, rows, t, seen, own, scores);
      for (Count r = 0; r < rows; ++r)
        weigh(scores + r * f_.keys, t, seen, before(b) + (first + r) % t_.length, sums.largest[r], sums.total[r],
              sums.values + r * f_.width);
      add_values(head, rows, t, seen, own, scores, sums.values);
    }
  }

  // The results of these rows.
  void finish(Count head, Count first, const Sums& sums) const {
    const Count b = head / t_.shared, rows = std::min(f_.tile, t_.rows() - first);
    for (Count r = 0; r < rows; ++r) {
      float* const values = sums.values + r * f_.width;
      f_.products.scale(values, t_.size, 1.0f / sums.total[r]);
      const Count s = (first + r) % t_.length, h = head % t_.shared * t_.group() + (first + r) / t_.length;
      std::copy_n(values, t_.size, floats(call_.outputs[0]) + ((b * t_.length + s) * t_.heads + h) * t_.size);
    }
  }

  // The results of a head out of its parts.
  void join(Count head, Count parts) const {
    const Sums all = part_of(head * parts);
    for (Count r = 0; r < t_.rows(); ++r) {
      float largest = all.largest[r];
      for (Count p = 1; p < parts; ++p) largest = std::max(largest, part_of(head * parts + p).largest[r]);
      float* const values = all.values + r * f_.width;
      const float of_first = std::exp(all.largest[r] - largest);
      all.total[r] *= of_first;
      f_.products.scale(values, t_.size, of_first);
      for (Count p = 1; p < parts; ++p) {
        const Sums part = part_of(head * parts + p);
        const float factor = std::exp(part.largest[r] - largest);
        all.total[r] += part.total[r] * factor;
        for (Count c = 0; c < t_.size; ++c) values[c] += part.values[r * f_.width + c] * factor;
      }
    }
    finish(head, 0, all);
  }

  // A sink is a score that has no value; the first positions are with it.
  void start(bool is_first, Count head, float& largest, float& total) const {
    if (!is_first || (t_.sinks < 0 && !t_.smooth)) {
      largest = -std::numeric_limits<float>::infinity(), total = 0;
      return;
    }
    largest = t_.smooth ? 0.0f : floats(call_.inputs[static_cast<std::size_t>(t_.sinks)])[head], total = 1;
  }

  void find_scores(Count head, Count first, Count rows, Count t, Count seen, const float* own, float* scores) const {
    const float* const q = queries_ + (head * t_.rows() + first) * t_.size;
    if (t_.is_few()) return f_.loops.scores(q, rows, cache(0, head) + t * t_.size, t_.size, seen, t_.size, scores, f_.keys);
    for (Count p = t / f_.k.width; p * f_.k.width < t + seen; ++p)
      multiply(q, t_.size, t_.size, own + p * f_.k.panel_floats(), f_.k.vectors, rows, false, scores + p * f_.k.width - t,
               f_.keys);
  }

  void add_values(Count head, Count rows, Count t, Count seen, const float* own, const float* scores, float* sums) const {
    if (t_.is_few())
      return f_.loops.add_values(scores, f_.keys, rows, cache(1, head) + t * t_.size, t_.size, seen, t_.size, sums);
    const PackedShape values = values_of(head);
    for (Count p = 0; p < values.panels(); ++p)
      multiply(scores, f_.keys, seen, own + f_.k.floats() + p * values.panel_floats() + t * values.width, values.vectors, rows,
               true, sums + p * values.width, f_.width);
  }

  Count first_seen(Count at) const { return t_.window < 0 ? 0 : std::max<Count>(0, at - t_.window + 1); }

  // Replaces a row's scores of `keys` positions from t on by exponentials, for a query at position `at`.
  void weigh(float* row, Count t, Count keys, Count at, float& largest, float& total, float* sums) const {
    const Count first = std::clamp<Count>(first_seen(at) - t, 0, keys), last = std::clamp<Count>(at + 1 - t, first, keys);
    const ProductLoops& loops = f_.products;
    if (t_.softcap != 0) {
      loops.apply(RowFunction::kLinear, 1 / t_.softcap, 0, row + first, keys, 1, last - first);
      loops.apply(RowFunction::kTanh, 0, 0, row + first, keys, 1, last - first);
      loops.apply(RowFunction::kLinear, t_.softcap, 0, row + first, keys, 1, last - first);
    }
    const float before = largest;
    const float sum = last > first ? loops.exponentials(row + first, last - first, &largest) : 0.0f;
    std::fill(row, row + first, 0.0f);
    std::fill(row + last, row + keys, 0.0f);
    if (before != largest && total != 0) {
      const float again = std::exp(before - largest);
      total *= again;
      loops.scale(sums, t_.size, again);
    }
    total += sum;
  }

  // y = a times a panel, or what is added to y.
  void multiply(const float* a, Count a_rows, Count depth, const float* panel, Count vectors, Count rows, bool adds, float* y,
                Count y_rows) const {
    for (Count r = 0; r < rows;) {
      const Count count = std::min(f_.products.most_rows[vectors], rows - r);
      ProductBlock block;
      block.a = a + r * a_rows, block.a_rows = a_rows;
      block.depth = depth, block.panel = panel;
      block.y = y + r * y_rows, block.y_stride = y_rows;
      if (adds) block.start = block.y, block.start_stride = y_rows;
      block.ahead = reinterpret_cast<const char*>(panel);
      f_.products.multiply(block, count, vectors);
      r += count;
    }
  }

  const CachedForm& f_;
  const CachedTask t_;
  const Call& call_;
  float* const queries_;  // rotated and scaled, [batch, heads, length, size]
  // By sequence: the position of the call's first entry, and the rows before it.
  std::vector<Count> first_, before_;
  // [0]: of keys, [1]: of values.
  const float* given_[2] = {nullptr, nullptr};
  float* present_[2];
  float* rows_at_[2];  // [batch, shared, rows_, size]
  Count rows_ = 0;
  std::vector<float> copies_[2];
  bool in_place_[2];
};

class CachedAttentionKernel final : public Kernel {
 public:
  CachedAttentionKernel(const CachedTask& task, Isa isa) : form_(task, isa) {}
  std::size_t scratch_bytes() const override {
    const Count count = form_.query_floats() + form_.t.threads * form_.thread_floats() + form_.parts_floats();
    return static_cast<std::size_t>(count) * sizeof(float);
  }
  void run(const Call& call) const override {
    if (form_.t.batch > 0) CachedAttentionRun(form_, call).run();
  }
  bool serves_any_lengths() const override { return form_.t.is_few(); }

 private:
  CachedForm form_;
};

class CachedAttentionPlan final : public NodePlan {
 public:
  CachedAttentionPlan(const Node& node, CachedTask task) : node_(node), task_(task) {}

  void emit(Planner& planner, ValueId) override {
    std::vector<int> inputs = planner.plain_inputs(node_), outputs;
    outputs.push_back(planner.add_value(node_.outputs[0], kPlain));
    for (const std::size_t o : {1, 2}) outputs.push_back(planner.add_cache(node_.outputs[o]));
    const std::vector<int> past =
        task_.has_past ? std::vector<int>{planner.storage(node_.inputs[3], kPlain), planner.storage(node_.inputs[4], kPlain)}
                       : std::vector<int>();
    Step& step = planner.add_step(std::make_unique<CachedAttentionKernel>(task_, planner.options().isa), std::move(inputs),
                                  std::move(outputs));
    step.read_in_place = past;
  }

 private:
  const Node& node_;
  CachedTask task_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_cached_attention(Planner& planner, const Node& node) {
  const AttributeReader attributes(node);
  const auto is_long = [&](std::size_t i) { return planner.info(node.inputs[i]).type == DataType::kInt64; };
  const Sizes &q = planner.info(node.inputs[0]).sizes, &present = planner.info(node.outputs[1]).sizes;
  CachedTask t;
  t.batch = q[0], t.length = q[1], t.heads = attributes.number("heads"), t.shared = attributes.number("shared");
  t.size = present[3], t.present = present[2], t.total = attributes.number("total"), t.window = attributes.number("window");
  t.scale = static_cast<float>(attributes.real("scale")), t.softcap = static_cast<float>(attributes.real("softcap"));
  t.has_parts = planner.has(node, 1), t.has_past = planner.has(node, 3), t.neighbours = attributes.flag("interleaved");
  if (t.has_past) t.past = planner.info(node.inputs[3]).sizes[2];
  t.last_is_long = is_long(5);
  t.rotates = planner.has(node, 6);
  if (t.rotates) t.table = planner.info(node.inputs[6]).sizes[0], t.half = planner.info(node.inputs[6]).sizes[1];
  t.has_positions = planner.has(node, 8);
  t.positions_are_long = t.has_positions && is_long(8);
  t.evicts = attributes.flag("evicts"), t.smooth = attributes.flag("smooth"),
  t.epsilon = static_cast<float>(attributes.real("epsilon"));
  Count number = 0;  // among the inputs that are there
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!planner.has(node, i)) continue;
    if (i == CachedAttention::kSinks) t.sinks = number;
    if (i == CachedAttention::kQueryNorm) t.norms = number;
    ++number;
  }
  t.threads = planner.options().threads;
  return std::make_unique<CachedAttentionPlan>(node, t);
}

}  // namespace rewright::cpu
