// Axes in attributes: checked and counted from the front, and the elements of a tensor along them.
#pragma once

#include <algorithm>
#include <string>

#include "operators/operator.h"

namespace rewright::operators {

// An axis counted from the front; throws Error(kBadInput) if it is not one of the `rank` axes.
inline Index canonical_axis(const Index& axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  const std::int64_t value = axis.value();
  if (value < -n || value >= n)
    throw Error(ErrorCode::kBadInput, "axis " + std::to_string(value) + " of a tensor of rank " + std::to_string(n));
  return value < 0 ? value + n : value;
}

// A set of axes, each counted from the front, sorted. Throws Error(kBadInput) also if one occurs twice.
inline Indices canonical_axes(const Indices& axes, std::size_t rank) {
  Indices result;
  for (const Index& axis : axes) result.push_back(canonical_axis(axis, rank));
  std::sort(result.begin(), result.end(), [](const Index& a, const Index& b) { return a.value() < b.value(); });
  for (std::size_t n = 1; n < result.size(); ++n)
    if (result[n] == result[n - 1])
      throw Error(ErrorCode::kBadInput, "axis " + result[n].to_string() + " stands twice in the axes");
  return result;
}

// The axes from `first` to rank - 1.
inline Indices axes_from(std::size_t first, std::size_t rank) {
  Indices axes;
  for (std::size_t axis = first; axis < rank; ++axis) axes.emplace_back(axis);
  return axes;
}

// The elements of x at a position and at all positions that differ from it only along some axes: those that reductions and
// normalizations sum over.
//
//   const Slice row(x, {Index(1)}, position);
//   const Element mean = row.mean(), deviation = apply(functions::sqrt, row.variance(mean));
class Slice {
 public:
  // `axes` are canonical. `position` has an index for each axis of x; those along `axes` are ignored.
  Slice(Operand x, Indices axes, Indices position) : x_(std::move(x)), axes_(std::move(axes)), position_(std::move(position)) {
    for (const Index& axis : axes_) bounds_.push_back(x_.size(static_cast<std::size_t>(axis.value())));
  }
  DataType type() const { return x_.type(); }
  Scalar scalar() const { return x_.scalar(); }
  Element count() const { return convert(from_index(product(bounds_)), scalar()); }

  template <class F>
  Element reduced(Reduction kind, const F& f) const {
    if (axes_.empty()) return f(x_(position_));
    return reduce(kind, "t", bounds_, [&](const Indices& t) {
      Indices position = position_;
      for (std::size_t n = 0; n < axes_.size(); ++n) position[static_cast<std::size_t>(axes_[n].value())] = t[n];
      return f(x_(position));
    });
  }
  Element reduced(Reduction kind) const {
    return reduced(kind, [](const Element& e) { return e; });
  }
  Element mean() const { return reduced(Reduction::kSum) / count(); }
  // The mean of (x - mean)^2. `mean` is an argument so that expressions share it.
  Element variance(const Element& mean) const {
    return reduced(Reduction::kSum, [&](const Element& e) { return (e - mean) * (e - mean); }) / count();
  }
  Element mean_square() const {
    return reduced(Reduction::kSum, [](const Element& e) { return e * e; }) / count();
  }

 private:
  Operand x_;
  Indices axes_, position_, bounds_;
};

}  // namespace rewright::operators
