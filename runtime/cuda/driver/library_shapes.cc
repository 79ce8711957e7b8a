#include "runtime/cuda/driver/library_shapes.h"

#include <charconv>

namespace rewright::cuda {

namespace {

std::string list(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t v : values) text += (text.empty() ? "" : "x") + std::to_string(v);
  return " " + (text.empty() ? "-" : text);
}

// With all significant digits.
std::string number(double value) {
  char text[32];
  return " " + std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

std::string type(DataType t) { return " " + std::string(name(t)); }

std::string text(const ProductShape& p) {
  return "product" + type(p.type) +
         list({p.m, p.n, p.k, p.batch, p.a_transposed, p.b_transposed, p.a_stride, p.b_stride, p.y_stride, p.a_batch, p.b_batch,
               p.y_batch, p.bias, static_cast<int>(p.activation)}) +
         (p.alpha == 1 ? "" : number(p.alpha)) +
         (p.a_type == DataType::kUndefined ? "" : " of" + type(p.a_type) + type(p.b_type));
}

std::string text(const ConvolutionShape& c) {
  const std::string bounds = c.activation == Activation::kClip ? number(c.low) + number(c.high) : "";
  static constexpr const char* kPasses[] = {"", "-backward-data", "-backward-filter"};
  return std::string("convolution") + kPasses[static_cast<std::size_t>(c.pass)] + type(c.type) + list(c.x) + list(c.w) +
         list(c.y) + list(c.strides) + list(c.dilations) + list(c.pads_begin) + list(c.pads_end) +
         list({c.groups, c.bias, c.residual, c.channels_last, static_cast<int>(c.activation)}) + bounds;
}

std::string text(const AttentionShape& a) {
  return "attention" + type(a.type) + list({a.batch, a.heads, a.queries, a.keys, a.depth, a.width, a.causal}) + list(a.q) +
         list(a.k) + list(a.v) + list(a.y) + number(a.scale) +
         (a.mask.empty() ? "" : " mask" + type(a.mask_type) + list(a.mask));
}

std::string text(const PoolingShape& p) {
  return "pooling" + type(p.type) + list({static_cast<int>(p.mode), p.channels_last}) + list(p.x) + list(p.y) + list(p.kernel) +
         list(p.strides) + list(p.pads_begin) + list(p.pads_end);
}

std::string text(const NormalizationShape& n) {
  return "normalization" + type(n.type) + list({n.rows, n.columns, n.centered}) + number(n.epsilon);
}

}  // namespace

std::string to_string(const LibraryShape& shape) {
  return std::visit([](const auto& s) { return text(s); }, shape);
}

}  // namespace rewright::cuda
