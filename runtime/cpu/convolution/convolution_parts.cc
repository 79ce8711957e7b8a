#include "runtime/cpu/convolution/convolution_parts.h"

#include <algorithm>

#include "runtime/cpu/workers.h"

namespace rewright::cpu {

std::vector<RowPart> cut_rows(std::int64_t pictures, const RowWindow& w, std::int64_t count, bool one_picture) {
  std::vector<RowPart> parts;
  const auto add = [&](std::int64_t picture, std::int64_t together, std::int64_t first, std::int64_t last) {
    const std::int64_t start = first * w.stride - w.pad_begin;
    const std::int64_t end = (last - 1) * w.stride - w.pad_begin + (w.kernel - 1) * w.dilation + 1;
    const std::int64_t from = std::max<std::int64_t>(start, 0), to = std::min(end, w.rows);
    parts.push_back({picture, together, from, to - from, first, last - first, from - start, end - to});
  };
  if (pictures >= count && !one_picture) {
    for (std::int64_t p = 0; p < count; ++p) {
      const std::int64_t first = first_unit(pictures, p, count);
      add(first, first_unit(pictures, p + 1, count) - first, 0, w.out_rows);
      parts.back().rows = w.rows;  // those too that no window reaches
    }
  } else {
    const std::int64_t each = std::clamp<std::int64_t>((count + pictures - 1) / pictures, 1, w.out_rows);
    for (std::int64_t n = 0; n < pictures; ++n)
      for (std::int64_t p = 0; p < each; ++p) add(n, 1, first_unit(w.out_rows, p, each), first_unit(w.out_rows, p + 1, each));
  }
  const bool outside = std::any_of(parts.begin(), parts.end(), [](const RowPart& p) { return p.rows <= 0; });
  return outside ? std::vector<RowPart>() : parts;
}

}  // namespace rewright::cpu
