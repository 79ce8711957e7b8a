// The operations requested from libraries, with everything that the choice of an algorithm depends on. Sizes and strides are in
// elements.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "expressions/data_type.h"

namespace rewright::cuda {

// A function that a library applies to its result before storing it. kClip: clamps to the shape's bounds. kGelu: the
// approximation by tanh. kSilu: x * sigmoid(x).
enum class Activation { kNone, kRelu, kClip, kGelu, kSilu, kSigmoid };

// y[i, m, n] = activation(alpha * sum(k) a[i, m, k] b[i, k, n] + bias[n]), all row-major: a's rows are `a_stride` apart, or if
// it is transposed, its columns. Batches are `*_batch` apart (0: repeated).
struct ProductShape {
  DataType type = DataType::kFloat;
  DataType a_type = DataType::kUndefined, b_type = DataType::kUndefined;  // float8; kUndefined: as the result
  std::int64_t m = 1, n = 1, k = 1, batch = 1;
  bool a_transposed = false, b_transposed = false;
  std::int64_t a_stride = 0, b_stride = 0, y_stride = 0;
  std::int64_t a_batch = 0, b_batch = 0, y_batch = 0;
  double alpha = 1;
  bool bias = false;  // a third input
  Activation activation = Activation::kNone;
  friend bool operator==(const ProductShape&, const ProductShape&) = default;
};

// A convolution, or one of its gradients.
enum class ConvolutionPass { kForward, kBackwardData, kBackwardFilter };

// x[N, C, spatial...] * w[K, C / groups, kernel...] -> y[N, K, out...]. With g, the gradient of y: the passes compute y from x
// and w, the gradient of x from g and w, and the gradient of w from x and g (inputs 0 and 1). Then + bias[channels of the
// result] and
// + residual[sizes of the result] (inputs 2 and 3, if present), then the activation. All tensors are packed: all with channels
// first, or all with channels last.
struct ConvolutionShape {
  DataType type = DataType::kFloat;
  ConvolutionPass pass = ConvolutionPass::kForward;
  std::vector<std::int64_t> x, w, y;
  std::vector<std::int64_t> strides, dilations, pads_begin, pads_end;
  std::int64_t groups = 1;
  bool bias = false, residual = false;
  bool channels_last = false;
  Activation activation = Activation::kNone;
  double low = 0, high = 0;  // of kClip

  const std::vector<std::int64_t>& result() const {
    return pass == ConvolutionPass::kForward ? y : pass == ConvolutionPass::kBackwardData ? x : w;
  }
  bool has_epilogue() const { return bias || residual || activation != Activation::kNone; }
  friend bool operator==(const ConvolutionShape&, const ConvolutionShape&) = default;
};

// y[b, h] = softmax(scale * q[b, h] k[b, h] + mask[b, h]) v[b, h] with q[queries, depth], k[depth, keys], v[keys, width]. Each
// operand has the strides of its four axes. If causal, a query only sees keys up to its own number. The mask is a fourth input:
// packed, with size 1 along axes that are broadcast. `shared` heads of queries in a row have one head of keys and values, whose
// strides are those of k and v; libraries get 1.
struct AttentionShape {
  DataType type = DataType::kHalf;
  std::int64_t batch = 1, heads = 1, queries = 1, keys = 1, depth = 1, width = 1;
  std::vector<std::int64_t> q, k, v, y;
  std::int64_t shared = 1;
  double scale = 1;
  bool causal = false;
  std::vector<std::int64_t> mask;  // sizes; empty: none
  DataType mask_type = DataType::kHalf;
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

// Pools of x[N, C, spatial...]: the largest element of each window, or its mean over the window (kMean) or over the part of the
// window inside x (kMeanInside).
struct PoolingShape {
  enum class Mode { kMaximum, kMean, kMeanInside };
  DataType type = DataType::kFloat;
  Mode mode = Mode::kMaximum;
  std::vector<std::int64_t> x, y, kernel;
  std::vector<std::int64_t> strides, pads_begin, pads_end;
  bool channels_last = false;
  friend bool operator==(const PoolingShape&, const PoolingShape&) = default;
};

// Rows of x[rows, columns]. Centered: (x - mean) / sqrt(variance + epsilon) * scale[columns] + shift[columns]. Otherwise:
// x / sqrt(mean square + epsilon) * scale[columns]. Scale and shift are the second and third inputs.
struct NormalizationShape {
  DataType type = DataType::kFloat;
  std::int64_t rows = 1, columns = 1;
  bool centered = true;
  double epsilon = 0;
  friend bool operator==(const NormalizationShape&, const NormalizationShape&) = default;
};

using LibraryShape = std::variant<ProductShape, ConvolutionShape, AttentionShape, PoolingShape, NormalizationShape>;

// All fields as text; equal for equal shapes.
std::string to_string(const LibraryShape& shape);
inline DataType element_type(const LibraryShape& shape) {
  return std::visit([](const auto& s) { return s.type; }, shape);
}

}  // namespace rewright::cuda
