#include "optimizer/costs/operator_factors.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "optimizer/costs/cost_model.h"

namespace rewright::optimizer {

namespace {

const Roofline kRates{1e11, 1e10, 1e-6};

OperatorSignature product(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  const Operator& op = registry().get("MatMul");
  const std::vector<std::optional<TensorType>> types{TensorType{DataType::kFloat, {rows, depth}},
                                                     TensorType{DataType::kFloat, {depth, columns}}};
  return operator_signature(op, op.defaults(), types, operator_traits(op, op.defaults(), types));
}

double roofline(const OperatorSize& size) {
  return kRates.call_seconds + std::max(size.operations / kRates.operations_per_second, size.bytes / kRates.bytes_per_second);
}

}  // namespace

TEST_CASE("factors of operators are those of the nearest that were measured") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const auto size = [&] { return static_cast<std::int64_t>(1 + random() % 300); };
    const auto some_factor = [&] { return std::exp2(static_cast<double>(random() % 1000) / 250 - 2); };
    const bool is_smooth = seed % 2 == 0;
    const double of_constant = some_factor(), of_variable = some_factor();
    DeviceProfile profile{"d", kRates, {}};
    std::vector<std::pair<OperatorSignature, double>> constant, variable;
    for (std::size_t n = 0; n < 1 + random() % 12; ++n) {
      const bool is_constant = random() % 2 == 0;
      OperatorSignature one = product(size(), size(), size());
      const double factor = is_smooth ? (is_constant ? of_constant : of_variable) : some_factor();
      (is_constant ? constant : variable).emplace_back(one, factor);
      std::string text = one.text;
      if (is_constant) text.insert(text.find(") ") + 1, " constant float[1]");
      profile.operators.push_back({text, factor * roofline(one.size), one.size});
    }
    profile.operators.push_back({"Tanh() float[8]", std::nullopt, {1, 1, 1}});  // could not be executed
    const OperatorFactors factors(profile);
    for (const auto& [wanted, others] : {std::pair(true, constant), std::pair(false, variable)}) {
      const OperatorSignature any = product(size(), size(), size());
      const double found = *factors.factor(any, wanted);
      CHECK(*factors.least_factor(any) <= found * (1 + 1e-9));
      for (const auto& [one, factor] : others) {
        const OperatorSize& its = one.size;
        const auto same = std::count_if(others.begin(), others.end(), [&its](const auto& o) { return o.first.size == its; });
        if (same == 1) CHECK(*factors.factor(one, wanted) == Approx(factor));
      }
      if (is_smooth && !others.empty()) CHECK(found == Approx(wanted ? of_constant : of_variable));
      // The others count where none is as wanted.
      if (is_smooth && others.empty()) CHECK(found == Approx(wanted ? of_variable : of_constant));
    }
    CHECK(!factors.factor({"Tanh() float[8]", {1, 1, 1}}, std::nullopt));
    CHECK(!factors.least_factor({"Tanh() float[8]", {1, 1, 1}}));
  }
}

TEST_CASE("a factor is that of the operator itself, and of no other of its size") {
  // Equal operations, bytes and elements: of tall and of wide products.
  const OperatorSignature tall = product(64, 16, 256), wide = product(256, 16, 64);
  REQUIRE(tall.size == wide.size);
  DeviceProfile profile{"d", kRates, {}};
  for (const auto& [one, factor] : {std::pair(tall, 2.0), std::pair(wide, 3.0)}) {
    profile.operators.push_back({one.text, factor * roofline(one.size), one.size});
    // The second operand a constant, with its contents.
    std::string text = one.text;
    text.insert(text.rfind(' ') + 1, "constant ");
    profile.operators.push_back({text + "#123", 10 * factor * roofline(one.size), one.size});
  }
  const OperatorFactors factors(profile);
  CHECK(*factors.factor(tall, false) == Approx(2));
  CHECK(*factors.factor(wide, false) == Approx(3));
  CHECK(*factors.factor(tall, true) == Approx(20));
  CHECK(*factors.factor(wide, true) == Approx(30));
  CHECK(*factors.factor(wide, std::nullopt) == Approx(3));
}

TEST_CASE("a factor of the operator itself goes before those of others whose constants are as wanted") {
  const OperatorSignature tall = product(64, 16, 256), wide = product(256, 16, 64);
  for (const bool has_constants : {false, true}) {
    CAPTURE(has_constants);
    // The wanted one was measured in the other class alone, another one of its size in both.
    DeviceProfile profile{"d", kRates, {}};
    const auto add = [&](const OperatorSignature& one, bool constant, double factor) {
      std::string text = one.text;
      if (constant) text.insert(text.rfind(' ') + 1, "constant ");
      profile.operators.push_back({text, factor * roofline(one.size), one.size});
    };
    add(tall, has_constants, 2), add(wide, false, 3), add(wide, true, 5);
    const OperatorFactors factors(profile);
    for (const std::optional<bool> wanted : {std::optional(false), std::optional(true), std::optional<bool>()})
      CHECK(*factors.factor(tall, wanted) == Approx(2));
  }
}

}  // namespace rewright::optimizer
