#include "operators/procedures/learned/forest.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "base/error.h"

namespace rewright::operators {

namespace {

using Test = Forest::Test;

struct RandomForest {
  std::vector<Forest::Branch> branches;
  std::vector<Forest::Target> roots;
  std::size_t leaves = 0;
};

constexpr std::int64_t kFeatures = 5;

// Trees of any form; some branches are reached by two ways.
RandomForest random_forest(std::mt19937& random, bool only_at_most) {
  RandomForest f;
  f.leaves = 1 + random() % 9;
  const std::size_t count = random() % 20;
  const auto target = [&](std::size_t after) -> Forest::Target {
    if (after >= count || random() % 3 == 0) return {true, random() % f.leaves};
    return {false, after + random() % (count - after)};
  };
  for (std::size_t n = 0; n < count; ++n) {
    Forest::Branch b;
    b.feature = static_cast<std::int64_t>(random() % kFeatures);
    b.split = static_cast<double>(random() % 7) - 3;
    if (!only_at_most) {
      b.test = static_cast<Test>(random() % 7);
      b.missing_is_true = random() % 2 == 0;
      for (unsigned m = random() % 4; m > 0; --m) b.members.push_back(static_cast<double>(random() % 7) - 3);
    }
    b.yes = target(n + 1);
    b.no = target(n + 1);
    f.branches.push_back(std::move(b));
  }
  for (unsigned n = 0; n < 1 + random() % 4; ++n) f.roots.push_back(target(0));
  return f;
}

bool goes_true(const Forest::Branch& b, double x, bool compares_missing) {
  if (std::isnan(x) && (b.missing_is_true || !compares_missing)) return b.missing_is_true;
  switch (b.test) {
    case Test::kAtMost:
      return x <= b.split;
    case Test::kLess:
      return x < b.split;
    case Test::kAtLeast:
      return x >= b.split;
    case Test::kGreater:
      return x > b.split;
    case Test::kEqual:
      return x == b.split;
    case Test::kUnequal:
      return x != b.split;
    case Test::kMember:
      return std::find(b.members.begin(), b.members.end(), x) != b.members.end();
  }
  return false;
}

}  // namespace

TEST_CASE("a forest leads each row to the leaf that its tests say, tree by tree") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const bool only_at_most = round % 3 == 0, compares_missing = round % 2 == 0;
    const RandomForest f = random_forest(random, only_at_most);
    const Forest forest(f.branches, f.roots, f.leaves, compares_missing);
    const std::int64_t rows = random() % 2 == 0 ? random() % 40 : random() % 600;
    std::vector<double> x(static_cast<std::size_t>(rows * kFeatures));
    for (double& v : x) v = random() % 9 == 0 ? std::nan("") : static_cast<double>(random() % 7) - 3;
    std::vector<std::vector<std::size_t>> leaves(static_cast<std::size_t>(rows));
    forest.for_each_leaf(
        x, kFeatures, rows, [] {}, [&](std::size_t row, std::size_t leaf) { leaves[row].push_back(leaf); });
    for (std::size_t r = 0; r < leaves.size(); ++r) {
      std::vector<std::size_t> expected;
      for (Forest::Target at : f.roots) {
        while (!at.is_leaf) {
          const Forest::Branch& b = f.branches[at.number];
          at = goes_true(b, x[r * kFeatures + static_cast<std::size_t>(b.feature)], compares_missing) ? b.yes : b.no;
        }
        expected.push_back(at.number);
      }
      REQUIRE(leaves[r] == expected);
    }
  }
}

TEST_CASE("trees that are none are refused") {
  const auto branch = [](Forest::Target yes, Forest::Target no) {
    return Forest::Branch{0, Test::kAtMost, 0, {}, false, yes, no};
  };
  const Forest::Target leaf{true, 0}, root{false, 0};
  const auto make = [&](std::vector<Forest::Branch> branches, Forest::Target first) {
    return Forest(branches, {first}, 1, false);
  };
  CHECK_THROWS_WITH(make({branch(leaf, {true, 1})}, root), "there is no leaf 1");
  CHECK_THROWS_WITH(make({branch(leaf, {false, 1})}, root), "there is no node 1");
  CHECK_THROWS_WITH(make({branch(leaf, leaf)}, {false, 7}), "there is no node 7");
  CHECK_THROWS_WITH(make({branch(leaf, root)}, root), "its tree has a cycle");
  CHECK_THROWS_WITH(make({branch(leaf, {false, 1}), branch({false, 2}, leaf), branch(leaf, root)}, root),
                    "its tree has a cycle");
  const Forest forest = make({branch(leaf, leaf)}, root);
  CHECK_THROWS_WITH(forest.for_each_leaf(
                        {}, 0, 1, [] {}, [](std::size_t, std::size_t) {}),
                    "its trees ask for feature 0, a row has 0");
  // A chain as long as a file may make it.
  std::vector<Forest::Branch> chain;
  for (std::size_t n = 0; n < 200000; ++n) chain.push_back(branch({false, n + 1}, leaf));
  chain.push_back(branch(leaf, leaf));
  CHECK(make(chain, root).trees() == 1);
}

}  // namespace rewright::operators
