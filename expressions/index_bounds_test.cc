#include "expressions/index_bounds.h"

#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"

namespace rewright {
namespace {

const Index n = Index::symbol("n"), m = Index::symbol("m");

Index random_expression(std::mt19937& random, int depth) {
  const auto below = [&](unsigned count) { return random() % count; };
  if (depth == 0) {
    if (below(3) == 0) return static_cast<int>(below(13)) - 6;
    return below(2) ? n : m;
  }
  const Index a = random_expression(random, depth - 1), b = random_expression(random, depth - 1);
  switch (below(8)) {
    case 0:
    case 1:
      return a + b;
    case 2:
      return a - b;
    case 3:
      return a * b;
    case 4:
      return min_over_sizes(a, b);
    case 5:
      return max_over_sizes(a, b);
    case 6:
      return floor_div(a, 1 + below(5));
    default:
      return below(2) ? mod(a, 1 + below(5)) : mod(a, max(b, 1));
  }
}

std::int64_t at(const Index& index, std::int64_t n_is, std::int64_t m_is) {
  return substitute(index,
                    [&](const Atom& atom) -> std::optional<Index> {
                      if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
                      return Index(atom.name == "n" ? n_is : m_is);
                    })
      .value();
}

}  // namespace

TEST_CASE("bounds hold for all sizes") {
  std::mt19937 random(1);
  std::size_t decided = 0;
  for (int round = 0; round < 600; ++round) {
    const int depth = 1 + static_cast<int>(random() % 4);
    const Index a = random_expression(random, depth), b = random_expression(random, depth);
    const Bounds bounds = bounds_over_sizes(a);
    const Index least = min_over_sizes(a, b), most = max_over_sizes(a, b);
    for (const std::int64_t n_is : {0, 1, 2, 5, 8, 31})
      for (const std::int64_t m_is : {0, 1, 3, 4, 16}) {
        INFO(a.to_string() << " and " << b.to_string() << " at n = " << n_is << ", m = " << m_is);
        const std::int64_t x = at(a, n_is, m_is), y = at(b, n_is, m_is);
        REQUIRE(bounds.low <= x);
        REQUIRE(x <= bounds.high);
        REQUIRE(at(least, n_is, m_is) == std::min(x, y));
        REQUIRE(at(most, n_is, m_is) == std::max(x, y));
        for (const auto& [condition, holds] :
             {std::pair(equal(a, b), x == y), {not_equal(a, b), x != y}, {less(a, b), x < y}, {less_equal(a, b), x <= y}}) {
          const std::optional<bool> answer = decided_over_sizes(condition);
          decided += answer.has_value();
          REQUIRE(answer.value_or(holds) == holds);
        }
      }
  }
  CHECK(decided > 2'000);
}

TEST_CASE("terms that depend on one another are bounded together") {
  const auto low = [](const Index& index) { return bounds_over_sizes(index).low; };
  CHECK(low(n - min(n, 512)) == 0);
  CHECK(low(max(n, m) - m) == 0);
  CHECK(low(n - floor_div(n, 2)) == 0);
  CHECK(low(n - 3 * floor_div(n, 3)) == 0);
  CHECK(low(n * n * m + 2) == 2);
  CHECK(low((n + 1) * (m + 1) - 1) == 0);
  CHECK(bounds_over_sizes(mod(n, 8)) == Bounds{0, 7});
  CHECK(bounds_over_sizes(floor_div(min(n, 100), 10)) == Bounds{0, 10});
  CHECK(bounds_over_sizes(n - m) == Bounds{});
  CHECK(bounds_over_sizes(Index::fresh("i")) == Bounds{});
}

TEST_CASE("a size is not negative") {
  CHECK(decided_over_sizes(equal(n * m, -1)) == false);
  CHECK(decided_over_sizes(less(n, 0)) == false);
  CHECK(decided_over_sizes(less_equal(0, n * m)) == true);
  CHECK(!decided_over_sizes(equal(n, 0)).has_value());
  CHECK(max_over_sizes(n, 0) == n);
  CHECK(min_over_sizes(n, n + m) == n);
}

}  // namespace rewright
