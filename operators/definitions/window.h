// Windows that slide over the spatial axes of a tensor [N, C, spatial...]: what convolutions and pools share.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operators/operator.h"

namespace rewright::operators {

// One entry a spatial axis in each list.
struct Window {
  Indices kernel, strides, dilations, pads_begin, pads_end;

  std::size_t rank() const { return kernel.size(); }
  Index extent(std::size_t axis) const { return dilations[axis] * (kernel[axis] - 1) + 1; }
  bool padded() const;  // false: no window reaches outside at the begin or the end
  // Lists of one length, strides and dilations at least 1, and (unless `transposed`) room for one window on each axis.
  void require_sound(Definition& d, const Operand& x, bool transposed = false) const;
  // Windows along each spatial axis of x. With `ceil` also windows that reach beyond the padding at the end count, if they
  // start inside of the input or the padding before it.
  Indices counts(const Operand& x, bool ceil) const;
  // [p_0 * stride_0 - begin_0 + r_0 * dilation_0, ...] for the spatial part of an output position [n, c, p...].
  Indices spatial(const Indices& position, const Indices& r) const;
  // [n, channel, spatial...].
  Indices position(const Indices& position, const Index& channel, const Indices& r) const;
  // The conditions under which `spatial` is inside of x; none on a side where all windows stay inside.
  std::vector<Condition> inside(const Operand& x, const Indices& spatial, bool ceil) const;
};

struct Pads {
  Indices begin, end;
};
// Explicit pads of an ONNX node, from `pads` or from `auto_pad` and the input's spatial sizes. Nothing, with a reason, where
// they depend on sizes that are not known.
std::optional<Pads> import_pads(const OnnxSource& source, const Indices& sizes, const Window& window, std::string& reason);
// ONNX's form: all begins, then all ends.
Indices joined_pads(const Indices& begin, const Indices& end);
// The list attribute, or `value` for each of `count` axes.
Indices import_list(const OnnxSource& source, std::string_view attribute, std::size_t count, std::int64_t value);

// A window with explicit pads, from an ONNX node's attributes. Throws Error(kBadInput) unless kernel, strides and dilations are
// positive.
Window import_window(const OnnxSource& source, const Sizes& kernel);
// Where it starts on an axis of `size` elements, without those that reach beyond the padding: how often, and what is left then.
struct WindowCount {
  std::int64_t count, left;
};
WindowCount count_windows(const Window& window, std::size_t axis, std::int64_t size);

}  // namespace rewright::operators
