// Generated kernels for every operator in the shipped rules, on random typed instances, compared with the interpreter.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/temporary_folder.h"
#include "operators/specification.h"
#include "optimizer/optimize.h"
#include "rules/instance.h"
#include "runtime/cuda/running/session.h"
#include "runtime/cuda/testing/device.h"
#include "runtime/testing.h"

namespace rewright::cuda {
namespace {

// Adds a graph and its outputs to another one.
void append(Graph& all, const Graph& graph) {
  std::map<ValueId, ValueId> copies;
  const auto copy_of = [&](ValueId v) {
    if (v == kNoValue) return kNoValue;
    const auto [found, added] = copies.emplace(v, kNoValue);
    if (added) found->second = all.add_constant(graph.value(v).constant);
    return found->second;
  };
  for (const ValueId i : graph.inputs())
    copies[i] = all.add_input("x" + std::to_string(all.inputs().size()), graph.value(i).type);
  for (const auto& node : graph.nodes()) {
    std::vector<ValueId> inputs;
    for (const ValueId i : node->inputs) inputs.push_back(copy_of(i));
    const std::vector<ValueId> outputs = all.add_node(*node->op, node->attributes, inputs);
    for (std::size_t o = 0; o < node->outputs.size(); ++o)
      if (node->outputs[o] != kNoValue) copies[node->outputs[o]] = outputs.at(o);
  }
  for (const GraphOutput& o : graph.outputs()) all.add_output("y" + std::to_string(all.outputs().size()), copies.at(o.value));
}

}  // namespace

TEST_CASE("random instances of the sources of rules") {
  constexpr std::size_t kInstances = 150;
  const std::vector<Rule>& rules = shipped_rules().rules();
  Graph graph;
  std::set<std::string> operators;
  // Spread over all rules, so that every family is tested.
  const std::size_t step = std::max<std::size_t>(1, rules.size() / kInstances);
  std::vector<std::size_t> first_input, first_output;  // by instance, and the end
  for (std::size_t r = 0; r < rules.size(); r += step) {
    const auto instance = InstanceSampler(rules[r], 11).sample(300);
    // Random numbers are no trees.
    const bool has_trees = instance && std::any_of(instance->source.nodes().begin(), instance->source.nodes().end(),
                                                   [](const auto& n) { return operators::view_of(*n->op) != nullptr; });
    if (!instance || has_trees) continue;
    first_input.push_back(graph.inputs().size());
    first_output.push_back(graph.outputs().size());
    append(graph, instance->source);
    for (const auto& node : instance->source.nodes()) operators.insert(node->op->name());
  }
  REQUIRE(operators.size() > 30);
  first_input.push_back(graph.inputs().size());
  first_output.push_back(graph.outputs().size());
  std::vector<Tensor> inputs = random_inputs(graph, {}, 5);
  std::vector<Tensor> expected = interpret(graph, inputs);
  // Outside of a function's domain (a variance below 0) windows of padding alone are undefined.
  for (std::size_t n = 0; n + 1 < first_output.size(); ++n) {
    const auto undefined = [](const Tensor& t) {
      const std::vector<double> elements = t.reals();
      return std::any_of(elements.begin(), elements.end(), [](double x) { return std::isnan(x); });
    };
    if (std::none_of(expected.begin() + static_cast<std::ptrdiff_t>(first_output[n]),
                     expected.begin() + static_cast<std::ptrdiff_t>(first_output[n + 1]), undefined))
      continue;
    for (std::size_t i = first_input[n]; i < first_input[n + 1]; ++i) {
      if (!is_real(inputs[i].type())) continue;
      std::vector<double> elements = inputs[i].reals();
      for (double& x : elements) x = std::fabs(x);
      inputs[i] = Tensor::from_reals(inputs[i].type(), inputs[i].sizes(), elements);
    }
  }
  expected = interpret(graph, inputs);
  // A second session finds the kernels of the first in the cache.
  const TemporaryFolder cache;
  for (const bool libraries : {false, true}) {
    CAPTURE(libraries);
    const auto actual = make_session(tested_driver(libraries), graph, {}, {.cache = cache.path()})->run(inputs);
    testing::require_close(graph, actual, expected, {1e-4, 4e-3, 1});
  }
  CHECK(std::distance(std::filesystem::directory_iterator(cache.path()), {}) >= 1);
}

}  // namespace rewright::cuda
