#include "graph/size_expressions.h"

#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"

namespace rewright::graph {

namespace {

// A random expression, mostly over earlier ones, as the sizes of a network's layers are.
Index random_expression(std::mt19937& random, const std::vector<Index>& earlier) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  const auto part = [&] {
    if (!earlier.empty() && below(4) != 0) return earlier[below(earlier.size())];
    const char* const names[] = {"N", "H", "W"};
    return below(3) == 0 ? Index(static_cast<std::int64_t>(below(7)) - 3) : Index::symbol(names[below(3)]);
  };
  const Index a = part(), b = part();
  switch (below(7)) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return floor_div(a, Index(1 + static_cast<std::int64_t>(below(4))));
    case 4:
      return mod(a, Index(1 + static_cast<std::int64_t>(below(4))));
    case 5:
      return min(a, b);
    default:
      return max(a, b);
  }
}

}  // namespace

TEST_CASE("expressions over sizes that are evaluated together have the values of each by itself") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    SizeExpressions together;
    std::vector<Index> expressions;
    std::vector<std::size_t> numbers;
    for (int n = 0; n < 20; ++n) {
      expressions.push_back(random_expression(random, expressions));
      numbers.push_back(together.add(expressions.back()));
      CHECK(together[numbers.back()] == expressions.back());
    }
    for (int call = 0; call < 5; ++call) {
      std::map<std::string, std::int64_t> sizes{{"N", random() % 3}, {"H", random() % 300}};
      if (call % 2 == 0) sizes["W"] = call == 4 ? std::int64_t{1} << (20 + random() % 43) : random() % 300;  // or stays open
      const Substitution given = [&](const Atom& atom) -> std::optional<Index> {
        const auto found = atom.kind == Atom::Kind::kSymbol ? sizes.find(atom.name) : sizes.end();
        return found == sizes.end() ? std::nullopt : std::optional<Index>(found->second);
      };
      std::optional<Indices> values, expected = Indices();
      try {
        for (const Index& expression : expressions) expected->push_back(substitute(expression, given));
      } catch (const Error&) {  // beyond 64 bits
        expected.reset();
      }
      try {
        values = together.values(given);
      } catch (const Error&) {
      }
      // A sum of terms beyond 64 bits may itself be a number of 64 bits.
      if (!expected) continue;
      REQUIRE(values);
      for (std::size_t n = 0; n < numbers.size(); ++n) CHECK((*values)[numbers[n]] == (*expected)[n]);
    }
  }
}

TEST_CASE("equal expressions over sizes have one number") {
  SizeExpressions expressions;
  const Index h = Index::symbol("H");
  const std::size_t half = expressions.add(floor_div(h, 2));
  CHECK(expressions.add(h + 1) != half);
  CHECK(expressions.add(floor_div(h + 2, 2) - 1) == half);
  CHECK(expressions.values([](const Atom&) { return std::optional<Index>(5); }).size() == 2);
}

}  // namespace rewright::graph
