// Maximum pools that also give the position of each maximum, and those of doubles.
#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/cpu/kernels/pool_shape.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

namespace {

// The numbering of positions: row-major over the whole tensor, column-major within images (MaxPool's storage_order 1), or
// row-major within each plane.
enum class Positions { kRows, kColumns, kOfPlanes };

// Maxima of row-major images with the position of each first one, for the gradient. T: float or double.
template <class T>
class MaximumKernel final : public Kernel {
 public:
  MaximumKernel(PoolShape shape, Positions positions, const RealLoops<T>& loops)
      : s_(of_three_axes(std::move(shape))), positions_(positions), loops_(loops) {
    for (std::size_t a = 0; a < 3; ++a)
      for (std::int64_t p = 0; p < s_.y[a + 2]; ++p) taps_[a].push_back(s_.taps(a, p));
    const auto is_whole = [&](const PoolShape::Taps& t) { return t.count == s_.kernel[2]; };
    whole_begin_ = std::find_if(taps_[2].begin(), taps_[2].end(), is_whole) - taps_[2].begin();
    whole_end_ = whole_begin_;
    while (whole_end_ < s_.y[4] && is_whole(taps_[2][static_cast<std::size_t>(whole_end_)])) ++whole_end_;
    if (whole_end_ - whole_begin_ < kFewColumns) whole_end_ = whole_begin_ = 0;
  }

  void run(const Call& call) const override {
    const std::int64_t planes = s_.x[0] * s_.x[1];
    const double taps = static_cast<double>(element_count(s_.y) * element_count(s_.kernel));
    call.workers.for_each(planes, taps, [&](std::int64_t plane, int) { run_plane(call, plane); });
  }

 private:
  struct Found {
    T value = 0;
    std::int64_t at = -1;
  };

  void run_plane(const Call& call, std::int64_t plane) const {
    const std::int64_t size = s_.x[2] * s_.x[3] * s_.x[4], results = s_.y[2] * s_.y[3] * s_.y[4];
    const T* const x = reinterpret_cast<const T*>(call.inputs[0]) + plane * size;
    T* y = reinterpret_cast<T*>(call.outputs[0]) + plane * results;
    auto* where = call.outputs.size() < 2 ? nullptr : reinterpret_cast<std::int64_t*>(call.outputs[1]) + plane * results;
    const std::int64_t first = positions_ == Positions::kOfPlanes ? 0 : plane * size;
    for (const PoolShape::Taps& slices : taps_[0])
      for (const PoolShape::Taps& rows : taps_[1]) {
        std::int64_t column = 0;
        for (const PoolShape::Taps& columns : taps_[2]) {
          if (const std::int64_t at = column++; at >= whole_begin_ && at < whole_end_) {
            if (at == whole_begin_ && where != nullptr) run_row(x, slices, rows, columns.first, first, y, where);
            if (at == whole_begin_ && where == nullptr) run_row(x, slices, rows, columns.first, y);
            ++y;
            if (where != nullptr) ++where;
            continue;
          }
          const Found found = positions_ == Positions::kColumns ? maximum<true>(x, slices, rows, columns)
                                                                : maximum<false>(x, slices, rows, columns);
          *y++ = found.value;
          if (where != nullptr) *where++ = first + found.at;
        }
      }
  }

  // The results of a row whose windows have all of their columns, of which the first begins at `column`.
  void run_row(const T* x, const PoolShape::Taps& slices, const PoolShape::Taps& rows, std::int64_t column, std::int64_t first,
               T* y, std::int64_t* where) const {
    const bool by_columns = positions_ == Positions::kColumns;
    const std::int64_t count = whole_end_ - whole_begin_, width = s_.x[4], slice = s_.x[3] * width;
    // The distance of the positions of neighbours, by axis.
    const std::int64_t apart[3] = {by_columns ? 1 : slice, by_columns ? s_.x[2] : width, by_columns ? s_.x[2] * s_.x[3] : 1};
    const std::int64_t outer = by_columns ? s_.kernel[2] : slices.count, inner = by_columns ? slices.count : s_.kernel[2];
    for (std::int64_t begin = 0; begin < count; begin += kPart) {
      const std::int64_t n = std::min(kPart, count - begin);
      T best[kPart], candidates[kPart];
      std::int64_t at[kPart];
      bool is_first = true;
      for (std::int64_t i = 0; i < outer; ++i)
        for (std::int64_t j = 0; j < rows.count; ++j)
          for (std::int64_t k = 0; k < inner; ++k) {
            const std::int64_t z = slices.first + (by_columns ? k : i) * (s_.dilations[0] + 1),
                               row = rows.first + j * (s_.dilations[1] + 1),
                               q = column + begin * s_.strides[2] + (by_columns ? i : k) * (s_.dilations[2] + 1);
            const std::int64_t position = z * apart[0] + row * apart[1] + q * apart[2];
            loops_.load(is_first ? best : candidates, x + z * slice + row * width + q, kType, s_.strides[2], n);
            if (is_first)
              std::fill_n(at, n, position);
            else
              loops_.find_best(best, at, candidates, position, true, false, n);
            is_first = false;
          }
      std::copy_n(best, n, y + begin);
      for (std::int64_t q = 0; q < n; ++q) where[begin + q] = first + at[q] + q * s_.strides[2] * apart[2];
    }
  }

