#include "runtime/cpu/kernels/convolution/convolution_parts.h"

#include <algorithm>

#include "runtime/cpu/base/workers.h"

namespace rewright::cpu {

namespace {

// `rows_for(first, last)` returns the image's rows and the pads for the result's rows from `first` up to `last`.
template <class F>
std::vector<RowPart> cut(std::int64_t images, const RowWindow& w, std::int64_t count, bool one_image, const F& rows_for) {
  std::vector<RowPart> parts;
  const auto add = [&](std::int64_t image, std::int64_t together, std::int64_t first, std::int64_t last) {
    RowPart part = rows_for(first, last);
    part.image = image;
    part.images = together;
    part.out_first = first;
    part.out_rows = last - first;
    parts.push_back(part);
  };
  if (images >= count && !one_image) {
    for (std::int64_t p = 0; p < count; ++p) {
      const std::int64_t first = first_unit(images, p, count);
      add(first, first_unit(images, p + 1, count) - first, 0, w.out_rows);
      parts.back().rows = w.rows;  // including rows that no window reaches
    }
  } else {
    const std::int64_t each = std::clamp<std::int64_t>((count + images - 1) / images, 1, w.out_rows);
    for (std::int64_t n = 0; n < images; ++n)
      for (std::int64_t p = 0; p < each; ++p) add(n, 1, first_unit(w.out_rows, p, each), first_unit(w.out_rows, p + 1, each));
  }
  const bool outside = std::any_of(parts.begin(), parts.end(), [](const RowPart& p) { return p.rows <= 0; });
  return outside ? std::vector<RowPart>() : parts;
}

}  // namespace

std::vector<RowPart> cut_rows(std::int64_t images, const RowWindow& w, std::int64_t count, bool one_image) {
  return cut(images, w, count, one_image, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t start = first * w.stride - w.pad_begin;
    const std::int64_t end = (last - 1) * w.stride - w.pad_begin + (w.kernel - 1) * w.dilation + 1;
    RowPart part;
    part.first = std::max<std::int64_t>(start, 0);
    part.rows = std::min(end, w.rows) - part.first;
    part.pad_begin = part.first - start;
    part.pad_end = end - part.first - part.rows;
    return part;
  });
}

std::vector<RowPart> cut_transposed_rows(std::int64_t images, const RowWindow& w, std::int64_t count, bool one_image) {
  return cut(images, w, count, one_image, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t reach = (w.kernel - 1) * w.dilation, top = first + w.pad_begin, bottom = last - 1 + w.pad_begin;
    // The first row whose last copy reaches `first`; not one that begins after it, since padding must not be negative.
    const std::int64_t lowest = std::min((std::max<std::int64_t>(top - reach, 0) + w.stride - 1) / w.stride, top / w.stride);
    RowPart part;
    const bool whole = first == 0 && last == w.out_rows;
    part.first = whole ? 0 : std::min(lowest, w.rows - 1);
    part.rows = whole ? w.rows : std::min(bottom / w.stride, w.rows - 1) - part.first + 1;
    part.pad_begin = top - part.first * w.stride;
    part.pad_end = (part.rows - 1) * w.stride + reach + 1 - part.pad_begin - (last - first);
    return part;
  });
}

}  // namespace rewright::cpu
