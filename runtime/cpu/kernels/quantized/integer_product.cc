// Products of two matrices of 8-bit integers of which weights, zero points or scales are known only when the step runs
// (MatMulInteger, QLinearMatMul): the right operand is packed in panels, in bytes where the processor multiplies them, else
// both become integers of 16 bits less their zero points. Sums are exact.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/cpu/loops/quantized_loops.h"
#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

// Numbers of inputs of the step; -1: absent.
struct IntegerInputs {
  int a = 0, b = 1, a_zero = -1, b_zero = -1;
  int a_scale = -1, b_scale = -1, y_scale = -1, y_zero = -1;  // with a requantization
};

struct IntegerProduct {
  Count rows = 1, depth = 1, columns = 1;
  std::vector<Count> a_of, b_of;  // by matrix of the result: the matrices of a and b
  Count a_matrices = 1, b_matrices = 1;
  bool a_signed = false, b_signed = false;
  // Entries of parameters: one, or one for each row of a and each column of b.
  bool a_zero_by_row = false, b_zero_by_column = false, b_scale_by_column = false;
  DataType a_zero_type = DataType::kUint8, b_zero_type = DataType::kUint8;
  DataType result = DataType::kInt32;
};

// In bytes, elements of a are unsigned and those of b signed, 128 more or less than they are where necessary, as their zero
// points are, which are part of the products: what they contribute, from sums of rows and columns, is subtracted.
class IntegerProductKernel final : public Kernel {
 public:
  IntegerProductKernel(IntegerProduct product, IntegerInputs inputs, const QuantizedLoops& loops)
      : p_(std::move(product)),
        in_(inputs),
        loops_(loops),
        steps_(tile_steps(loops, (p_.depth + loops.unit - 1) / loops.unit, 1, p_.rows)) {
    panel_columns_ = loops.lanes * loops.max_vectors;
    panels_ = (p_.columns + panel_columns_ - 1) / panel_columns_;
    entries_ = static_cast<std::size_t>(panels_ * panel_columns_);
    copied_ = !bytes() || p_.a_signed || p_.depth != steps_.length * loops.unit;
    a_words_ = copied_ ? p_.a_matrices * p_.rows * steps_.length : 0;
    b_words_ = p_.b_matrices * panels_ * panel_columns_ * steps_.length;
    part_ = (48 + steps_.loops->max_rows - 1) / steps_.loops->max_rows * steps_.loops->max_rows;
  }

  std::size_t scratch_bytes() const override {
    const auto a_rows = static_cast<std::size_t>(p_.a_matrices * p_.rows), b_matrices = static_cast<std::size_t>(p_.b_matrices);
    const std::size_t numbers = (2 + b_matrices) * entries_ + 2 * a_rows;
    return static_cast<std::size_t>(a_words_ + b_words_) * 4 + entries_ * sizeof(double) + numbers * sizeof(std::int32_t);
  }

  void run(const Call& call) const override {
    Operands o;
    o.factors = reinterpret_cast<double*>(call.scratch);
    o.b = reinterpret_cast<std::int32_t*>(o.factors + entries_);
    o.a = o.b + b_words_;
    o.no_offsets = o.a + a_words_;
    o.column_zeros = o.no_offsets + entries_;
    o.columns = o.column_zeros + entries_;
    o.row_zeros = o.columns + static_cast<Count>(entries_) * p_.b_matrices;
    o.row_sums = o.row_zeros + p_.a_matrices * p_.rows;
    std::fill_n(o.no_offsets, entries_, 0);
    if (in_.a_scale >= 0) set_factors(call, o.factors);
    if (bytes()) set_zeros(call, o);
    convert(call, o);
    if (bytes())
      pack_bytes(call, o);
    else
      pack(call, o.b);
    multiply(call, o);
  }

 private:
  static constexpr double kConverted = 4, kPackedBytes = 10;  // elements per nanosecond
  static constexpr double kWords = 20, kTileWords = 200;      // multiply-adds of words per nanosecond, by vectors and by tiles

