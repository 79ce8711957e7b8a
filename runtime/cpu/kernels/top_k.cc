// The largest or smallest elements along an axis, with their positions.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "operators/tensor_parts.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

namespace {

constexpr double kElements = 0.3;  // per nanosecond

struct TopKShape {
  operators::AxisView x;
  std::int64_t count;
  bool largest;
};

// The kind of number that an element's bits are.
enum class Numbers { kUnsigned, kSigned, kReal };

// Unsigned numbers in the order of elements. -0 is 0, and NaN the largest.
template <Numbers kNumbers, class Bits>
Bits in_order(Bits bits, Bits infinity) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  if constexpr (kNumbers == Numbers::kUnsigned) return bits;
  if constexpr (kNumbers == Numbers::kSigned) return static_cast<Bits>(bits ^ kSign);
  const Bits magnitude = static_cast<Bits>(bits & ~kSign);
  const Bits number = static_cast<Bits>(bits == magnitude ? kSign + magnitude : kSign - magnitude);
  return magnitude > infinity ? static_cast<Bits>(~Bits{0}) : number;
}

__extension__ typedef unsigned __int128 Wide;

// Keys are an element and its position in one number, so that all differ and the first of equal elements is the smallest.
// T: the type of elements.
template <class T, class Bits, class Key, Numbers kNumbers>
class TopKKernel final : public Kernel {
 public:
  using Extreme = T (*)(const T* x, Count n);  // NaN if there is one

  // `extreme`: a loop for the largest (or smallest) element; null: none.
  TopKKernel(const TopKShape& shape, Bits infinity, Extreme extreme, int values, int positions)
      : s_(shape), infinity_(infinity), extreme_(extreme), values_(values), positions_(positions) {}

  void run(const Call& call) const override {
    const std::int64_t rows = s_.x.before * s_.x.after;
    call.workers.for_each(rows, static_cast<double>(rows * s_.x.size) / kElements,
                          [&](std::int64_t row, int) { run_row(call, row); });
  }

 private:
  static constexpr int kPositionBits = 8 * sizeof(Key) / 2;
  static constexpr std::int64_t kBlock = 32, kBlocks = 4;

  void run_row(const Call& call, std::int64_t row) const {
    static thread_local std::vector<Key> keys;
    const auto* const x =
        reinterpret_cast<const Bits*>(call.inputs[0]) + row / s_.x.after * s_.x.size * s_.x.after + row % s_.x.after;
    const Bits flip = s_.largest ? static_cast<Bits>(~Bits{0}) : Bits{0};
    const auto number = [&](std::int64_t t) {
      return static_cast<Bits>(in_order<kNumbers>(x[t * s_.x.after], infinity_) ^ flip);
    };
    const auto key = [](Bits bits, std::int64_t t) { return (Key{bits} << kPositionBits) | static_cast<Key>(t); };
    if (s_.count * 4 <= s_.x.size && s_.count > 0) {
      // A heap of the smallest keys so far, the largest of them in front. Equal elements further on are not smaller.
      keys.resize(static_cast<std::size_t>(s_.count));
      for (std::int64_t t = 0; t < s_.count; ++t) keys[static_cast<std::size_t>(t)] = key(number(t), t);
      std::make_heap(keys.begin(), keys.end());
      const auto limit = [&] { return static_cast<Bits>(keys.front() >> kPositionBits); };
      const auto offer = [&](Bits bits, std::int64_t t) {
        if (bits >= limit()) return;
        std::pop_heap(keys.begin(), keys.end());
        keys.back() = key(bits, t);
        std::push_heap(keys.begin(), keys.end());
      };
      std::int64_t t = s_.count;
      for (; t + kBlock <= s_.x.size; t += kBlock) {
        if (has_none_of(x, t, kBlocks * kBlock, keys.front())) {
          t += (kBlocks - 1) * kBlock;
          continue;
        }
        if (has_none_of(x, t, kBlock, keys.front())) continue;
        if (extreme_ != nullptr && s_.x.after == 1) {
          for (std::int64_t n = t; n < t + kBlock; ++n)
            if (!is_no_better(reinterpret_cast<const T*>(x)[n], limit_element(x, keys.front()))) offer(number(n), n);
          continue;
        }
        Bits block[kBlock], least = static_cast<Bits>(~Bits{0});
        for (std::int64_t n = 0; n < kBlock; ++n) {
          block[n] = number(t + n);
          least = std::min(least, block[n]);
        }
        for (std::int64_t n = 0; n < kBlock && least < limit(); ++n) offer(block[n], t + n);
      }
      for (; t < s_.x.size; ++t) offer(number(t), t);
    } else {
      keys.resize(static_cast<std::size_t>(s_.x.size));
      for (std::int64_t t = 0; t < s_.x.size; ++t) keys[static_cast<std::size_t>(t)] = key(number(t), t);
      if (s_.count < s_.x.size) std::nth_element(keys.begin(), keys.begin() + s_.count, keys.end());
    }
    std::sort(keys.begin(), keys.begin() + s_.count);
    const std::int64_t first = row / s_.x.after * s_.count * s_.x.after + row % s_.x.after;
    for (std::int64_t t = 0; t < s_.count; ++t) {
      const auto at = static_cast<std::int64_t>(keys[static_cast<std::size_t>(t)] & ((Key{1} << kPositionBits) - 1));
      if (values_ >= 0) reinterpret_cast<Bits*>(call.outputs[values_])[first + t * s_.x.after] = x[at * s_.x.after];
      if (positions_ >= 0) reinterpret_cast<std::int64_t*>(call.outputs[positions_])[first + t * s_.x.after] = at;
    }
  }

