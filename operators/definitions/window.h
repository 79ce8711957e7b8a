// Windows that slide over the spatial axes of a tensor [N, C, spatial...], for convolutions and pools.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operators/operator.h"

namespace rewright::operators {

// Each list has one entry for each spatial axis.
struct Window {
  Indices kernel, strides, dilations, pads_begin, pads_end;

  std::size_t rank() const { return kernel.size(); }
  Index extent(std::size_t axis) const { return dilations[axis] * (kernel[axis] - 1) + 1; }
  bool padded() const;  // false: no window reaches beyond the begin or end of an axis
  // Requires lists of equal length, strides and dilations of at least 1, and, unless `transposed`, axes that hold a window.
  void require_sound(Definition& d, const Operand& x, bool transposed = false) const;
  // The number of windows along each spatial axis of x. With `ceil`, windows that reach beyond the padding at the end count,
  // too, if they start in the input or in the padding at the begin.
  Indices counts(const Operand& x, bool ceil) const;
  // [p_0 * stride_0 - begin_0 + r_0 * dilation_0, ...] for the spatial part of an output position [n, c, p...].
  Indices spatial(const Indices& position, const Indices& r) const;
  // [n, channel, spatial...].
  Indices position(const Indices& position, const Index& channel, const Indices& r) const;
  // The conditions under which `spatial` is within x; none for a side that no window crosses.
  std::vector<Condition> inside(const Operand& x, const Indices& spatial, bool ceil) const;
};

struct Pads {
  Indices begin, end;
};
// The pads of an ONNX node, from `pads` or from `auto_pad` and the input's spatial sizes. nullopt, with a reason, if they
// depend on unknown sizes.
std::optional<Pads> import_pads(const OnnxSource& source, const Indices& sizes, const Window& window, std::string& reason);
// In ONNX's form: all begins, then all ends.
Indices joined_pads(const Indices& begin, const Indices& end);
// The list attribute, or `value` for each of `count` axes.
Indices import_list(const OnnxSource& source, std::string_view attribute, std::size_t count, std::int64_t value);

// A window with explicit pads, from an ONNX node's attributes. Throws Error(kBadInput) unless kernel, strides and dilations are
// positive.
Window import_window(const OnnxSource& source, const Sizes& kernel);
// The number of windows on an axis of `size` elements, without those that reach beyond the padding, and the number of elements
// after the last one.
struct WindowCount {
  std::int64_t count, left;
};
WindowCount count_windows(const Window& window, std::size_t axis, std::int64_t size);

}  // namespace rewright::operators
