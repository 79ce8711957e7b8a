// Shared by the tests of this folder: runs graphs with the CPU's backend on every instruction set.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/cpu/backend/backend.h"
#include "runtime/cpu/base/isa.h"
#include "runtime/cpu/running/runner.h"
#include "runtime/testing.h"

namespace rewright::testing {

using cpu::cpu_backend;

// The instruction sets to test: the one in REWRIGHT_TEST_ISA, otherwise all, the best one first (libraries keep that one).
inline std::vector<Isa> tested_isas() {
  std::vector<Isa> result;
  const char* only = std::getenv("REWRIGHT_TEST_ISA");
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2, Isa::kBaseline})
    if (isa <= cpu::detected_isa() && (only == nullptr || cpu::name(isa) == only)) result.push_back(isa);
  return result;
}

// Masks of four queries on `keys` keys: the first 520 keys are masked, all are; one score is NaN, one infinite.
inline Tensor masks_of_four_queries(std::int64_t keys, Sizes sizes) {
  std::vector<double> mask(static_cast<std::size_t>(4 * keys), 0);
  const auto row = [&](std::int64_t query) { return mask.begin() + query * keys; };
  std::fill_n(row(0), 520, -std::numeric_limits<double>::infinity());  // whole tiles of keys
  std::fill_n(row(1), keys, -std::numeric_limits<double>::infinity());
  row(2)[5] = std::numeric_limits<double>::quiet_NaN();
  row(3)[keys - 10] = std::numeric_limits<double>::infinity();
  return Tensor::from_reals(DataType::kFloat, std::move(sizes), mask);
}

// Runs the graph in the CPU backend, on one thread and in as many pieces as possible, and compares with the interpreter.
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
      INFO("isa " << cpu::name(isa) << ", round " << round);
      require_close(graph, actual, expected, {tolerance});
    }
  }
}

struct GraphBuilder : RandomGraph {
  using RandomGraph::RandomGraph;
  ValueId batch_norm(ValueId x) {
    const std::int64_t c = graph.value(x).type.shape[1].value();
    return node(graph, "BatchNormalization",
                {x, constant({c}, 0.5, 1.5), constant({c}), constant({c}), constant({c}, 0.5, 2)})[0];
  }
  // `count` random numbers.
  Indices list(std::size_t count, std::int64_t low, std::int64_t high) {
    Indices result;
    for (std::size_t a = 0; a < count; ++a) result.push_back(pick(low, high));
    return result;
  }
  // Same window, pad and stride along all axes; constant weights and biases.
  ValueId convolution(ValueId x, std::int64_t outputs, std::int64_t kernel, std::int64_t pad, std::int64_t stride = 1,
                      std::int64_t group = 1) {
    const Sizes s = values(graph.value(x).type.shape);
    Sizes w{outputs, s[1] / group};
    w.resize(s.size(), kernel);
    const Indices pads(s.size() - 2, Index(pad));
    return node(graph, "Conv", {x, constant(w, -0.3, 0.3), constant({outputs})},
                {{"strides", Indices(s.size() - 2, Index(stride))},
                 {"pads_begin", pads},
                 {"pads_end", pads},
                 {"group", Index(group)},
                 {"dilations", Indices(s.size() - 2, Index(1))}})[0];
  }
  void check(ValueId result, double tolerance = 5e-5) {
    graph.add_output("y", result);
    check_graph(graph, inputs, tolerance);
  }
  // The graph's steps by their operators, without layout conversions.
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
