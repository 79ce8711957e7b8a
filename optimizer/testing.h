// Shared by the tests of the optimizer: a device without noise, and small rules.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "optimizer/costs/cost_model.h"
#include "optimizer/devices/device.h"
#include "rules/io.h"

namespace rewright::testing {

// A device with the roofline's times: the same on every machine. Executes with the interpreter.
class RooflineDevice : public Device {
 public:
  std::string name() const override { return "roofline"; }
  std::string identity() const override { return identity_; }
  std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) override {
    std::vector<std::optional<double>> seconds;
    for (const NodeSample& sample : samples) {
      const MatchedGraph facts(sample.graph, false);
      seconds.push_back(CostModel(nullptr, nullptr, {}).cost(facts));
    }
    timed += samples.size();
    return seconds;
  }
  std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions&) override {
    std::vector<std::vector<double>> times;
    for (const Graph& graph : graphs) {
      const MatchedGraph facts(graph, false);
      // Graphs that only lack unneeded parts have equal hashes.
      const bool rewritten = graph.hash() != graphs[0].hash() || graph.nodes().size() != graphs[0].nodes().size();
      const double factor = rewritten_is_slow && rewritten ? 10 : 1;
      times.emplace_back(7, factor * CostModel(nullptr, nullptr, {}).cost(facts));
    }
    return times;
  }
  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override { return interpret(graph, inputs); }
  bool supports(const Graph&, const Node&) const override { return true; }
  double cache_bytes() const override { return cache; }
  StridedReads strided_reads() const override { return strided; }

  std::string identity_ = "roofline";
  StridedReads strided = StridedReads::kNone;
  double cache = std::numeric_limits<double>::infinity();
  std::size_t timed = 0;
  bool rewritten_is_slow = false;  // whole graphs after the first take ten times as long
};

inline TensorType floats(Indices shape) { return {DataType::kFloat, std::move(shape)}; }

inline Tensor weights(Sizes sizes, int seed = 1) {
  std::vector<double> values(static_cast<std::size_t>(element_count(sizes)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 7 + static_cast<std::size_t>(seed) * 5) % 11) / 8 - 0.5;
  return Tensor::from_reals(DataType::kFloat, std::move(sizes), values);
}

inline std::vector<ValueId> add(Graph& graph, const char* op, std::vector<ValueId> inputs) {
  const Operator& found = registry().get(op);
  return graph.add_node(found, found.defaults(), std::move(inputs));
}

inline constexpr const char* kRules = R"(
rule relu_relu: "a second relu changes nothing"
  x
  Relu(Relu(x)) => Relu(x)
  exact

rule two_products: "products of one input are added as one"
  x[M, K], const a[K, N], const b[K, N]
  MatMul(x, a) + MatMul(x, b) => MatMul(x, a + b)
  reassociates

rule product_chain: "weights are multiplied first"
  x[M, K], const a[K, R], const b[R, N]
  MatMul(MatMul(x, a), b) => MatMul(x, MatMul(a, b))
  reassociates

rule scaled_product: "a scale goes into the weights"
  x[M, K], const a[K, N], const s[]
  MatMul(x, a) * s => MatMul(x, a * s)
  reassociates

rule common_input: "two sums of one input, the second by way of the first"
  x, const a, const b
  let first = x + a
  x + a, x + b => first, first + (b - a)
  reassociates
)";

inline std::vector<Rule> rules(const char* text = kRules) { return parse_algebra(text, "test.rules"); }

// Layers of x W + (x A) B s.
inline Graph adapters(int layers, std::int64_t width, std::int64_t rank) {
  Graph graph;
  ValueId x = graph.add_input("x", floats({4, width}));
  for (int layer = 0; layer < layers; ++layer) {
    const ValueId w = graph.add_constant(weights({width, width}, layer)),
                  a = graph.add_constant(weights({width, rank}, layer + 1)),
                  b = graph.add_constant(weights({rank, width}, layer + 2)), s = graph.add_constant(weights({}, 4));
    const ValueId low = add(graph, "MatMul", {add(graph, "MatMul", {x, a})[0], b})[0];
    const ValueId sum = add(graph, "Add", {add(graph, "MatMul", {x, w})[0], add(graph, "Mul", {low, s})[0]})[0];
    x = add(graph, "Relu", {sum})[0];
  }
  graph.add_output("y", x);
  return graph;
}

}  // namespace rewright::testing
