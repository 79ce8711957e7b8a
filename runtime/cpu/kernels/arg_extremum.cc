// The positions of the largest or smallest elements along an axis (ArgMax, ArgMin).
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

constexpr double kElements = 1;  // per nanosecond

struct ArgShape {
  operators::AxisView x;
  bool largest, last;  // the last of equal elements
  DataType type;
};

// T: float, double or std::int64_t, to which elements are converted.
template <class T>
class ArgKernel final : public Kernel {
 public:
  ArgKernel(const ArgShape& shape, const Arithmetic<T>& loops) : s_(shape), loops_(loops) {}

  void run(const Call& call) const override {
    const double nanoseconds = static_cast<double>(s_.x.before * s_.x.after * s_.x.size) / kElements;
    if (s_.x.after == 1 && s_.x.size <= kShort) {
      const std::int64_t rows = kShortPart / s_.x.size, blocks = (s_.x.before + rows - 1) / rows;
      return call.workers.for_each(blocks, nanoseconds, [&](std::int64_t block, int) {
        run_short_rows(call, block * rows, std::min(rows, s_.x.before - block * rows));
      });
    }
    if (s_.x.after == 1)
      return call.workers.for_each(s_.x.before, nanoseconds, [&](std::int64_t row, int) { run_row(call, row); });
    const std::int64_t blocks = (s_.x.after + kColumns - 1) / kColumns;
    call.workers.for_each(s_.x.before * blocks, nanoseconds, [&](std::int64_t number, int) {
      const std::int64_t column = number % blocks * kColumns;
      run_columns(call, number / blocks, column, std::min(kColumns, s_.x.after - column));
    });
  }

 private:
  static constexpr std::int64_t kColumns = 256, kPart = 1024, kShort = 64, kShortPart = 4096;

  // `count` elements from `at` on; in `buffer` if they are converted.
  const T* elements(const Call& call, std::int64_t at, std::int64_t count, T* buffer) const {
    constexpr DataType kOwn = std::is_same_v<T, float>    ? DataType::kFloat
                              : std::is_same_v<T, double> ? DataType::kDouble
                                                          : DataType::kInt64;
    const std::byte* const x = call.inputs[0] + at * static_cast<std::int64_t>(byte_size(s_.type));
    if (s_.type == kOwn) return reinterpret_cast<const T*>(x);
    loops_.load(buffer, x, s_.type, 1, count);
    return buffer;
  }

  // Rows become columns, in which many rows are compared at once.
  void run_short_rows(const Call& call, std::int64_t row, std::int64_t count) const {
    T buffer[kShortPart], columns[kShortPart];
    loops_.transpose(columns, elements(call, row * s_.x.size, count * s_.x.size, buffer), s_.x.size, s_.x.size, count);
    std::int64_t* const where = reinterpret_cast<std::int64_t*>(call.outputs[0]) + row;
    std::fill_n(where, count, std::int64_t{0});
    for (std::int64_t t = 1; t < s_.x.size; ++t)
      loops_.find_best(columns, where, columns + t * count, t, s_.largest, s_.last, count);
  }

  // The first position that fits; there is one. Some are looked at together, as vectors.
  template <class Fits>
  static std::int64_t first_of(const T* x, std::int64_t count, const Fits& fits) {
    constexpr std::int64_t kTogether = 32;
    std::int64_t first = 0;
    for (; first + kTogether <= count; first += kTogether) {
      std::int32_t any = 0;
      for (std::int64_t k = first; k < first + kTogether; ++k) any |= static_cast<std::int32_t>(fits(x[k]));
      if (any != 0) break;
    }
    while (!fits(x[first])) ++first;
    return first;
  }

  // The extremum of each part, and where it stands if it is the best so far.
  void run_row(const Call& call, std::int64_t row) const {
    T buffer[kPart], best{};
    std::int64_t where = -1;
    for (std::int64_t first = 0; first < s_.x.size; first += kPart) {
      const std::int64_t count = std::min(kPart, s_.x.size - first);
      const T* const x = elements(call, row * s_.x.size + first, count, buffer);
      const T found = s_.largest ? loops_.largest(x, count) : loops_.smallest(x, count);
      const bool is_nan = found != found;  // NOLINT: asks for NaN
      if (where >= 0) {
        if (best != best) break;  // NOLINT: nothing is better than the first NaN
        const bool better = is_nan || (s_.largest ? found > best : found < best) || (s_.last && found == best);
        if (!better) continue;
      }
      best = found;
      if (is_nan) {
        where = first + first_of(x, count, [](T v) { return v != v; });  // NOLINT
      } else if (s_.last) {
        std::int64_t k = count - 1;
        while (x[k] != found) --k;
        where = first + k;
      } else {
        where = first + first_of(x, count, [found](T v) { return v == found; });
      }
    }
    reinterpret_cast<std::int64_t*>(call.outputs[0])[row] = where;
  }

  void run_columns(const Call& call, std::int64_t outer, std::int64_t column, std::int64_t count) const {
    T buffer[kColumns], best[kColumns];
    std::int64_t* const where = reinterpret_cast<std::int64_t*>(call.outputs[0]) + outer * s_.x.after + column;
    for (std::int64_t t = 0; t < s_.x.size; ++t) {
      const T* const x = elements(call, (outer * s_.x.size + t) * s_.x.after + column, count, buffer);
      if (t == 0) {
        std::copy_n(x, count, best);
        std::fill_n(where, count, std::int64_t{0});
      } else {
        loops_.find_best(best, where, x, t, s_.largest, s_.last, count);
      }
    }
  }

  ArgShape s_;
  const Arithmetic<T>& loops_;
};

// Null for types without a kernel.
std::unique_ptr<Kernel> make_arg(const ArgShape& shape, Isa isa) {
  switch (shape.type) {
    case DataType::kFloat:
    case DataType::kHalf:
    case DataType::kBfloat16:
      return std::make_unique<ArgKernel<float>>(shape, real_loops<float>(isa));
    case DataType::kDouble:
      return std::make_unique<ArgKernel<double>>(shape, real_loops<double>(isa));
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kInt16:
    case DataType::kUint16:
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kInt64:
      return std::make_unique<ArgKernel<std::int64_t>>(shape, loops_for<LoopTables>(isa).i64);
    default:
      return nullptr;
  }
}

class ArgPlan final : public NodePlan {
 public:
  ArgPlan(const Node& node, const ArgShape& shape) : node_(node), shape_(shape) {}
  void emit(Planner& planner, ValueId result) override {
    const int x = planner.storage(node_.inputs[0], kPlain);
    planner.add_step(make_arg(shape_, planner.options().isa), {x}, {planner.add_value(result, kPlain)});
  }

 private:
  const Node& node_;
  ArgShape shape_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_arg_extremum(Planner& planner, const Node& node) {
  const ValueInfo& x = planner.info(node.inputs[0]);
  const AttributeReader attributes(node);
  const auto axis = static_cast<std::size_t>(attributes.number("axis"));
  if (axis >= x.sizes.size() || x.sizes[axis] == 0) return nullptr;
  const ArgShape shape{operators::AxisView(x.sizes, axis), node.op->name() == "ArgMax", attributes.flag("select_last_index"),
                       x.type};
  return make_arg(shape, planner.options().isa) ? std::make_unique<ArgPlan>(node, shape) : nullptr;
}

}  // namespace rewright::cpu
