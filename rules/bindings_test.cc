#include <catch2/catch.hpp>

#include "rules/bindings.h"
#include "rules/io.h"

using namespace rewright;
using namespace rewright::rules;

namespace {

Rule parsed(const std::string& text) { return parse_algebra(text, "test.rules").at(0); }

TensorType floats(Indices shape) { return {DataType::kFloat, std::move(shape)}; }

}  // namespace

TEST_CASE("shapes bind sizes, lists and types", "[bindings]") {
  const Rule rule = parsed(R"~(rule r: "" x[N, C, S...], y[C] Relu(x) * y => Relu(x) * y)~");
  Bindings b(rule);
  REQUIRE(b.bind_input(0, floats({2, 3, 5, 7})));
  REQUIRE(b.bind_input(1, floats({3})));
  REQUIRE(b.complete());
  CHECK(b.evaluate(Index::symbol("N")) == Index(2));
  CHECK(b.evaluate(Expression::variable("S")) == AttributeValue(Indices{5, 7}));
  CHECK(b.evaluate(Expression::variable("T")) == AttributeValue(DataType::kFloat));

  Bindings other(rule);
  REQUIRE(other.bind_input(0, floats({2, 3})));
  CHECK_FALSE(other.bind_input(1, floats({4})));
  CHECK_FALSE(Bindings(rule).bind_input(0, floats({2})));
  CHECK_FALSE(Bindings(rule).bind_input(0, {DataType::kInt64, {2, 3}}));
}

TEST_CASE("symbolic sizes bind; what cannot be decided does not hold", "[bindings]") {
  const Rule rule = parsed(R"~(rule r: "" x[N, C] Relu(x) => x where C mod 2 == 0)~");
  const Index batch = Index::symbol("batch");
  Bindings b(rule);
  REQUIRE(b.bind_input(0, floats({batch, 4})));
  CHECK(b.complete());
  CHECK(b.evaluate(Index::symbol("N") * 2) == batch * 2);
  Bindings c(rule);
  REQUIRE(c.bind_input(0, floats({batch, batch})));
  CHECK_FALSE(c.complete());
}

TEST_CASE("equations with one unknown are solved", "[bindings]") {
  const Rule rule =
      parsed(R"~(rule r: "" x[g * D, K], y[g] Relu(x), Neg(y) => Relu(x), Reshape(Neg(y); shape=[D * g div D]))~");
  Bindings b(rule);
  REQUIRE(b.bind_input(0, floats({6, 1})));
  REQUIRE(b.bind_input(1, floats({2})));
  REQUIRE(b.complete());
  CHECK(b.evaluate(Index::symbol("D")) == Index(3));
  Bindings c(rule);
  REQUIRE(c.bind_input(0, floats({7, 1})));
  REQUIRE(c.bind_input(1, floats({2})));
  CHECK_FALSE(c.complete());
}

TEST_CASE("a list is split into those of which it is joined", "[bindings]") {
  const Rule rule = parsed(
      R"~(rule r: "" x[Z..., M] x * Fill(; value=1, shape=join(Z, [K, L]), type=T) => x * Fill(; value=1, shape=join(Z, [L, K]), type=T))~");
  const auto bound = [&](Indices shape) {
    Bindings b(rule);
    REQUIRE(b.bind_input(0, floats({5, 6, 7})));
    return b.bind_attribute(rule.source.nodes[0].attributes[*rule.source.nodes[0].op->field("shape")], shape) && b.complete()
               ? b.try_evaluate(Index::symbol("L"))
               : std::nullopt;
  };
  REQUIRE(rule.source.nodes[0].op->is_fill());
  CHECK(bound({5, 6, 2, 3}) == Index(3));
  CHECK_FALSE(bound({5, 2, 3}).has_value());
  CHECK_FALSE(bound({5, 7, 2, 3}).has_value());
}

TEST_CASE("attributes are compared after normalization", "[bindings]") {
  const Rule rule = parsed(R"~(rule r: "" x[N, C, S...], w Conv(x, w; group=g) => Conv(x, w; group=g))~");
  const Operator& conv = registry().get("Conv");
  const std::vector<TensorType> types{floats({1, 4, 8, 8}), floats({4, 2, 3, 3})};
  const Inputs inputs = Inputs::of(std::span<const TensorType>(types));
  Attributes attributes = conv.defaults();
  attributes[*conv.field("group")] = Index(2);
  attributes = conv.normalized(attributes, inputs);
  Bindings b(rule);
  CHECK(b.bind_attributes(rule.source.nodes[0], attributes, inputs));
  CHECK(b.evaluate(Index::symbol("g")) == Index(2));
  attributes[*conv.field("strides")] = Indices{2, 2};
  CHECK_FALSE(Bindings(rule).bind_attributes(rule.source.nodes[0], attributes, inputs));
}

TEST_CASE("functions of lists", "[bindings]") {
  const Rule rule = parsed(R"~(rule r: "" x Transpose(x; perm=p) => x)~");
  Bindings b(rule);
  REQUIRE(b.bind_input(0, floats({5, 6, 7})));
  REQUIRE(b.bind("p", Indices{2, 0, 1}));
  const auto value = [&](const std::string& call) {
    const Rule with = parsed("rule r: \"\" x let q = " + call + " Transpose(x; perm=p) => x");
    return b.try_evaluate(with.quantities.back().value);
  };
  const auto list = [](Indices i) { return std::optional<AttributeValue>(std::move(i)); };
  CHECK(value("rank(x)") == AttributeValue(Index(3)));
  CHECK(value("size(x, 1)") == AttributeValue(Index(6)));
  CHECK(value("shape(x)") == list({5, 6, 7}));
  CHECK(value("compose(p, p)") == list({1, 2, 0}));
  CHECK(value("inverse(p)") == list({1, 2, 0}));
  CHECK(value("position(p, 0)") == AttributeValue(Index(1)));
  CHECK(value("at(p, 0)") == AttributeValue(Index(2)));
  CHECK_FALSE(value("at(p, 3)"));
  CHECK(value("product(shape(x))") == AttributeValue(Index(210)));
  CHECK(value("insert(p, 1, 9)") == list({2, 9, 0, 1}));
  CHECK(value("remove(p, 1)") == list({2, 1}));
  CHECK(value("with(p, 1, 9)") == list({2, 9, 1}));
  CHECK(value("slice(p, 1, 3)") == list({0, 1}));
  CHECK_FALSE(value("slice(p, 1, 4)"));
  CHECK(value("join(p, [3])") == list({2, 0, 1, 3}));
  CHECK(value("subtract(p, identity(3))") == list({2, -1, -1}));
  CHECK_FALSE(value("add(p, [1])"));
  CHECK(value("repeat(4, 2)") == list({4, 4}));
}
