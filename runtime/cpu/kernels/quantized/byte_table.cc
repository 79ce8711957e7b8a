// Functions of one 8-bit integer, tabulated for all 256 values: any operators between a dequantization and a quantization.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "runtime/cpu/planning/matching.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/program.h"
#include "runtime/planning/keeps_order.h"

namespace rewright::cpu {

namespace {

constexpr std::int64_t kWorthElements = 1024, kWorthOperations = 6;
constexpr std::int64_t kShortRun = 8;  // elements contiguous in both tensors, on average; shorter ones are left to tiles
constexpr double kTableElements = 2;   // per nanosecond

template <class T>
class TableKernel final : public Kernel {
 public:
  TableKernel(const T* values, std::int64_t elements) : elements_(elements) {
    std::copy_n(values, table_.size(), table_.begin());
  }
  void run(const Call& call) const override {
    constexpr std::int64_t kPart = 8192;
    const auto* const x = reinterpret_cast<const std::uint8_t*>(call.inputs[0]);
    T* const y = reinterpret_cast<T*>(call.outputs[0]);
    const std::int64_t parts = (elements_ + kPart - 1) / kPart;
    call.workers.for_each(parts, static_cast<double>(elements_) / kTableElements, [&](std::int64_t p, int) {
      for (std::int64_t i = p * kPart; i < std::min(elements_, (p + 1) * kPart); ++i) y[i] = table_[x[i]];
    });
  }

 private:
  std::array<T, 256> table_;
  std::int64_t elements_;
};

// Elements that are contiguous in the operand and in the result.
struct Run {
  std::int64_t from, to, count;
};

// Applies a table to elements that are also moved.
template <class T>
class MovingTableKernel final : public Kernel {
 public:
  MovingTableKernel(const T* values, std::vector<Run> runs) : runs_(std::move(runs)) {
    std::copy_n(values, table_.size(), table_.begin());
  }
  void run(const Call& call) const override {
    const auto* const x = reinterpret_cast<const std::uint8_t*>(call.inputs[0]);
    T* const y = reinterpret_cast<T*>(call.outputs[0]);
    const double elements = static_cast<double>(runs_.back().to + runs_.back().count);
    call.workers.for_each(static_cast<std::int64_t>(runs_.size()), elements / kTableElements, [&](std::int64_t r, int) {
      const Run& run = runs_[static_cast<std::size_t>(r)];
      for (std::int64_t i = 0; i < run.count; ++i) y[run.to + i] = table_[x[run.from + i]];
    });
  }

