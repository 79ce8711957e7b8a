#include "rules/merge.h"

#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"
#include "operators/testing/share.h"
#include "rules/io.h"
#include "rules/isomorphism.h"

using namespace rewright;
using namespace rewright::rules;

namespace {

Rule rule(const std::string& text) { return parse_algebra(text, "test").at(0); }

bool same(const std::string& a, const std::string& b) {
  return same_rule(rule("rule r: \"\" " + a), rule("rule s: \"\" " + b));
}

// The rule with every variable and input renamed.
Rule renamed(const Rule& original) {
  Rule result = original;
  const auto other = [](const std::string& name) { return name.empty() ? name : "z_" + name; };
  const auto index = [&](const Index& i) {
    return substitute(i, [&](const Atom& atom) -> std::optional<Index> {
      return atom.kind == Atom::Kind::kSymbol ? std::optional(Index::symbol(other(atom.name))) : std::nullopt;
    });
  };
  const std::function<void(Expression&)> rename = [&](Expression& e) {
    if (e.kind == Expression::Kind::kVariable) e.name = other(e.name);
    if (auto* i = std::get_if<Index>(&e.value)) *i = index(*i);
    if (auto* l = std::get_if<Indices>(&e.value))
      for (Index& i : *l) i = index(i);
    if (auto* r = std::get_if<Real>(&e.value)) r->symbol = other(r->symbol);
    for (Expression& a : e.arguments) rename(a);
  };
  for (PatternInput& input : result.inputs) {
    input.name = other(input.name);
    input.type.variable = other(input.type.variable);
    input.shape.middle = other(input.shape.middle);
    for (Index& i : input.shape.front) i = index(i);
    for (Index& i : input.shape.back) i = index(i);
  }
  for (Pattern* side : {&result.source, &result.target})
    for (PatternNode& node : side->nodes)
      for (Expression& e : node.attributes) rename(e);
  for (Quantity& q : result.quantities) q.name = other(q.name), rename(q.value);
  for (Condition& c : result.conditions) c.left = index(c.left), c.right = index(c.right);
  for (Predicate& p : result.predicates)
    for (Expression& e : p.arguments) rename(e);
  return result;
}

}  // namespace

TEST_CASE("rules are the same up to the names of variables and the order of operands", "[isomorphism]") {
  CHECK(same("x[..., M, K], a[K, N], b[K, N] MatMul(x, a) + MatMul(x, b) => MatMul(x, a + b)",
             "y[..., P, Q], b[Q, R], a[Q, R] MatMul(y, a) + MatMul(y, b) => MatMul(y, b + a)"));
  CHECK(same("x, y Relu(x) + y => y + Relu(x)", "y, x x + Relu(y) => x + Relu(y)"));
  CHECK(same("x Transpose(Transpose(x; perm=p); perm=q) => x where q == inverse(p)",
             "x Transpose(Transpose(x; perm=a); perm=b) => x where inverse(a) == b"));
  CHECK(same("x[N, C] Pad(x; pads_begin=[2 * a + b, 0], pads_end=[0, a]) => x where a == 0, b == 0",
             "x[A, B] Pad(x; pads_begin=[2 * d + c, 0], pads_end=[0, d]) => x where c == 0, d == 0"));
  CHECK(same("x[N, C] Pad(x; pads_begin=[2 * a + b, 0], pads_end=[0, 0]) => x where 2 * a + b == 0",
             "x[A, B] Pad(x; pads_begin=[2 * d + c, 0], pads_end=[0, 0]) => x where 2 * d + c == 0"));
  CHECK(same("x LeakyRelu(LeakyRelu(x; alpha=a); alpha=b) => LeakyRelu(x; alpha=times(a, b)) where a > 0, b > 0",
             "x LeakyRelu(LeakyRelu(x; alpha=p); alpha=q) => LeakyRelu(x; alpha=times(p, q)) where q > 0, p > 0"));
}

