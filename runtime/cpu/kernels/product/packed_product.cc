#include "runtime/cpu/kernels/product/packed_product.h"
#include "runtime/cpu/loops/weights_ahead.h"

#include <algorithm>
#include <cstring>

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

constexpr Count kDepth = 384;      // rows of a panel that stay in the second-level cache while rows of `a` pass
constexpr Count kChunkRows = 128;  // rows of `a` that stay there too, for some hundred columns of it
constexpr Count kMostWidth = 64;
constexpr Count kFromMemory = 1 << 18;    // floats of b that no cache is expected to hold from run to run
constexpr Count kBlocksOfShort = 3;       // blocks of rows for which weights of 16 bits need not become floats in memory
constexpr double kMultiplications = 100;  // per nanosecond
constexpr double kStreamed = 10;          // floats of b, per nanosecond
constexpr double kPacked = 2;

Count quotient_rounded_up(Count a, Count b) { return (a + b - 1) / b; }

Count batch_offset(Count number, const std::vector<Count>& sizes, const std::vector<Count>& strides) {
  Count at = 0;
  for (std::size_t axis = strides.size(); axis-- > 0; number /= sizes[axis]) at += number % sizes[axis] * strides[axis];
  return at;
}

}  // namespace

void ProductTask::run(const float* a, const void* packed, float* y, std::span<const float* const> addends,
                      const Part& part) const {
  const Count width = b.width, depth = b.rows;
  const auto* const floats = static_cast<const float*>(packed);
  const auto* const shorts = static_cast<const std::uint16_t*>(packed);
  const Count chunks = quotient_rounded_up(part.last_row - part.first_row, kChunkRows);
  alignas(64) float partial[kChunkRows * kMostWidth];  // a result whose panel is wider than the rest of y
  alignas(64) float unpacked[kDepth * kMostWidth];
  for (Count chunk = 0; chunk < chunks; ++chunk) {
    const Count rows = part.last_row - part.first_row;
    const Count top = part.first_row + rows * chunk / chunks, bottom = part.first_row + rows * (chunk + 1) / chunks;
    const Count blocks = quotient_rounded_up(bottom - top, loops->most_rows[b.vectors]);
    const bool one_row = bottom - top == 1 && panels == nullptr;
    const bool asks_itself = blocks == 1 && panels == nullptr && b.floats() >= kFromMemory;
    for (Count p = part.first_panel, count = 1; p < part.last_panel; p += count) {
      const Count together = loops->row_panels[b.vectors];
      count = one_row && p + together <= part.last_panel && (p + together) * width <= b.columns ? together : 1;
      const Count columns = std::min(width, b.columns - p * width);
      float* const target = columns < width ? partial : y + top * y_rows + p * width;
      const Count stride = columns < width ? width : y_rows;
      for (Count k = 0; k < depth || k == 0; k += kDepth) {
        ProductBlock block;
        block.depth = std::min(kDepth, depth - k);
        block.a_rows = a_rows;
        block.a_columns = a_columns;
        const Count at = (p - part.packed_from) * b.panel_floats() + k * width;
        const bool widens = is_short && blocks > kBlocksOfShort;
        if (panels != nullptr) panels->unpack(p, k, k + block.depth, unpacked);
        if (widens) loops->widen(unpacked, shorts + at, block.depth, b.vectors);
        if (is_short && !widens)
          block.short_panel = shorts + at;
        else
          block.panel = panels != nullptr || widens ? unpacked : floats + at;
        block.y_stride = stride;
        const Count next = at + block.depth * width;
        const void* const behind = panels != nullptr ? unpacked
                                   : is_short        ? static_cast<const void*>(shorts + next)
                                                     : floats + next;
        const WeightsAhead ahead(behind, width * (is_short ? 2 : 4), block.depth, panels != nullptr ? 1 : blocks);
        for (Count i = 0; i < blocks; ++i) {
          const Count first = (bottom - top) * i / blocks, last = (bottom - top) * (i + 1) / blocks;
          block.a = a + (top + first) * a_rows + k * a_columns;
          block.y = target + first * stride;
          block.start = k > 0 ? block.y : bias == nullptr ? nullptr : bias + p * width;
          block.start_stride = k > 0 ? stride : 0;
          block.ahead = asks_itself ? nullptr : ahead.at(i);
          block.ahead_step = ahead.step;
          if (count > 1)
            loops->multiply_row(block, b.vectors, b.panel_floats());
          else
            loops->multiply(block, last - first, b.vectors);
        }
      }
      for (Count done = p; done < p + count; ++done) finish(columns < width ? partial : nullptr, y, addends, top, bottom, done);
    }
  }
}

