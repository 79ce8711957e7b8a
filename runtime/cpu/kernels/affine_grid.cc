// AffineGrid of floats: rows of a grid differ by one number for each coordinate.
#include "operators/definitions/affine_grid.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/values_along.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;
typedef float GridLanes __attribute__((vector_size(32), aligned(4), may_alias));
constexpr Count kGridLanes = 8;

// Adds c[k] to each coordinate k of `points` points.
template <Count kRank>
void add_to_points(float* y, const float* x, const float* c, Count points) {
  GridLanes repeated[kRank];
  for (Count i = 0; i < kRank * kGridLanes; ++i) repeated[i / kGridLanes][i % kGridLanes] = c[i % kRank];
  Count p = 0;
  for (; p + kGridLanes <= points; p += kGridLanes)
    for (Count v = 0; v < kRank; ++v) {
      const Count at = p * kRank + v * kGridLanes;
      *reinterpret_cast<GridLanes*>(y + at) = *reinterpret_cast<const GridLanes*>(x + at) + repeated[v];
    }
  for (; p < points; ++p)
    for (Count k = 0; k < kRank; ++k) y[p * kRank + k] = x[p * kRank + k] + c[k];
}

class AffineGridKernel final : public Kernel {
 public:
  // `positions`: those of the elements on each axis, from the outermost to the innermost.
  AffineGridKernel(Count images, std::vector<std::vector<float>> positions)
      : images_(images), positions_(std::move(positions)), rank_(static_cast<Count>(positions_.size())) {}

  void run(const Call& call) const override {
    constexpr double kElements = 3;  // a nanosecond
    const std::vector<float>& across = positions_.back();
    const Count points = static_cast<Count>(across.size()), row = points * rank_;
    Count rows = images_;
    for (std::size_t a = 0; a + 1 < positions_.size(); ++a) rows *= static_cast<Count>(positions_[a].size());
    const auto* const theta = reinterpret_cast<const float*>(call.inputs[0]);
    auto* const y = reinterpret_cast<float*>(call.outputs[0]);
    const Count pieces = call.workers.pieces(static_cast<double>(rows * row) / kElements, rows);
    call.workers.share(pieces, [&](Count piece, int) {
      std::vector<float> first(static_cast<std::size_t>(row));  // what the innermost position gives in this image
      Count image = -1;
      for (Count r = first_unit(rows, piece, pieces); r < first_unit(rows, piece + 1, pieces); ++r) {
        const Count own = r / (rows / images_);
        const float* const t = theta + own * rank_ * (rank_ + 1);
        for (Count p = 0; own != image && p < points; ++p)
          for (Count k = 0; k < rank_; ++k)
            first[static_cast<std::size_t>(p * rank_ + k)] = t[k * (rank_ + 1)] * across[static_cast<std::size_t>(p)];
        image = own;
        float sums[3];
        for (Count k = 0; k < rank_; ++k) sums[k] = shift(t + k * (rank_ + 1), r);
        (rank_ == 2 ? add_to_points<2> : add_to_points<3>)(y + r * row, first.data(), sums, points);
      }
    });
  }

 private:
  // The part of a coordinate that is the same in a whole row of points; `t`: the coordinate's row of the matrix.
  float shift(const float* t, Count row) const {
    double sum = t[rank_];
    for (std::size_t a = positions_.size() - 1; a-- > 0;) {
      const auto size = static_cast<Count>(positions_[a].size());
      sum += static_cast<double>(t[rank_ - 1 - static_cast<Count>(a)]) * positions_[a][static_cast<std::size_t>(row % size)];
      row /= size;
    }
    return static_cast<float>(sum);
  }

  Count images_;
  std::vector<std::vector<float>> positions_;
  Count rank_;
};

class AffineGridPlan final : public NodePlan {
 public:
  AffineGridPlan(const Node& node, std::vector<std::vector<float>> positions) : node_(node), positions_(std::move(positions)) {}

  void emit(Planner& planner, ValueId result) override {
    const Sizes& sizes = planner.info(result).sizes;  // images, those of the grid, coordinates
    std::vector<int> inputs = planner.plain_inputs(node_);
    const int target = planner.add_value(result, kPlain);
    planner.add_step(std::make_unique<AffineGridKernel>(sizes[0], std::move(positions_)), std::move(inputs), {target});
  }

 private:
  const Node& node_;
  std::vector<std::vector<float>> positions_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_affine_grid(Planner& planner, const Node& node) {
  const ValueInfo& out = planner.info(node.outputs[0]);
  if (out.type != DataType::kFloat || element_count(out.sizes) == 0) return nullptr;
  const bool aligned = AttributeReader(node).flag("align_corners");
  std::vector<std::vector<float>> positions;
  for (std::size_t a = 1; a + 1 < out.sizes.size(); ++a) {
    const Index i = Index::fresh("i");
    const Element position = operators::affine_grid_position(aligned, i, out.sizes[a]);
    const auto axis = values_along<double>(position, i, out.sizes[a], DataType::kDouble);
    if (axis.empty()) return nullptr;
    positions.emplace_back(axis.begin(), axis.end());
  }
  return std::make_unique<AffineGridPlan>(node, std::move(positions));
}

}  // namespace rewright::cpu
