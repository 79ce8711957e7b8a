// The shapes of convolutions of images and of volumes.
#pragma once

#include <cstdint>

namespace rewright::cpu {

// A convolution over two axes; over one as images of one row, or of one column. Weights are [outputs, channels / group,
// kernel[0], kernel[1]].
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

// A third axis, before an image's rows.
struct PlaneAxis {
  std::int64_t planes = 1, out_planes = 1;  // of a volume, of its result
  std::int64_t kernel = 1, stride = 1, dilation = 1, pad_begin = 0;
};

// A convolution over three axes: `image` is that of one plane, where images are volumes. Weights are [outputs, channels /
// group, axis.kernel, kernel[0], kernel[1]].
struct VolumeShape {
  ImageShape image;
  PlaneAxis axis;
};

}  // namespace rewright::cpu
