// LinearAttention's attributes, for its procedure and its graph.
#pragma once

#include <cstdint>

#include "operators/onnx.h"

namespace rewright::operators {

// For each head a matrix S: S = exp(decay) S; then S += key (x) u with u = value or, by the delta rule, u = rate * (value - key
// S); the result is scale * query S. One number of heads is a multiple of the other.
struct LinearAttentionForm {
  std::int64_t query_heads = 0, heads = 0;
  bool decays = false, is_delta = false;
};
// Throws Error(kBadInput) if they are wrong.
LinearAttentionForm linear_attention_form(const OnnxAttributes& source);

}  // namespace rewright::operators
