#include "runtime/cpu/kernels/product/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/cpu/loops/cache_loops.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

constexpr Count kRows = 24;                       // queries whose scores are in memory at a time, for each thread
constexpr Count kKeys = 512;                      // about as many keys
constexpr double kAttentionMultiplications = 80;  // a nanosecond

Count quotient_rounded_up(Count a, Count b) { return (a + b - 1) / b; }

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(AttentionTask task, ProductExtras extras)
      : t_(std::move(task)),
        extras_(std::move(extras)),
        k_(packed_shape(*t_.loops, std::min(kRows, t_.queries), t_.depth, t_.keys)),
        v_(packed_shape(*t_.loops, std::min(kRows, t_.queries), t_.keys, t_.width)) {
    for (const Count size : t_.batch) count_ *= size;
    panels_ = std::clamp(kKeys / k_.width, Count{1}, k_.panels());
    if (!extras_.bias.empty()) extras_.bias.resize(static_cast<std::size_t>(k_.panels() * k_.width));
  }

  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(t_.threads * thread_floats()) * sizeof(float); }

  void run(const Call& call) const override {
    const double work = static_cast<double>(count_ * t_.queries) * static_cast<double>(k_.floats() + v_.floats());
    const int threads = call.workers.threads();
    const Count parts = count_ % threads == 0 || count_ > 3 * threads ? 1 : std::min<Count>(threads, t_.queries);
    const Count units = count_ * parts, pieces = call.workers.pieces(work / kAttentionMultiplications, units);
    call.workers.share(pieces, [&](Count piece, int thread) {
      const Count first = first_unit(units, piece, pieces), last = first_unit(units, piece + 1, pieces);
      float* const scratch = reinterpret_cast<float*>(call.scratch) + thread * thread_floats();
      const float *k = nullptr, *v = nullptr;  // what is packed; several heads may share it
      for (Count u = first; u < last; ++u) {
        const Count part = u % parts, number = u / parts;
        const float *const next_k = address(call, 1, t_.k, number), *const next_v = address(call, 2, t_.v, number);
        const bool is_other = next_k != k || next_v != v;
        one(call, number, first_unit(t_.queries, part, parts), first_unit(t_.queries, part + 1, parts), is_other, scratch);
        k = next_k, v = next_v;
      }
    });
  }

 private:
  // Floats for packed keys and values, scores, and rows of the result.
  Count thread_floats() const { return k_.floats() + v_.floats() + kRows * (panels_ * k_.width + v_.panels() * v_.width); }

  Count offset(Count number, const std::vector<Count>& strides) const {
    Count at = 0;
    for (std::size_t axis = strides.size(); axis-- > 0; number /= t_.batch[axis]) at += number % t_.batch[axis] * strides[axis];
    return at;
  }
  const float* address(const Call& call, int input, const AttentionTask::Operand& operand, Count number) const {
    return reinterpret_cast<const float*>(call.inputs[static_cast<std::size_t>(input)]) + operand.offset +
           offset(number, operand.batch);
  }

  // Queries `top` to `bottom` of one element of the batch.
  void one(const Call& call, Count number, Count top, Count bottom, bool is_other, float* scratch) const {
    float *const k = scratch, *const v = k + k_.floats(), *const scores = v + v_.floats();
    float* const sums = scores + kRows * panels_ * k_.width;
    if (is_other) {
      pack(*t_.loops, address(call, 1, t_.k, number), {t_.depth, t_.keys, t_.k.rows, t_.k.columns}, k_, t_.key_factors, k, 0,
           k_.panels());
      pack(*t_.loops, address(call, 2, t_.v, number), {t_.keys, t_.width, t_.v.rows, t_.v.columns}, v_, {}, v, 0, v_.panels());
    }
    const float* const q = address(call, 0, t_.q, number);
    float* const y = reinterpret_cast<float*>(call.outputs[0]) + t_.y.offset + offset(number, t_.y.batch);
    const Count most = std::min({kRows, t_.loops->most_rows[k_.vectors] * 3, t_.loops->most_rows[v_.vectors] * 3});
    const Count blocks = quotient_rounded_up(bottom - top, most);
    for (Count i = 0; i < blocks; ++i) {
      const Count first = top + (bottom - top) * i / blocks, last = top + (bottom - top) * (i + 1) / blocks;
      block(call, number, q + first * t_.q.rows, first, last - first, k, v, scores, sums);
      for (Count r = first; r < last; ++r)
        std::copy_n(sums + (r - first) * v_.panels() * v_.width, t_.width, y + r * t_.y.rows);
    }
  }

  // Some queries, starting at `from`: adds the weighted values to `sums`.
  void block(const Call& call, Count number, const float* q, Count from, Count rows, const float* k, const float* v,
             float* scores, float* sums) const {
    const ProductLoops& loops = *t_.loops;
    const Count stride = panels_ * k_.width, sum_stride = v_.panels() * v_.width;
    float largest[kRows], total[kRows];
    std::fill_n(largest, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(total, rows, 0.0f);
    for (Count p = 0; p < k_.panels(); p += panels_) {
      const Count start = p * k_.width, keys = std::min(stride, t_.keys - start);
      for (Count n = p; n < std::min(p + panels_, k_.panels()); ++n)
        multiply(q, t_.q, t_.depth, k + n * k_.panel_floats(), k_.vectors, rows,
                 extras_.bias.empty() ? nullptr : extras_.bias.data() + n * k_.width, 0, scores + (n - p) * k_.width, stride);
      for (const RowOperation& o : extras_.operations) {
        if (o.function)
          loops.apply(*o.function, o.alpha, o.beta, scores, stride, rows, keys);
        else
          loops.add(scores, stride,
                    reinterpret_cast<const float*>(call.inputs[static_cast<std::size_t>(o.input)]) +
                        offset(number, o.batch_strides) + from * o.row_stride + start,
                    o.row_stride, rows, keys);
      }
      for (Count r = 0; r < rows; ++r) {
        const float before = largest[r];
        const float sum = loops.exponentials(scores + r * stride, keys, &largest[r]);
        const float again = p == 0 || before == largest[r] ? 1.0f : std::exp(before - largest[r]);
        total[r] = total[r] * again + sum;
        if (again != 1.0f) loops.scale(sums + r * sum_stride, sum_stride, again);
      }
      for (Count n = 0; n < v_.panels(); ++n) {
        float* const target = sums + n * v_.width;
        multiply(scores, {0, {}, stride, 1}, keys, v + n * v_.panel_floats() + start * v_.width, v_.vectors, rows,
                 p == 0 ? nullptr : target, sum_stride, target, sum_stride);
      }
    }
    for (Count r = 0; r < rows; ++r) loops.scale(sums + r * sum_stride, sum_stride, 1.0f / total[r]);
  }

  void multiply(const float* a, const AttentionTask::Operand& strides, Count depth, const float* panel, Count vectors,
                Count rows, const float* start, Count start_stride, float* y, Count y_stride) const {
    const Count blocks = quotient_rounded_up(rows, t_.loops->most_rows[vectors]);
    for (Count i = 0; i < blocks; ++i) {
      const Count first = rows * i / blocks, last = rows * (i + 1) / blocks;
      ProductBlock block;
      block.a = a + first * strides.rows;
      block.a_rows = strides.rows;
      block.a_columns = strides.columns;
      block.depth = depth;
      block.panel = panel;
      block.start = start == nullptr ? nullptr : start + first * start_stride;
      block.start_stride = start_stride;
      block.y = y + first * y_stride;
      block.y_stride = y_stride;
      block.ahead = reinterpret_cast<const char*>(panel);
      t_.loops->multiply(block, last - first, vectors);
    }
  }

  AttentionTask t_;
  ProductExtras extras_;
  PackedShape k_, v_;
  Count count_ = 1;
  Count panels_ = 1;  // of keys at a time
};