void ProductTask::finish(const float* partial, float* y, std::span<const float* const> addends, Count top, Count bottom,
                         Count panel) const {
  const Count first = panel * b.width, columns = std::min(b.width, b.columns - first);
  float* const result = y + top * y_rows + first;
  if (partial != nullptr) {
    constexpr Count kShort = 16;  // floats of one line, copied in a few instructions; the next rows overwrite what is too much
    Count r = 0;
    if (columns == y_rows && columns <= kShort && b.width >= kShort)
      for (; r * columns + kShort <= (bottom - top) * columns; ++r)
        std::memcpy(result + r * columns, partial + r * b.width, kShort * sizeof(float));
    for (; r < bottom - top; ++r) std::copy_n(partial + r * b.width, columns, result + r * y_rows);
  }
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const RowOperation& o = operations[i];
    if (o.function)
      loops->apply(*o.function, o.alpha, o.beta, result, y_rows, bottom - top, columns);
    else if (o.alpha != 1)
      for (Count r = 0; r < bottom - top; ++r)
        for (Count c = 0; c < columns; ++c)
          result[r * y_rows + c] += o.alpha * addends[i][(top + r) * o.row_stride + first + c];
    else
      loops->add(result, y_rows, addends[i] + top * o.row_stride + first, o.row_stride, bottom - top, columns);
  }
}

double ProductTask::nanoseconds() const {
  const double floats = static_cast<double>(b.floats());
  return std::max(static_cast<double>(rows) * floats / kMultiplications, floats / (is_short ? 2 * kStreamed : kStreamed));
}

bool ProductTask::cut_by_columns(int threads) const {
  const auto loss = [&](Count units) {
    return static_cast<double>(quotient_rounded_up(units, threads) * threads) / static_cast<double>(units);
  };
  return loss(b.panels()) <= 1.15 * loss(quotient_rounded_up(rows, loops->most_rows[b.vectors]));
}

ProductTask::Part ProductTask::part(Count piece, Count pieces, bool by_columns) const {
  const Count all = units(by_columns), first = first_unit(all, piece, pieces), last = first_unit(all, piece + 1, pieces);
  return by_columns ? Part{0, rows, first, last} : Part{first, last, 0, b.panels()};
}

ProductKernel::ProductKernel(ProductTask task, ProductExtras extras) : task_(std::move(task)), extras_(std::move(extras)) {
  if (!extras_.bias.empty()) {
    extras_.bias.resize(static_cast<std::size_t>(task_.b.panels() * task_.b.width));
    task_.bias = extras_.bias.data();
  }
  task_.operations = extras_.operations;
}

void ProductKernel::find_addends(const Call& call, Count number, const std::vector<Count>& sizes,
                                 std::span<const float*> addends) const {
  for (std::size_t i = 0; i < extras_.operations.size(); ++i) {
    const RowOperation& o = extras_.operations[i];
    if (!o.function)
      addends[i] = reinterpret_cast<const float*>(call.inputs[static_cast<std::size_t>(o.input)]) +
                   batch_offset(number, sizes, o.batch_strides);
  }
}

namespace {

class PackedProductKernel final : public ProductKernel {
 public:
  PackedProductKernel(ProductTask task, Count a_offset, Tensor packed, ProductExtras extras)
      : ProductKernel(std::move(task), std::move(extras)), a_offset_(a_offset), packed_(std::move(packed)) {}

  void run(const Call& call) const override {
    const auto* const a = reinterpret_cast<const float*>(call.inputs[0]) + a_offset_;
    const void* const packed = packed_.bytes().data();
    auto* const y = reinterpret_cast<float*>(call.outputs[0]);
    const float* addends[kMostOperations];
    find_addends(call, 0, {}, addends);
    const bool by_columns = task_.cut_by_columns(call.workers.threads());
    const Count pieces = call.workers.pieces(task_.nanoseconds(), task_.units(by_columns));
    call.workers.share(pieces,
                       [&](Count piece, int) { task_.run(a, packed, y, addends, task_.part(piece, pieces, by_columns)); });
  }

 private:
  Count a_offset_;
  Tensor packed_;
};

class BatchProductKernel final : public ProductKernel {
 public:
  BatchProductKernel(ProductTask task, ProductBatch batch, ProductExtras extras)
      : ProductKernel(std::move(task), std::move(extras)), batch_(std::move(batch)) {
    for (const Count size : batch_.sizes) count_ *= size;
    const bool repeated = std::all_of(batch_.b_strides.begin(), batch_.b_strides.end(), [](Count s) { return s == 0; });
    packed_count_ = repeated ? 1 : count_;
    by_panels_ = packed_count_ == count_ && task_.rows <= kChunkRows && task_.cut_by_columns(batch_.threads);
  }

