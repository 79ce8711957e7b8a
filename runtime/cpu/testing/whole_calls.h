// Shared by the tests of kernels that compute a whole call in the place of its graph.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cpu/planning/whole_operators.h"
#include "runtime/cpu/testing/graphs.h"

namespace rewright::testing {

using Random = std::mt19937;

inline std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

// "[2, 3]", as in ONNX's texts.
inline std::string in_brackets(const Sizes& sizes) {
  std::string text = "[";
  for (std::size_t a = 0; a < sizes.size(); ++a) text += (a > 0 ? ", " : "") + std::to_string(sizes[a]);
  return text + "]";
}

inline bool has_node(const Graph& graph, std::string_view name) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [&](const auto& node) { return node->op != nullptr && node->op->name() == name; });
}

// Is there a node of this name for a call in the graph, and are its results the graph's, on all instruction sets, on several
// threads, and in a second run?
inline void check_whole_call(const Graph& graph, std::string_view name, const std::vector<Tensor>& inputs,
                             const Closeness& closeness) {
  const Graph whole = cpu::with_whole_operators(graph);
  REQUIRE(has_node(whole, name));
  const std::vector<Tensor> expected = interpret(graph, inputs);
  for (const cpu::Isa isa : tested_isas())
    for (const int threads : {1, 3}) {
      CAPTURE(cpu::name(isa), threads);
      cpu::PlanOptions options;
      options.isa = isa, options.threads = threads, options.piece_nanoseconds = 0;
      cpu::PlanRunner runner(cpu::make_plan(whole, options));
      for (int again = 0; again < 2; ++again) require_close(graph, runner.run(inputs), expected, closeness);
    }
}

}  // namespace rewright::testing
