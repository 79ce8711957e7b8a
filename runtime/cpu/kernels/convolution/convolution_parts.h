// Divides convolutions into convolutions of some rows of the result each.
#pragma once

#include <cstdint>
#include <vector>

namespace rewright::cpu {

// The window's first axis.
struct RowWindow {
  std::int64_t rows = 1, out_rows = 1;  // of an image, of its result
  std::int64_t kernel = 1, stride = 1, dilation = 1, pad_begin = 0;
};

struct RowPart {
  std::int64_t image = 0, images = 1;
  std::int64_t first = 0, rows = 0;  // rows that the part's windows reach
  std::int64_t out_first = 0, out_rows = 0;
  std::int64_t pad_begin = 0, pad_end = 0;
};

// About `count` nearly equal parts: whole images if there are enough, unless each part must be of one image. Empty if a part
// would be outside of its image.
std::vector<RowPart> cut_rows(std::int64_t images, const RowWindow& window, std::int64_t count, bool one_image);

// Parts of a transposed convolution: row i of an image contributes to rows i * stride + k * dilation - pad_begin of the result.
// Pads are cut off a part's result; the last one's may be negative.
std::vector<RowPart> cut_transposed_rows(std::int64_t images, const RowWindow& window, std::int64_t count, bool one_image);

}  // namespace rewright::cpu
