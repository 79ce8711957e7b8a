// Comparing both sides of a rule on sampled instances.
#include <cmath>
#include <sstream>

#include "operators/error.h"
#include "operators/interpreter.h"
#include "rules/instance.h"

namespace rewright {

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

class Comparison {
 public:
  Comparison(const RuleInstance& instance, const Graph& target, std::mt19937_64& random)
      : instance_(instance), target_(target), random_(random) {}

  // What differs; empty if nothing does.
  std::string run(int number) {
    for (std::size_t i = 0; i < instance_.source.outputs().size(); ++i) {
      const TensorType &a = instance_.source.outputs()[i].type, &b = target_.outputs()[i].type;
      if (!(a == b)) return "output " + std::to_string(i) + " is " + to_string(a) + " and " + to_string(b);
    }
    for (int key = 1; key <= 2; ++key) {
      std::string difference;
      try {
        difference = over_field(static_cast<std::uint64_t>(key) * 7919 + static_cast<std::uint64_t>(number));
      } catch (const Error& e) {
        if (e.code() != ErrorCode::kUnsupported) throw;
      }
      if (!difference.empty()) return difference;
    }
    return in_double(number % 2 == 1);
  }

 private:
  std::string over_field(std::uint64_t key) {
    std::vector<FieldTensor> inputs;
    for (const TensorType& type : instance_.input_types) {
      FieldTensor t{type.type, values(type.shape), {}};
      const std::int64_t count = element_count(t.sizes);
      for (std::int64_t i = 0; i < count; ++i)
        t.elements.push_back(is_real(type.type)             ? random_() % kFieldPrime
                             : type.type == DataType::kBool ? random_() % 2
                                                            : random_() % 4);
      inputs.push_back(std::move(t));
    }
    const auto left = interpret_field(instance_.source, inputs, key), right = interpret_field(target_, inputs, key);
    for (std::size_t i = 0; i < left.size(); ++i)
      for (std::size_t e = 0; e < left[i].elements.size(); ++e)
        if (left[i].elements[e] != right[i].elements[e])
          return "output " + std::to_string(i) + ", element " + std::to_string(e) + ": " + std::to_string(left[i].elements[e]) +
                 " and " + std::to_string(right[i].elements[e]) + " over the prime field";
    return {};
  }

  std::string in_double(bool positive) {
    std::vector<Tensor> inputs;
    std::uniform_real_distribution<double> real(positive ? 0.2 : -1.5, 1.5);
    for (const TensorType& type : instance_.input_types) {
      const Sizes sizes = values(type.shape);
      const auto count = static_cast<std::size_t>(element_count(sizes));
      if (is_real(type.type)) {
        std::vector<double> numbers(count);
        for (double& x : numbers) x = real(random_);
        inputs.push_back(Tensor::from_reals(type.type, sizes, numbers));
      } else {
        std::vector<std::int64_t> numbers(count);
        for (std::int64_t& x : numbers) x = static_cast<std::int64_t>(random_() % (type.type == DataType::kBool ? 2 : 4));
        inputs.push_back(Tensor::from_integers(type.type, sizes, numbers));
      }
    }
    const auto left = interpret(instance_.source, inputs), right = interpret(target_, inputs);
    for (std::size_t i = 0; i < left.size(); ++i) {
      const auto a = left[i].reals(), b = right[i].reals();
      const double tolerance = left[i].type() == DataType::kDouble || !is_real(left[i].type()) ? 1e-8 : 1e-3;
      for (std::size_t e = 0; e < a.size(); ++e) {
        // Where the source is not finite it says nothing about the reals.
        if (!std::isfinite(a[e]) || std::fabs(a[e] - b[e]) <= tolerance * (1 + std::fabs(a[e]))) continue;
        std::ostringstream text;
        text.precision(10);
        text << "output " << i << ", element " << e << ": " << a[e] << " and " << b[e];
        return text.str();
      }
    }
    return {};
  }

  const RuleInstance& instance_;
  const Graph& target_;
  std::mt19937_64& random_;
};

std::string describe(const Rule& rule, const RuleInstance& instance, const std::string& difference) {
  std::string text;
  for (std::size_t i = 0; i < rule.inputs.size(); ++i)
    text += (i ? ", " : "") + rule.inputs[i].name + " = " + to_string(instance.input_types[i]);
  for (const auto& [name, value] : instance.bindings.values()) text += ", " + name + " = " + to_string(value);
  return text + ": " + difference;
}

}  // namespace

RuleTest test_rule(const Rule& rule, int instances, std::uint64_t seed) {
  RuleTest test;
  InstanceSampler sampler(rule, seed);
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15u);
  for (; test.instances < instances; ++test.instances) {
    const auto instance = sampler.sample();
    if (!instance) {
      test.outcome = TestOutcome::kTooFew;
      test.counterexample = "no more instances were found that satisfy the conditions";
      return test;
    }
    std::string difference;
    try {
      const Graph target = instantiate(rule, rule.target, instance->input_types, instance->bindings);
      difference = Comparison(*instance, target, random).run(test.instances);
    } catch (const Error& e) {
      difference = std::string("the target is ill-typed: ") + e.what();
      test.ill_typed = true;
    }
    if (!difference.empty()) {
      test.outcome = TestOutcome::kRefuted;
      test.counterexample = describe(rule, *instance, difference);
      return test;
    }
  }
  test.outcome = TestOutcome::kAgreed;
  return test;
}

}  // namespace rewright
