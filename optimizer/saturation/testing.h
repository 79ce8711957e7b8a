// Shared by the tests of saturation: small random graphs, and rules that apply in cycles.
#pragma once

#include <chrono>
#include <random>
#include <vector>

#include "optimizer/limits/limits.h"
#include "optimizer/testing.h"

namespace rewright::testing {

// Some of these undo others, so that searches must not follow their own steps, and classes read themselves.
inline constexpr const char* kCircularRules = R"(
rule product_chain: "associative"
  x[M, K], a[K, R], b[R, N]
  MatMul(MatMul(x, a), b) => MatMul(x, MatMul(a, b))
  reassociates

rule product_chain_back: "associative"
  x[M, K], a[K, R], b[R, N]
  MatMul(x, MatMul(a, b)) => MatMul(MatMul(x, a), b)
  reassociates

rule distribute: "a common factor"
  x[M, K], a[K, N], b[K, N]
  MatMul(x, a) + MatMul(x, b) => MatMul(x, a + b)
  reassociates

rule relu_relu: "a second relu changes nothing"
  x
  Relu(Relu(x)) => Relu(x)
  exact

rule sums: "associative"
  x[M, N], y[M, N], z[M, N]
  (x + y) + z => x + (y + z)
  reassociates

rule negated_twice: "comes back"
  x
  Neg(Neg(x)) => x
  exact

rule transposed_twice: "comes back"
  x[M, N]
  Transpose(Transpose(x; perm=[1, 0]); perm=[1, 0]) => x
  exact

rule transposed_relu: "a relu before"
  x[M, N]
  Transpose(Relu(x); perm=[1, 0]) => Relu(Transpose(x; perm=[1, 0]))
  exact

rule relu_transposed: "a relu behind"
  x[M, N]
  Relu(Transpose(x; perm=[1, 0])) => Transpose(Relu(x); perm=[1, 0])
  exact

rule two_products: "two products of one input as one"
  x[M, K], a[K, N], b[K, P]
  let both = Split(MatMul(x, Concat(a, b; axis=1)); axis=1, sizes=[N, P])
  MatMul(x, a), MatMul(x, b) => both.0, both.1
  reassociates
)";

inline Limits no_limits() { return Limits(std::chrono::steady_clock::time_point::max(), std::size_t{1} << 40, {}); }

// Operators on square matrices, some of them constant. In a tree no result is read twice.
inline Graph random_graph(std::uint64_t seed, int nodes, bool tree = false) {
  std::mt19937_64 random(seed);
  Graph graph;
  std::vector<ValueId> values{graph.add_input("x", floats({3, 3})), graph.add_input("y", floats({3, 3})),
                              graph.add_constant(weights({3, 3}, static_cast<int>(seed % 7))),
                              graph.add_constant(weights({3, 3}, static_cast<int>(seed % 5) + 8))};
  const std::size_t leaves = values.size();
  const auto any = [&] {
    const std::size_t chosen = values.size() - 1 - random() % std::min<std::size_t>(values.size(), 5);
    const ValueId value = values[chosen];
    if (tree && chosen >= leaves) values.erase(values.begin() + static_cast<std::ptrdiff_t>(chosen));
    return value;
  };
  for (int i = 0; i < nodes; ++i) {
    switch (random() % 8) {
      case 0:
      case 1:
      case 2:
        values.push_back(add(graph, "MatMul", {any(), any()})[0]);
        break;
      case 3:
      case 4:
        values.push_back(add(graph, "Add", {any(), any()})[0]);
        break;
      case 5:
        values.push_back(add(graph, "Relu", {any()})[0]);
        if (random() % 2 == 0) values.back() = add(graph, "Relu", {values.back()})[0];
        break;
      case 6:
        values.push_back(add(graph, "Neg", {any()})[0]);
        break;
      default: {
        const Operator& transpose = registry().get("Transpose");
        values.push_back(graph.add_node(transpose, {Indices{1, 0}}, {any()})[0]);
      }
    }
  }
  graph.add_output("last", values.back());
  if (!tree) graph.add_output("before", values[values.size() - 2]);
  graph.tidy();
  return graph;
}

}  // namespace rewright::testing
