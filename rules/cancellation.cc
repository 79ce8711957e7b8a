#include "rules/cancellation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <span>

#include "base/error.h"
#include "operators/readings/interpreter.h"
#include "rules/typed_sides.h"

namespace rewright::rules {

namespace {

constexpr double kRounding = std::numeric_limits<float>::epsilon() / 2;
constexpr double kDistance = 1e-5;  // between operands that nearly cancel, relative to them
constexpr int kDraws = 8;           // of operands at this distance
constexpr int kSecantSteps = 8;
constexpr double kLargestScale = 16;  // of an input, so that it cancels with others

using Values = std::vector<std::vector<double>>;  // elements of all values of a graph, by their number

double uniform(std::mt19937_64& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

bool sums(const Element& element) {
  if (element->kind == ElementNode::Kind::kReduce && element->reduction == Reduction::kSum) return true;
  return std::any_of(element->arguments.begin(), element->arguments.end(), sums);
}

// The values of a graph in doubles, without any rounding that matters, and with one at random wherever floats would be rounded:
// after each operator that is not exact, as those are that move elements, and, where it sums, after each term, since the order
// of terms is not known. By luck the difference of two floats may be exact; that is not counted on.
class Evaluation {
 public:
  Evaluation(const Graph& graph, std::mt19937_64& random) : graph_(graph), kinds_(graph.nodes().size(), Kind::kExact) {
    for (int draw = 0; draw < kDraws; ++draw) {
      Values inputs;
      for (const ValueId id : graph.inputs()) {
        inputs.emplace_back(static_cast<std::size_t>(element_count(rewright::values(graph.value(id).type.shape))));
        for (double& x : inputs.back())
          x = std::ldexp(static_cast<float>(uniform(random, 0.5, 1)), static_cast<int>(random() % 13) - 6);
      }
      evaluate(
          inputs, [](std::size_t, Tensor&) {},
          [&](std::size_t n, Tensor& result) {
            const std::vector<double> elements = result.reals();
            if (std::any_of(elements.begin(), elements.end(),
                            [](double x) { return x != static_cast<float>(x) && !std::isnan(x); }))
              kinds_[n] = is_sum(*graph_.nodes()[n]) ? Kind::kSum : Kind::kRounded;
            round(result, [](double x) { return static_cast<double>(static_cast<float>(x)); });
          });
    }
  }

  Values exact(const Values& inputs) const {
    return evaluate(
        inputs, [](std::size_t, Tensor&) {}, [](std::size_t, Tensor&) {});
  }

  Values rounded(const Values& inputs, std::mt19937_64& random) const {
    const auto round_at_random = [&](Tensor& tensor) {
      round(tensor, [&](double x) { return x * (1 + uniform(random, -kRounding, kRounding)); });
    };
    return evaluate(
        inputs,
        [&](std::size_t n, Tensor& operand) {
          if (kinds_[n] == Kind::kSum) round_at_random(operand);
        },
        [&](std::size_t n, Tensor& result) {
          if (kinds_[n] != Kind::kExact) round_at_random(result);
        });
  }

 private:
  enum class Kind { kExact, kRounded, kSum };
  using See = std::function<void(std::size_t node, Tensor& real)>;

  Values evaluate(const Values& inputs, const See& operand, const See& result) const {
    std::vector<Tensor> known(graph_.value_count());
    Values found(graph_.value_count());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const TensorType& type = graph_.value(graph_.inputs()[i]).type;
      known[graph_.inputs()[i]] = Tensor::from_reals(type.type, rewright::values(type.shape), inputs[i]);
      found[graph_.inputs()[i]] = inputs[i];
    }
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = *graph_.nodes()[n];
      std::vector<Tensor> operands;
      for (const ValueId id : node.inputs) {
        operands.push_back(id == kNoValue ? Tensor() : known[id]);
        if (id != kNoValue && is_real(operands.back().type())) operand(n, operands.back());
      }
      std::vector<Tensor> results = interpret(*node.op, node.attributes, operands);
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        const ValueId id = node.outputs[o];
        if (id == kNoValue) continue;
        if (is_real(results.at(o).type())) {
          result(n, results[o]);
          found[id] = results[o].reals();
        }
        known[id] = std::move(results[o]);
      }
    }
    return found;
  }

  bool is_sum(const Node& node) const {
    std::vector<std::optional<TensorType>> types;
    for (const ValueId id : node.inputs) types.push_back(id == kNoValue ? std::nullopt : std::optional(graph_.value(id).type));
    const Definition definition =
        node.op->define(node.attributes, Inputs::of(std::span<const std::optional<TensorType>>(types)));
    return std::any_of(definition.outputs().begin(), definition.outputs().end(),
                       [](const Output& output) { return output.element && sums(output.element); });
  }

  static void round(Tensor& tensor, const std::function<double(double)>& rounding) {
    std::vector<double> elements = tensor.reals();
    for (double& x : elements) x = rounding(x);
    tensor = Tensor::from_reals(tensor.type(), tensor.sizes(), elements);
  }

  const Graph& graph_;
  std::vector<Kind> kinds_;  // by node
};

class Cancellation {
 public:
  Cancellation(const Rule& rule, const TypedSides& sides, std::mt19937_64& random)
      : rule_(rule), sides_(sides), source_(sides.source, random), target_(sides.target, random), random_(random) {
    const bool positive = random_() % 2;
    for (std::size_t i = 0; i < rule.inputs.size(); ++i) base_.push_back(base(i, positive));
  }