  // In scratch memory.
  struct Operands {
    double* factors;
    std::int32_t *a, *b, *no_offsets;
    // Sums of products of bytes. `columns`: for each matrix of b the sums of its columns less their zero points, if the
    // products are to be corrected by them; otherwise what is added to sums of a column.
    std::int32_t *column_zeros, *columns, *row_zeros, *row_sums;
    bool corrected = false;
  };

  static const std::byte* input(const Call& call, int n) { return n < 0 ? nullptr : call.inputs[static_cast<std::size_t>(n)]; }
  static int integer(const std::byte* at, DataType type, Count n) {
    if (at == nullptr) return 0;
    return type == DataType::kInt8 ? int{std::bit_cast<std::int8_t>(at[n])} : std::to_integer<int>(at[n]);
  }
  static double number(const Call& call, int n, Count at = 0) {
    return reinterpret_cast<const float*>(call.inputs[static_cast<std::size_t>(n)])[at];
  }

  bool bytes() const { return loops_.unit == 4; }
  Count row_bytes() const { return copied_ ? steps_.length * 4 : p_.depth; }
  const std::byte* left(const Call& call, const Operands& o) const {
    return copied_ ? reinterpret_cast<const std::byte*>(o.a) : input(call, in_.a);
  }

  void set_factors(const Call& call, double* factors) const {
    const double a = number(call, in_.a_scale), y = number(call, in_.y_scale);
    for (Count c = 0; c < static_cast<Count>(entries_); ++c)
      factors[c] = a * number(call, in_.b_scale, p_.b_scale_by_column ? std::min(c, p_.columns - 1) : 0) / y;
  }

  // Zero points of rows and columns in bytes.
  void set_zeros(const Call& call, Operands& o) const {
    const std::byte *const a = input(call, in_.a_zero), *const b = input(call, in_.b_zero);
    for (Count r = 0; r < p_.a_matrices * p_.rows; ++r)
      o.row_zeros[r] = integer(a, p_.a_zero_type, p_.a_zero_by_row ? r % p_.rows : 0) + (p_.a_signed ? 128 : 0);
    o.corrected = p_.a_zero_by_row;
    for (Count c = 0; c < static_cast<Count>(entries_); ++c) {
      const Count column = p_.b_zero_by_column ? std::min(c, p_.columns - 1) : 0;
      o.column_zeros[c] = integer(b, p_.b_zero_type, column) - (p_.b_signed ? 0 : 128);
      o.corrected |= o.column_zeros[c] != 0;
    }
  }

  // a in words, a row's last ones filled up with 0.
  void convert(const Call& call, const Operands& o) const {
    if (!copied_ && !o.corrected) return;
    const std::byte* const zero = input(call, in_.a_zero);
    const Count rows = p_.a_matrices * p_.rows, element = 4 / loops_.unit;
    call.workers.for_each(rows, static_cast<double>(rows * p_.depth) / kConverted, [&](Count row, int) {
      const std::byte* elements = input(call, in_.a) + row * p_.depth;
      if (copied_) {
        auto* const to = reinterpret_cast<std::byte*>(o.a + row * steps_.length);
        const Count filled = p_.depth * element;
        std::memset(to + filled, 0, static_cast<std::size_t>(steps_.length * 4 - filled));
        loops_.convert(to, elements, p_.a_signed, integer(zero, p_.a_zero_type, p_.a_zero_by_row ? row % p_.rows : 0),
                       p_.depth);
        elements = to;
      }
      if (o.corrected) o.row_sums[row] = loops_.sum_of_bytes(elements, p_.depth);
    });
  }

