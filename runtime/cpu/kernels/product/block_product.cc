#include "runtime/cpu/kernels/product/block_product.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/cpu/base/tile_registers.h"
#include "runtime/cpu/loops/block_tiles.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

constexpr Count kFewRows = 4;  // for which weights need not become floats
constexpr Count kRowsTogether = BlockTiles::kMostRows;
constexpr double kSplit = 2;                 // elements, per nanosecond
constexpr double kReadBytes = 15;            // of panels, per nanosecond
constexpr double kHalfMultiplications = 35;  // per nanosecond
constexpr double kByteMultiplications = 100;
constexpr double kUnpacked = 10;  // weights, per nanosecond

// The integers of a word with every second one in the upper half (block_loops.h): pairs change places, then pairs of pairs, ...
std::uint32_t halves_apart(std::uint32_t word, Count bits) {
  for (Count step = bits; step < 16; step *= 2) {
    const std::uint32_t second = step == 2 ? 0x0c0c0c0c : step == 4 ? 0x00f000f0 : 0x0000ff00;  // of four
    const std::uint32_t changed = (word ^ (word >> step)) & second;
    word ^= changed ^ (changed << step);
  }
  return word;
}

class BlockProductKernel final : public ProductKernel, private UnpackedPanels {
 public:
  BlockProductKernel(ProductTask task, const BlockLoops& loops, const BlockShape& shape, bool precise, Count a_offset,
                     Tensor packed, ProductExtras extras)
      : ProductKernel(std::move(task), std::move(extras)),
        weights_(loops, shape, precise),
        a_offset_(a_offset),
        packed_(std::move(packed)) {
    task_.panels = this;
  }

  std::size_t scratch_bytes() const override {
    return weights_.are_faster(task_.rows) ? static_cast<std::size_t>(task_.rows * weights_.row_bytes()) : 0;
  }

  void run(const Call& call) const override {
    if (task_.rows == 0) return;
    const auto* const a = reinterpret_cast<const float*>(call.inputs[0]) + a_offset_;
    auto* const y = reinterpret_cast<float*>(call.outputs[0]);
    const float* addends[kMostOperations];
    find_addends(call, 0, {}, addends);
    const bool split = weights_.are_faster(task_.rows) && split_rows(call, a);
    const bool by_columns = task_.rows <= kFewRows || task_.cut_by_columns(call.workers.threads());
    const Count pieces = call.workers.pieces(nanoseconds(), task_.units(by_columns));
    call.workers.share(pieces, [&](Count piece, int) {
      const ProductTask::Part part = task_.part(piece, pieces, by_columns);
      if (split)
        weights_.multiply(task_, packed_.bytes().data(), call.scratch, y, addends, part);
      else
        task_.run(a, nullptr, y, addends, part);
    });
  }

 private:
  void unpack(Count p, Count first, Count last, float* rows) const override {
    weights_.unpack(packed_.bytes().data(), p, first, last, rows);
  }

  // False if an element cannot be split.
  bool split_rows(const Call& call, const float* a) const {
    std::atomic<bool> all = true;
    call.workers.for_each(task_.rows, static_cast<double>(task_.rows * task_.b.rows) / kSplit, [&](Count r, int) {
      if (!weights_.split(a + r * task_.a_rows, task_.a_columns, call.scratch + r * weights_.row_bytes()))
        all.store(false, std::memory_order_relaxed);
    });
    return all;
  }

  double nanoseconds() const {
    const BlockShape& shape = weights_.shape();
    return weights_.are_faster(task_.rows) ? weights_.nanoseconds(task_.rows)
                                           : task_.nanoseconds() + static_cast<double>(shape.rows * shape.columns) / kUnpacked;
  }

  const BlockRows weights_;
  const Count a_offset_;
  const Tensor packed_;
};

}  // namespace

BlockRows::BlockRows(const BlockLoops& loops, const BlockShape& shape, bool precise)
    : loops_(loops),
      shape_(shape),
      operand_(precise                         ? Operand::kPairs
               : shape.bits <= loops.byte_bits ? Operand::kBytes
                                               : Operand::kHalves),
      has_tiles_(&loops == &BlockLoops::vnni() && has_tile_registers()) {}

