// Rules allowed by --for-training preserve gradients: those of both sides are compared on random instances.
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/gradients/differentiate.h"
#include "operators/testing/share.h"
#include "optimizer/matching/match.h"
#include "rules/io.h"
#include "rules/tester.h"

namespace rewright::training {
namespace {

// A side with these outputs: the gradients in its real inputs of a weighted sum of its real outputs.
Graph gradients_of(Graph side, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  NodeBuilder b(side);
  std::vector<Seed> seeds;
  for (const GraphOutput& output : side.outputs()) {
    if (!is_real(output.type.type)) continue;
    std::vector<double> weights(static_cast<std::size_t>(element_count(values(output.type.shape))));
    for (double& w : weights) w = 0.5 + static_cast<double>(random() % 1000) / 1000;
    seeds.push_back(
        {output.value, side.add_constant(Tensor::from_reals(output.type.type, values(output.type.shape), weights))});
  }
  std::vector<ValueId> wanted;
  for (const ValueId id : side.inputs())
    if (is_real(side.value(id).type.type)) wanted.push_back(id);
  const std::vector<ValueId> found = differentiate(side, seeds, wanted);
  side.set_outputs({});
  for (std::size_t n = 0; n < wanted.size(); ++n)
    side.add_output(std::to_string(n), found[n] != kNoValue ? found[n] : b.filled(side.value(wanted[n]).type, 0));
  side.tidy();
  return side;
}

// Distinct nonzero numbers.
Tensor distinct(const TensorType& type, double low, double high, std::mt19937_64& random) {
  const Sizes sizes = values(type.shape);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> reals(static_cast<std::size_t>(element_count(sizes)));
  std::vector<std::int64_t> integers(reals.size());
  for (double& x : reals) x = uniform(random);
  for (std::int64_t& x : integers) x = static_cast<std::int64_t>(random() % (type.type == DataType::kBool ? 2 : 3));
  return is_real(type.type) ? Tensor::from_reals(type.type, sizes, reals) : Tensor::from_integers(type.type, sizes, integers);
}

// Are its values finite? A variance below 0 gives NaN.
bool is_defined(const Graph& graph, const std::vector<Tensor>& inputs) {
  try {
    for (const Tensor& t : interpret(graph, inputs))
      for (const double v : t.reals())
        if (!std::isfinite(v)) return false;
    return true;
  } catch (const Error&) {
    return false;
  }
}

struct Comparison {
  int compared = 0;
  std::optional<std::string> difference;
  std::optional<std::string> without;  // why only one side has no gradient
};

Comparison compare_gradients(const Rule& rule, int instances) {
  Comparison result;
  std::mt19937_64 random(1);
  InstanceSampler sampler(rule, 5);
  for (int k = 0; k < instances && !result.difference && !result.without; ++k) {
    const auto instance = sampler.sample();
    if (!instance) break;
    std::optional<Graph> source, target;
    std::string why;
    const auto attempt = [&](const Graph& side) -> std::optional<Graph> {
      try {
        return gradients_of(side, 3);
      } catch (const Error& e) {
        why = e.text();
        return std::nullopt;
      }
    };
    source = attempt(instance->source);
    target = attempt(instantiate(rule, rule.target, instance->input_types, instance->bindings));
    if (source.has_value() != target.has_value()) result.without = (source ? "the target: " : "the source: ") + why;
    if (!source || !target) continue;
    for (const double low : {0.2, -1.5}) {
      std::vector<Tensor> inputs;
      for (const TensorType& type : instance->input_types) inputs.push_back(distinct(type, low, 1.5, random));
      if (!is_defined(*source, inputs)) continue;
      if (const auto difference = compare_on(*source, *target, inputs)) result.difference = difference->what;
      ++result.compared;
    }
  }
  return result;
}

Rule rule_of(const std::string& text) { return parse_algebra(text, "test").at(0); }

TEST_CASE("a rule that does not keep gradients is noticed") {
  // Equal for positive numbers, with the same results there, but with other gradients.
  CHECK(compare_gradients(rule_of("rule wrong: \"\" x Abs(x) => x exact"), 5).difference);
  CHECK(compare_gradients(rule_of("rule wrong: \"\" x, y Max(x, Add(x, Abs(y))) => Add(x, y) exact"), 5).difference);
  CHECK(compare_gradients(rule_of("rule wrong: \"\" x Floor(x) => Round(Floor(x)) exact"), 5).difference == std::nullopt);
  CHECK(compare_gradients(rule_of("rule right: \"\" x Relu(Relu(x)) => Relu(x) exact"), 5).difference == std::nullopt);
}

TEST_CASE("shipped rules that are used in training keep gradients") {
  RuleIndex all(shipped_rules().rules(), {MathClass::kNeedsFinite, false});
  RuleIndex training(shipped_rules().rules(), {MathClass::kNeedsFinite, true});
  std::vector<std::string> dropped, different, lost;
  std::size_t compared = 0;
  const std::vector<Rule> rules = testing::share(std::vector<Rule>(all.rules().begin(), all.rules().end()));
  for (const Rule& rule : rules) {
    if (!training.find(rule.name)) {
      dropped.push_back(rule.name);
      continue;
    }
    const Comparison c = compare_gradients(rule, testing::kSanitized ? 1 : 3);
    compared += c.compared > 0;
    if (c.difference) different.push_back(rule.name + ": " + *c.difference);
    if (c.without) lost.push_back(rule.name + ": " + *c.without);
  }
  CHECK(dropped == std::vector<std::string>{});
  CHECK(different == std::vector<std::string>{});
  CHECK(lost == std::vector<std::string>{});
  CHECK(compared > 9 * rules.size() / 10);
}

}  // namespace
}  // namespace rewright::training
