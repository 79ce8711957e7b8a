#include "operators/readings/named_axes.h"

#include <algorithm>

namespace rewright::operators {

namespace {

std::size_t place(const AxisNames& axes, AxisName axis) {
  return static_cast<std::size_t>(std::find(axes.begin(), axes.end(), axis) - axes.begin());
}

AxisNames without(const AxisNames& axes, const AxisNames& removed) {
  AxisNames result;
  for (const AxisName axis : axes)
    if (!contains(removed, axis)) result.push_back(axis);
  return result;
}

AxisNames common(const AxisNames& a, const AxisNames& b) {
  AxisNames result;
  for (const AxisName axis : a)
    if (contains(b, axis)) result.push_back(axis);
  return result;
}

AxisNames joined(const std::vector<AxisNames>& groups) {
  AxisNames all;
  for (const AxisNames& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace

bool contains(const AxisNames& axes, AxisName axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

AxisNames united(const AxisNames& a, const AxisNames& b) {
  AxisNames result = a;
  for (const AxisName axis : b)
    if (!contains(result, axis)) result.push_back(axis);
  return result;
}

Indices NamedAxes::sizes(const AxisNames& axes) const {
  Indices result;
  for (const AxisName axis : axes) result.push_back(size(axis));
  return result;
}

// Arranges x so that broadcasting (from the last axis on) aligns its axes with those of `target`, which contains them.
ValueId NamedAxes::placed(const NamedTensor& x, const AxisNames& target) {
  if (x.axes.empty()) return x.value;
  Indices perm, gaps;
  std::size_t next = 0;
  bool begun = false;
  for (const AxisName axis : target) {
    if (contains(x.axes, axis)) {
      perm.push_back(place(x.axes, axis));
      begun = true;
    } else if (begun) {
      gaps.push_back(next);
    }
    if (begun) ++next;
  }
  const ValueId moved = graph_.transposed(x.value, perm);
  return gaps.empty() ? moved : graph_.add("Unsqueeze", {moved}, {{"axes", gaps}});
}

NamedTensor NamedAxes::apply(std::string_view name, std::vector<NamedTensor> operands) {
  AxisNames target = operands[0].axes;
  for (const NamedTensor& x : operands)
    if (x.axes.size() > target.size()) target = x.axes;
  for (const NamedTensor& x : operands) {
    const AxisNames others = without(x.axes, target);
    if (others.empty()) continue;
    target = united(target, others);
    std::sort(target.begin(), target.end());
  }
  std::vector<ValueId> values;
  for (const NamedTensor& x : operands) values.push_back(placed(x, target));
  return {graph_.add(name, std::move(values)), std::move(target)};
}

NamedTensor NamedAxes::sum(const NamedTensor& x, const AxisNames& space, const AxisNames& kept) {
  Indices axes;
  Index factor = 1;
  for (const AxisName axis : without(space, kept)) {
    if (contains(x.axes, axis))
      axes.push_back(place(x.axes, axis));
    else
      factor *= size(axis);
  }
  std::sort(axes.begin(), axes.end(), [](const Index& a, const Index& b) { return a.value() < b.value(); });
  NamedTensor result{graph_.summed(x.value, axes), without(x.axes, without(space, kept))};
  if (factor == Index(1)) return result;
  const DataType type = graph_.type_of(x.value).type;
  return {graph_.add("Mul", {result.value, graph_.scalar(type, static_cast<double>(factor.value()))}), result.axes};
}

// x with the axes of each group merged into one.
ValueId NamedAxes::arranged(const NamedTensor& x, const std::vector<AxisNames>& groups) {
  Indices merged;
  for (const AxisNames& group : groups) merged.push_back(product(sizes(group)));
  // Groups with adjacent axes are merged first, which moves no elements.
  std::vector<std::size_t> order(groups.size());
  for (std::size_t n = 0; n < groups.size(); ++n) order[n] = n;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return place(x.axes, groups[a][0]) < place(x.axes, groups[b][0]); });
  std::vector<AxisNames> as_they_lie;
  Indices sizes_as_they_lie, perm(groups.size());
  for (std::size_t n = 0; n < order.size(); ++n) {
    as_they_lie.push_back(groups[order[n]]);
    sizes_as_they_lie.push_back(merged[order[n]]);
    perm[order[n]] = n;
  }
  if (joined(as_they_lie) == x.axes) return graph_.transposed(graph_.reshaped(x.value, sizes_as_they_lie), perm);
  return graph_.reshaped(ordered(x, joined(groups)), merged);
}

NamedTensor NamedAxes::contract(NamedTensor a, NamedTensor b, const AxisNames& space, const AxisNames& kept) {
  const AxisNames summed = without(space, kept), inner = common(common(a.axes, b.axes), summed);
  const AxisNames in_neither = without(summed, united(a.axes, b.axes));
  // Axes that only one operand has are summed first.
  a = sum(a, common(without(a.axes, b.axes), summed), {});
  b = sum(b, common(without(b.axes, a.axes), summed), {});
  const AxisNames rows = without(a.axes, b.axes), columns = without(b.axes, a.axes);
  if (inner.empty() || rows.empty() || columns.empty())
    return sum(apply("Mul", {std::move(a), std::move(b)}), united(inner, in_neither), {});
  std::vector<AxisNames> left, right, all;
  for (const AxisName axis : without(common(a.axes, b.axes), inner)) left.push_back({axis});
  all = right = left;
  left.push_back(rows), left.push_back(inner);
  right.push_back(inner), right.push_back(columns);
  all.push_back(rows), all.push_back(columns);
  const ValueId matrices = graph_.add("MatMul", {arranged(a, left), arranged(b, right)});
  NamedTensor result{kNoGradient, joined(all)};
  result.value = graph_.reshaped(matrices, sizes(result.axes));
  return sum(result, in_neither, {});
}

ValueId NamedAxes::ordered(const NamedTensor& x, const AxisNames& axes) {
  Indices perm, present;
  for (const AxisName axis : axes)
    if (contains(x.axes, axis)) perm.push_back(place(x.axes, axis));
  const ValueId moved = graph_.transposed(x.value, perm);
  if (perm.size() == axes.size()) return moved;
  for (const AxisName axis : axes) present.push_back(contains(x.axes, axis) ? size(axis) : Index(1));
  const ValueId spread = graph_.reshaped(moved, present);
  const Indices all = sizes(axes);
  return present == all ? spread : graph_.add("Expand", {spread}, {{"shape", all}});
}

}  // namespace rewright::operators
