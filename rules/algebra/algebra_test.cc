#include <catch2/catch.hpp>

#include "base/error.h"
#include "rules/io.h"

using namespace rewright;
using namespace rewright::rules;

namespace {

Rule parse_one(const std::string& text) {
  auto rules = parse_algebra(text, "test.rules");
  REQUIRE(rules.size() == 1);
  return std::move(rules[0]);
}

std::string message(const std::string& text) {
  try {
    (void)parse_algebra(text, "test.rules");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kBadInput);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a rule in algebra becomes data", "[algebra]") {
  const Rule rule = parse_one(R"~(
    # two products of one matrix
    rule add: "x a + x b = x (a + b)"
      x[..., M, K], const a[K, N], b[K, N]
      MatMul(x, a) + MatMul(x, b) => MatMul(x, a + b)
      where N >= 1
      reassociates
  )~");
  CHECK(rule.name == "add");
  CHECK(rule.description == "x a + x b = x (a + b)");
  REQUIRE(rule.inputs.size() == 3);
  CHECK(rule.inputs[0].shape.open);
  CHECK(rule.inputs[0].shape.back == Indices{Index::symbol("M"), Index::symbol("K")});
  CHECK(rule.inputs[1].constant);
  CHECK_FALSE(rule.inputs[2].constant);
  REQUIRE(rule.source.nodes.size() == 3);
  CHECK(rule.source.nodes[0].op->name() == "MatMul");
  CHECK(rule.source.nodes[2].op->name() == "Add");
  CHECK(rule.source.nodes[2].inputs[1] == PatternValue::node(1));
  CHECK(rule.target.nodes.size() == 2);
  CHECK(rule.conditions == std::vector{less_equal(1, Index::symbol("N"))});
  CHECK(rule.math == MathClass::kReassociates);
}

TEST_CASE("equal terms of one side are one node", "[algebra]") {
  const Rule rule = parse_one(R"~(rule r: "" x let t = Relu(x) Relu(x) * t => t * t exact)~");
  CHECK(rule.source.nodes.size() == 2);
  CHECK(rule.source.nodes[1].inputs == std::vector{PatternValue::node(0), PatternValue::node(0)});
  CHECK(rule.source == rule.target);
}

TEST_CASE("a let that ends in a tensor's name may stand in front of a parenthesis", "[algebra]") {
  for (const char* text : {R"~(rule r: "" x, y let t = x + y (x - y) * t + t => (x - y + 1) * t reassociates)~",
                           R"~(rule r: "" x, y let t = x + y let u = x * t (u + u) * t => 2 * u * t reassociates)~"}) {
    const Rule rule = parse_one(text);
    CHECK(parse_one(to_algebra(rule)) == rule);
  }
}

TEST_CASE("a rule of constants has no inputs", "[algebra]") {
  const Rule rule = parse_one("rule r: \"\" Relu(Eye(; size=n, type=float)) => Eye(; size=n, type=float) exact");
  CHECK(rule.inputs.empty());
  CHECK(parse_one(to_algebra(rule)) == rule);
  CHECK(parse_one("rule r: \"\" x (x + x) * 2 => x * 4 exact").inputs.size() == 1);
}

TEST_CASE("several outputs", "[algebra]") {
  const Rule rule = parse_one(R"~(rule r: ""
    x: any, y: any
    let parts = Split(Concat(x, y; axis=a); axis=a, sizes=[size(x, a), size(y, a)])
    parts.0, parts.1 => x, y)~");
  REQUIRE(rule.source.outputs.size() == 2);
  CHECK(rule.source.outputs[1] == PatternValue::node(1, 1));
  CHECK(rule.source.nodes[1].outputs == 2);
  CHECK(rule.target.outputs == std::vector{PatternValue::input(0), PatternValue::input(1)});
  CHECK(rule.quantities.size() == 2);
}

TEST_CASE("optional inputs and templates become plain rules", "[algebra]") {
  const auto rules = parse_algebra(R"~(rule r: "" for F in {Relu, Tanh} for SHAPE in {[K], [1, K]}
    x[N, K], w[L, K], b?[L], c SHAPE
    Gemm(x, w, b; transB=true) + F(c) => F(c) + Gemm(x, w, if b then b else _; transB=true))~",
                                   "test.rules");
  REQUIRE(rules.size() == 8);
  CHECK(rules[0].name == "r_Relu_1");
  CHECK(rules[1].name == "r_Relu_1_without_b");
  CHECK(rules[7].name == "r_Tanh_2_without_b");
  CHECK(rules[0].inputs.size() == 4);
  CHECK(rules[1].inputs.size() == 3);
  CHECK(rules[1].source.nodes[0].inputs.size() == 2);
}