// ---- A few queries: keys and values are read where they are, once for all heads that share them, and a query's largest score
// and its sum of exponentials are carried along. Where threads could not share the keys' heads evenly, each head's keys are cut
// into parts, whose sums are added in the end.

constexpr Count kFewRowsTogether = 16;                        // queries of all heads that are computed together
constexpr Count kFewKeys = 192;                               // keys at a time; as long as a sum's part
constexpr Count kShortKeys = 64;                              // of 16 bits that become floats at a time
constexpr double kFewFloats = 2.5, kFewMultiplications = 40;  // a nanosecond

// Is the last axis of the batch one of heads that share keys and values?
bool shares_keys(const AttentionTask& t) { return !t.batch.empty() && t.k.batch.back() == 0 && t.v.batch.back() == 0; }

class FewQueriesKernel final : public Kernel {
 public:
  FewQueriesKernel(AttentionTask task, ProductExtras extras, Isa isa)
      : t_(std::move(task)),
        extras_(std::move(extras)),
        loops_(loops_for<CacheLoops>(isa)),
        load_(loops_for<LoopTables>(isa).f32.load),
        has_bias_(std::any_of(extras_.bias.begin(), extras_.bias.end(), [](float b) { return b != 0; })),
        heads_(shares_keys(t_) ? t_.batch.back() : 1),
        together_(std::clamp<Count>(kFewRowsTogether / t_.queries, 1, heads_)),
        blocks_(quotient_rounded_up(t_.keys, kFewKeys)) {
    for (const Count size : t_.batch) units_ *= size;
    units_ = units_ / heads_ * quotient_rounded_up(heads_, together_);
    parts_ = units_ % t_.threads == 0 || units_ > 3 * t_.threads ? 1 : std::min<Count>(t_.threads, blocks_);
  }

  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(t_.threads * thread_floats() + (parts_ > 1 ? units_ * parts_ * state_floats() : 0)) *
           sizeof(float);
  }

  void run(const Call& call) const override {
    const double elements = static_cast<double>(units_ * t_.keys * (t_.depth + t_.width));
    const double each = std::max(1 / kFewFloats, static_cast<double>(most_rows()) / kFewMultiplications);
    const Count all = units_ * parts_, pieces = call.workers.pieces(elements * each, all);
    call.workers.share(pieces, [&](Count piece, int thread) {
      float* const own = reinterpret_cast<float*>(call.scratch) + thread * thread_floats();
      for (Count u = first_unit(all, piece, pieces); u < first_unit(all, piece + 1, pieces); ++u) {
        const Unit unit = unit_of(u / parts_);
        const Count part = u % parts_;
        const State state = parts_ > 1 ? state_of(call, u) : state_at(own + own_floats());
        attend(call, unit, first_unit(blocks_, part, parts_), first_unit(blocks_, part + 1, parts_), own, state);
        if (parts_ == 1) finish(call, unit, state);
      }
    });
    for (Count u = 0; parts_ > 1 && u < units_; ++u) join(call, u);
  }

 private:
  // Some heads that share keys; of the batch, the element of the first one.
  struct Unit {
    Count element, heads;
  };
  // The rows' sums so far: values times exponentials, the largest scores, the sums of exponentials.
  struct State {
    float *values, *largest, *total;
  };

  Count most_rows() const { return together_ * t_.queries; }
  // Queries, scores, and keys or values as floats.
  Count own_floats() const { return (most_rows() * (t_.depth + kFewKeys) + converted_floats() + 15) / 16 * 16; }
  Count converted_floats() const {
    const bool is_short = t_.k.type != DataType::kFloat || t_.v.type != DataType::kFloat;
    return is_short ? kShortKeys * std::max(t_.depth, t_.width) : 0;
  }
  Count state_floats() const { return (most_rows() * (t_.width + 2) + 15) / 16 * 16; }
  Count thread_floats() const { return own_floats() + state_floats(); }
  State state_at(float* at) const { return {at, at + most_rows() * t_.width, at + most_rows() * (t_.width + 1)}; }
  State state_of(const Call& call, Count unit) const {
    return state_at(reinterpret_cast<float*>(call.scratch) + t_.threads * thread_floats() + unit * state_floats());
  }

  Unit unit_of(Count number) const {
    const Count chunks = quotient_rounded_up(heads_, together_), first = number % chunks * together_;
    return {number / chunks * heads_ + first, std::min(together_, heads_ - first)};
  }
  Count offset(Count element, const std::vector<Count>& strides) const {
    Count at = 0;
    for (std::size_t axis = strides.size(); axis-- > 0; element /= t_.batch[axis])
      at += element % t_.batch[axis] * strides[axis];
    return at;
  }
  const float* address(const Call& call, std::size_t input, const AttentionTask::Operand& operand, Count element) const {
    return reinterpret_cast<const float*>(call.inputs[input]) + operand.offset + offset(element, operand.batch);
  }

  // The unit's queries, scaled: row h * queries + i is that of head h.
  void read_queries(const Call& call, const Unit& unit, float* rows) const {
    const float factor = t_.key_factors.empty() ? 1.0f : t_.key_factors[0];
    for (Count h = 0; h < unit.heads; ++h) {
      const float* const q = address(call, 0, t_.q, unit.element + h);
      for (Count i = 0; i < t_.queries; ++i, rows += t_.depth)
        for (Count d = 0; d < t_.depth; ++d) rows[d] = q[i * t_.q.rows + d * t_.q.columns] * factor;
    }
  }

  void attend(const Call& call, const Unit& unit, Count first_block, Count last_block, float* own, const State& state) const {
    const Count rows = unit.heads * t_.queries;
    float *const queries = own, *const scores = queries + most_rows() * t_.depth,
                 *const converted = scores + most_rows() * kFewKeys;
    read_queries(call, unit, queries);
    std::fill_n(state.values, rows * t_.width, 0.0f);
    std::fill_n(state.largest, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(state.total, rows, 0.0f);
    const Vectors k = vectors(call, 1, t_.k, unit.element, t_.k.columns, t_.depth);
    const Vectors v = vectors(call, 2, t_.v, unit.element, t_.v.rows, t_.width);
    for (Count first = first_block * kFewKeys; first < std::min(last_block * kFewKeys, t_.keys); first += kFewKeys) {
      const Count keys = std::min(kFewKeys, t_.keys - first);
      if (const auto of_short = loops_.scores_of_short[which_short(k)]; k.type != DataType::kFloat && of_short != nullptr)
        of_short(queries, rows, k.shorts() + first * k.stride, k.stride, keys, t_.depth, scores, kFewKeys);
      else
        for_each_part(k, first, keys, converted, [&](const float* at, Count stride, Count part, Count count) {
          loops_.scores(queries, rows, at, stride, count, t_.depth, scores + part, kFewKeys);
        });
      apply_operations(call, unit, first, keys, scores);
      for (Count r = 0; r < rows; ++r) weigh(scores + r * kFewKeys, keys, r, state);
      if (const auto of_short = loops_.add_short_values[which_short(v)]; v.type != DataType::kFloat && of_short != nullptr)
        of_short(scores, kFewKeys, rows, v.shorts() + first * v.stride, v.stride, keys, t_.width, state.values);
      else
        for_each_part(v, first, keys, converted, [&](const float* at, Count stride, Count part, Count count) {
          loops_.add_values(scores + part, kFewKeys, rows, at, stride, count, t_.width, state.values);
        });
    }
  }

  // Keys or values of a head, one a row.
  struct Vectors {
    const std::byte* at;
    DataType type;
    Count stride, size;
    const std::uint16_t* shorts() const { return reinterpret_cast<const std::uint16_t*>(at); }
  };
  static std::size_t which_short(const Vectors& x) { return x.type == DataType::kHalf ? 0 : 1; }
  Vectors vectors(const Call& call, std::size_t input, const AttentionTask::Operand& operand, Count element, Count stride,
                  Count size) const {
    const Count at = operand.offset + offset(element, operand.batch);
    return {call.inputs[input] + at * static_cast<Count>(byte_size(operand.type)), operand.type, stride, size};
  }
  // Calls use(rows, their stride, number of the first, count) for some rows after the other, as floats.
  template <class Use>
  void for_each_part(const Vectors& x, Count first, Count count, float* converted, const Use& use) const {
    if (x.type == DataType::kFloat)
      return use(reinterpret_cast<const float*>(x.at) + first * x.stride, x.stride, Count{0}, count);
    const auto width = static_cast<Count>(byte_size(x.type));
    for (Count part = 0; part < count; part += kShortKeys) {
      const Count some = std::min(kShortKeys, count - part);
      const std::byte* const from = x.at + (first + part) * x.stride * width;
      if (x.stride == x.size)
        load_(converted, from, x.type, 1, some * x.size);
      else
        for (Count r = 0; r < some; ++r) load_(converted + r * x.size, from + r * x.stride * width, x.type, 1, x.size);
      use(converted, x.size, part, some);
    }
  }

  void apply_operations(const Call& call, const Unit& unit, Count first, Count keys, float* scores) const {
    const ProductLoops& loops = *t_.loops;
    const Count rows = unit.heads * t_.queries;
    if (has_bias_) loops.add(scores, kFewKeys, extras_.bias.data() + first, 0, rows, keys);
    for (const RowOperation& o : extras_.operations) {
      if (o.function) {
        loops.apply(*o.function, o.alpha, o.beta, scores, kFewKeys, rows, keys);
        continue;
      }
      const auto* const addend = reinterpret_cast<const float*>(call.inputs[static_cast<std::size_t>(o.input)]) + first;
      for (Count h = 0; h < unit.heads; ++h)
        loops.add(scores + h * t_.queries * kFewKeys, kFewKeys, addend + offset(unit.element + h, o.batch_strides),
                  o.row_stride, t_.queries, keys);
    }
  }

  // Replaces a row's scores by exponentials.
  void weigh(float* scores, Count keys, Count row, const State& state) const {
    float &largest = state.largest[row], &total = state.total[row];
    const float before = largest, sum = t_.loops->exponentials(scores, keys, &largest);
    if (before != largest && total != 0) {
      const float again = std::exp(before - largest);
      total *= again;
      t_.loops->scale(state.values + row * t_.width, t_.width, again);
    }
    total += sum;
  }

  void finish(const Call& call, const Unit& unit, const State& state) const {
    for (Count h = 0; h < unit.heads; ++h) {
      float* const y = reinterpret_cast<float*>(call.outputs[0]) + t_.y.offset + offset(unit.element + h, t_.y.batch);
      for (Count i = 0; i < t_.queries; ++i) {
        const Count row = h * t_.queries + i;
        t_.loops->scale(state.values + row * t_.width, t_.width, 1.0f / state.total[row]);
        std::copy_n(state.values + row * t_.width, t_.width, y + i * t_.y.rows);
      }
    }
  }

  // The parts of a unit become one.
  void join(const Call& call, Count number) const {
    const Unit unit = unit_of(number);
    const State all = state_of(call, number * parts_);
    for (Count r = 0; r < unit.heads * t_.queries; ++r) {
      float largest = -std::numeric_limits<float>::infinity();
      for (Count p = 0; p < parts_; ++p) largest = std::max(largest, state_of(call, number * parts_ + p).largest[r]);
      const auto factor = [&](const State& part) {
        return part.largest[r] == largest ? 1.0f : std::exp(part.largest[r] - largest);
      };
      const float of_first = factor(all);
      all.total[r] *= of_first;
      t_.loops->scale(all.values + r * t_.width, t_.width, of_first);
      for (Count p = 1; p < parts_; ++p) {
        const State part = state_of(call, number * parts_ + p);
        const float weight = factor(part);
        all.total[r] += part.total[r] * weight;
        for (Count c = 0; c < t_.width; ++c) all.values[r * t_.width + c] += part.values[r * t_.width + c] * weight;
      }
    }
    finish(call, unit, all);
  }

  AttentionTask t_;
  ProductExtras extras_;
  const CacheLoops& loops_;
  void (*load_)(float* d, const void* source, DataType type, Count stride, Count n);
  bool has_bias_;
  Count heads_, together_;  // that share keys, and of these those that are computed together
  Count blocks_;            // of keys
  Count units_ = 1, parts_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> make_few_queries(const AttentionTask& task, const ProductExtras& extras, Isa isa) {
  const auto& factors = task.key_factors;
  const bool one_factor = std::all_of(factors.begin(), factors.end(), [&](float f) { return f == factors[0]; });
  const bool in_place = (task.k.rows == 1 || task.depth == 1) && (task.v.columns == 1 || task.width == 1);
  // Rows that meet keys in place are multiplied four at a time; where each head has some and all together more, packing pays.
  constexpr Count kWorthPackingKeys = 4;
  const Count rows = task.queries * (shares_keys(task) ? task.batch.back() : 1);
  if (task.queries >= kWorthPackingKeys && rows > kFewRowsTogether) return nullptr;
  if (!in_place || !one_factor) return nullptr;
  return std::make_unique<FewQueriesKernel>(task, extras, isa);
}

std::unique_ptr<Kernel> make_attention(AttentionTask task, ProductExtras extras, Isa isa) {
  if (auto few = make_few_queries(task, extras, isa)) return few;
  return std::make_unique<AttentionKernel>(std::move(task), std::move(extras));
}

void split_batch(AttentionTask& task, ProductExtras& extras, std::size_t axis, std::int64_t inner) {
  const auto at = static_cast<std::ptrdiff_t>(axis);
  const auto split = [&](std::vector<Count>& strides) {
    if (strides.empty()) return;
    const Count stride = strides[axis];
    strides[axis] = stride * inner;
    strides.insert(strides.begin() + at + 1, stride);
  };
  for (AttentionTask::Operand* const operand : {&task.q, &task.k, &task.v, &task.y}) split(operand->batch);
  for (RowOperation& operation : extras.operations) split(operation.batch_strides);
  task.batch[axis] /= inner;
  task.batch.insert(task.batch.begin() + at + 1, inner);
}

}  // namespace rewright::cpu
