#include "operators/definitions/row_preparation.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "operators/readings/interpreter.h"
#include "operators/specification.h"

using namespace rewright;
using namespace rewright::operators;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor list_of(DataType type, const std::vector<double>& numbers) {
  return Tensor::from_reals(type, {static_cast<std::int64_t>(numbers.size())}, numbers);
}
Tensor list_of(const std::vector<std::int64_t>& numbers) {
  return Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(numbers.size())}, numbers);
}

// Trees of one test each: a row's path is what its score says.
struct Stumps {
  std::mt19937 random;
  DataType type;
  std::int64_t columns = 3, features = 3, count = 8;
  std::vector<std::int64_t> branches, roots, begins{0}, targets;
  std::vector<double> splits, weights;
  RowPreparation preparation;

  Stumps(unsigned seed, DataType of) : random(seed), type(of) {
    if (chance(2)) {
      features = 4;
      std::vector<std::int64_t> selected;
      for (std::int64_t k = 0; k < features; ++k) selected.push_back(pick(-columns, columns - 1));
      preparation.parts[RowPreparation::kSelected] = list_of(selected);
    }
    for (const auto part :
         {RowPreparation::kFillings, RowPreparation::kFactors, RowPreparation::kOffsets, RowPreparation::kScales}) {
      if (chance(3)) continue;
      std::vector<double> numbers;
      for (std::int64_t k = 0; k < features; ++k) numbers.push_back(number());
      preparation.parts[part] = list_of(type, numbers);
    }
    for (std::int64_t b = 0; b < count; ++b) {
      const std::int64_t feature = pick(0, features - 1);
      branches.insert(branches.end(), {chance(2) ? feature : ~feature, ~(2 * b), ~(2 * b + 1)});
      splits.push_back(chance(12) ? std::nan("") : chance(12) ? kInfinity : chance(12) ? -kInfinity : chance(6) ? 0 : number());
      roots.push_back(b);
      for (int leaf = 0; leaf < 2; ++leaf) {
        targets.push_back(b);
        weights.push_back(leaf);
        begins.push_back(static_cast<std::int64_t>(targets.size()));
      }
    }
  }

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
  bool chance(std::int64_t one_in) { return pick(1, one_in) == 1; }
  // A number of any size, with few or many digits.
  double number() {
    const double digits = chance(2) ? static_cast<double>(pick(1, 8)) : std::uniform_real_distribution<double>(1, 2)(random);
    const double x = std::ldexp(digits, static_cast<int>(chance(4) ? pick(-140, 120) : pick(-6, 6))) * (chance(2) ? 1 : -1);
    return type == DataType::kFloat ? static_cast<double>(static_cast<float>(x)) : x;
  }
  double next(double x, double to) const {
    return type == DataType::kFloat ? static_cast<double>(std::nextafter(static_cast<float>(x), static_cast<float>(to)))
                                    : std::nextafter(x, to);
  }

  Trees trees() const { return {branches, roots, begins, targets}; }
  Attributes attributes(std::int64_t of) const { return {Index(count), Index(of), std::string("sum")}; }
  // Numbers of a column: special ones, and those at which tests change sides with their neighbours.
  std::vector<double> elements(const UnpreparedTests& tests) {
    std::vector<double> found{0,        -0.0,    std::nan(""), kInfinity, -kInfinity, 1e-45, std::numeric_limits<float>::max(),
                              number(), number()};
    for (const double split : tests.splits.reals())
      for (double x :
           {split, -split, next(split, kInfinity), next(split, -kInfinity), next(-split, kInfinity), next(-split, -kInfinity)})
        found.push_back(x);
    return found;
  }
};

Tensor scores_of(const Attributes& attributes, const std::vector<Tensor>& inputs) {
  return interpret(registry().get("TreeScores"), attributes, inputs).at(0);
}

}  // namespace

