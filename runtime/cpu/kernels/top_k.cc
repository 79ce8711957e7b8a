// The largest or smallest elements along an axis, with their positions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "operators/tensor_parts.h"
#include "runtime/cpu/loops/selection_loops.h"
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

// Loops over elements of type T; null: none.
template <class T>
struct TopKLoops {
  T (*extreme)(const T* x, Count n) = nullptr;  // the largest (or smallest) element; NaN if there is one
  void (*of_columns)(T* d, const T* s, Count stride, Count steps, Count n) = nullptr;      // that of each column
  void (*load)(T* d, const void* source, DataType type, Count stride, Count n) = nullptr;  // for elements of another type
  void (*transpose)(T* d, const T* s, Count stride, Count rows, Count columns) = nullptr;
};

// Keys are an element and its position in one number, so that all differ and the first of equal elements is the smallest.
// T: the type in which elements are compared.
template <class T, class Bits, class Key, Numbers kNumbers>
class TopKKernel final : public Kernel {
 public:
  TopKKernel(const TopKShape& shape, DataType type, Bits infinity, const TopKLoops<T>& loops, const SelectionLoops& selection,
             int values, int positions)
      : s_(shape),
        type_(type),
        infinity_(infinity),
        loops_(loops),
        selection_(selection),
        values_(values),
        positions_(positions) {}

  void run(const Call& call) const override {
    const std::int64_t rows = s_.x.before * s_.x.after;
    const double nanoseconds = static_cast<double>(rows * s_.x.size) / kElements;
    const auto* const x = reinterpret_cast<const Bits*>(call.inputs[0]);
    if (selects_columns()) {
      constexpr std::int64_t kTogether = SelectionLoops::kColumns;
      return call.workers.for_each((rows + kTogether - 1) / kTogether, nanoseconds, [&](std::int64_t block, int) {
        select_columns(call, block * kTogether, std::min(kTogether, rows - block * kTogether), x);
      });
    }
    if (s_.x.after == 1)
      return call.workers.for_each(rows, nanoseconds, [&](std::int64_t row, int) { run_row(call, row, x + row * s_.x.size); });
    const std::int64_t columns = std::clamp<std::int64_t>(rows / std::max(call.workers.threads(), 1), 1, kColumns);
    const std::int64_t blocks = (s_.x.after + columns - 1) / columns;
    call.workers.for_each(s_.x.before * blocks, nanoseconds, [&](std::int64_t n, int) {
      const std::int64_t first = n % blocks * columns;
      run_columns(call, n / blocks, first, std::min(columns, s_.x.after - first), x);
    });
  }

 private:
  static constexpr int kPositionBits = 8 * sizeof(Key) / 2;
  static constexpr std::int64_t kBlock = 32, kBlocks = 4;
  static constexpr std::int64_t kGroups = 16, kMostGroups = 1024, kFewGroups = 8;
  static constexpr std::int64_t kColumns = 16;  // that become rows at once

  // Elements that SelectionLoops compares: of their own width, or 32 bits.
  using Selected = std::conditional_t<sizeof(Bits) == 8, std::int64_t, std::int32_t>;
  static constexpr bool kWidens = sizeof(Bits) < sizeof(Selected), kHasOrder = !kWidens && kNumbers != Numbers::kUnsigned;

  // Are a few elements of many columns wanted? Short rows become columns.
  bool selects_columns() const {
    constexpr std::int64_t kLongRow = 512, kFewRows = SelectionLoops::kColumns / 2, kLongest = std::int64_t{1} << 31;
    return s_.count >= 1 && s_.count <= SelectionLoops::kMost && s_.x.before * s_.x.after >= kFewRows && s_.x.size < kLongest &&
           (s_.x.after > 1 || s_.x.size <= kLongRow);
  }

  Selected selected(Bits bits) const {
    if constexpr (kHasOrder) return static_cast<Selected>(bits);
    if constexpr (kWidens) return static_cast<Selected>(in_order<kNumbers>(bits, infinity_));
    return static_cast<Selected>(bits ^ (Bits{1} << (8 * sizeof(Bits) - 1)));
  }