  double worst() {
    double result = 0;
    for (const auto& node : sides_.source.nodes())
      for (const ValueId id : node->outputs)
        if (id != kNoValue && is_real(sides_.source.value(id).type.type) && !adds_constants(id))
          for (std::size_t input = 0; input < base_.size(); ++input)
            if (const auto inputs = cancelled(id, input)) result = std::max(result, loss(*inputs));
    return result;
  }

 private:
  // Data is alike at all positions, so that whole tensors cancel; constants are not.
  std::vector<double> base(std::size_t input, bool positive) {
    const auto number = [&] { return uniform(random_, 0.5, 2) * (positive || random_() % 2 ? 1 : -1); };
    const TensorType& type = sides_.source.value(sides_.source.inputs()[input]).type;
    std::vector<double> elements(static_cast<std::size_t>(element_count(values(type.shape))), number());
    if (rule_.inputs[input].constant) std::generate(elements.begin(), elements.end(), number);
    return elements;
  }

  Values scaled(double data, double constants) const {
    Values inputs = base_;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      for (double& x : inputs[i]) x *= rule_.inputs[i].constant ? constants : data;
    return inputs;
  }

  // Is something added that depends on constants alone?
  bool adds_constants(ValueId id) {
    if (std::none_of(rule_.inputs.begin(), rule_.inputs.end(), [](const PatternInput& i) { return i.constant; })) return false;
    return source_.exact(scaled(0, 1))[id] != source_.exact(scaled(0, 1.5))[id];
  }

  // The inputs with one of them scaled so that the value's first element is zero.
  std::optional<Values> cancelled(ValueId id, std::size_t input) {
    if (rule_.inputs[input].constant) return std::nullopt;
    Values inputs = base_;
    const auto at = [&](double scale) {
      for (std::size_t e = 0; e < inputs[input].size(); ++e) inputs[input][e] = base_[input][e] * scale;
      const std::vector<double> found = source_.exact(inputs)[id];
      return found.empty() ? std::numeric_limits<double>::quiet_NaN() : found[0];
    };
    double s = 1, t = 1.25, f = at(s), g = at(t);
    const double magnitude = std::max(std::fabs(f), std::fabs(g));
    for (int step = 0; step < kSecantSteps && f != g && g != 0; ++step) {
      const double next = t - g * (t - s) / (g - f);
      s = t, f = g, t = next;
      if (!(std::fabs(t) < kLargestScale && std::fabs(t) * kLargestScale > 1)) return std::nullopt;
      g = at(t);
    }
    if (!(std::fabs(g) <= 1e-9 * std::max(magnitude, 1e-9))) return std::nullopt;
    return inputs;
  }

  static std::vector<double> outputs(const Graph& graph, const Values& all) {
    std::vector<double> result;
    for (const GraphOutput& output : graph.outputs())
      result.insert(result.end(), all[output.value].begin(), all[output.value].end());
    return result;
  }

  // By how much more the target errs than the source at a small distance from these inputs.
  double loss(const Values& inputs) {
    std::vector<double> source_error, target_error;
    for (int draw = 0; draw < kDraws; ++draw) {
      Values near = inputs;
      for (std::size_t i = 0; i < near.size(); ++i)
        for (double& x : near[i]) x = static_cast<float>(x * (1 + kDistance * uniform(random_, -1, 1)));
      const std::vector<double> expected = outputs(sides_.source, source_.exact(near)),
                                same = outputs(sides_.target, target_.exact(near)),
                                source = outputs(sides_.source, source_.rounded(near, random_)),
                                target = outputs(sides_.target, target_.rounded(near, random_));
      source_error.resize(expected.size());
      target_error.resize(expected.size());
      for (std::size_t e = 0; e < expected.size(); ++e) {
        source_error[e] += std::max(std::fabs(source[e] - expected[e]), kRounding * std::fabs(expected[e]));
        target_error[e] += std::fabs(target[e] - same[e]);
      }
    }
    double result = 0;
    for (std::size_t e = 0; e < source_error.size(); ++e)
      if (std::isfinite(source_error[e]) && std::isfinite(target_error[e]) && source_error[e] > 0)
        result = std::max(result, target_error[e] / source_error[e]);
    return result;
  }

  const Rule& rule_;
  const TypedSides& sides_;
  Evaluation source_, target_;
  std::mt19937_64& random_;
  Values base_;
};

}  // namespace

double cancellation(const Rule& rule, int instances, std::uint64_t seed) {
  InstanceSampler sampler(rule, seed);
  std::mt19937_64 random(seed);
  const bool has_constants =
      std::any_of(rule.inputs.begin(), rule.inputs.end(), [](const PatternInput& i) { return i.constant; });
  double worst = 0;
  for (int n = 0; n < instances; ++n) {
    const auto instance = sampler.sample();
    if (!instance) break;
    try {
      const auto sides = as_type(rule, *instance, DataType::kDouble);
      if (!sides) continue;
      double factor = Cancellation(rule, *sides, random).worst();
      // Constants may be near the data by luck, which others are not.
      for (int again = 0; again < 2 && has_constants && factor > kCancels; ++again)
        factor = std::min(factor, Cancellation(rule, *sides, random).worst());
      worst = std::max(worst, factor);
    } catch (const Error&) {  // not for floats, or without a value
    }
  }
  return worst;
}

}  // namespace rewright::rules
