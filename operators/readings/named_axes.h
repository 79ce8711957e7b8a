// Tensors of a graph whose axes have names, so that sums of products over them can be said without counting axes.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "operators/gradient.h"

namespace rewright::operators {

using AxisName = std::uint64_t;
using AxisNames = std::vector<AxisName>;

// Along an axis that it does not have, a tensor is the same everywhere.
struct NamedTensor {
  ValueId value = kNoGradient;
  AxisNames axes;
};

bool contains(const AxisNames& axes, AxisName axis);
AxisNames united(const AxisNames& a, const AxisNames& b);  // those of a, then the others of b

class NamedAxes {
 public:
  explicit NamedAxes(GraphBuilder& graph) : graph_(graph) {}
  void set_size(AxisName axis, Index size) { sizes_.insert_or_assign(axis, std::move(size)); }
  const Index& size(AxisName axis) const { return sizes_.at(axis); }

  // An elementwise operator.
  NamedTensor apply(std::string_view name, std::vector<NamedTensor> operands);
  // The sum of x over those axes of `space` that are not in `kept`: one that x does not have counts by its size.
  NamedTensor sum(const NamedTensor& x, const AxisNames& space, const AxisNames& kept);
  // The same of a * b: a product of matrices where both have an axis of their own beside one that is summed over.
  NamedTensor contract(NamedTensor a, NamedTensor b, const AxisNames& space, const AxisNames& kept);
  // x with just these axes, in this order: repeated along those it does not have.
  ValueId ordered(const NamedTensor& x, const AxisNames& axes);

 private:
  ValueId placed(const NamedTensor& x, const AxisNames& target);
  ValueId arranged(const NamedTensor& x, const std::vector<AxisNames>& groups);
  Indices sizes(const AxisNames& axes) const;
  GraphBuilder& graph_;
  std::map<AxisName, Index> sizes_;
};

}  // namespace rewright::operators
