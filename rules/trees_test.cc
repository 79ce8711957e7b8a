// Rules of trees and of selections, in floating point: their inputs are lists of integers that must fit together, which random
// ones hardly ever do.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "base/error.h"
#include "operators/readings/interpreter.h"
#include "operators/testing/share.h"
#include "rules/instance.h"
#include "rules/io.h"

using namespace rewright;
using namespace rewright::rules;

namespace {

using Limits = std::numeric_limits<float>;

class TreeInputs {
 public:
  TreeInputs(const Rule& rule, const RuleInstance& instance, unsigned seed) : rule_(rule), instance_(instance), random_(seed) {}

  std::vector<Tensor> sample() {
    std::vector<Tensor> inputs;
    for (std::size_t n = 0; n < rule_.inputs.size(); ++n) inputs.push_back(sampled(n));
    return inputs;
  }

 private:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  std::int64_t size(const char* name) const { return std::get<Index>(instance_.bindings.values().at(name)).value(); }

  Tensor sampled(std::size_t n) {
    const TensorType& type = instance_.input_types[n];
    const std::string& name = rule_.inputs[n].name;
    const Sizes sizes = values(type.shape);
    if (is_real(type.type)) {
      std::vector<double> elements(static_cast<std::size_t>(element_count(sizes)));
      for (double& x : elements) x = number();
      return Tensor::from_reals(type.type, sizes, elements);
    }
    std::vector<std::int64_t> elements;
    const std::int64_t count = element_count(sizes);
    if (name == "b")  // a test, and where it leads: to a later one, or to a leaf
      for (std::int64_t b = 0; b < size("B"); ++b) {
        const std::int64_t feature = pick(0, size("K") - 1);
        elements.insert(elements.end(), {pick(0, 1) == 0 ? feature : ~feature, target(b + 1), target(b + 1)});
      }
    else
      for (std::int64_t i = 0; i < count; ++i)
        elements.push_back(name == "r"   ? target(0)
                           : name == "g" ? pick(0, size("V"))
                           : name == "v" ? pick(0, size("C") - 1)
                                         : pick(-4, 3));
    if (name == "g") std::sort(elements.begin(), elements.end());
    return Tensor::from_integers(type.type, sizes, elements);
  }

  std::int64_t target(std::int64_t first) {
    const std::int64_t branches = size("B");
    return first < branches && pick(0, 1) == 0 ? pick(first, branches - 1) : ~pick(0, size("G") - 2);
  }

  double number() {
    constexpr std::array kEdges{0.0F,
                                -0.0F,
                                1.0F,
                                -1.0F,
                                0.5F,
                                Limits::denorm_min(),
                                -Limits::min(),
                                Limits::max(),
                                -0.75F * Limits::max(),
                                Limits::infinity(),
                                -Limits::infinity(),
                                Limits::quiet_NaN()};
    if (pick(0, 1) == 0) return kEdges[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(kEdges.size()) - 1))];
    return static_cast<float>(pick(-9, 9)) / (pick(0, 1) == 0 ? 4.0F : 3.0F);
  }

  const Rule& rule_;
  const RuleInstance& instance_;
  std::mt19937 random_;
};

// The instance with floats for its reals.
std::optional<RuleInstance> of_floats(const Rule& rule, const RuleInstance& instance) {
  std::vector<TensorType> types = instance.input_types;
  for (TensorType& type : types)
    if (is_real(type.type)) type.type = DataType::kFloat;
  std::map<std::string, AttributeValue> variables(instance.bindings.values().begin(), instance.bindings.values().end());
  for (auto& [name, value] : variables)
    if (const auto* type = std::get_if<DataType>(&value); type && is_real(*type)) value = DataType::kFloat;
  return make_instance(rule, types, variables);
}

}  // namespace

TEST_CASE("trees decide alike on both sides of a rule, to the last bit", "[database][rounding]") {
  for (const Rule& rule : read_rules(std::filesystem::path("rules/database/trees.rules"))) {
    CHECK(rule.math == MathClass::kExact);
    InstanceSampler sampler(rule, 1);
    unsigned compared = 0;
    for (unsigned n = 0; n < testing::instances(150); ++n) {
      const auto sampled = sampler.sample();
      const auto instance = sampled ? of_floats(rule, *sampled) : std::nullopt;
      if (!instance) continue;
      const Graph target = instantiate(rule, rule.target, instance->input_types, instance->bindings);
      std::vector<Tensor> expected, found, inputs;
      try {
        inputs = TreeInputs(rule, *instance, n).sample();
        expected = interpret(instance->source, inputs);
      } catch (const std::exception&) {  // positions beyond an axis, trees without leaves
        continue;
      }
      found = interpret(target, inputs);
      const std::vector<double> want = expected.at(0).reals(), got = found.at(0).reals();
      REQUIRE(want.size() == got.size());
      INFO(rule.name << ", instance " << n);
      bool same = true;
      for (std::size_t e = 0; e < want.size(); ++e)
        same = same && (want[e] == got[e] || (std::isnan(want[e]) && std::isnan(got[e])));
      CHECK(same);
      ++compared;
    }
    INFO(rule.name);
    CHECK(compared >= testing::instances(150) / 10);
  }
}
