// Tests of elements for NaN and infinity: decided by their bits, where the tile engine makes reals and integers of all
// elements.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "runtime/cpu/loops/scaling_loops.h"
#include "runtime/cpu/planning/matching.h"
#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

class RealClassKernel final : public Kernel {
 public:
  RealClassKernel(DataType type, bool is_nan, Count elements, const ScalingLoops& loops)
      : type_(type), is_nan_(is_nan), elements_(elements), loops_(loops) {}

  void run(const Call& call) const override {
    constexpr Count kPart = 1 << 14;
    constexpr double kBytes = 16;  // a nanosecond
    const auto bytes = static_cast<Count>(byte_size(type_)), parts = (elements_ + kPart - 1) / kPart;
    call.workers.for_each(parts, static_cast<double>(elements_ * bytes) / kBytes, [&](Count part, int) {
      const Count first = part * kPart, n = std::min(kPart, elements_ - first);
      const std::byte* const x = call.inputs[0] + first * bytes;
      auto* const y = reinterpret_cast<std::uint8_t*>(call.outputs[0]) + first;
      switch (type_) {
        case DataType::kHalf:
          return loops_.compare_bits_16(y, reinterpret_cast<const std::uint16_t*>(x), n, 0x7C00, is_nan_);
        case DataType::kBfloat16:
          return loops_.compare_bits_16(y, reinterpret_cast<const std::uint16_t*>(x), n, 0x7F80, is_nan_);
        case DataType::kFloat:
          return loops_.compare_bits_32(y, reinterpret_cast<const std::uint32_t*>(x), n, 0x7F800000, is_nan_);
        default:
          return loops_.compare_bits_64(y, reinterpret_cast<const std::uint64_t*>(x), n, 0x7FF0000000000000, is_nan_);
      }
    });
  }

 private:
  DataType type_;
  bool is_nan_;
  Count elements_;
  const ScalingLoops& loops_;
};

}  // namespace

bool plan_real_classes(Planner& planner, const Expression& e) {
  using Kind = ElementNode::Kind;
  const ValueInfo& out = planner.info(e.result);
  const ElementNode& element = *e.element;
  if (out.type != DataType::kBool || element.kind != Kind::kApply || element_count(out.sizes) == 0) return false;
  if (element.function != &functions::is_nan && element.function != &functions::is_infinite) return false;
  const ElementNode& read = *element.arguments[0];
  if (read.kind != Kind::kRead || read.zero_outside) return false;
  const ValueId value = e.operands[static_cast<std::size_t>(read.operand)];
  const ValueInfo& given = planner.info(value);
  const DataType type = given.type;
  if (type != DataType::kHalf && type != DataType::kBfloat16 && type != DataType::kFloat && type != DataType::kDouble)
    return false;
  if (given.sizes != out.sizes || !at_result_position(read, e.position, out.sizes)) return false;
  if (const auto assigned = planner.assigned_layout(e.result); assigned && !assigned->plain()) return false;
  if (const auto layouts = planner.layouts(value); !layouts.empty() && !layouts[0].plain()) return false;
  const int x = planner.storage(value, kPlain), y = planner.add_value(e.result, kPlain);
  planner.add_step(std::make_unique<RealClassKernel>(type, element.function == &functions::is_nan, element_count(out.sizes),
                                                     loops_for<ScalingLoops>(planner.options().isa)),
                   {x}, {y});
  return true;
}

}  // namespace rewright::cpu