// Products of integers are faster than those of floats, unless each needs two.
bool BlockRows::are_faster(std::int64_t rows) const { return rows <= kFewRows || operand_ != Operand::kPairs; }

std::int64_t BlockRows::row_bytes() const {
  const Count each = operand_ == Operand::kBytes ? Count{sizeof(ByteRow::Block)} : Count{sizeof(SplitRow::Block)};
  const Count bytes = shape_.blocks() * (shape_.block * element_bytes() + each);
  return (bytes + 63) / 64 * 64;
}

SplitRow BlockRows::split_row(std::byte* row) const {
  auto* const high = reinterpret_cast<std::int16_t*>(row);
  return {high, operand_ == Operand::kPairs ? high + shape_.blocks() * shape_.block : nullptr,
          reinterpret_cast<SplitRow::Block*>(row + shape_.blocks() * shape_.block * element_bytes())};
}

ByteRow BlockRows::byte_row(std::byte* row) const {
  return {reinterpret_cast<std::int8_t*>(row),
          reinterpret_cast<ByteRow::Block*>(row + shape_.blocks() * shape_.block * element_bytes())};
}

bool BlockRows::split(const float* row, std::int64_t stride, std::byte* target) const {
  return operand_ == Operand::kBytes ? loops_.round(byte_row(target), row, stride, shape_)
                                     : loops_.split(split_row(target), row, stride, shape_.rows, shape_.block);
}

// Some rows at a time, whose integers stay in the second-level cache while the panels pass.
void BlockRows::multiply(const ProductTask& task, const std::byte* packed, std::byte* split, float* y,
                         std::span<const float* const> addends, const ProductTask::Part& part) const {
  for (Count top = part.first_row; top < part.last_row; top += kRowsTogether) {
    const Count bottom = std::min(top + kRowsTogether, part.last_row);
    for (Count p = part.first_panel; p < part.last_panel; ++p) multiply_panel(task, packed, split, y, addends, top, bottom, p);
  }
}

void BlockRows::multiply_panel(const ProductTask& task, const std::byte* packed, std::byte* split, float* y,
                               std::span<const float* const> addends, std::int64_t top, std::int64_t bottom,
                               std::int64_t p) const {
  constexpr Count kWidest = 64;  // columns of a panel
  alignas(64) float partial[kRowsTogether * kWidest];
  const std::byte* const panel = packed + p * shape_.panel_bytes();
  const float* const start = task.bias == nullptr ? nullptr : task.bias + p * shape_.width;
  const bool whole = (p + 1) * shape_.width <= shape_.columns;
  float* const target = whole ? y + top * task.y_rows + p * shape_.width : partial;
  const Count stride = whole ? task.y_rows : shape_.width;
  const auto at = [&](Count r) { return split + r * row_bytes(); };
  if (operand_ == Operand::kBytes && has_tiles_ && BlockTiles::pay(shape_, bottom - top)) {
    ByteRow rows[kRowsTogether];
    for (Count r = top; r < bottom; ++r) rows[r - top] = byte_row(at(r));
    BlockTiles::multiply_bytes(shape_, panel, rows, bottom - top, start, target, stride);
    return task.finish(whole ? nullptr : partial, y, addends, top, bottom, p);
  }
  const Count most = operand_ == Operand::kPairs    ? 1
                     : operand_ == Operand::kHalves ? BlockLoops::kMostRows
                                                    : loops_.most_byte_rows[shape_.vectors];
  for (Count r = top, count = 0; r < bottom; r += count) {
    count = std::min(most, bottom - r);
    float* const to = target + (r - top) * stride;
    if (operand_ == Operand::kBytes) {
      ByteRow rows[BlockLoops::kMostByteRows];
      for (Count i = 0; i < count; ++i) rows[i] = byte_row(at(r + i));
      loops_.multiply_bytes(shape_, panel, rows, count, start, to, stride);
      continue;
    }
    SplitRow rows[BlockLoops::kMostRows];
    for (Count i = 0; i < count; ++i) rows[i] = split_row(at(r + i));
    if (count == 1)
      loops_.multiply(shape_, panel, rows[0], start, to);
    else
      loops_.multiply_rows(shape_, panel, rows, count, start, to, stride);
  }
  task.finish(whole ? nullptr : partial, y, addends, top, bottom, p);
}