  // As above, without positions.
  void run_row(const T* x, const PoolShape::Taps& slices, const PoolShape::Taps& rows, std::int64_t column, T* y) const {
    const std::int64_t count = whole_end_ - whole_begin_, width = s_.x[4];
    T strided[kPart];
    for (std::int64_t begin = 0; begin < count; begin += kPart) {
      const std::int64_t n = std::min(kPart, count - begin);
      bool is_first = true;
      for (std::int64_t i = 0; i < slices.count; ++i)
        for (std::int64_t j = 0; j < rows.count; ++j)
          for (std::int64_t k = 0; k < s_.kernel[2]; ++k) {
            const std::int64_t row =
                (slices.first + i * (s_.dilations[0] + 1)) * s_.x[3] + rows.first + j * (s_.dilations[1] + 1);
            const T* from = x + row * width + column + begin * s_.strides[2] + k * (s_.dilations[2] + 1);
            if (s_.strides[2] != 1) {
              loops_.load(strided, from, kType, s_.strides[2], n);
              from = strided;
            }
            if (is_first)
              std::copy_n(from, n, y + begin);
            else
              loops_.maximum(y + begin, y + begin, from, n);
            is_first = false;
          }
    }
  }

  // Axes are traversed in the order in which positions are counted.
  template <bool kColumns>
  Found maximum(const T* x, const PoolShape::Taps& slices, const PoolShape::Taps& rows, const PoolShape::Taps& columns) const {
    const std::int64_t strides[3] = {s_.x[3] * s_.x[4], s_.x[4], 1},
                       counts[3] = {kColumns ? 1 : s_.x[3] * s_.x[4], kColumns ? s_.x[2] : s_.x[4],
                                    kColumns ? s_.x[2] * s_.x[3] : 1};
    const PoolShape::Taps* const taps[3] = {&slices, &rows, &columns};
    constexpr std::size_t kOuter = kColumns ? 2 : 0, kInner = 2 - kOuter;
    Found found;
    for (std::int64_t i = 0; i < taps[kOuter]->count; ++i)
      for (std::int64_t j = 0; j < rows.count; ++j)
        for (std::int64_t k = 0; k < taps[kInner]->count; ++k) {
          const std::int64_t outer = taps[kOuter]->first + i * (s_.dilations[kOuter] + 1),
                             middle = rows.first + j * (s_.dilations[1] + 1),
                             inner = taps[kInner]->first + k * (s_.dilations[kInner] + 1);
          const T value = x[outer * strides[kOuter] + middle * strides[1] + inner * strides[kInner]];
          // NaN is larger than all later elements.
          if (found.at < 0 || !(value <= found.value || std::isnan(found.value)))
            found = {value, outer * counts[kOuter] + middle * counts[1] + inner * counts[kInner]};
        }
    return found;
  }

  static constexpr std::int64_t kFewColumns = 4, kPart = 128;
  static constexpr DataType kType = std::is_same_v<T, float> ? DataType::kFloat : DataType::kDouble;

  PoolShape s_;
  Positions positions_;
  const RealLoops<T>& loops_;
  std::vector<PoolShape::Taps> taps_[3];          // by axis and position
  std::int64_t whole_begin_ = 0, whole_end_ = 0;  // columns whose windows are whole, if they are many
};

class MaximumPlan final : public NodePlan {
 public:
  MaximumPlan(const Node& node, PoolShape shape, Positions positions)
      : node_(node), shape_(std::move(shape)), positions_(positions) {}
  void emit(Planner& planner, ValueId) override {
    const int x = planner.storage(node_.inputs[0], kPlain);
    std::vector<int> targets{planner.add_value(node_.outputs[0], kPlain)};
    if (node_.outputs.size() > 1) targets.push_back(planner.add_value(node_.outputs[1], kPlain));
    const Isa isa = planner.options().isa;
    std::unique_ptr<Kernel> kernel;
    if (planner.info(node_.inputs[0]).type == DataType::kFloat)
      kernel = std::make_unique<MaximumKernel<float>>(shape_, positions_, real_loops<float>(isa));
    else
      kernel = std::make_unique<MaximumKernel<double>>(shape_, positions_, real_loops<double>(isa));
    planner.add_step(std::move(kernel), {x}, std::move(targets));
  }

 private:
  const Node& node_;
  PoolShape shape_;
  Positions positions_;
};

}  // namespace

// Not supported if a window may be outside of the image, since it has no maximum.
std::unique_ptr<NodePlan> plan_maximum_with_positions(Planner& planner, const Node& node) {
  const DataType type = planner.info(node.inputs[0]).type;
  const bool has_positions = node.outputs.size() > 1;
  if (has_positions && (node.outputs[0] == kNoValue || node.outputs[1] == kNoValue)) return nullptr;
  if (type != DataType::kDouble && (type != DataType::kFloat || !has_positions)) return nullptr;
  const std::int64_t order = AttributeReader(node).number("storage_order");
  auto shape = read_pool(planner, node, false, has_positions);
  if (!shape) return nullptr;
  if (!has_positions && shape->kernel.size() == 1) return nullptr;  // the tile engine takes a third of the time
  const PoolShape whole = of_three_axes(*shape);
  for (std::size_t a = 0; a < 3; ++a)
    for (std::int64_t p = 0; p < whole.y[a + 2]; ++p)
      if (whole.taps(a, p).count < 1) return nullptr;
  return std::make_unique<MaximumPlan>(node, std::move(*shape),
                                       order == 2   ? Positions::kOfPlanes
                                       : order == 1 ? Positions::kColumns
                                                    : Positions::kRows);
}

}  // namespace rewright::cpu