  // Some columns of the matrices; all matrices' columns are numbered one after the other.
  void select_columns(const Call& call, std::int64_t first, std::int64_t count, const Bits* x) const {
    constexpr std::int64_t kTogether = SelectionLoops::kColumns;
    const std::int64_t size = s_.x.size, after = s_.x.after, matrix = first / after, column = first % after;
    std::int32_t where[SelectionLoops::kMost * kTogether];
    const auto select = [&](const Selected* from, std::int64_t stride) {
      constexpr bool kReals = kHasOrder && kNumbers == Numbers::kReal;
      if constexpr (sizeof(Selected) == sizeof(std::int64_t))
        selection_.select_64(where, from, stride, size, s_.count, kReals, !s_.largest);
      else
        selection_.select_32(where, from, stride, size, s_.count, kReals, !s_.largest);
    };
    const Bits* const from = x + matrix * size * after + column;
    if (kHasOrder && count == kTogether && column + count <= after) {
      select(reinterpret_cast<const Selected*>(from), after);
    } else {
      static thread_local std::vector<Selected> panel;
      panel.resize(static_cast<std::size_t>((size + 1) * kTogether));
      if (after == 1 && kHasOrder && loops_.transpose != nullptr) {
        loops_.transpose(reinterpret_cast<T*>(panel.data()), reinterpret_cast<const T*>(from), size, size, count);
        select(panel.data(), count);
      } else {
        gather_columns(x, first, count, panel.data());
        select(panel.data(), kTogether);
      }
    }
    for (std::int64_t c = 0; c < count; ++c) {
      const std::int64_t m = (first + c) / after, n = (first + c) % after;
      const Bits* const elements = x + m * size * after + n;
      for (std::int64_t t = 0; t < s_.count; ++t) {
        const std::int64_t at = where[t * kTogether + c], to = (m * s_.count + t) * after + n;
        if (values_ >= 0) reinterpret_cast<Bits*>(call.outputs[values_])[to] = elements[at * after];
        if (positions_ >= 0) reinterpret_cast<std::int64_t*>(call.outputs[positions_])[to] = at;
      }
    }
  }
  // Columns side by side, those that follow each other in memory together.
  void gather_columns(const Bits* x, std::int64_t first, std::int64_t count, Selected* panel) const {
    constexpr std::int64_t kTogether = SelectionLoops::kColumns;
    const std::int64_t size = s_.x.size, after = s_.x.after;
    for (std::int64_t c = 0; c < count;) {
      const std::int64_t column = (first + c) % after, run = std::min(count - c, after - column);
      const Bits* from = x + (first + c) / after * size * after + column;
      Selected* to = panel + c;
      for (std::int64_t t = 0; t < size; ++t, from += after, to += kTogether) {
        if (run == kTogether)
          for (std::int64_t k = 0; k < kTogether; ++k) to[k] = selected(from[k]);
        else
          for (std::int64_t k = 0; k < run; ++k) to[k] = selected(from[k]);
      }
      c += run;
    }
  }

  static Key key_of(Bits bits, std::int64_t t) { return (Key{bits} << kPositionBits) | static_cast<Key>(t); }