  std::size_t scratch_bytes() const override {
    const Count floats = by_panels_ ? batch_.threads * panel_memory() : packed_count_ * task_.b.floats();
    return static_cast<std::size_t>(floats) * sizeof(float);
  }

  void run(const Call& call) const override {
    if (by_panels_) return run_by_panels(call);
    const auto* const a = reinterpret_cast<const float*>(call.inputs[0]) + batch_.a_offset;
    const auto* const b = reinterpret_cast<const float*>(call.inputs[1]) + batch_.b_offset;
    auto* const packed = reinterpret_cast<float*>(call.scratch);
    auto* const y = reinterpret_cast<float*>(call.outputs[0]);
    const Count panels = task_.b.panels(), units = packed_count_ * panels;
    call.workers.for_each(units, static_cast<double>(packed_count_ * task_.b.floats()) / kPacked, [&](Count u, int) {
      pack(*task_.loops, b + batch_offset(u / panels, batch_.sizes, batch_.b_strides), batch_.b, task_.b, batch_.column_factors,
           packed + u / panels * task_.b.floats() + u % panels * task_.b.panel_floats(), u % panels, u % panels + 1);
    });
    // Whole products if there are enough of them.
    const int threads = call.workers.threads();
    const bool whole = count_ % threads == 0 || count_ > 3 * threads;
    const bool by_columns = task_.cut_by_columns(threads);
    const Count pieces =
        call.workers.pieces(static_cast<double>(count_) * task_.nanoseconds(), whole ? count_ : task_.units(by_columns));
    call.workers.share(pieces, [&](Count piece, int) {
      const Count first = whole ? first_unit(count_, piece, pieces) : 0;
      const Count last = whole ? first_unit(count_, piece + 1, pieces) : count_;
      const ProductTask::Part part = whole ? task_.part(0, 1, by_columns) : task_.part(piece, pieces, by_columns);
      const float* addends[kMostOperations];
      for (Count i = first; i < last; ++i) {
        find_addends(call, i, batch_.sizes, addends);
        task_.run(a + batch_offset(i, batch_.sizes, batch_.a_strides), packed + (packed_count_ == 1 ? 0 : i) * task_.b.floats(),
                  y + batch_offset(i, batch_.sizes, batch_.y_strides), addends, part);
      }
    });
  }

 private:
  // Floats of a thread's panel, in lines of its own.
  Count panel_memory() const { return (task_.b.panel_floats() + 15) / 16 * 16; }

  // Packs each panel just before it is multiplied: it is read once, from the caches, and the other panels need no memory.
  void run_by_panels(const Call& call) const {
    const auto* const a = reinterpret_cast<const float*>(call.inputs[0]) + batch_.a_offset;
    const auto* const b = reinterpret_cast<const float*>(call.inputs[1]) + batch_.b_offset;
    auto* const y = reinterpret_cast<float*>(call.outputs[0]);
    const Count panels = task_.b.panels(), units = count_ * panels;
    const double nanoseconds = task_.nanoseconds() + static_cast<double>(task_.b.floats()) / kPacked;
    call.workers.for_each(units, static_cast<double>(count_) * nanoseconds, [&](Count u, int thread) {
      const Count i = u / panels, p = u % panels;
      float* const packed = reinterpret_cast<float*>(call.scratch) + thread * panel_memory();
      pack(*task_.loops, b + batch_offset(i, batch_.sizes, batch_.b_strides), batch_.b, task_.b, batch_.column_factors, packed,
           p, p + 1);
      const float* addends[kMostOperations];
      find_addends(call, i, batch_.sizes, addends);
      task_.run(a + batch_offset(i, batch_.sizes, batch_.a_strides), packed,
                y + batch_offset(i, batch_.sizes, batch_.y_strides), addends, {0, task_.rows, p, p + 1, p});
    });
  }

  ProductBatch batch_;
  Count count_ = 1, packed_count_ = 1;
  bool by_panels_ = false;
};

}  // namespace

std::unique_ptr<Kernel> make_packed_product(ProductTask task, std::int64_t a_offset, Tensor packed, ProductExtras extras) {
  return std::make_unique<PackedProductKernel>(std::move(task), a_offset, std::move(packed), std::move(extras));
}

std::unique_ptr<Kernel> make_batch_product(ProductTask task, ProductBatch batch, ProductExtras extras) {
  return std::make_unique<BatchProductKernel>(std::move(task), std::move(batch), std::move(extras));
}

}  // namespace rewright::cpu
