#include "verifier/regrouping.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "verifier/terms.h"

using namespace rewright;
using namespace rewright::proof;

namespace {

constexpr std::int64_t kLow = -7, kHigh = 9;  // of bound variables: those of the sums below are within

// The coefficient of each product of elements, for given values of symbols: by all values of the bound variables.
std::map<std::string, std::int64_t> products(const Sum& sum, const Replacements& symbols) {
  std::map<std::string, std::int64_t> result;
  for (const Term& given : sum) {
    const Term term = replaced(given, symbols);
    std::vector<std::int64_t> at(term.bound.size(), kLow);
    for (;;) {
      Replacements names;
      for (std::size_t k = 0; k < at.size(); ++k) names.emplace_back(term.bound[k], Index(at[k]));
      const Guards guards = replaced(term.guards, names);
      bool holds = true;
      for (const Guard& g : guards) holds = holds && g.decided().value();
      if (holds) {
        Term product = replaced(term, names);
        product.bound.clear(), product.guards.clear(), product.coefficient = 1;
        result[to_string({product})] += term.coefficient.numerator();
      }
      std::size_t k = at.size();
      while (k > 0 && ++at[k - 1] > kHigh) at[--k] = kLow;
      if (k == 0) break;
    }
  }
  std::erase_if(result, [](const auto& entry) { return entry.second == 0; });
  return result;
}

Factor access(std::size_t input, Indices position) {
  Factor f{.kind = Factor::Kind::kAccess, .input = input};
  f.position = std::move(position);
  return f;
}

}  // namespace

TEST_CASE("sums in other variables have the same value", "[regrouping]") {
  std::mt19937_64 random(5);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  Solver solver;
  const Index size = Index::symbol("D"), other = Index::symbol("N");
  const Guards known{at_least(size, 1), at_least(other, 1)};
  std::size_t changed = 0;
  for (int round = 0; round < 120; ++round) {
    const Index u = Index::fresh("u"), v = Index::fresh("v");
    const Index divisor = below(2) ? size : Index(2 + below(2));
    Term term;
    term.coefficient = 1 + below(3);
    term.bound = {u, v};
    const Index shift = Index(below(3)) + other * Index(below(2));
    switch (below(4)) {
      case 0:  // quotient and remainder of one variable
        term.guards = within(u, divisor * other);
        for (const Guard& g : within(v, 3)) term.guards.push_back(g);
        term.factors = {access(0, {floor_div(u, divisor) + v, u - divisor * floor_div(u, divisor)}), access(1, {v, u})};
        break;
      case 1:  // a block and a place in it
        term.guards = within(u, divisor);
        for (const Guard& g : within(v, 3)) term.guards.push_back(g);
        switch (below(4)) {
          case 0:  // also of both, and of a multiple of the block: then they stay two
            term.guards.push_back(non_negative((v - u) * (below(2) ? 1 : -1)));
            break;
          case 1:
            term.guards.push_back(non_negative(v * 2 - 3));
            break;
          case 2:
            term.guards.push_back(non_negative(divisor * v + u - 2));
            break;
          default:
            term.guards.push_back(non_negative(shift + v - 1 - below(2)));
        }
        term.factors = {access(0, {u + divisor * v - shift}), access(1, {(u + divisor * v) * 2})};
        if (below(3) == 0) term.factors.push_back(access(2, {v}));  // then the block is seen
        break;
      case 2:  // a multiple
        term.guards = within(u, 7);
        for (const Guard& g : within(v, 2)) term.guards.push_back(g);
        term.guards.push_back(zero(shift - u - divisor * floor_div(shift - u, divisor)));
        term.factors = {access(0, {floor_div(shift - u, divisor)}), access(1, {u + v})};
        break;
      default:  // several divisors of one variable
        term.guards = within(u, divisor * 2);
        for (const Guard& g : within(v, 2)) term.guards.push_back(g);
        term.factors = {access(0, {floor_div(u, divisor), floor_div(u, divisor * 2)}), access(1, {u + v})};
        if (below(2)) term.guards.push_back(non_negative(u - below(3)));
    }
    const Sum sum{term}, result = regrouped(sum, known, solver);
    changed += to_string(sum) != to_string(result);
    for (const std::int64_t d : {1, 2, 3}) {
      const Replacements symbols{{size, Index(d)}, {other, Index(3 - d / 2)}};
      INFO(to_string(sum) << " is " << to_string(result) << " at D = " << d);
      CHECK(products(sum, symbols) == products(result, symbols));
    }
  }
  CHECK(changed >= 60);
}

TEST_CASE("a block and a place in it stay two where a guard needs both", "[regrouping]") {
  Solver solver;
  const Index size = Index::symbol("D"), blocks = Index::symbol("M");
  const Guards known{at_least(size, 1), at_least(blocks, 1)};
  const Index q = Index::fresh("q"), r = Index::fresh("r");
  Term term;
  term.bound = {q, r};
  term.guards = within(q, blocks);
  for (const Guard& g : within(r, size)) term.guards.push_back(g);
  term.factors = {access(0, {size * q + r})};
  CHECK(regrouped({term}, known, solver).at(0).bound.size() == 1);
  for (const Index& value : {q - r, r - q, q * 2 - 3, r - 1}) {
    Term both = term;
    both.guards.push_back(non_negative(value));
    CHECK(regrouped({both}, known, solver).at(0).bound.size() == 2);
  }
}

TEST_CASE("nothing is regrouped when the time is over", "[regrouping]") {
  SolverOptions options;
  bool ended = false;
  options.ended = [&] { return ended; };
  Solver solver(options);
  const Index size = Index::symbol("D"), u = Index::fresh("u");
  const Guards known{at_least(size, 1)};
  Term term;
  term.bound = {u};
  term.guards = within(u, size * 3);
  term.factors = {access(0, {floor_div(u, size), u - size * floor_div(u, size)})};
  CHECK(to_string(regrouped({term}, known, solver)) != to_string({term}));
  ended = true;
  CHECK(to_string(regrouped({term}, known, solver)) == to_string({term}));
}
