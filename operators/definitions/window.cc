#include "operators/definitions/window.h"

#include "operators/definitions/lists.h"

namespace rewright::operators {

namespace {

bool is_zero(const Index& i) { return i == Index(0); }

}  // namespace

bool Window::padded() const {
  for (std::size_t a = 0; a < rank(); ++a)
    if (!is_zero(pads_begin[a]) || !is_zero(pads_end[a])) return true;
  return false;
}

void Window::require_sound(Definition& d, const Operand& x, bool transposed) const {
  d.require(x.rank() >= 2, [&] { return "input has rank " + std::to_string(x.rank()) + ", at least 2 is needed"; });
  const std::size_t spatial_rank = x.rank() - 2;
  require_length(d, kernel, spatial_rank, "kernel");
  require_length(d, strides, spatial_rank, "strides");
  require_length(d, dilations, spatial_rank, "dilations");
  require_length(d, pads_begin, spatial_rank, "pads_begin");
  require_length(d, pads_end, spatial_rank, "pads_end");
  for (std::size_t a = 0; a < spatial_rank; ++a) {
    d.require(less_equal(1, kernel[a]), [&] { return "kernel size " + kernel[a].to_string() + " is not positive"; });
    d.require(less_equal(1, strides[a]), [&] { return "stride " + strides[a].to_string() + " is not positive"; });
    d.require(less_equal(1, dilations[a]), [&] { return "dilation " + dilations[a].to_string() + " is not positive"; });
    if (transposed) continue;
    const Index length = x.size(a + 2) + pads_begin[a] + pads_end[a];
    d.require(less_equal(extent(a), length), [&] {
      return "window of " + extent(a).to_string() + " does not fit into " + length.to_string() + " (spatial axis " +
             std::to_string(a) + ", padding included)";
    });
  }
}

Indices Window::counts(const Operand& x, bool ceil) const {
  Indices result;
  for (std::size_t a = 0; a < rank(); ++a) {
    const Index& size = x.size(a + 2);
    const Index span = size + pads_begin[a] + pads_end[a] - extent(a);
    // A window that starts in the padding at the end does not count.
    result.push_back(ceil ? min(ceil_div(span, strides[a]) + 1, ceil_div(size + pads_begin[a], strides[a]))
                          : floor_div(span, strides[a]) + 1);
  }
  return result;
}

Indices Window::spatial(const Indices& position, const Indices& r) const {
  Indices result;
  for (std::size_t a = 0; a < rank(); ++a) result.push_back(position[a + 2] * strides[a] + r[a] * dilations[a] - pads_begin[a]);
  return result;
}

Indices Window::position(const Indices& position, const Index& channel, const Indices& r) const {
  Indices result{position[0], channel};
  for (Index& i : spatial(position, r)) result.push_back(std::move(i));
  return result;
}

std::vector<Condition> Window::inside(const Operand& x, const Indices& spatial, bool ceil) const {
  std::vector<Condition> conditions;
  for (std::size_t a = 0; a < rank(); ++a) {
    if (!is_zero(pads_begin[a])) conditions.push_back(less_equal(0, spatial[a]));
    if (!is_zero(pads_end[a]) || ceil) conditions.push_back(less(spatial[a], x.size(a + 2)));
  }
  return conditions;
}

std::optional<Pads> import_pads(const OnnxSource& source, const Indices& sizes, const Window& window, std::string& reason) {
  const std::size_t rank = window.rank();
  const std::string mode = source.text("auto_pad", "NOTSET");
  Pads pads;
  if (mode == "NOTSET" || mode.empty()) {
    const std::vector<std::int64_t> both = source.integers("pads");
    if (!both.empty() && both.size() != 2 * rank)
      throw Error(ErrorCode::kBadInput,
                  "pads has " + std::to_string(both.size()) + " entries for " + std::to_string(rank) + " spatial axes");
    for (std::size_t a = 0; a < rank; ++a) {
      pads.begin.push_back(both.empty() ? 0 : both[a]);
      pads.end.push_back(both.empty() ? 0 : both[a + rank]);
    }
    return pads;
  }
  if (mode == "VALID") return Pads{Indices(rank, 0), Indices(rank, 0)};
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") throw Error(ErrorCode::kBadInput, "auto_pad is '" + mode + "'");
  for (std::size_t a = 0; a < rank; ++a) {
    const Index total = (ceil_div(sizes[a], window.strides[a]) - 1) * window.strides[a] + window.extent(a) - sizes[a];
    if (!total.is_constant()) {
      reason = mode + " padding of size " + sizes[a].to_string() + " at stride " + window.strides[a].to_string();
      return std::nullopt;
    }
    const std::int64_t sum = std::max<std::int64_t>(total.value(), 0), less = sum / 2;
    pads.begin.push_back(mode == "SAME_UPPER" ? less : sum - less);
    pads.end.push_back(mode == "SAME_UPPER" ? sum - less : less);
  }
  return pads;
}

Indices joined_pads(const Indices& begin, const Indices& end) {
  Indices both = begin;
  both.insert(both.end(), end.begin(), end.end());
  return both;
}

Indices import_list(const OnnxSource& source, std::string_view attribute, std::size_t count, std::int64_t value) {
  Indices list = to_indices(source.integers(attribute));
  if (list.empty()) list.assign(count, value);
  if (list.size() != count)
    throw Error(ErrorCode::kBadInput, std::string(attribute) + " has " + std::to_string(list.size()) + " entries for " +
                                          std::to_string(count) + " spatial axes");
  return list;
}

Window import_window(const OnnxSource& source, const Sizes& kernel) {
  const std::size_t rank = kernel.size();
  const Indices pads = import_list(source, "pads", 2 * rank, 0);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(rank);
  Window window{to_indices(kernel),
                import_list(source, "strides", rank, 1),
                import_list(source, "dilations", rank, 1),
                {pads.begin(), middle},
                {middle, pads.end()}};
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  for (const Indices* list : {&window.kernel, &window.strides, &window.dilations})
    for (const Index& v : *list)
      if (v.value() < 1 || v.value() > kMost)
        throw Error(ErrorCode::kBadInput, "kernel, strides or dilations are not positive");
  return window;
}

WindowCount count_windows(const Window& window, std::size_t axis, std::int64_t size) {
  const std::int64_t stride = window.strides[axis].value();
  const std::int64_t span = (size + window.pads_begin[axis] + window.pads_end[axis] - window.extent(axis)).value();
  return span < 0 ? WindowCount{0, 0} : WindowCount{span / stride + 1, span % stride};
}

}  // namespace rewright::operators
