// Orders of contractions against all orders.
#include "graph/contraction_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

using namespace rewright::graph;

namespace {

// The least operations of any order, by trying all.
double least_operations(const SumOfProducts& sum, const std::vector<Bits>& parts, std::vector<std::pair<Bits, Bits>>& so_far) {
  if (parts.size() == 1) return operations_of(sum, so_far);
  double least = -1;
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (std::size_t j = i + 1; j < parts.size(); ++j) {
      std::vector<Bits> rest = parts;
      rest[i] |= rest[j];
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(j));
      so_far.emplace_back(parts[i], parts[j]);
      const double found = least_operations(sum, rest, so_far);
      so_far.pop_back();
      if (least < 0 || found < least) least = found;
    }
  return least;
}

SumOfProducts random_sum(std::mt19937& random, std::size_t factors) {
  const auto pick = [&](std::uint64_t below) { return random() % below; };
  SumOfProducts sum;
  constexpr std::size_t kVariables = 6;
  for (std::size_t v = 0; v < kVariables; ++v) sum.sizes.push_back(static_cast<std::int64_t>(pick(9)));
  for (std::size_t i = 0; i < factors; ++i) sum.factors.push_back(pick(1 << kVariables));
  Bits all = 0;
  for (const Bits f : sum.factors) all |= f;
  sum.result = pick(1 << kVariables) & all;
  return sum;
}

}  // namespace

TEST_CASE("the order of a contraction takes the fewest operations") {
  std::mt19937 random(1);
  for (int instance = 0; instance < 200; ++instance) {
    const std::size_t count = 2 + random() % 4;
    const SumOfProducts sum = random_sum(random, count);
    std::vector<Bits> parts;
    for (std::size_t i = 0; i < count; ++i) parts.push_back(Bits{1} << i);
    std::vector<std::pair<Bits, Bits>> so_far;
    CHECK(operations_of(sum, contraction_order(sum)) == least_operations(sum, parts, so_far));
  }
}

TEST_CASE("each pair of an order was made before, and the last one is all") {
  std::mt19937 random(2);
  for (int instance = 0; instance < 100; ++instance) {
    const std::size_t count = 1 + random() % 16;
    const SumOfProducts sum = random_sum(random, count);
    std::set<Bits> made;
    for (std::size_t i = 0; i < count; ++i) made.insert(Bits{1} << i);
    for (const auto& [left, right] : contraction_order(sum)) {
      CHECK((left & right) == 0);
      CHECK(made.erase(left) == 1);
      CHECK(made.erase(right) == 1);
      made.insert(left | right);
    }
    CHECK(made == std::set<Bits>{(Bits{1} << count) - 1});
  }
}