  // The elements that may be among the best, as keys: those of the groups whose best element is, which is found by vectors.
  // Groups are columns of the row as a matrix. False if there is nothing to gain, or a NaN.
  bool select_by_groups(const Bits* x, std::vector<Key>& keys) const {
    const std::int64_t size = s_.x.size, count = s_.count;
    if (loops_.of_columns == nullptr || count == 0) return false;
    const auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(count) * static_cast<double>(size)));
    const std::int64_t groups = std::clamp(root / kGroups * kGroups, kGroups, kMostGroups), steps = size / groups;
    if (2 * count > groups || steps < 4) return false;
    const T* elements = reinterpret_cast<const T*>(x);
    static thread_local std::vector<T> converted;
    if (loops_.load != nullptr) {
      converted.resize(static_cast<std::size_t>(size));
      loops_.load(converted.data(), x, type_, 1, size);
      elements = converted.data();
    }
    T extremes[kMostGroups], best[kMostGroups];
    loops_.of_columns(extremes, elements, groups, steps, groups);
    if (std::any_of(extremes, extremes + groups, [](T e) { return e != e; })) return false;  // NOLINT: asks for NaN
    const T limit = best_of(extremes, groups, best);
    const auto is_worse = [&](T e) { return s_.largest ? e < limit : e > limit; };  // a NaN is not
    const Bits flip = flip_bits();
    keys.clear();
    const auto add = [&](std::int64_t t) {
      keys.push_back(key_of(static_cast<Bits>(in_order<kNumbers>(x[t], infinity_) ^ flip), t));
    };
    const auto is_better = [&](T e) { return s_.largest ? !(e <= limit) : e < limit; };  // a NaN is the largest
    const auto few = std::count_if(extremes, extremes + groups, [&](T e) { return !is_worse(e); }) <= 2 * count + kFewGroups;
    const auto offer = [&](std::int64_t t) {
      if (few ? !is_worse(elements[t]) : is_better(elements[t])) add(t);
    };
    for (std::int64_t g = 0; g < groups; ++g)
      if (few ? !is_worse(extremes[g]) : is_better(extremes[g]))
        for (std::int64_t t = g; t < steps * groups; t += groups) offer(t);
    for (std::int64_t t = steps * groups; t < size; ++t) offer(t);
    // Many are as good as the worst: the first ones count.
    for (std::int64_t t = 0; t < size && std::ssize(keys) < count; ++t)
      if (!few && elements[t] == limit) add(t);
    if (std::ssize(keys) > count) std::nth_element(keys.begin(), keys.begin() + count, keys.end());
    return true;
  }

  // The worst of the best elements, as many as are wanted. `best`: memory for as many as are given.
  T best_of(const T* elements, std::int64_t count, T* best) const {
    constexpr std::int64_t kFew = 16;
    const auto is_better = [&](T a, T b) { return s_.largest ? a > b : a < b; };
    if (s_.count > kFew) {
      std::copy_n(elements, count, best);
      std::nth_element(best, best + s_.count - 1, best + count, is_better);
      return best[s_.count - 1];
    }
    std::copy_n(elements, s_.count, best);
    std::sort(best, best + s_.count, is_better);
    for (std::int64_t n = s_.count; n < count; ++n) {
      if (!is_better(elements[n], best[s_.count - 1])) continue;
      std::int64_t at = s_.count - 1;
      for (; at > 0 && is_better(elements[n], best[at - 1]); --at) best[at] = best[at - 1];
      best[at] = elements[n];
    }
    return best[s_.count - 1];
  }

  Bits flip_bits() const { return s_.largest ? static_cast<Bits>(~Bits{0}) : Bits{0}; }

  // Some columns of a matrix, which first become rows.
  void run_columns(const Call& call, std::int64_t matrix, std::int64_t first, std::int64_t count, const Bits* x) const {
    static thread_local std::vector<Bits> columns;
    const std::int64_t size = s_.x.size;
    columns.resize(static_cast<std::size_t>(count * size));
    const Bits* const from = x + matrix * size * s_.x.after + first;
    if (loops_.transpose != nullptr)
      loops_.transpose(reinterpret_cast<T*>(columns.data()), reinterpret_cast<const T*>(from), s_.x.after, count, size);
    else
      for (std::int64_t t = 0; t < size; ++t)
        for (std::int64_t c = 0; c < count; ++c) columns[static_cast<std::size_t>(c * size + t)] = from[t * s_.x.after + c];
    for (std::int64_t c = 0; c < count; ++c) run_row(call, matrix * s_.x.after + first + c, columns.data() + c * size);
  }

  void run_row(const Call& call, std::int64_t row, const Bits* x) const {
    static thread_local std::vector<Key> keys;
    const Bits flip = flip_bits();
    const auto number = [&](std::int64_t t) { return static_cast<Bits>(in_order<kNumbers>(x[t], infinity_) ^ flip); };
    const auto key = [](Bits bits, std::int64_t t) { return key_of(bits, t); };
    const bool is_selected = select_by_groups(x, keys);
    if (!is_selected && s_.count * 4 <= s_.x.size && s_.count > 0) {
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
        if (loops_.extreme != nullptr) {
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
    } else if (!is_selected) {
      keys.resize(static_cast<std::size_t>(s_.x.size));
      for (std::int64_t t = 0; t < s_.x.size; ++t) keys[static_cast<std::size_t>(t)] = key(number(t), t);
      if (s_.count < s_.x.size) std::nth_element(keys.begin(), keys.begin() + s_.count, keys.end());
    }
    std::sort(keys.begin(), keys.begin() + s_.count);
    const std::int64_t first = row / s_.x.after * s_.count * s_.x.after + row % s_.x.after;
    for (std::int64_t t = 0; t < s_.count; ++t) {
      const auto at = static_cast<std::int64_t>(keys[static_cast<std::size_t>(t)] & ((Key{1} << kPositionBits) - 1));
      if (values_ >= 0) reinterpret_cast<Bits*>(call.outputs[values_])[first + t * s_.x.after] = x[at];
      if (positions_ >= 0) reinterpret_cast<std::int64_t*>(call.outputs[positions_])[first + t * s_.x.after] = at;
    }
  }

  // Is none of the next elements better than that of a key?
  bool has_none_of(const Bits* x, std::int64_t t, std::int64_t count, Key key) const {
    if (loops_.extreme == nullptr || t + count > s_.x.size) return false;
    return is_no_better(loops_.extreme(reinterpret_cast<const T*>(x) + t, count), limit_element(x, key));
  }
  T limit_element(const Bits* x, Key key) const {
    return reinterpret_cast<const T*>(x)[static_cast<std::int64_t>(key & ((Key{1} << kPositionBits) - 1))];
  }
  bool is_no_better(T element, T limit) const { return s_.largest ? element <= limit : element >= limit; }  // not for NaN

  TopKShape s_;
  DataType type_;
  Bits infinity_;
  TopKLoops<T> loops_;
  const SelectionLoops& selection_;
  int values_, positions_;  // numbers of outputs; -1: none
};

