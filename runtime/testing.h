// For tests of runtimes: random graphs and tensors, and comparison with the interpreter.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "operators/operator.h"

namespace rewright::testing {

inline Tensor random_tensor(std::mt19937& random, DataType type, const Sizes& sizes, double low = -2, double high = 2) {
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(static_cast<std::size_t>(element_count(sizes)));
  for (double& v : values) v = is_real(type) ? uniform(random) : std::floor(uniform(random));
  return Tensor::from_reals(type, sizes, values);
}

// An element's tolerance, relative to itself and to the largest element.
struct Closeness {
  double tolerance = 2e-5;
  double of_16_bits = 0;    // minimum tolerance for half; 10 times that for bfloat16
  double of_largest = 0.1;  // share of the tolerance that is relative to the largest element
};

inline void require_close(const Graph& graph, const std::vector<Tensor>& actual, const std::vector<Tensor>& expected,
                          const Closeness& closeness) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t o = 0; o < actual.size(); ++o) {
    INFO("output " << o << " of\n" << to_string(graph));
    REQUIRE(actual[o].type() == expected[o].type());
    REQUIRE(actual[o].sizes() == expected[o].sizes());
    const std::vector<double> a = actual[o].reals(), e = expected[o].reals();
    double largest = 0;
    for (const double v : e)
      if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
    double limit = closeness.tolerance;
    if (expected[o].type() == DataType::kHalf) limit = std::max(limit, closeness.of_16_bits);
    if (expected[o].type() == DataType::kBfloat16) limit = std::max(limit, 10 * closeness.of_16_bits);
    for (std::size_t i = 0; i < e.size(); ++i) {
      const bool same = a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]));
      if (same || std::fabs(a[i] - e[i]) <= limit * (std::fabs(e[i]) + closeness.of_largest * largest + 1e-3)) continue;
      INFO("element " << i << " of " << e.size() << ": " << a[i] << ", expected " << e[i]);
      REQUIRE(false);
    }
  }
}

inline Indices indices(std::initializer_list<std::int64_t> list) { return to_indices(std::vector<std::int64_t>(list)); }

// Adds a node by operator name; other attributes have their defaults.
inline std::vector<ValueId> node(Graph& graph, std::string_view name, std::vector<ValueId> inputs,
                                 std::vector<std::pair<std::string, AttributeValue>> attributes = {}) {
  const Operator& op = registry().get(name);
  Attributes all = op.defaults();
  for (auto& [field, value] : attributes) all.at(op.field(field).value()) = std::move(value);
  return graph.add_node(op, std::move(all), std::move(inputs));
}

// A graph being built, with random inputs.
struct RandomGraph {
  std::mt19937 random;
  Graph graph;
  std::vector<Tensor> inputs;
  explicit RandomGraph(unsigned seed) : random(seed) {}

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
  ValueId input(DataType type, const Sizes& sizes, double low = -2, double high = 2) {
    inputs.push_back(random_tensor(random, type, sizes, low, high));
    return graph.add_input("x" + std::to_string(inputs.size()), {type, to_indices(sizes)});
  }
  ValueId input(const Sizes& sizes) { return input(DataType::kFloat, sizes); }
  ValueId constant(const Sizes& sizes, double low = -1, double high = 1) {
    return graph.add_constant(random_tensor(random, DataType::kFloat, sizes, low, high));
  }
};

}  // namespace rewright::testing
