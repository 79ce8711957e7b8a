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

  ValueId weights(Sizes sizes, const std::string& name) {
    return graph.add_constant(random_tensor(std::move(sizes), random_, DataType::kFloat), name);
  }
  // `name` is appended to those of the scale and the statistics.
  ValueId normalized(ValueId x, std::int64_t channels, const std::string& name = "") {
    const auto filled = [&](double value, const char* what) {
      const std::vector<double> values(static_cast<std::size_t>(channels), value);
      return graph.add_constant(Tensor::from_reals(DataType::kFloat, {channels}, values), what + name);
    };
    return b.add("BatchNormalization", {x, filled(1, "scale"), filled(0, "shift"), filled(0, "mean"), filled(1, "variance")});
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
