// Tensors with named axes: sums of products over axes by name instead of by position.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "operators/gradient.h"

namespace rewright::operators {

using AxisName = std::uint64_t;
using AxisNames = std::vector<AxisName>;

// A tensor is constant along the axes that it does not have.
struct NamedTensor {
  ValueId value = kNoGradient;
  AxisNames axes;
};

bool contains(const AxisNames& axes, AxisName axis);
AxisNames united(const AxisNames& a, const AxisNames& b);  // the axes of a, then the others of b

class NamedAxes {
 public:
  explicit NamedAxes(GraphBuilder& graph) : graph_(graph) {}
  void set_size(AxisName axis, Index size) { sizes_.insert_or_assign(axis, std::move(size)); }
  const Index& size(AxisName axis) const { return sizes_.at(axis); }

  // Applies an elementwise operator to operands broadcast by the names of their axes.
  NamedTensor apply(std::string_view name, std::vector<NamedTensor> operands);
  // The sum of x over the axes of `space` that are not in `kept`. For an axis that x does not have, x is multiplied by its
  // size.
  NamedTensor sum(const NamedTensor& x, const AxisNames& space, const AxisNames& kept);
  // sum(a * b, space, kept), as a matrix product if both have an axis of their own beside one that is summed over.
  NamedTensor contract(NamedTensor a, NamedTensor b, const AxisNames& space, const AxisNames& kept);
  // x with exactly these axes in this order, repeated along those that it does not have.
  ValueId ordered(const NamedTensor& x, const AxisNames& axes);

 private:
  ValueId placed(const NamedTensor& x, const AxisNames& target);
  ValueId arranged(const NamedTensor& x, const std::vector<AxisNames>& groups);
  Indices sizes(const AxisNames& axes) const;
  GraphBuilder& graph_;
  std::map<AxisName, Index> sizes_;
};

}  // namespace rewright::operators
