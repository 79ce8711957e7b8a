#include "rules/tester.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "operators/readings/interpreter.h"

namespace rewright::rules {

namespace {

// Values of a graph's outputs over the prime field.
std::vector<FieldTensor> interpret_field(const Graph& graph, const std::vector<FieldTensor>& inputs, std::uint64_t key) {
  std::vector<FieldTensor> values(graph.value_count());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];
  for (const auto& node : graph.nodes()) {
    std::vector<FieldTensor> operands;
    for (const ValueId id : node->inputs) operands.push_back(id == kNoValue ? FieldTensor{} : values[id]);
    std::vector<FieldTensor> results = interpret_in_field(*node->op, node->attributes, operands, key);
    for (std::size_t i = 0; i < node->outputs.size(); ++i)
      if (node->outputs[i] != kNoValue) values[node->outputs[i]] = std::move(results.at(i));
  }
  std::vector<FieldTensor> outputs;
  for (const GraphOutput& output : graph.outputs()) outputs.push_back(values[output.value]);
  return outputs;
}

enum class OverField { kEqual, kDifferent, kUnknown };

OverField compare_over_field(const RuleInstance& instance, const Graph& target, std::uint64_t key, std::mt19937_64& random) {
  std::vector<FieldTensor> inputs;
  for (const TensorType& type : instance.input_types) {
    FieldTensor t{type.type, values(type.shape), {}};
    const std::int64_t count = element_count(t.sizes);
    for (std::int64_t i = 0; i < count; ++i)
      t.elements.push_back(is_real(type.type)             ? random() % kFieldPrime
                           : type.type == DataType::kBool ? random() % 2
                                                          : random() % 4);
    inputs.push_back(std::move(t));
  }
  try {
    const auto left = interpret_field(instance.source, inputs, key), right = interpret_field(target, inputs, key);
    for (std::size_t i = 0; i < left.size(); ++i)
      if (left[i].elements != right[i].elements) return OverField::kDifferent;
  } catch (const Error&) {  // an operator without a meaning in the field
    return OverField::kUnknown;
  }
  return OverField::kEqual;
}

Tensor random_tensor(const TensorType& type, int kind, std::mt19937_64& random) {
  const Sizes sizes = values(type.shape);
  const auto count = static_cast<std::size_t>(element_count(sizes));
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  if (is_real(type.type)) {
    std::vector<double> numbers(count);
    for (double& x : numbers) switch (kind) {
        case 0:
          x = between(-1500, 1500) / 1000.0;
          break;
        case 1:
          x = between(200, 1500) / 1000.0;
          break;
        case 2:
          x = between(-2, 2);
          break;
        case 3:
          x = between(1, 3);
          break;
        default:
          x = between(-10000, 10000) / 1000.0;
      }
    return Tensor::from_reals(type.type, sizes, numbers);
  }
  const bool negative = kind % 2 == 0 && type.type != DataType::kBool && name(type.type).starts_with("int");
  std::vector<std::int64_t> numbers(count);
  for (std::int64_t& x : numbers) x = type.type == DataType::kBool ? between(0, 1) : negative ? between(-5, 5) : between(0, 3);
  return Tensor::from_integers(type.type, sizes, numbers);
}

std::string position(std::size_t element, const Sizes& sizes) {
  Indices result(sizes.size());
  for (std::size_t a = sizes.size(); a-- > 0; element /= static_cast<std::size_t>(sizes[a]))
    result[a] = Index(element % static_cast<std::size_t>(sizes[a]));
  return sizes.empty() ? "" : " at " + to_string(result);
}

}  // namespace

std::string to_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value + 0.0);  // + 0.0 drops the sign of -0
  return text;
}