// Null for types without a kernel.
std::unique_ptr<Kernel> make_top_k(DataType type, const TopKShape& shape, int values, int positions, Isa isa) {
  const LoopTables& loops = loops_for<LoopTables>(isa);
  const auto make = [&]<class T, class Bits, class Key, Numbers kNumbers>(
                        const TopKLoops<T>& of, Bits infinity, Key,
                        std::integral_constant<Numbers, kNumbers>) -> std::unique_ptr<Kernel> {
    return std::make_unique<TopKKernel<T, Bits, Key, kNumbers>>(shape, type, infinity, of, loops_for<SelectionLoops>(isa),
                                                                values, positions);
  };
  const auto loops_of = [&]<class T, class M>(const Elements<T, M>& table) {
    return shape.largest ? TopKLoops<T>{table.largest, table.column_largest, nullptr, table.transpose}
                         : TopKLoops<T>{table.smallest, table.column_smallest, nullptr, table.transpose};
  };
  TopKLoops<float> as_floats = loops_of(loops.f32);  // elements of 16 bits
  as_floats.extreme = nullptr, as_floats.transpose = nullptr, as_floats.load = loops.f32.load;
  constexpr std::integral_constant<Numbers, Numbers::kReal> kReal;
  constexpr std::integral_constant<Numbers, Numbers::kSigned> kSigned;
  constexpr std::integral_constant<Numbers, Numbers::kUnsigned> kUnsigned;
  switch (type) {
    case DataType::kFloat:
      return make(loops_of(loops.f32), std::uint32_t{0x7F800000}, std::uint64_t{}, kReal);
    case DataType::kDouble:
      return make(loops_of(loops.f64), std::uint64_t{0x7FF0000000000000}, Wide{}, kReal);
    case DataType::kHalf:
      return make(as_floats, std::uint16_t{0x7C00}, std::uint64_t{}, kReal);
    case DataType::kBfloat16:
      return make(as_floats, std::uint16_t{0x7F80}, std::uint64_t{}, kReal);
    case DataType::kInt8:
      return make(loops_of(loops.i8), std::uint8_t{}, std::uint64_t{}, kSigned);
    case DataType::kUint8:
      return make(loops_of(loops.u8), std::uint8_t{}, std::uint64_t{}, kUnsigned);
    case DataType::kInt16:
      return make(loops_of(loops.i16), std::uint16_t{}, std::uint64_t{}, kSigned);
    case DataType::kUint16:
      return make(TopKLoops<std::uint16_t>(), std::uint16_t{}, std::uint64_t{}, kUnsigned);
    case DataType::kInt32:
      return make(loops_of(loops.i32), std::uint32_t{}, std::uint64_t{}, kSigned);
    case DataType::kUint32:
      return make(TopKLoops<std::uint32_t>(), std::uint32_t{}, std::uint64_t{}, kUnsigned);
    case DataType::kInt64:
      return make(loops_of(loops.i64), std::uint64_t{}, Wide{}, kSigned);
    case DataType::kUint64:
      return make(TopKLoops<std::uint64_t>(), std::uint64_t{}, Wide{}, kUnsigned);
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