  // Is none of the next elements better than that of a key?
  bool has_none_of(const Bits* x, std::int64_t t, std::int64_t count, Key key) const {
    if (extreme_ == nullptr || s_.x.after != 1 || t + count > s_.x.size) return false;
    return is_no_better(extreme_(reinterpret_cast<const T*>(x) + t, count), limit_element(x, key));
  }
  T limit_element(const Bits* x, Key key) const {
    return reinterpret_cast<const T*>(x)[static_cast<std::int64_t>(key & ((Key{1} << kPositionBits) - 1))];
  }
  bool is_no_better(T element, T limit) const { return s_.largest ? element <= limit : element >= limit; }  // not for NaN

  TopKShape s_;
  Bits infinity_;
  Extreme extreme_;
  int values_, positions_;  // numbers of outputs; -1: none
};

// Null for types without a kernel.
std::unique_ptr<Kernel> make_top_k(DataType type, const TopKShape& shape, int values, int positions, Isa isa) {
  const LoopTables& loops = loops_for<LoopTables>(isa);
  const auto make = [&]<class T, class Bits, class Key, Numbers kNumbers>(
                        T (*extreme)(const T*, Count), Bits infinity, Key,
                        std::integral_constant<Numbers, kNumbers>) -> std::unique_ptr<Kernel> {
    return std::make_unique<TopKKernel<T, Bits, Key, kNumbers>>(shape, infinity, extreme, values, positions);
  };
  const auto extreme_of = [&](const auto& table) { return shape.largest ? table.largest : table.smallest; };
  const auto none = [](auto element) -> decltype(element) (*)(const decltype(element)*, Count) { return nullptr; };
  constexpr std::integral_constant<Numbers, Numbers::kReal> kReal;
  constexpr std::integral_constant<Numbers, Numbers::kSigned> kSigned;
  constexpr std::integral_constant<Numbers, Numbers::kUnsigned> kUnsigned;
  switch (type) {
    case DataType::kFloat:
      return make(extreme_of(loops.f32), std::uint32_t{0x7F800000}, std::uint64_t{}, kReal);
    case DataType::kDouble:
      return make(extreme_of(loops.f64), std::uint64_t{0x7FF0000000000000}, Wide{}, kReal);
    case DataType::kHalf:
      return make(none(std::uint16_t{}), std::uint16_t{0x7C00}, std::uint64_t{}, kReal);
    case DataType::kBfloat16:
      return make(none(std::uint16_t{}), std::uint16_t{0x7F80}, std::uint64_t{}, kReal);
    case DataType::kInt8:
      return make(extreme_of(loops.i8), std::uint8_t{}, std::uint64_t{}, kSigned);
    case DataType::kUint8:
      return make(none(std::uint8_t{}), std::uint8_t{}, std::uint64_t{}, kUnsigned);
    case DataType::kInt16:
      return make(extreme_of(loops.i16), std::uint16_t{}, std::uint64_t{}, kSigned);
    case DataType::kUint16:
      return make(none(std::uint16_t{}), std::uint16_t{}, std::uint64_t{}, kUnsigned);
    case DataType::kInt32:
      return make(extreme_of(loops.i32), std::uint32_t{}, std::uint64_t{}, kSigned);
    case DataType::kUint32:
      return make(none(std::uint32_t{}), std::uint32_t{}, std::uint64_t{}, kUnsigned);
    case DataType::kInt64:
      return make(extreme_of(loops.i64), std::uint64_t{}, Wide{}, kSigned);
    case DataType::kUint64:
      return make(none(std::uint64_t{}), std::uint64_t{}, Wide{}, kUnsigned);
    default:
      return nullptr;
  }
}

class TopKPlan final : public NodePlan {
 public:
  TopKPlan(const Node& node, const TopKShape& shape) : node_(node), shape_(shape) {}

  void emit(Planner& planner, ValueId) override {
    const int x = planner.storage(node_.inputs[0], kPlain);
    std::vector<int> outputs;
    int numbers[2] = {-1, -1};
    for (std::size_t o = 0; o < node_.outputs.size() && o < 2; ++o) {
      if (node_.outputs[o] == kNoValue) continue;
      numbers[o] = static_cast<int>(outputs.size());
      outputs.push_back(planner.add_value(node_.outputs[o], kPlain));
    }
    planner.add_step(make_top_k(planner.info(node_.inputs[0]).type, shape_, numbers[0], numbers[1], planner.options().isa), {x},
                     std::move(outputs));
  }

 private:
  const Node& node_;
  TopKShape shape_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_top_k(Planner& planner, const Node& node) {
  const ValueInfo& x = planner.info(node.inputs[0]);
  const AttributeReader attributes(node);
  const auto axis = static_cast<std::size_t>(attributes.number("axis"));
  if (axis >= x.sizes.size() || x.sizes[axis] >= std::int64_t{1} << 32) return nullptr;
  const ValueId result = node.outputs[0] != kNoValue ? node.outputs[0] : node.outputs.at(1);
  const TopKShape shape{operators::AxisView(x.sizes, axis), planner.info(result).sizes[axis],
                        attributes.number("largest") != 0};
  return make_top_k(x.type, shape, 0, 1, planner.options().isa) ? std::make_unique<TopKPlan>(node, shape) : nullptr;
}

}  // namespace rewright::cpu