std::optional<SideDifference> compare_on(const Graph& source, const Graph& target, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> left, right;
  try {
    left = interpret(source, inputs);
  } catch (const Error&) {
    return std::nullopt;
  }
  try {
    right = interpret(target, inputs);
  } catch (const Error& e) {
    return SideDifference{SideDifference::Kind::kValue, std::string("the target has no value: ") + e.what(), inputs, false};
  }
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto a = left[i].reals(), b = right[i].reals();
    const double tolerance = left[i].type() == DataType::kDouble || !is_real(left[i].type()) ? 1e-8 : 1e-3;
    for (std::size_t e = 0; e < a.size(); ++e) {
      // If the source is not finite, the reals are not tested.
      if (!std::isfinite(a[e]) || std::fabs(a[e] - b[e]) <= tolerance * (1 + std::fabs(a[e]))) continue;
      return SideDifference{SideDifference::Kind::kValue,
                            "output " + std::to_string(i) + position(e, left[i].sizes()) + " is " + to_text(a[e]) +
                                " in the source and " + to_text(b[e]) + " in the target",
                            inputs, std::isfinite(b[e])};
    }
  }
  return std::nullopt;
}

std::optional<SideDifference> compare_sides(const Rule& rule, const RuleInstance& instance, int number,
                                            std::mt19937_64& random) {
  std::optional<Graph> target;
  try {
    target = instantiate(rule, rule.target, instance.input_types, instance.bindings);
  } catch (const Error& e) {
    return SideDifference{SideDifference::Kind::kIllTyped, std::string("the target is ill-typed: ") + e.what()};
  }
  for (std::size_t i = 0; i < instance.source.outputs().size(); ++i) {
    const TensorType &a = instance.source.outputs()[i].type, &b = target->outputs()[i].type;
    if (!(a == b))
      return SideDifference{SideDifference::Kind::kType, "output " + std::to_string(i) + " is " + to_string(a) +
                                                             " in the source and " + to_string(b) + " in the target"};
  }
  int tries = 1;
  for (std::uint64_t key = 1; key <= 2; ++key) {
    const OverField result = compare_over_field(instance, *target, key * 7919 + static_cast<std::uint64_t>(number), random);
    tries = std::max(tries, result == OverField::kDifferent ? 8 * SideDifference::kKindsOfInputs
                            : result == OverField::kUnknown ? SideDifference::kKindsOfInputs
                                                            : 1);
    if (result != OverField::kEqual) break;
  }
  for (int t = 0; t < tries; ++t) {
    std::vector<Tensor> inputs;
    for (const TensorType& type : instance.input_types)
      inputs.push_back(random_tensor(type, (number + t) % SideDifference::kKindsOfInputs, random));
    if (auto difference = compare_on(instance.source, *target, inputs)) return difference;
  }
  return std::nullopt;
}

namespace {

RuleTest test_on(const Rule& rule, InstanceSampler& sampler, int instances, int attempts, int misses, std::uint64_t seed) {
  RuleTest test;
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15u);
  while (test.instances < instances) {
    auto instance = sampler.sample(attempts);
    if (!instance) {
      if (misses-- > 0) continue;
      test.outcome = TestOutcome::kTooFew;
      return test;
    }
    if (auto difference = compare_sides(rule, *instance, test.instances, random)) {
      test.outcome = TestOutcome::kRefuted;
      test.counterexample = shrunk(rule, {std::move(*instance), std::move(*difference)});
      return test;
    }
    ++test.instances;
  }
  test.outcome = TestOutcome::kAgreed;
  return test;
}

}  // namespace

RuleTest test_rule(const Rule& rule, int instances, std::uint64_t seed) {
  constexpr int kAttempts = 3000;  // attempts for one instance
  InstanceSampler sampler(rule, seed);
  return test_on(rule, sampler, instances, kAttempts, 0, seed);
}

RuleTest test_rule_widely(const Rule& rule, int instances, std::uint64_t seed) {
  constexpr int kAttempts = 1000, kMisses = 40;
  constexpr std::uint64_t kOther = 0x51ed270b27a1c9e5u;
  InstanceSampler sampler(rule, seed ^ kOther, InstanceSampler::Spread::kWide);
  return test_on(rule, sampler, instances, kAttempts, kMisses, seed ^ kOther);
}

}  // namespace rewright::rules
