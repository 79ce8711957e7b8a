#include "rules/rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "base/error.h"
#include "operators/readings/zeros_outside.h"
#include "rules/cancellation.h"
#include "rules/instance.h"
#include "rules/typed_sides.h"

namespace rewright::rules {

namespace {

using Limits = std::numeric_limits<float>;

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kFloatLargest = Limits::max(), kFloatSmallest = Limits::min(), kFloatLeast = Limits::denorm_min();
constexpr std::array kFloatEdges = {
    0.0, -0.0, 1.0, -1.0, 0.5, kFloatLeast, -kFloatSmallest, kFloatLargest, -0.75 * kFloatLargest, kInfinity, -kInfinity, kNaN};

// The elements of all outputs, and the largest magnitude among all values.
struct RoundedRun {
  std::vector<double> elements;
  double largest = 0;
};

RoundedRun rounded_run(const Graph& graph, const std::vector<std::vector<double>>& inputs) {
  std::vector<Tensor> known(graph.value_count());
  RoundedRun result;
  const auto see = [&](const Tensor& t) {
    for (const double x : t.reals())
      if (!std::isnan(x)) result.largest = std::max(result.largest, std::fabs(x));
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = graph.value(graph.inputs()[i]).type;
    see(known[graph.inputs()[i]] = Tensor::from_reals(type.type, values(type.shape), inputs[i]));
  }
  for (const auto& node : graph.nodes()) {
    std::vector<Tensor> operands;
    for (const ValueId id : node->inputs) operands.push_back(id == kNoValue ? Tensor() : known[id]);
    std::vector<Tensor> results = interpret_with_zeros_outside(*node->op, node->attributes, operands);
    for (std::size_t o = 0; o < node->outputs.size(); ++o)
      if (node->outputs[o] != kNoValue) see(known[node->outputs[o]] = results.at(o));
  }
  for (const GraphOutput& output : graph.outputs()) {
    const std::vector<double> reals = known[output.value].reals();
    result.elements.insert(result.elements.end(), reals.begin(), reals.end());
  }
  return result;
}

std::optional<std::string> rounded_difference(const RoundedRun& source, const RoundedRun& target,
                                              const std::function<bool(double, double)>& agrees) {
  for (std::size_t e = 0; e < source.elements.size(); ++e)
    if (!agrees(source.elements[e], target.elements[e]))
      return std::to_string(source.elements[e]) + " in the source, " + std::to_string(target.elements[e]) + " in the target";
  return std::nullopt;
}

class RoundingTest {
 public:
  RoundingTest(const Rule& rule, const RuleInstance& instance, std::mt19937_64& random)
      : random_(random),
        instance_(instance),
        floats_(as_type(rule, instance, DataType::kFloat)),
        doubles_(as_type(rule, instance, DataType::kDouble)) {}

  std::optional<std::string> exact() {
    if (!floats_) return std::nullopt;
    const auto inputs = numbers([&] { return kFloatEdges[random_() % kFloatEdges.size()]; });
    return rounded_difference(rounded_run(floats_->source, inputs), rounded_run(floats_->target, inputs),
                              [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); });
  }

  std::optional<std::string> not_a_number() {
    if (!floats_) return std::nullopt;
    const auto inputs = numbers([&] { return random_() % 6 == 0 ? kNaN : 0.25 + 0.25 * static_cast<double>(random_() % 8); });
    return rounded_difference(rounded_run(floats_->source, inputs), rounded_run(floats_->target, inputs),
                              [](double a, double b) { return std::isnan(a) == std::isnan(b); });
  }

  std::optional<std::string> finite() {
    if (!floats_) return std::nullopt;
    // Some hundred is where exponentials leave the range, below by other numbers than above.
    const double magnitude = random_() % 2 ? 150.0 : std::pow(10.0, static_cast<double>(random_() % 37) - 18);
    const int sign = static_cast<int>(random_() % 3) - 1;
    const auto inputs = numbers([&] {
      const double x = magnitude * (static_cast<double>(random_() % 401) - 200) / 200;
      return random_() % 12 == 0 ? 0.0 : sign == 0 ? x : sign * std::fabs(x);
    });
    for (const Graph* graph : {&doubles_->source, &doubles_->target})
      if (rounded_run(*graph, inputs).largest > kFloatLargest / 4)
        return std::nullopt;  // it overflows, or is infinite in doubles as well
    return rounded_difference(rounded_run(floats_->source, inputs), rounded_run(floats_->target, inputs),
                              [](double a, double b) { return std::isfinite(a) == std::isfinite(b); });
  }

 private:
  std::vector<std::vector<double>> numbers(const std::function<double()>& number) const {
    std::vector<std::vector<double>> inputs;
    for (const TensorType& type : instance_.input_types) {
      inputs.emplace_back(static_cast<std::size_t>(element_count(values(type.shape))));
      for (double& x : inputs.back()) x = number();
    }
    return inputs;
  }

  std::mt19937_64& random_;
  const RuleInstance& instance_;
  std::optional<TypedSides> floats_, doubles_;
};

}  // namespace

std::optional<std::string> test_rounding(const Rule& rule, MathClass claimed, int instances, std::uint64_t seed) {
  if (claimed == MathClass::kNeedsFinite) return std::nullopt;
  if (claimed == MathClass::kReassociates)
    if (const double factor = cancellation(rule, instances, seed); factor > kCancels)
      return "where values nearly cancel, the target errs " + std::to_string(factor) + " times as much as the source";
  InstanceSampler sampler(rule, seed);
  std::mt19937_64 random(seed);
  for (int n = 0; n < instances; ++n) {
    const auto instance = sampler.sample();
    if (!instance) return std::nullopt;
    try {
      RoundingTest test(rule, *instance, random);
      if (claimed == MathClass::kExact) {
        if (auto found = test.exact()) return found;
        continue;
      }
      if (auto found = test.not_a_number()) return found;
      if (auto found = test.finite()) return found;
    } catch (const Error&) {  // not for floats, or without a value
    }
  }
  return std::nullopt;
}

}  // namespace rewright::rules