TEST_CASE("tests of columns decide as tests of prepared rows") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    Stumps s(seed, seed % 3 == 0 ? DataType::kDouble : DataType::kFloat);
    INFO("seed " << seed);
    const Tensor splits = list_of(s.type, s.splits), weights = list_of(s.type, s.weights);
    const auto tests = without_preparation(s.trees(), splits, s.preparation, s.columns);
    REQUIRE(tests);
    const std::vector<double> elements = s.elements(*tests);
    std::vector<double> rows;
    for (const double x : elements) rows.insert(rows.end(), static_cast<std::size_t>(s.columns), x);
    const Tensor x = Tensor::from_reals(s.type, {static_cast<std::int64_t>(elements.size()), s.columns}, rows);
    const Tensor begins = list_of(s.begins), targets = list_of(s.targets);
    const auto table = [&](const std::vector<std::int64_t>& branches) {
      return Tensor::from_integers(DataType::kInt64, {s.count, 3}, branches);
    };
    std::vector<Tensor> prepared{x, splits, table(s.branches), list_of(s.roots), begins, targets, weights};
    const std::vector<Tensor> plain{x, tests->splits, table(tests->branches), list_of(tests->roots), begins, targets, weights};
    for (const Tensor& part : s.preparation.parts) prepared.push_back(part);
    CHECK(tests->columns <= s.columns);
    CHECK(scores_of(s.attributes(s.features), prepared) == scores_of(s.attributes(tests->columns), plain));
  }
}

TEST_CASE("a preparation that vanishes has no tests of columns") {
  Stumps s(1, DataType::kFloat);
  for (const auto part : {RowPreparation::kFactors, RowPreparation::kScales})
    for (const double number : {0.0, kInfinity, std::nan("")}) {
      RowPreparation preparation;
      preparation.parts[part] = list_of(DataType::kFloat, {number, number, number, number});
      CHECK_FALSE(without_preparation(s.trees(), list_of(DataType::kFloat, s.splits), preparation, 4));
    }
}

TEST_CASE("tests that always go one way are passed by, and branches that no root reaches may form cycles") {
  constexpr std::int64_t kCount = 100'000;
  std::vector<std::int64_t> branches;
  for (std::int64_t n = 0; n + 2 < kCount; ++n) branches.insert(branches.end(), {0, n + 1, n + 1});
  branches.insert(branches.end(), {0, ~0, ~1});
  branches.insert(branches.end(), {0, kCount - 1, kCount - 1});
  const std::vector<std::int64_t> roots{0, 7}, begins{0, 1, 2}, targets{0, 0};
  const Trees trees{branches, roots, begins, targets};
  const Tensor splits = list_of(DataType::kFloat, std::vector<double>(kCount, 1));
  RowPreparation preparation;
  preparation.parts[RowPreparation::kScales] = list_of(DataType::kFloat, {2});
  const auto tests = without_preparation(trees, splits, preparation, 1);
  REQUIRE(tests);
  CHECK(tests->roots == std::vector<std::int64_t>{kCount - 2, kCount - 2});
  CHECK(tests->columns == 1);
  CHECK(tests->splits.reals().at(kCount - 2) == 0.5);
  CHECK(columns_without_preparation(trees, splits, preparation, 1) == 1);
}

TEST_CASE("tests of features that there are no numbers for are refused") {
  Stumps s(1, DataType::kFloat);
  const Tensor splits = list_of(DataType::kFloat, s.splits);
  RowPreparation preparation;
  preparation.parts[RowPreparation::kScales] = list_of(DataType::kFloat, {2});
  CHECK_THROWS(without_preparation(s.trees(), splits, preparation, 100));
  preparation.parts[RowPreparation::kScales] = Tensor();
  preparation.parts[RowPreparation::kSelected] = list_of(std::vector<std::int64_t>{});
  CHECK_THROWS(without_preparation(s.trees(), splits, preparation, 100));
}

// Proofs rest on it: the scores are a function of what the view gives.
TEST_CASE("trees see no more of their inputs than the view says") {
  const Operator& scores = registry().get("TreeScores");
  REQUIRE(view_of(scores));
  CHECK_FALSE(view_of(registry().get("Add")));
  for (unsigned seed = 0; seed < 100; ++seed) {
    Stumps s(seed, DataType::kDouble);
    INFO("seed " << seed);
    std::vector<double> rows;
    for (std::int64_t i = 0; i < 20 * s.columns; ++i) rows.push_back(s.chance(6) ? std::nan("") : s.number());
    std::vector<Tensor> inputs{Tensor::from_reals(s.type, {20, s.columns}, rows),
                               list_of(s.type, s.splits),
                               Tensor::from_integers(DataType::kInt64, {s.count, 3}, s.branches),
                               list_of(s.roots),
                               list_of(s.begins),
                               list_of(s.targets),
                               list_of(s.type, s.weights)};
    for (const Tensor& part : s.preparation.parts) inputs.push_back(part);
    const Attributes attributes = s.attributes(s.features);
    const std::vector<Tensor> view = interpret(*view_of(scores), attributes, inputs);
    REQUIRE(view.size() == static_cast<std::size_t>(Trees::kInputs));
    CHECK(scores_of(attributes, view) == scores_of(attributes, inputs));
  }
}