  // b in panels of columns, each [words][columns].
  void pack_bytes(const Call& call, const Operands& o) const {
    const Count units = p_.b_matrices * panels_;
    const double elements = static_cast<double>(p_.b_matrices * p_.depth * p_.columns);
    call.workers.for_each(units, elements / kPackedBytes, [&](Count unit, int) {
      const Count panel = unit % panels_, first = panel * panel_columns_, width = panel_width(panel);
      const std::byte* const from = input(call, in_.b) + unit / panels_ * p_.depth * p_.columns + first;
      std::int32_t* const sums = o.columns + unit * panel_columns_;
      loops_.pack_bytes({from, p_.columns, p_.depth, std::min(panel_columns_, p_.columns - first), p_.b_signed, steps_.length,
                         width, o.b + unit * panel_columns_ * steps_.length, sums});
      for (Count c = 0; c < width; ++c)
        sums[c] =
            o.corrected ? sums[c] - static_cast<std::int32_t>(p_.depth) * o.column_zeros[first + c] : -o.row_zeros[0] * sums[c];
    });
  }
  void pack(const Call& call, std::int32_t* to) const {
    const Count units = p_.b_matrices * panels_;
    call.workers.for_each(units, static_cast<double>(p_.b_matrices * p_.depth * p_.columns) / kConverted, [&](Count unit, int) {
      const std::byte* const zero = input(call, in_.b_zero);
      const Count first = unit % panels_ * panel_columns_, n = std::min(panel_columns_, p_.columns - first),
                  width = panel_width(unit % panels_);
      const std::byte* const b = input(call, in_.b) + unit / panels_ * p_.depth * p_.columns + first;
      std::int16_t rows[2][kMostColumns] = {};
      const std::byte* const pixels[2] = {reinterpret_cast<const std::byte*>(rows[0]),
                                          reinterpret_cast<const std::byte*>(rows[1])};
      for (Count w = 0; w < steps_.length; ++w) {
        for (Count e = 0; e < 2; ++e) {
          std::int16_t* const row = rows[e];
          if (2 * w + e >= p_.depth) {
            std::fill_n(row, n, std::int16_t{0});
            continue;
          }
          loops_.convert(reinterpret_cast<std::byte*>(row), b + (2 * w + e) * p_.columns, p_.b_signed,
                         p_.b_zero_by_column ? 0 : integer(zero, p_.b_zero_type, 0), n);
          if (p_.b_zero_by_column)
            for (Count c = 0; c < n; ++c) row[c] = static_cast<std::int16_t>(row[c] - integer(zero, p_.b_zero_type, first + c));
        }
        loops_.interleave(to + unit * panel_columns_ * steps_.length + w * width, pixels, width);
      }
    });
  }

  // The columns of a panel in whole vectors.
  Count panel_width(Count panel) const {
    const Count n = std::min(panel_columns_, p_.columns - panel * panel_columns_);
    return (n + loops_.lanes - 1) / loops_.lanes * loops_.lanes;
  }

  void multiply(const Call& call, const Operands& o) const {
    const Count parts = (p_.rows + part_ - 1) / part_, matrices = static_cast<Count>(p_.a_of.size());
    QuantizedLoops::Finish finish{};
    finish.type = QuantizedLoops::Type::kInt32;
    if (in_.a_scale >= 0) set_finish(call, finish);
    const double words = static_cast<double>(matrices * p_.rows) * static_cast<double>(steps_.length * p_.columns);
    const Count units = matrices * panels_ * parts;
    const Count pieces = call.workers.pieces(words / (steps_.in_registers() ? kTileWords : kWords), units);
    call.workers.share(pieces, [&](Count piece, int) {
      TileRun tiles(*steps_.loops);
      for (Count unit = first_unit(units, piece, pieces); unit < first_unit(units, piece + 1, pieces); ++unit)
        multiply_part(call, o, finish, tiles, unit / parts / panels_, unit / parts % panels_, unit % parts * part_);
    });
  }