TEST_CASE("what needs an absent input is absent", "[algebra]") {
  const auto rules = parse_algebra(
      R"~(rule r: "" x[M, K], w[N, K], b?[N], s[N]
         Gemm(x, w, b; transB=true) * s => Gemm(x, w * Reshape(s; shape=[N, 1]), b * Reshape(s; shape=[N]); transB=true))~",
      "test.rules");
  REQUIRE(rules.size() == 2);
  CHECK(rules[1].target.nodes.back().inputs.size() == 2);
}

TEST_CASE("both directions are two rules", "[algebra]") {
  const auto rules = parse_algebra("rule r: \"\" a, b a + b <=> b + a", "test.rules");
  REQUIRE(rules.size() == 2);
  CHECK(rules[1].name == "r_reversed");
  CHECK(rules[0].source == rules[1].target);
}

TEST_CASE("index expressions, lists and calls", "[algebra]") {
  const Rule rule = parse_one(R"~(rule r: ""
    x[2 * N + 1, S...]
    let n = length(S)
    Transpose(x; perm=p) => Transpose(x; perm=compose(p, identity(n + 1)))
    where permutation(p), every S > 0, S == repeat(N, n), N mod 2 == 0, (N - 1) div 2 + 1 < max(N, 3), p != identity(rank(x)))~");
  CHECK(rule.inputs[0].shape.front[0] == 2 * Index::symbol("N") + 1);
  CHECK(rule.inputs[0].shape.middle == "S");
  CHECK(rule.predicates.size() == 4);
  CHECK(rule.conditions.size() == 2);
  CHECK(rule.quantities.size() == 2);  // n and the rank
  const auto again = parse_algebra(to_algebra(rule), "printed");
  REQUIRE(again.size() == 1);
  CHECK(again[0] == rule);
}

TEST_CASE("errors say where and what", "[algebra][errors]") {
  using Catch::Contains;
  const auto rule = [](const std::string& body) { return message("rule r: \"\"\n" + body); };
  CHECK_THAT(message("x"), Contains("test.rules:1") && Contains("expected \"rule\""));
  CHECK_THAT(message("rule r x => x"), Contains("expected \":\""));
  CHECK_THAT(rule("x Foo(x) => x"), Contains("test.rules:2") && Contains("there is no operator \"Foo\""));
  CHECK_THAT(rule("x Relu(x; alpha=1) => x"), Contains("no attribute \"alpha\""));
  CHECK_THAT(rule("x Relu(y) => x"), Contains("\"y\" is not an input"));
  CHECK_THAT(rule("x Relu(x, x) => x"), Contains("cannot have 2 inputs"));
  CHECK_THAT(rule("x x => x"), Contains("the source has no operator"));
  CHECK_THAT(rule("x, y Relu(x) => y"), Contains("input y is not part of the source"));
  CHECK_THAT(rule("x Relu(x) => Reshape(x; shape=[M])"), Contains("\"M\" is not bound"));
  CHECK_THAT(rule("x Relu(x), Neg(x) => x"), Contains("2 and 1 outputs"));
  CHECK_THAT(rule("x Relu(x) => x where"), Contains("expected an index expression"));
  CHECK_THAT(rule("x[N, ..., M, ...] Relu(x) => x"), Contains("twice"));
  CHECK_THAT(rule("x[S...] Relu(x) => Reshape(x; shape=[S])"), Contains("\"S\" is a list"));
  CHECK_THAT(rule("x Relu(x => x"), Contains("expected \")\""));
  CHECK_THAT(rule("x \"open"), Contains("not closed"));
  CHECK_THAT(rule("x[N div 0] Relu(x) => x"), Contains("test.rules:2") && Contains("division"));
  CHECK_THAT(rule("x Relu(x) => x $"), Contains("unexpected character"));
  CHECK_THAT(message("rule r: \"\" x Relu(x) => x rule r: \"\" x Neg(x) => x"), Contains("two rules are called r"));
  CHECK_THAT(rule("x " + std::string(5000, '(')), Contains("nested too deeply"));
}

TEST_CASE("from right to left a rule may have another class of rounding") {
  const auto rules = parse_algebra("rule r: \"\" a, b, c a * c + b * c <=> (a + b) * c reassociates, reversed cancels", "test");
  REQUIRE(rules.size() == 2);
  CHECK(rules[0].math == MathClass::kReassociates);
  CHECK(rules[1].math == MathClass::kCancels);
  CHECK(parse_algebra(to_algebra(rules[1]), "test").at(0) == rules[1]);
  CHECK_THROWS_AS(parse_algebra("rule r: \"\" a, b a + b => b + a reassociates, reversed cancels", "test"), Error);
  CHECK_THROWS_AS(parse_algebra("rule r: \"\" a, b a + b <=> b + a exact, reversed nothing", "test"), Error);
}
