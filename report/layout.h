// Positions of the boxes of a small graph, by Graphviz's layered layout (`dot`).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rewright::report {

// In points, y downwards.
struct Point {
  double x = 0, y = 0;
};

struct Box {
  enum class Row { kFirst, kAny, kLast };
  double width = 0, height = 0;
  Row row = Row::kAny;  // kFirst is above, and kLast below all others
};

struct Arrow {
  std::size_t from = 0, to = 0;  // boxes
};

struct Layout {
  double width = 0, height = 0;
  std::vector<Point> boxes;                // their centres
  std::vector<std::vector<Point>> arrows;  // cubic Bezier curves: a start, then three points each
};

// Throws Error(kMissing) if Graphviz fails, for instance without its plug-ins.
Layout layered_layout(std::span<const Box> boxes, std::span<const Arrow> arrows);

}  // namespace rewright::report
