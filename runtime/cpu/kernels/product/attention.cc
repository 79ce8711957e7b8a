#include "runtime/cpu/kernels/product/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

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
      for (Count u = first; u < last; ++u) {
        const Count part = u % parts;
        one(call, u / parts, first_unit(t_.queries, part, parts), first_unit(t_.queries, part + 1, parts),
            u == first || part == 0, scratch);
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
  void one(const Call& call, Count number, Count top, Count bottom, bool pack_first, float* scratch) const {
    float *const k = scratch, *const v = k + k_.floats(), *const scores = v + v_.floats();
    float* const sums = scores + kRows * panels_ * k_.width;
    if (pack_first) {
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

}  // namespace

std::unique_ptr<Kernel> make_attention(AttentionTask task, ProductExtras extras) {
  return std::make_unique<AttentionKernel>(std::move(task), std::move(extras));
}

}  // namespace rewright::cpu
