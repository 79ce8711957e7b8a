#include "runtime/cpu/quantized/byte_table.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/cpu/epilogue.h"
#include "runtime/fusion/keeps_order.h"

namespace rewright::cpu {

namespace {

constexpr std::int64_t kWorthElements = 1024, kWorthOperations = 6;

template <class T>
class TableKernel final : public Kernel {
 public:
  TableKernel(const T* values, std::int64_t elements) : elements_(elements) {
    std::copy_n(values, table_.size(), table_.begin());
  }
  void run(const Call& call) const override {
    constexpr std::int64_t kPart = 8192;
    constexpr double kElements = 2;  // a nanosecond
    const auto* const x = reinterpret_cast<const std::uint8_t*>(call.inputs[0]);
    T* const y = reinterpret_cast<T*>(call.outputs[0]);
    const std::int64_t parts = (elements_ + kPart - 1) / kPart;
    call.workers.for_each(parts, static_cast<double>(elements_) / kElements, [&](std::int64_t p, int) {
      for (std::int64_t i = p * kPart; i < std::min(elements_, (p + 1) * kPart); ++i) y[i] = table_[x[i]];
    });
  }

 private:
  std::array<T, 256> table_;
  std::int64_t elements_;
};

}  // namespace

std::optional<ByteTable> make_byte_table(const Planner& planner, const Element& element, const Indices& position,
                                         ValueId result, const std::vector<ValueId>& operands) {
  const ValueInfo out = planner.info(result);
  const bool to_bytes = out.type == DataType::kInt8 || out.type == DataType::kUint8;
  if ((!to_bytes && out.type != DataType::kFloat) || element_count(out.sizes) < kWorthElements) return std::nullopt;
  const auto operations = operation_count(element).constant();
  if (!operations || *operations < kWorthOperations) return std::nullopt;

  ValueId operand = kNoValue;
  bool fits = true, in_place = true;
  const Index i = Index::fresh("i");
  const Element of_byte = rewrite(
      element,
      [&](const ElementNode& read) -> Element {
        const ValueId value = operands[static_cast<std::size_t>(read.operand)];
        if (const auto number = planner.known_number(value); number && !read.zero_outside) {
          const DataType type = planner.info(value).type;
          return scalar(type) == Scalar::kReal ? real(*number) : constant(scalar(type), *number);
        }
        const ValueInfo info = planner.info(value);
        fits = fits && (operand == kNoValue || operand == value) && !planner.constant(value) && !read.zero_outside &&
               (info.type == DataType::kInt8 || info.type == DataType::kUint8);
        operand = value;
        if (!fits) return nullptr;
        ElementNode first = read;
        first.operand = 0;
        fits = fusion::keeps_order(std::make_shared<const ElementNode>(std::move(first)), position, out.sizes, info.sizes);
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
  if (to_bytes)
    table.kernel = std::make_unique<TableKernel<std::uint8_t>>(reinterpret_cast<const std::uint8_t*>(values.data()), elements);
  else
    table.kernel = std::make_unique<TableKernel<float>>(reinterpret_cast<const float*>(values.data()), elements);
  return table;
}

}  // namespace rewright::cpu
