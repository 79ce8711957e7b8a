#include "runtime/cuda/driver.h"

namespace rewright::cuda {

namespace {

std::string list(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t v : values) text += (text.empty() ? "" : "x") + std::to_string(v);
  return " " + text;
}

}  // namespace

std::string to_string(const ProductShape& p) {
  return "product " + std::string(name(p.type)) +
         list({p.m, p.n, p.k, p.batch, p.a_transposed, p.b_transposed, p.a_stride, p.b_stride, p.y_stride, p.a_batch, p.b_batch,
               p.y_batch, p.bias, static_cast<int>(p.activation)}) +
         (p.alpha == 1 ? "" : " " + std::to_string(p.alpha));
}

std::string to_string(const ConvolutionShape& c) {
  const std::string bounds =
      c.activation == Activation::kClip ? " " + std::to_string(c.low) + " " + std::to_string(c.high) : "";
  return "convolution " + std::string(name(c.type)) + list(c.x) + list(c.w) + list(c.y) + list(c.strides) + list(c.dilations) +
         list(c.pads_begin) + list(c.pads_end) +
         list({c.groups, c.bias, c.residual, c.channels_last, static_cast<int>(c.activation)}) + bounds;
}

}  // namespace rewright::cuda
