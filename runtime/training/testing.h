// Small models and data to train in tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "operators/testing.h"
#include "runtime/training/data/dataset.h"

namespace rewright::testing {

// A graph with random weights: the same for the same seed and order of layers.
class ModelBuilder {
 public:
  explicit ModelBuilder(unsigned seed) : random_(seed) {}

  Graph graph;
  NodeBuilder b{graph};

  ValueId weights(Sizes sizes, const std::string& name, double scale = 1) {
    Tensor values = random_tensor(std::move(sizes), random_, DataType::kFloat);
    for (float& v : values.mutable_data<float>()) v = static_cast<float>(v * scale);
    return graph.add_constant(std::move(values), name);
  }
  ValueId filled(std::int64_t size, double value, const std::string& name) {
    const std::vector<double> values(static_cast<std::size_t>(size), value);
    return graph.add_constant(Tensor::from_reals(DataType::kFloat, {size}, values), name);
  }
  // `name` is appended to those of the scale and the statistics.
  ValueId normalized(ValueId x, std::int64_t channels, const std::string& name = "") {
    const auto parameter = [&](double value, const char* what) { return filled(channels, value, what + name); };
    return b.add("BatchNormalization",
                 {x, parameter(1, "scale"), parameter(0, "shift"), parameter(0, "mean"), parameter(1, "variance")});
  }

 private:
  std::mt19937 random_;
};

// Examples for a model's input "x".
inline Dataset with_targets(Tensor x, const std::vector<std::int64_t>& targets) {
  return Dataset({{"x", std::move(x)},
                  {"targets", Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(targets.size())}, targets)}});
}

}  // namespace rewright::testing
