#include "generator/pruning/rewrite_index.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "generator/enumeration/forms.h"

using namespace rewright;
using namespace rewright::generator;

namespace {

constexpr std::uint32_t kNone = Expression::kNone;
using Operands = std::array<std::uint32_t, 3>;

// Random classes of applications.
struct Classes {
  struct Member {
    Symbol symbol;
    Operands operands;
  };
  std::vector<std::vector<Member>> all;
  std::vector<bool> vectors;
  const Symbols* symbols = nullptr;

  bool is_vector(std::uint32_t c) const { return vectors[c]; }
  static bool same(std::uint32_t a, std::uint32_t b) { return a == b; }
  std::uint64_t begins(std::uint32_t c) const {
    std::uint64_t bits = 0;
    for (const Member& m : all[c]) bits |= RewriteIndex::bit_of(m.symbol);
    return bits;
  }
  template <class F>
  bool members(std::uint32_t c, Symbol symbol, const F& f) const {
    return std::all_of(all[c].begin(), all[c].end(), [&](const Member& m) { return m.symbol != symbol || f(m.operands); });
  }

  // The expected matches of one left side by exhaustive search: all substitutions for which it belongs to a class.
  using Bound = std::vector<std::uint32_t>;
  std::set<Bound> match(const Equation& q, const Forms& forms, std::uint32_t at, std::uint32_t c, const Bound& bound) const {
    const Expression& e = q.expressions[at];
    std::set<Bound> found;
    if (e.kind == Expression::Kind::kVariable) {
      Bound next = bound;
      if (next[e.number] == kNone && vectors[c] == generator::is_vector(e.type, forms)) next[e.number] = c;
      if (next[e.number] == c) found.insert(next);
      return found;
    }
    for (const Member& m : all[c]) found.merge(match(q, forms, at, m, bound));
    return found;
  }
  std::set<Bound> match(const Equation& q, const Forms& forms, std::uint32_t at, const Member& m, const Bound& bound) const {
    const Expression& e = q.expressions[at];
    std::set<Bound> found;
    if (symbols->find(e) != m.symbol) return found;
    for (const bool swapped : {false, true}) {
      if (swapped && !symbols->commutative(m.symbol)) continue;
      Operands operands = m.operands;
      if (swapped) std::swap(operands[0], operands[1]);
      std::set<Bound> now{bound};
      for (std::size_t k = 0; k < 3 && e.arguments[k] != kNone; ++k) {
        std::set<Bound> next;
        for (const Bound& b : now) next.merge(match(q, forms, e.arguments[k], operands[k], b));
        now = std::move(next);
      }
      found.merge(now);
    }
    return found;
  }
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}
  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(random_() % n); }

 private:
  std::mt19937_64 random_;
};

// A random expression of Relu, MatMul and Add over variables, some of them vectors.
std::uint32_t expression(Equation& q, Random& random, const std::vector<TypeId>& types, int depth) {
  const std::uint32_t kind = depth == 0 ? 3 : random.below(4);
  Expression e;
  e.type = types[0];
  if (kind == 3) {
    e.number = random.below(3);
    e.type = types[e.number == 2];
    return q.add(e);
  }
  e.kind = Expression::Kind::kOperator;
  e.number = kind;
  for (std::size_t k = 0; k < (kind == 0 ? 1u : 2u); ++k) e.arguments[k] = expression(q, random, types, depth - 1);
  return q.add(e);
}

}  // namespace

