// The shape of a convolution of images.
#pragma once

#include <cstdint>

namespace rewright::cpu {

// A convolution over two axes; over one as images of one row. Weights are [outputs, channels / group, kernel[0], kernel[1]].
struct ImageShape {
  std::int64_t images = 1, channels = 1, height = 1, width = 1;
  std::int64_t outputs = 1, out_height = 1, out_width = 1;
  std::int64_t kernel[2] = {1, 1}, strides[2] = {1, 1}, dilations[2] = {1, 1};
  std::int64_t pads_begin[2] = {0, 0};
  std::int64_t group = 1;
};

// Is it a 1x1 convolution that computes every pixel of the image?
inline bool is_pointwise(const ImageShape& s) {
  return s.group == 1 && s.kernel[0] == 1 && s.kernel[1] == 1 && s.strides[0] == 1 && s.strides[1] == 1 &&
         s.out_height == s.height && s.out_width == s.width && s.pads_begin[0] == 0 && s.pads_begin[1] == 0;
}

}  // namespace rewright::cpu