TEST_CASE("rules that differ in anything that counts are different", "[isomorphism]") {
  const std::string r = "x[N, K], a[K, M] MatMul(x, a) => MatMul(x, a)";
  CHECK(same(r, r));
  CHECK_FALSE(same(r, r + " exact"));
  CHECK_FALSE(same(r, r + " inference_only"));
  CHECK_FALSE(same(r, r + " where N == 1"));
  CHECK_FALSE(same(r, "x[N, K], const a[K, M] MatMul(x, a) => MatMul(x, a)"));
  CHECK_FALSE(same(r, "x[N, N], a[N, M] MatMul(x, a) => MatMul(x, a)"));
  CHECK_FALSE(same("x, y x - y => x - y", "x, y x - y => y - x"));
  CHECK_FALSE(same("x, y x + y => x - y", "x, y x + y => y - x + y"));
  CHECK_FALSE(same("x, y Relu(x) + y => x + y", "x Relu(x) + x => x + x"));
  CHECK_FALSE(same("x, y, z (x + y) * z => x * z + y * z", "x, y, z (x + y) * z => x * z + x * z"));
  CHECK_FALSE(same("x Transpose(x; perm=p) => x where p == [0, 1]", "x Transpose(x; perm=p) => x where p == [1, 0]"));
  CHECK_FALSE(same("x[N, C] Relu(x) => Relu(x) where N < C", "x[N, C] Relu(x) => Relu(x) where C < N"));
}

TEST_CASE("every shipped rule is the same with other names and another order, and no other is", "[isomorphism][database]") {
  std::mt19937_64 random(1);
  const std::vector<Rule> rules = testing::share(shipped_rules().rules());
  for (const Rule& original : rules) {
    Rule other = renamed(original);
    std::shuffle(other.conditions.begin(), other.conditions.end(), random);
    std::shuffle(other.predicates.begin(), other.predicates.end(), random);
    INFO(to_algebra(original) << to_algebra(other));
    CHECK(same_rule(original, other));
  }
  for (std::size_t i = 0; i < rules.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      // Two optional biases of a sum give the same rule twice: without the first and without the second.
      if (rules[i].name.find("_without_") != std::string::npos && rules[k].name.find("_without_") != std::string::npos)
        continue;
      if (same_rule(rules[i], rules[k])) FAIL_CHECK(to_algebra(rules[i]) << to_algebra(rules[k]));
    }
}

TEST_CASE("differences are by name, and the same rule under another name is none", "[merge]") {
  const auto a = parse_algebra(R"(rule kept: "" x Relu(Relu(x)) => Relu(x)
                                  rule old: "" x Neg(Neg(x)) => x
                                  rule gone: "" x Abs(Abs(x)) => Abs(x)
                                  rule altered: "" x Abs(Neg(x)) => Abs(x))",
                               "a");
  const auto b = parse_algebra(R"(rule altered: "" x Abs(Neg(x)) => Abs(Neg(x))
                                  rule kept: "other words" y Relu(Relu(y)) => Relu(y)
                                  rule new: "" z Neg(Neg(z)) => z
                                  rule added: "" x, y x + y => y + x)",
                               "b");
  const RuleDifference d = difference(a, b);
  CHECK(d.only_first == std::vector<std::string>{"gone"});
  CHECK(d.only_second == std::vector<std::string>{"added"});
  CHECK(d.changed == std::vector<std::string>{"altered"});
  CHECK(d.renamed == std::vector<std::pair<std::string, std::string>>{{"old", "new"}});
  CHECK_FALSE(d.empty());
  CHECK(difference(a, a).empty());
}

TEST_CASE("a union drops what is there already and keeps the proof", "[merge]") {
  std::vector<NamedRules> sets = {{"a", parse_algebra(R"(rule p: "" x Relu(Relu(x)) => Relu(x)
                                                         rule q: "" x Neg(Neg(x)) => x)",
                                                      "a")},
                                  {"b", parse_algebra(R"(rule r: "" y Relu(Relu(y)) => Relu(y)
                                                         rule q: "" y Neg(Neg(y)) => y
                                                         rule s: "" x, y x * y => y * x)",
                                                      "b")}};
  sets[1].rules[0].proof.status = RuleStatus::kProved;
  const MergedRules merged = merge(sets);
  REQUIRE(merged.rules.size() == 3);
  CHECK(merged.rules[0].name == "r");
  CHECK(merged.rules[0].proof.status == RuleStatus::kProved);
  CHECK(merged.rules[1].name == "q");
  CHECK(merged.rules[2].name == "s");
  REQUIRE(merged.dropped.size() == 2);
  CHECK(merged.dropped[0].name == "p");
  CHECK(merged.dropped[0].kept == "r");
  CHECK(merged.dropped[1].file == "b");
}

TEST_CASE("different rules of one name are an error that names both files", "[merge][errors]") {
  const std::vector<NamedRules> sets = {{"first.rules", {rule("rule r: \"\" x Relu(Relu(x)) => Relu(x)")}},
                                        {"second.rules", {rule("rule r: \"\" x Neg(Neg(x)) => x")}}};
  try {
    (void)merge(sets);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kBadInput);
    CHECK_THAT(e.what(), Catch::Contains("first.rules") && Catch::Contains("second.rules") && Catch::Contains("called r"));
  }
}
