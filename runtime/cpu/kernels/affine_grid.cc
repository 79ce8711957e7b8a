// AffineGrid of floats and doubles: rows of a grid differ by one number for each coordinate.
#include "operators/definitions/affine_grid.h"

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/values_along.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;
template <class T>
struct GridLanes {
  typedef T Type __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
  static constexpr Count kCount = 32 / sizeof(T);
};

// Element i of the vector becomes c[(first + i) % kRank].
template <Count kRank, class T, std::size_t... kLane>
void repeat(typename GridLanes<T>::Type& lanes, const T* c, Count first, std::index_sequence<kLane...>) {
  lanes = typename GridLanes<T>::Type{c[(first + static_cast<Count>(kLane)) % kRank]...};
}

// Adds c[k] to each coordinate k of `points` points.
template <Count kRank, class T>
void add_to_points(T* y, const T* x, const T* c, Count points) {
  using Lanes = GridLanes<T>;
  constexpr auto kLanes = std::make_index_sequence<static_cast<std::size_t>(Lanes::kCount)>();
  typename Lanes::Type repeated[kRank];
#pragma GCC unroll 3
  for (Count v = 0; v < kRank; ++v) repeat<kRank>(repeated[v], c, v * Lanes::kCount, kLanes);
  Count p = 0;
  for (; p + Lanes::kCount <= points; p += Lanes::kCount)
#pragma GCC unroll 3
    for (Count v = 0; v < kRank; ++v) {
      const Count at = p * kRank + v * Lanes::kCount;
      *reinterpret_cast<typename Lanes::Type*>(y + at) = *reinterpret_cast<const typename Lanes::Type*>(x + at) + repeated[v];
    }
  for (; p < points; ++p)
    for (Count k = 0; k < kRank; ++k) y[p * kRank + k] = x[p * kRank + k] + c[k];
}

// T: float or double.
template <class T>
class AffineGridKernel final : public Kernel {
 public:
  // `positions`: those of the elements on each axis, from the outermost to the innermost.
  AffineGridKernel(Count images, std::vector<std::vector<T>> positions)
      : images_(images), positions_(std::move(positions)), rank_(static_cast<Count>(positions_.size())) {}

  void run(const Call& call) const override {
    constexpr double kElements = 3;  // a nanosecond
    const Count points = static_cast<Count>(positions_.back().size()), row = points * rank_;
    const Count rows = static_cast<Count>(positions_[positions_.size() - 2].size());
    const Count slices = images_ * (rank_ == 3 ? static_cast<Count>(positions_[0].size()) : 1);
    const auto* const theta = reinterpret_cast<const T*>(call.inputs[0]);
    auto* const y = reinterpret_cast<T*>(call.outputs[0]);
    const Count pieces = call.workers.pieces(static_cast<double>(slices * rows * row) / kElements, slices * rows);
    call.workers.share(pieces, [&](Count piece, int) {
      std::vector<T> first(static_cast<std::size_t>(row));  // what the innermost position gives in this image
      Count image = -1;
      const Count end = first_unit(slices * rows, piece + 1, pieces);
      for (Count r = first_unit(slices * rows, piece, pieces); r < end;) {
        const Count slice = r / rows, own = slice / (slices / images_);
        const T* const t = theta + own * rank_ * (rank_ + 1);
        if (own != image) begin_image(t, first);
        image = own;
        for (Count in_slice = r - slice * rows; in_slice < rows && r < end; ++in_slice, ++r)
          if (rank_ == 2)
            add_row<2>(y + r * row, first.data(), t, {in_slice, 0}, points);
          else
            add_row<3>(y + r * row, first.data(), t, {in_slice, slice % (slices / images_)}, points);
      }
    });
  }

 private:
  void begin_image(const T* t, std::vector<T>& first) const {
    const std::vector<T>& across = positions_.back();
    T* to = first.data();
    for (const T at : across)
      for (Count k = 0; k < rank_; ++k) *to++ = t[k * (rank_ + 1)] * at;
  }

  // `at`: the row's positions on the axes above the innermost, from the inner to the outer one. The part of a coordinate that
  // is the same in the whole row is added up in double.
  template <Count kRank>
  void add_row(T* y, const T* first, const T* t, std::array<Count, 2> at, Count points) const {
    T sums[kRank];
    for (Count k = 0; k < kRank; ++k) {
      const T* const of_coordinate = t + k * (kRank + 1);
      double sum = static_cast<double>(of_coordinate[kRank]);
      for (Count a = 1; a < kRank; ++a) {
        const T position = positions_[static_cast<std::size_t>(kRank - 1 - a)][static_cast<std::size_t>(at[a - 1])];
        sum += static_cast<double>(of_coordinate[a]) * static_cast<double>(position);
      }
      sums[k] = static_cast<T>(sum);
    }
    add_to_points<kRank>(y, first, sums, points);
  }

  Count images_;
  std::vector<std::vector<T>> positions_;
  Count rank_;
};

class AffineGridPlan final : public NodePlan {
 public:
  AffineGridPlan(const Node& node, std::vector<std::vector<double>> positions)
      : node_(node), positions_(std::move(positions)) {}

  void emit(Planner& planner, ValueId result) override {
    const Sizes& sizes = planner.info(result).sizes;  // images, those of the grid, coordinates
    std::vector<int> inputs = planner.plain_inputs(node_);
    const int target = planner.add_value(result, kPlain);
    std::unique_ptr<Kernel> kernel;
    if (planner.info(result).type == DataType::kDouble) {
      kernel = std::make_unique<AffineGridKernel<double>>(sizes[0], std::move(positions_));
    } else {
      std::vector<std::vector<float>> rounded;
      for (const std::vector<double>& axis : positions_) rounded.emplace_back(axis.begin(), axis.end());
      kernel = std::make_unique<AffineGridKernel<float>>(sizes[0], std::move(rounded));
    }
    planner.add_step(std::move(kernel), std::move(inputs), {target});
  }

 private:
  const Node& node_;
  std::vector<std::vector<double>> positions_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_affine_grid(Planner& planner, const Node& node) {
  const ValueInfo& out = planner.info(node.outputs[0]);
  if ((out.type != DataType::kFloat && out.type != DataType::kDouble) || element_count(out.sizes) == 0) return nullptr;
  const bool aligned = AttributeReader(node).flag("align_corners");
  std::vector<std::vector<double>> positions;
  for (std::size_t a = 1; a + 1 < out.sizes.size(); ++a) {
    const Index i = Index::fresh("i");
    const Element position = operators::affine_grid_position(aligned, i, out.sizes[a]);
    positions.push_back(values_along<double>(position, i, out.sizes[a], DataType::kDouble));
    if (positions.back().empty()) return nullptr;
  }
  return std::make_unique<AffineGridPlan>(node, std::move(positions));
}

}  // namespace rewright::cpu
