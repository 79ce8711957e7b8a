// Helpers for tests of graphs: models from text, and tensors.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"

namespace rewright::testing {

// Imports "agraph (float[N] x) => (float[N] y) { y = Relu(x) }"; `more`: opsets of other domains, as text_bytes takes them.
inline Graph import_text(const std::string& graph, int opset = 17, const ImportOptions& options = {},
                         const std::string& more = "") {
  return import_onnx_bytes(text_bytes(graph, opset, more), "test", options);
}

inline Tensor floats(Sizes sizes, const std::vector<double>& values) {
  return Tensor::from_reals(DataType::kFloat, std::move(sizes), values);
}

inline Tensor int64s(Sizes sizes, const std::vector<std::int64_t>& values) {
  return Tensor::from_integers(DataType::kInt64, std::move(sizes), values);
}

// Uniform from -0.9 to 0.9. All sizes must be known.
inline Tensor random_tensor(const TensorType& type, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(-0.9, 0.9);
  std::vector<double> values(static_cast<std::size_t>(product(type.shape).value()));
  for (double& v : values) v = uniform(random);
  return Tensor::from_reals(type.type, rewright::values(type.shape), values);
}

}  // namespace rewright::testing