  // Rows from `first` on, up to part_, of a panel of a matrix.
  void multiply_part(const Call& call, const Operands& o, const QuantizedLoops::Finish& finish, TileRun& tiles, Count matrix,
                     Count panel, Count first) const {
    const auto number = static_cast<std::size_t>(matrix);
    const Count b_panel = p_.b_of[number] * panels_ + panel, a_row = p_.a_of[number] * p_.rows;
    QuantizedLoops::Tile t{};
    t.x_stride = row_bytes();
    t.height = t.width = 1;
    t.length = steps_.length, t.step = steps_.step;
    t.registers = tiles.registers();
    t.vectors = panel_width(panel) / loops_.lanes;
    t.w = o.b + b_panel * panel_columns_ * steps_.length;
    alignas(64) std::int32_t sums[kMostSums];
    t.sums = sums;
    QuantizedLoops::Finish f = finish;
    f.sums_stride = panel_columns_;
    f.columns = std::min(panel_columns_, p_.columns - panel * panel_columns_);
    f.offset = bytes() && !o.corrected ? o.columns + b_panel * panel_columns_ : o.no_offsets;
    f.exact_factor = in_.a_scale < 0 ? nullptr : o.factors + panel * panel_columns_;
    f.y_stride = p_.columns;
    const TileBlocks blocks(steps_, first, std::min(part_, p_.rows - first), steps_.loops->max_rows);
    for (Count n = 0; n < blocks.count(); ++n) {
      const TileBlocks::Block block = blocks.block(n);
      const Count row = a_row + block.start;
      t.rows = block.end - block.start;
      t.x = left(call, o) + row * row_bytes();
      steps_.loops->tile(t);
      if (o.corrected)
        loops_.subtract({sums, panel_columns_, t.rows, t.vectors * loops_.lanes, o.row_zeros + row, o.row_sums + row,
                         o.columns + b_panel * panel_columns_, o.column_zeros + panel * panel_columns_});
      f.sums = sums + (block.begin - block.start) * panel_columns_;
      f.rows = block.end - block.begin;
      f.y = call.outputs[0] +
            ((matrix * p_.rows + block.begin) * p_.columns + panel * panel_columns_) * static_cast<Count>(byte_size(p_.result));
      loops_.finish(f);
    }
  }

  void set_finish(const Call& call, QuantizedLoops::Finish& f) const {
    const bool is_signed = p_.result == DataType::kInt8;
    f.type = is_signed ? QuantizedLoops::Type::kInt8 : QuantizedLoops::Type::kUint8;
    f.zero_point = integer(input(call, in_.y_zero), p_.result, 0);
    f.low = static_cast<float>((is_signed ? -128 : 0) - f.zero_point);
    f.high = static_cast<float>((is_signed ? 127 : 255) - f.zero_point);
  }

  static constexpr std::size_t kMostSums = 32 * 32, kMostColumns = 64;
  IntegerProduct p_;
  IntegerInputs in_;
  const QuantizedLoops& loops_;
  TileSteps steps_;
  bool copied_ = true;  // a
  Count panel_columns_ = 1, panels_ = 1, a_words_ = 0, b_words_ = 0, part_ = 1;
  std::size_t entries_ = 0;  // columns of all panels
};

