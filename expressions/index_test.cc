#include "expressions/index.h"

#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <random>

#include "base/error.h"

namespace rewright {
namespace {

// A random expression over N, M, K built twice: as an Index, and as its value for given sizes.
struct Sample {
  Index index;
  std::int64_t value;
};

Sample random_sample(std::mt19937& random, const std::map<std::string, std::int64_t>& sizes, int depth) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  if (depth == 0) {
    if (below(2)) {
      const int c = below(9) - 4;
      return {c, c};
    }
    auto at = sizes.begin();
    std::advance(at, below(static_cast<int>(sizes.size())));
    return {Index::symbol(at->first), at->second};
  }
  const Sample a = random_sample(random, sizes, depth - 1), b = random_sample(random, sizes, depth - 1);
  const auto floor_quotient = [](std::int64_t x, std::int64_t y) { return x / y - (x % y < 0 ? 1 : 0); };
  switch (below(7)) {
    case 0:
      return {a.index + b.index, a.value + b.value};
    case 1:
      return {a.index - b.index, a.value - b.value};
    case 2:
      return {a.index * b.index, a.value * b.value};
    case 3:
      return {min(a.index, b.index), std::min(a.value, b.value)};
    case 4:
      return {max(a.index, b.index), std::max(a.value, b.value)};
    default: {
      const Index d = Index::symbol("K");
      const std::int64_t k = sizes.at("K");
      if (below(2)) return {floor_div(a.index, d), floor_quotient(a.value, k)};
      return {mod(a.index, d), a.value - k * floor_quotient(a.value, k)};
    }
  }
}

TEST_CASE("an expression has the value of its arithmetic, also after substitution") {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::map<std::string, std::int64_t> sizes = {{"N", random() % 7}, {"M", 1 + random() % 5}, {"K", 1 + random() % 6}};
    const Sample s = random_sample(random, sizes, 1 + static_cast<int>(random() % 4));
    const Index known = substitute(s.index, [&](const Atom& atom) -> std::optional<Index> {
      if (atom.kind == Atom::Kind::kSymbol) return Index(sizes.at(atom.name));
      return std::nullopt;
    });
    INFO(s.index.to_string());
    REQUIRE(known.constant() == s.value);
  }
}

TEST_CASE("equal polynomials are equal, whatever the order they were built in") {
  const Index n = Index::symbol("N"), m = Index::symbol("M");
  CHECK((n + m) * (n - m) == n * n - m * m);
  CHECK((n + m) * (n - m) != n * n + m * m);
  CHECK(((n + 1) * 2).hash() == (n + n + 2).hash());
  CHECK((n - n).constant() == 0);
}

TEST_CASE("the least number is taken from others") {
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  CHECK(Index(least + 3) - Index(least) == Index(3));
  CHECK(Index::symbol("n") + Index(least) - Index(least) == Index::symbol("n"));
  CHECK_THROWS_AS(Index(0) - Index(least), Error);
}

TEST_CASE("division takes out what divides exactly") {
  const Index n = Index::symbol("N"), m = Index::symbol("M");
  CHECK(floor_div(n * m + m, m) == n + 1);
  CHECK(mod(n * m, m) == Index(0));
  CHECK(floor_div(4 * n + 6, 2) == 2 * n + 3);
  CHECK(floor_div(4 * n + 7, 4) == n + 1);
  CHECK(mod(4 * n + 7, 4) == Index(3));
  CHECK_THROWS_AS(floor_div(n, 0), Error);
}

TEST_CASE("expressions print as algebra") {
  const Index n = Index::symbol("N"), h = Index::symbol("H");
  CHECK((2 * n + 1).to_string() == "2*N + 1");
  CHECK((n - 3).to_string() == "N - 3");
  CHECK((floor_div(h, 2) + 1).to_string() == "(H div 2) + 1");
}

TEST_CASE("overflow is an error") {
  const std::int64_t big = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(Index(big) + 1, Error);
  CHECK_THROWS_AS(Index(big) * 2, Error);
}

TEST_CASE("conditions are decided when the difference is known") {
  const Index n = Index::symbol("N");
  CHECK(less(n, n + 1).decided() == true);
  CHECK(equal(n, n + 1).decided() == false);
  CHECK_FALSE(equal(n, 3).decided().has_value());
  CHECK(less(n, n).negated().decided() == true);
}

}  // namespace
}  // namespace rewright