double BlockRows::nanoseconds(std::int64_t rows) const {
  return std::max(static_cast<double>(shape_.bytes()) / kReadBytes,
                  static_cast<double>(rows * shape_.rows * shape_.columns) /
                      (operand_ == Operand::kBytes ? kByteMultiplications : kHalfMultiplications));
}

std::uint32_t packed_integer(const std::uint8_t* bytes, std::int64_t n, std::int64_t bits) {
  const Count bit = n * bits;
  return (bytes[bit / 8] >> (bit % 8)) & ((1u << bits) - 1);
}

BlockShape block_shape(const BlockWeights& weights, const PackedShape& floats) {
  BlockShape shape;
  shape.rows = weights.rows, shape.columns = weights.columns;
  shape.block = std::min(weights.block, BlockShape::kMostRows), shape.bits = weights.bits;
  shape.zero = 1 << (weights.bits - 1), shape.has_zeros = static_cast<bool>(weights.zeros);
  shape.vectors = floats.vectors, shape.width = floats.width;
  return shape;
}

void pack(const BlockWeights& weights, const BlockShape& shape, std::span<const float> column_factors, std::byte* target) {
  const Count bits = weights.bits, given_blocks = (weights.rows + weights.block - 1) / weights.block;
  const Count row_bytes = given_blocks * weights.block * bits / 8, zero_bytes = (given_blocks * bits + 7) / 8;
  const auto* const integers = reinterpret_cast<const std::uint8_t*>(weights.integers.bytes().data());
  const auto* const zeros = weights.zeros ? reinterpret_cast<const std::uint8_t*>(weights.zeros.bytes().data()) : nullptr;
  const auto* const scales = weights.scales.data<float>().data();
  const Count width = shape.width;
  std::memset(target, 0, static_cast<std::size_t>(shape.bytes()));
  for (Count p = 0; p < shape.panels(); ++p)
    for (Count b = 0; b < shape.blocks(); ++b) {
      auto* const block = target + p * shape.panel_bytes() + b * shape.block_bytes();
      auto* const block_scales = reinterpret_cast<float*>(block);
      auto* const block_zeros = reinterpret_cast<std::uint8_t*>(block_scales + width);
      auto* const words = block + shape.head_bytes();
      const Count given = b * shape.block / weights.block;  // the weights' own blocks may be larger
      for (Count c = 0; c < width && p * width + c < shape.columns; ++c) {
        const Count column = p * width + c;
        const float factor = column_factors.empty() ? 1.0f : column_factors[static_cast<std::size_t>(column)];
        block_scales[c] = scales[column * given_blocks + given] * factor;
        if (zeros != nullptr)
          block_zeros[c] = static_cast<std::uint8_t>(packed_integer(zeros + column * zero_bytes, given, bits));
        const std::uint8_t* const row = integers + column * row_bytes + b * shape.block * bits / 8;
        for (Count t = 0; t < shape.words(); ++t) {
          std::uint32_t word = 0;
          std::memcpy(&word, row + t * Count{sizeof word}, sizeof word);
          word = halves_apart(word, bits);
          std::memcpy(words + (t * width + c) * Count{sizeof word}, &word, sizeof word);
        }
      }
    }
}

std::unique_ptr<Kernel> make_block_product(ProductTask task, const BlockLoops& loops, const BlockShape& shape, bool precise,
                                           std::int64_t a_offset, Tensor packed, ProductExtras extras) {
  return std::make_unique<BlockProductKernel>(std::move(task), loops, shape, precise, a_offset, std::move(packed),
                                              std::move(extras));
}

}  // namespace rewright::cpu