bool is_byte(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

// The matrices of an operand that the result's matrices are of, by broadcasting of the leading axes.
std::vector<Count> matrices_of(const Sizes& operand, const Sizes& result) {
  const std::size_t axes = result.size() - 2, missing = result.size() - operand.size();
  std::vector<Count> numbers(1, 0);
  for (std::size_t a = 0; a < axes; ++a) {
    const Count size = a < missing ? 1 : operand[a - missing];
    std::vector<Count> next;
    for (const Count n : numbers)
      for (Count i = 0; i < result[a]; ++i) next.push_back(size == 1 ? n * size : n * size + i);
    numbers = std::move(next);
  }
  return numbers;
}

class IntegerProductPlan final : public NodePlan {
 public:
  IntegerProductPlan(IntegerProduct product, IntegerInputs inputs, std::vector<ValueId> operands)
      : product_(std::move(product)), inputs_(inputs), operands_(std::move(operands)) {}

  void emit(Planner& planner, ValueId result) override {
    std::vector<int> inputs;
    for (const ValueId v : operands_) inputs.push_back(planner.storage(v, kPlain));
    const int target = planner.add_value(result, kPlain);
    const QuantizedLoops* const bytes = quantized_loops(planner.options().isa, true);
    const QuantizedLoops& loops = bytes != nullptr ? *bytes : *quantized_loops(planner.options().isa, false);
    planner.add_step(std::make_unique<IntegerProductKernel>(std::move(product_), inputs_, loops), std::move(inputs), {target});
  }

 private:
  IntegerProduct product_;
  IntegerInputs inputs_;
  std::vector<ValueId> operands_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_integer_product(Planner& planner, const Node& node) {
  constexpr Count kMostDepth = 0x7FFFFFFF / (255 * 256), kMostMatrices = 1 << 16;
  const bool requantized = node.op->name() == "QLinearMatMul";
  IntegerProduct p;
  IntegerInputs in;
  std::vector<ValueId> operands;
  const auto use = [&](std::size_t input) {
    if (!planner.has(node, input)) return -1;
    operands.push_back(node.inputs[input]);
    return static_cast<int>(operands.size()) - 1;
  };
  const std::size_t right = requantized ? 3 : 1, left_zero = 2, right_zero = requantized ? 5 : 3;
  in.a = use(0), in.b = use(right), in.a_zero = use(left_zero), in.b_zero = use(right_zero);
  const ValueInfo &a = planner.info(node.inputs[0]), &b = planner.info(node.inputs[right]), &y = planner.info(node.outputs[0]);
  if (!is_byte(a.type) || !is_byte(b.type) || element_count(y.sizes) == 0) return nullptr;
  p.rows = y.sizes[y.sizes.size() - 2], p.columns = y.sizes.back(), p.depth = a.sizes.back();
  if (p.depth < 1 || p.depth > kMostDepth || element_count(y.sizes) / (p.rows * p.columns) > kMostMatrices) return nullptr;
  p.a_of = matrices_of(a.sizes, y.sizes), p.b_of = matrices_of(b.sizes, y.sizes);
  p.a_matrices = element_count(a.sizes) / (p.rows * p.depth), p.b_matrices = element_count(b.sizes) / (p.depth * p.columns);
  p.a_signed = a.type == DataType::kInt8, p.b_signed = b.type == DataType::kInt8;
  p.result = y.type;
  // Is a parameter one number, or one for each of `entries`? Sets which.
  const auto fits = [&](int number, Count entries, bool* by_entry) {
    if (number < 0) return true;
    const Sizes& sizes = planner.info(operands[static_cast<std::size_t>(number)]).sizes;
    if (element_count(sizes) == 1) return true;
    *by_entry = true;
    return entries > 0 && sizes == Sizes{entries};
  };
  bool unused = false;
  if (!fits(in.a_zero, p.rows, &p.a_zero_by_row) || !fits(in.b_zero, p.columns, &p.b_zero_by_column)) return nullptr;
  for (const auto& [number, type] : {std::pair(in.a_zero, &p.a_zero_type), std::pair(in.b_zero, &p.b_zero_type)}) {
    if (number < 0) continue;
    *type = planner.info(operands[static_cast<std::size_t>(number)]).type;
    if (!is_byte(*type)) return nullptr;
  }
  if (requantized) {
    in.a_scale = use(1), in.b_scale = use(4), in.y_scale = use(6), in.y_zero = use(7);
    if (in.a_scale < 0 || in.b_scale < 0 || in.y_scale < 0 || in.y_zero < 0 || !is_byte(y.type)) return nullptr;
    for (const int scale : {in.a_scale, in.b_scale, in.y_scale})
      if (planner.info(operands[static_cast<std::size_t>(scale)]).type != DataType::kFloat) return nullptr;
    if (!fits(in.b_scale, p.columns, &p.b_scale_by_column)) return nullptr;
    for (const int number : {in.a_scale, in.y_scale, in.y_zero})
      if (!fits(number, 0, &unused)) return nullptr;
  }
  return std::make_unique<IntegerProductPlan>(std::move(p), in, std::move(operands));
}

}  // namespace rewright::cpu
