// Products of two matrices of 8-bit integers of which weights, zero points or scales are known only when the step runs
// (MatMulInteger, QLinearMatMul): both operands become integers of 16 bits less their zero points, the right one in panels, and
// sums are exact.
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

class IntegerProductKernel final : public Kernel {
 public:
  IntegerProductKernel(IntegerProduct product, IntegerInputs inputs, const QuantizedLoops& loops)
      : p_(std::move(product)), in_(inputs), loops_(loops), words_((p_.depth + 1) / 2) {
    panel_columns_ = loops.lanes * loops.max_vectors;
    panels_ = (p_.columns + panel_columns_ - 1) / panel_columns_;
    entries_ = static_cast<std::size_t>(panels_ * panel_columns_);
    a_words_ = p_.a_matrices * p_.rows * words_;
    b_words_ = p_.b_matrices * panels_ * panel_columns_ * words_;
  }

  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(a_words_ + b_words_) * 4 + entries_ * (sizeof(double) + sizeof(std::int32_t));
  }

  void run(const Call& call) const override {
    auto* const factors = reinterpret_cast<double*>(call.scratch);
    auto* const b = reinterpret_cast<std::int32_t*>(factors + entries_);
    std::int32_t* const a = b + b_words_;
    std::int32_t* const offsets = a + a_words_;
    std::fill_n(offsets, entries_, 0);
    if (in_.a_scale >= 0) set_factors(call, factors);
    convert(call, a);
    pack(call, b);
    multiply(call, a, b, factors, offsets);
  }

 private:
  static constexpr double kConverted = 4;  // elements per nanosecond
  static constexpr double kWords = 20;     // multiply-adds of words per nanosecond
  static constexpr Count kPart = 48;       // rows that are multiplied with a panel

  static const std::byte* input(const Call& call, int n) { return n < 0 ? nullptr : call.inputs[static_cast<std::size_t>(n)]; }
  static int integer(const std::byte* at, DataType type, Count n) {
    if (at == nullptr) return 0;
    return type == DataType::kInt8 ? int{std::bit_cast<std::int8_t>(at[n])} : std::to_integer<int>(at[n]);
  }
  static double number(const Call& call, int n, Count at = 0) {
    return reinterpret_cast<const float*>(call.inputs[static_cast<std::size_t>(n)])[at];
  }

  void set_factors(const Call& call, double* factors) const {
    const double a = number(call, in_.a_scale), y = number(call, in_.y_scale);
    for (Count c = 0; c < static_cast<Count>(entries_); ++c)
      factors[c] = a * number(call, in_.b_scale, p_.b_scale_by_column ? std::min(c, p_.columns - 1) : 0) / y;
  }

  // a in words of two elements, a row's last one filled up with 0.
  void convert(const Call& call, std::int32_t* to) const {
    const std::byte* const zero = input(call, in_.a_zero);
    const Count rows = p_.a_matrices * p_.rows;
    call.workers.for_each(rows, static_cast<double>(rows * p_.depth) / kConverted, [&](Count row, int) {
      std::int32_t* const words = to + row * words_;
      words[words_ - 1] = 0;
      loops_.convert(reinterpret_cast<std::byte*>(words), call.inputs[static_cast<std::size_t>(in_.a)] + row * p_.depth,
                     p_.a_signed, integer(zero, p_.a_zero_type, p_.a_zero_by_row ? row % p_.rows : 0), p_.depth);
    });
  }

  // b in panels of columns, each [words][columns].
  void pack(const Call& call, std::int32_t* to) const {
    const Count units = p_.b_matrices * panels_;
    call.workers.for_each(units, static_cast<double>(p_.b_matrices * p_.depth * p_.columns) / kConverted, [&](Count unit, int) {
      const std::byte* const zero = input(call, in_.b_zero);
      const Count first = unit % panels_ * panel_columns_, n = std::min(panel_columns_, p_.columns - first),
                  width = panel_width(unit % panels_);
      const std::byte* const b = call.inputs[static_cast<std::size_t>(in_.b)] + unit / panels_ * p_.depth * p_.columns + first;
      std::int16_t rows[2][kMostColumns] = {};
      const std::byte* const pixels[2] = {reinterpret_cast<const std::byte*>(rows[0]),
                                          reinterpret_cast<const std::byte*>(rows[1])};
      for (Count w = 0; w < words_; ++w) {
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
        loops_.interleave(to + unit * panel_columns_ * words_ + w * width, pixels, width);
      }
    });
  }

  // The columns of a panel in whole vectors.
  Count panel_width(Count panel) const {
    const Count n = std::min(panel_columns_, p_.columns - panel * panel_columns_);
    return (n + loops_.lanes - 1) / loops_.lanes * loops_.lanes;
  }

  void multiply(const Call& call, const std::int32_t* a, const std::int32_t* b, const double* factors,
                const std::int32_t* offsets) const {
    const Count parts = (p_.rows + kPart - 1) / kPart, matrices = static_cast<Count>(p_.a_of.size());
    QuantizedLoops::Finish finish{};
    finish.type = QuantizedLoops::Type::kInt32;
    if (in_.a_scale >= 0) set_finish(call, finish);
    const auto width = static_cast<Count>(byte_size(p_.result));
    const double words = static_cast<double>(matrices * p_.rows) * static_cast<double>(words_ * p_.columns);
    call.workers.for_each(matrices * panels_ * parts, words / kWords, [&](Count unit, int) {
      const Count panel = unit / parts % panels_, matrix = unit / parts / panels_, first = unit % parts * kPart;
      const auto number = static_cast<std::size_t>(matrix);
      QuantizedLoops::Tile t{};
      t.x_stride = words_ * 4;
      t.height = t.width = 1;
      t.length = words_;
      t.vectors = panel_width(panel) / loops_.lanes;
      t.w = b + (p_.b_of[number] * panels_ + panel) * panel_columns_ * words_;
      alignas(64) std::int32_t sums[kMostSums];
      t.sums = sums;
      QuantizedLoops::Finish f = finish;
      f.sums = sums;
      f.sums_stride = panel_columns_;
      f.columns = std::min(panel_columns_, p_.columns - panel * panel_columns_);
      f.offset = offsets + panel * panel_columns_;
      f.exact_factor = in_.a_scale < 0 ? nullptr : factors + panel * panel_columns_;
      f.y_stride = p_.columns;
      const Count end = std::min(p_.rows, first + kPart);
      for (Count row = first; row < end; row += t.rows) {
        t.rows = std::min(loops_.max_rows, end - row);
        t.x = reinterpret_cast<const std::byte*>(a + (p_.a_of[number] * p_.rows + row) * words_);
        loops_.tile(t);
        f.rows = t.rows;
        f.y = call.outputs[0] + ((matrix * p_.rows + row) * p_.columns + panel * panel_columns_) * width;
        loops_.finish(f);
      }
    });
  }

  void set_finish(const Call& call, QuantizedLoops::Finish& f) const {
    const bool is_signed = p_.result == DataType::kInt8;
    f.type = is_signed ? QuantizedLoops::Type::kInt8 : QuantizedLoops::Type::kUint8;
    f.zero_point = integer(input(call, in_.y_zero), p_.result, 0);
    f.low = static_cast<float>((is_signed ? -128 : 0) - f.zero_point);
    f.high = static_cast<float>((is_signed ? 127 : 255) - f.zero_point);
  }

  static constexpr std::size_t kMostSums = 14 * 32, kMostColumns = 64;
  IntegerProduct p_;
  IntegerInputs in_;
  const QuantizedLoops& loops_;
  Count words_, panel_columns_ = 1, panels_ = 1, a_words_ = 0, b_words_ = 0;
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
    planner.add_step(
        std::make_unique<IntegerProductKernel>(std::move(product_), inputs_, *quantized_loops(planner.options().isa, false)),
        std::move(inputs), {target});
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