 private:
  std::array<T, 256> table_;
  std::vector<Run> runs_;
};

// The source of each element of the result; empty if there are too many runs. `read` is of operand 0.
std::vector<Run> runs_of(const Planner& planner, const Element& read, const Indices& position, const Sizes& sizes,
                         const Sizes& operand_sizes) {
  const std::int64_t count = element_count(sizes), given = element_count(operand_sizes);
  if (given > std::numeric_limits<std::int32_t>::max()) return {};
  const auto program = compile_tiles(read, position, {DataType::kInt32, sizes, kPlain},
                                     {{DataType::kInt32, operand_sizes, kPlain}}, {planner.options().isa, true});
  if (!program) return {};
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(given)), from(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto* const in = reinterpret_cast<const std::byte*>(numbers.data());
  program->run(&in, reinterpret_cast<std::byte*>(from.data()), Workers(1));
  std::vector<Run> runs;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = from[static_cast<std::size_t>(i)];
    if (!runs.empty() && at == runs.back().from + runs.back().count)
      ++runs.back().count;
    else
      runs.push_back({at, i, 1});
  }
  if (static_cast<std::int64_t>(runs.size()) * kShortRun > count) return {};
  return runs;
}

struct ByteTable {
  std::unique_ptr<Kernel> kernel;
  ValueId operand;
  Layout layout;  // of the operand and the result
};

// nullopt unless the expression reads, apart from known numbers, a single tensor of 8-bit integers once for each element, in
// the result's order or in one other order with long enough runs, and is expensive enough for a table.
std::optional<ByteTable> make_byte_table(const Planner& planner, const Element& element, const Indices& position,
                                         ValueId result, const std::vector<ValueId>& operands) {
  const ValueInfo& out = planner.info(result);
  const bool to_bytes = out.type == DataType::kInt8 || out.type == DataType::kUint8;
  if ((!to_bytes && out.type != DataType::kFloat) || element_count(out.sizes) < kWorthElements) return std::nullopt;
  const auto has_8_bits = [&](ValueId v) {
    if (v == kNoValue) return false;
    const DataType type = planner.info(v).type;
    return type == DataType::kInt8 || type == DataType::kUint8;
  };
  if (std::none_of(operands.begin(), operands.end(), has_8_bits)) return std::nullopt;  // as most
  const auto operations = operation_count(element).constant();
  if (!operations || *operations < kWorthOperations) return std::nullopt;

  ValueId operand = kNoValue;
  bool fits = true, in_place = true, in_order = true;
  std::optional<Indices> moved;
  const Index i = Index::fresh("i");
  const Element of_byte =
      rewrite(element,
              [&](const ElementNode& read) -> Element {
                const ValueId value = operands[static_cast<std::size_t>(read.operand)];
                if (const auto number = planner.known_number(value); number && !read.zero_outside) {
                  const DataType type = planner.info(value).type;
                  return scalar(type) == Scalar::kReal ? real(*number) : constant(scalar(type), *number);
                }
                const ValueInfo& info = planner.info(value);
                fits = fits && (operand == kNoValue || operand == value) && !planner.constant(value) && !read.zero_outside &&
                       (info.type == DataType::kInt8 || info.type == DataType::kUint8);
                operand = value;
                if (!fits) return nullptr;
                ElementNode first = read;
                first.operand = 0;
                in_order = in_order && planning::keeps_order(std::make_shared<const ElementNode>(std::move(first)), position,
                                                             out.sizes, info.sizes);
                if (!moved) moved = read.position;
                fits = in_order || read.position == *moved;
                in_place = in_place && info.sizes == out.sizes && at_result_position(read, position, out.sizes);
                return Operand(0, {info.type, {Index(256)}})({i});
              },
              {});
  if (!fits || operand == kNoValue) return std::nullopt;

  const DataType type = planner.info(operand).type;
  const auto program =
      compile_tiles(of_byte, {i}, {out.type, {256}, kPlain}, {{type, {256}, kPlain}}, {planner.options().isa, true});
  if (!program) return std::nullopt;
  std::array<std::byte, 256> bytes;
  for (std::size_t b = 0; b < bytes.size(); ++b) bytes[b] = static_cast<std::byte>(b);
  alignas(float) std::array<std::byte, 256 * sizeof(float)> values;
  const std::byte* const in = bytes.data();
  program->run(&in, values.data(), Workers(1));

  ByteTable table{nullptr, operand, kPlain};
  if (const auto layouts = planner.layouts(operand); in_place && !layouts.empty() && !layouts[0].blocked())
    table.layout = layouts[0];
  const std::int64_t elements = element_count(out.sizes);
  const auto* const as_bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  const auto* const as_floats = reinterpret_cast<const float*>(values.data());
  if (!in_order) {
    const Sizes& sizes = planner.info(operand).sizes;
    const Element read = Operand(0, {DataType::kInt32, to_indices(sizes)})(*moved);
    std::vector<Run> runs = runs_of(planner, read, position, out.sizes, sizes);
    if (runs.empty()) return std::nullopt;
    if (to_bytes)
      table.kernel = std::make_unique<MovingTableKernel<std::uint8_t>>(as_bytes, std::move(runs));
    else
      table.kernel = std::make_unique<MovingTableKernel<float>>(as_floats, std::move(runs));
    return table;
  }
  if (to_bytes)
    table.kernel = std::make_unique<TableKernel<std::uint8_t>>(as_bytes, elements);
  else
    table.kernel = std::make_unique<TableKernel<float>>(as_floats, elements);
  return table;
}

}  // namespace

bool plan_byte_table(Planner& planner, const Expression& e) {
  std::optional<ByteTable> table = make_byte_table(planner, e.element, e.position, e.result, e.operands);
  if (!table) return false;
  const int source = planner.storage(table->operand, table->layout);
  const int target = planner.add_value(e.result, table->layout);
  planner.add_step(std::move(table->kernel), {source}, {target});
  return true;
}

}  // namespace rewright::cpu