TEST_CASE("the index finds what every left side tried by itself finds", "[rewrite_index]") {
  const Configuration configuration = configure("Relu,MatMul,Add");
  REQUIRE(configuration.choices.size() == 3);
  REQUIRE(configuration.choices[0].arity == 1);
  Forms forms(configuration);
  const std::vector<TypeId> types{forms.intern({DataType::kFloat, {Index::symbol("M"), Index::symbol("K")}}),
                                  forms.intern({DataType::kFloat, {Index::symbol("K")}})};
  std::size_t matches = 0, own = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    Random random(seed);
    Symbols symbols(configuration);
    RewriteIndex index;
    std::vector<Equation> equations;
    for (std::uint32_t n = 0; n < 12; ++n) {
      Equation q;
      q.left = {expression(q, random, types, 2)};
      q.right = {expression(q, random, types, 2)};
      q.variables = 3;
      index.add(q, n, forms, symbols);
      equations.push_back(std::move(q));
    }
    Classes classes;
    classes.symbols = &symbols;
    for (std::uint32_t c = 0; c < 14; ++c) {
      classes.vectors.push_back(c % 5 == 0);
      classes.all.emplace_back();
      for (std::uint32_t m = 1 + random.below(8); c > 0 && m > 0; --m) {
        const auto symbol = static_cast<Symbol>(random.below(symbols.size()));
        Operands operands{random.below(c), kNone, kNone};
        if (symbols.expression(symbol).number != 0) operands[1] = random.below(c);
        classes.all[c].push_back({symbol, operands});
      }
    }
    for (const auto& members : classes.all)
      for (const Classes::Member& root : members) {
        // The target of each equation under a substitution, in both directions.
        const auto text = [&](const Equation& q, std::uint32_t at, const Classes::Bound& bound) {
          const auto write = [&](auto&& self, std::uint32_t i) -> std::string {
            const Expression& e = q.expressions[i];
            if (e.kind == Expression::Kind::kVariable) return std::to_string(bound[e.number]);
            std::string result = "s" + std::to_string(symbols.find(e)) + "(";
            for (const std::uint32_t a : e.arguments)
              if (a != kNone) result += self(self, a) + ",";
            return result + ")";
          };
          return write(write, at);
        };
        std::set<std::string> tried, walked;
        for (std::uint32_t n = 0; n < equations.size(); ++n)
          for (const bool back : {false, true}) {
            const Equation& q = equations[n];
            const std::uint32_t from = back ? q.right[0] : q.left[0], to = back ? q.left[0] : q.right[0];
            if (q.expressions[from].kind == Expression::Kind::kVariable) continue;
            const std::vector<bool> source = q.reachable({from}), target = q.reachable({to});
            bool more = false, less = false;
            std::vector<std::uint32_t> both;
            for (std::size_t i = 0; i < q.expressions.size(); ++i) {
              if (q.expressions[i].kind != Expression::Kind::kVariable) continue;
              more |= target[i] && !source[i], less |= source[i] && !target[i];
              if (source[i] && target[i]) both.push_back(q.expressions[i].number);
            }
            if (more && !less) continue;
            for (const auto& bound : classes.match(q, forms, from, root, Classes::Bound(3, kNone))) {
              std::string result = more ? "own(" : text(q, to, bound);
              if (more)
                for (const std::uint32_t v : both) result += std::to_string(bound[v]) + ",";
              tried.insert(std::to_string(n) + ": " + result);
              own += more;
            }
          }
        index.match(classes, symbols, root.symbol, root.operands, [&](std::uint32_t number, const auto& bound) {
          const RewriteIndex::Rewrite& rewrite = index.rewrite(number);
          std::vector<std::string> texts;
          for (const RewriteIndex::Step& step : rewrite.target) {
            const bool last = texts.size() + 1 == rewrite.target.size();
            std::string t = step.variable         ? std::to_string(bound[step.number])
                            : rewrite.own && last ? "own("
                                                  : "s" + std::to_string(step.number) + "(";
            for (const std::uint32_t o : step.operands)
              if (o != kNone) t += texts[o] + ",";
            texts.push_back(step.variable || (rewrite.own && last) ? t : t + ")");
          }
          walked.insert(std::to_string(rewrite.equation) + ": " + texts.back());
          return true;
        });
        CHECK(walked == tried);
        matches += tried.size();
      }
  }
  CHECK(matches > 1000);
  CHECK(own > 100);
}

TEST_CASE("a walk through the index ends when it is told to", "[rewrite_index]") {
  const Configuration configuration = configure("Relu,MatMul,Add");
  Forms forms(configuration);
  Symbols symbols(configuration);
  RewriteIndex index;
  Equation q;
  const TypeId type = forms.intern({DataType::kFloat, {Index::symbol("M"), Index::symbol("K")}});
  const std::uint32_t x = q.add({.type = type}), y = q.add({.number = 1, .type = type});
  q.left = {q.add({.kind = Expression::Kind::kOperator, .number = 2, .arguments = {x, y, kNone}, .type = type})};
  q.right = {q.add({.kind = Expression::Kind::kOperator, .number = 0, .arguments = {x, kNone, kNone}, .type = type})};
  index.add(q, 0, forms, symbols);
  Classes classes{.all = {{}, {}}, .vectors = {false, false}, .symbols = &symbols};
  int found = 0;
  const Symbol sum = symbols.find(q.expressions[q.left[0]]);
  CHECK(!index.match(classes, symbols, sum, {0, 1, kNone}, [&](std::uint32_t, const auto&) { return ++found < 1; }));
  CHECK(found == 1);
  CHECK(index.match(classes, symbols, sum, {0, 1, kNone}, [&](std::uint32_t, const auto&) { return ++found > 0; }));
  CHECK(found == 3);  // both orders of operands
}
