// What the tests of this folder share: random graphs and tensors, and comparison with the interpreter.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <random>

#include "runtime/cpu/backend.h"
#include "runtime/cpu/isa.h"
#include "runtime/cpu/runner.h"

namespace rewright::testing {

inline Tensor random_tensor(std::mt19937& random, DataType type, const Sizes& sizes, double low = -2, double high = 2) {
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(static_cast<std::size_t>(element_count(sizes)));
  for (double& v : values) v = is_real(type) ? uniform(random) : std::floor(uniform(random));
  return Tensor::from_reals(type, sizes, values);
}

// The instruction sets to test: the one that REWRIGHT_TEST_ISA names, else all, the best one first (libraries keep that one).
inline std::vector<Isa> tested_isas() {
  std::vector<Isa> result;
  const char* only = std::getenv("REWRIGHT_TEST_ISA");
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2, Isa::kBaseline})
    if (isa <= cpu::detected_isa() && (only == nullptr || cpu::name(isa) == only)) result.push_back(isa);
  return result;
}

// Runs the graph in the CPU backend, on one thread and in as many pieces as there may be, and compares with the interpreter.
inline void check_graph(const Graph& graph, std::span<const Tensor> inputs, double tolerance = 2e-5) {
  const std::vector<Tensor> expected = interpret(graph, inputs);
  for (const Isa isa : tested_isas()) {
    SessionOptions options;
    options.max_isa = isa;
    const auto session = cpu_backend().prepare(graph, options);
    cpu::PlanOptions in_pieces;
    in_pieces.isa = isa;
    in_pieces.threads = 3;
    in_pieces.piece_nanoseconds = 0;
    cpu::PlanRunner shared(cpu::make_plan(with_sizes(graph, bind_sizes(graph, inputs)), in_pieces));
    for (int round = 0; round < 4; ++round) {
      const std::vector<Tensor> actual = round % 2 == 0 ? session->run(inputs) : shared.run(inputs);
      REQUIRE(actual.size() == expected.size());
      for (std::size_t o = 0; o < actual.size(); ++o) {
        INFO(to_string(graph) << "output " << o << ", isa " << cpu::name(isa) << ", round " << round);
        REQUIRE(actual[o].type() == expected[o].type());
        REQUIRE(actual[o].sizes() == expected[o].sizes());
        const std::vector<double> a = actual[o].reals(), e = expected[o].reals();
        double largest = 0;
        for (const double v : e)
          if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
        for (std::size_t i = 0; i < e.size(); ++i) {
          const bool same = a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]));
          if (same || std::fabs(a[i] - e[i]) <= tolerance * (std::fabs(e[i]) + 0.1 * largest + 1e-3)) continue;
          INFO("element " << i << " of " << e.size() << ": " << a[i] << ", expected " << e[i]);
          REQUIRE(false);
        }
      }
    }
  }
}

// A node of any operator, by name; attributes not given keep their defaults.
inline std::vector<ValueId> node(Graph& graph, std::string_view name, std::vector<ValueId> inputs,
                                 std::vector<std::pair<std::string, AttributeValue>> attributes = {}) {
  const Operator& op = registry().get(name);
  Attributes all = op.defaults();
  for (auto& [field, value] : attributes) all.at(op.field(field).value()) = std::move(value);
  return graph.add_node(op, std::move(all), std::move(inputs));
}

// A graph being built, with random inputs.
struct GraphBuilder {
  std::mt19937 random;
  Graph graph;
  std::vector<Tensor> inputs;
  explicit GraphBuilder(unsigned seed) : random(seed) {}

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
  ValueId batch_norm(ValueId x) {
    const std::int64_t c = graph.value(x).type.shape[1].value();
    return node(graph, "BatchNormalization",
                {x, constant({c}, 0.5, 1.5), constant({c}), constant({c}), constant({c}, 0.5, 2)})[0];
  }
  // The steps that the graph is executed in, by their operators, without changes of layout.
  std::vector<std::string> steps() const {
    SessionOptions options;
    options.profile = true;
    const auto session = cpu_backend().prepare(graph, options);
    session->run(inputs);
    std::vector<std::string> result;
    for (const StepProfile& step : session->profile())
      if (step.operators != "(layout)") result.push_back(step.operators);
    return result;
  }
};

}  // namespace rewright::testing
