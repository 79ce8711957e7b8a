#include "generator/partial/regions.h"

#include <algorithm>
#include <cstdlib>

#include "generator/enumeration/fold.h"

namespace rewright::generator {

namespace {

constexpr std::size_t kMostCuts = 6, kMostCells = 40;

// The elements of one assignment of sizes.
struct Grid {
  std::vector<std::int64_t> sizes;
  std::vector<bool> wrong;

  std::size_t stride(std::size_t axis) const {
    std::size_t stride = 1;
    for (std::size_t a = axis + 1; a < sizes.size(); ++a) stride *= static_cast<std::size_t>(sizes[a]);
    return stride;
  }
  // Places along an axis where the positions that are wrong change: 0, ..., its size.
  std::vector<std::int64_t> changes(std::size_t axis) const {
    const std::size_t step = stride(axis), size = static_cast<std::size_t>(sizes[axis]);
    std::vector<bool> change(size);
    for (std::size_t at = 0; at < wrong.size(); ++at)
      if (const std::size_t coordinate = at / step % size; coordinate > 0 && wrong[at] != wrong[at - step])
        change[coordinate] = true;
    std::vector<std::int64_t> result{0};
    for (std::size_t c = 1; c < size; ++c)
      if (change[c]) result.push_back(static_cast<std::int64_t>(c));
    result.push_back(sizes[axis]);
    return result;
  }
};

// The cut that has these values for the sizes of all assignments: the one with the smallest offset.
std::optional<Cut> cut_of(const std::vector<std::int64_t>& values, const std::vector<std::int64_t>& sizes, bool halved) {
  std::optional<Cut> best;
  for (const int halves : {0, 2, 1}) {
    if (halves == 1 && !halved) continue;
    const std::int64_t offset = values[0] - sizes[0] * halves / 2;
    bool fits = true;
    for (std::size_t a = 0; a < sizes.size(); ++a) fits &= values[a] - sizes[a] * halves / 2 == offset;
    if (fits && (!best || std::abs(offset) < std::abs(best->offset))) best = Cut{halves, offset};
  }
  return best;
}

std::vector<bool> cells_of(const Grid& grid, const std::vector<std::vector<std::int64_t>>& changes) {
  std::vector<bool> result;
  std::vector<std::size_t> cell(changes.size());
  for (;;) {
    std::size_t at = 0;
    for (std::size_t axis = 0; axis < cell.size(); ++axis)
      at += static_cast<std::size_t>(changes[axis][cell[axis]]) * grid.stride(axis);
    result.push_back(grid.wrong[at]);
    std::size_t axis = cell.size();
    while (axis > 0 && ++cell[axis - 1] == changes[axis - 1].size() - 1) cell[--axis] = 0;
    if (axis == 0) return result;
  }
}

}  // namespace

std::optional<Index> place(const Cut& cut, const Index& size) {
  if (cut.halves == 0) return Index(cut.offset);
  if (cut.halves == 2) return size + cut.offset;
  const std::optional<Index> half = half_of(size);
  return half ? std::optional(*half + cut.offset) : std::nullopt;
}

std::optional<Regions> regions(const KnownType& type, std::span<const Residue> source, std::span<const Residue> target) {
  std::vector<Grid> grids;
  Regions result;
  for (std::size_t a = 0; a < type.assigned.size(); ++a) {
    Grid grid{values(type.assigned[a].shape), {}};
    const auto count = static_cast<std::size_t>(element_count(grid.sizes));
    std::size_t wrong = 0;
    for (std::size_t i = type.offsets[a]; i < type.offsets[a] + count; ++i) {
      grid.wrong.push_back(source[i] != target[i]);
      wrong += grid.wrong.back();
    }
    if (2 * wrong > count) return std::nullopt;
    result.share = static_cast<double>(wrong) / static_cast<double>(count);
    grids.push_back(std::move(grid));
  }
  std::vector<std::vector<std::vector<std::int64_t>>> changes(grids.size());  // by assignment and axis
  std::size_t cells = 1;
  for (std::size_t axis = 0; axis < type.type.rank(); ++axis) {
    for (std::size_t a = 0; a < grids.size(); ++a) {
      changes[a].push_back(grids[a].changes(axis));
      if (changes[a][axis].size() > kMostCuts || changes[a][axis].size() != changes[0][axis].size()) return std::nullopt;
    }
    const bool halved = half_of(type.type.shape[axis]).has_value();
    result.cuts.emplace_back();
    for (std::size_t k = 0; k < changes[0][axis].size(); ++k) {
      std::vector<std::int64_t> positions, sizes;
      for (std::size_t a = 0; a < grids.size(); ++a) {
        positions.push_back(changes[a][axis][k]);
        sizes.push_back(grids[a].sizes[axis]);
      }
      const bool last = k + 1 == changes[0][axis].size();
      const std::optional<Cut> cut = k == 0 ? Cut{0, 0} : last ? Cut{2, 0} : cut_of(positions, sizes, halved);
      if (!cut) return std::nullopt;
      result.cuts.back().push_back(*cut);
    }
    cells *= result.cells(axis);
  }
  if (cells > kMostCells) return std::nullopt;
  result.wrong = cells_of(grids[0], changes[0]);
  for (std::size_t a = 1; a < grids.size(); ++a)
    if (cells_of(grids[a], changes[a]) != result.wrong) return std::nullopt;
  return result;
}

}  // namespace rewright::generator
