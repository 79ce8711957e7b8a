#include "expressions/element.h"

#include <catch2/catch.hpp>

#include "expressions/identity.h"
#include "operators/operator.h"
#include "operators/readings/interpreter.h"

namespace rewright::operators {
namespace {

TEST_CASE("a product of matrices prints as algebra") {
  const Index rows = Index::symbol("M"), inner = Index::symbol("K"), columns = Index::symbol("N");
  const Operand a(0, {DataType::kFloat, {rows, inner}}), b(1, {DataType::kFloat, {inner, columns}});
  const Index i = Index::fresh("i"), j = Index::fresh("j");
  const Element e = sum("k", inner, [&](const Index& k) { return a({i, k}) * b({k, j}); });
  CHECK(to_string(e, {"a", "b"}) == "sum(k < K) a[i, k] * b[k, j]");
  CHECK(operation_count(e) == 2 * inner);
}

TEST_CASE("rewriting renames bound variables, so that expressions can be combined") {
  const Operand x(0, {DataType::kFloat, {Index::symbol("N")}});
  const Element total = sum("k", Index::symbol("N"), [&](const Index& k) { return x({k}); });
  const Element copy = rewrite(total, {}, {});
  CHECK(copy->index != total->index);
  CHECK(to_string(copy, {"x"}) == to_string(total, {"x"}));
}

TEST_CASE("choices that are decided disappear") {
  const Element one = real(1), two = real(2);
  CHECK(choose({less(1, 2)}, one, two) == one);
  CHECK(choose({less(2, 1)}, one, two) == two);
  CHECK(choose({less(Index::symbol("N"), 1)}, one, two)->kind == ElementNode::Kind::kChoose);
}

TEST_CASE("an unknown real is unknown as an integer, too") {
  CHECK(constant(Scalar::kInteger, 2.5)->integer == 2);
  CHECK(constant(Scalar::kReal, Real::unknown("v"))->kind == ElementNode::Kind::kConstant);
  for (const Scalar scalar : {Scalar::kInteger, Scalar::kBoolean}) {
    const Element e = constant(scalar, Real::unknown("v"));
    CHECK(e->kind == ElementNode::Kind::kConvert);
    CHECK(e->scalar == scalar);
  }
}

TEST_CASE("picking from known entries") {
  const Indices entries = {Index::symbol("N"), 3, 224};
  CHECK(pick(2, entries)->integer == 224);
  CHECK(pick(Index::fresh("i"), entries)->kind == ElementNode::Kind::kChoose);
}

TEST_CASE("identities of functions of two arguments") {
  int known = 0;
  for (const Function* f : all_functions()) {
    if (f->arity != 2) continue;
    const auto identity = right_identity(*f);
    if (!identity) continue;
    ++known;
    INFO(f->name);
    const bool is_logical = f->result == Scalar::kBoolean || f->name.starts_with("logical");
    for (const std::int64_t x : {0, 1, -7, 12}) {
      if (is_logical && (x < 0 || x > 1)) continue;
      const std::int64_t integers[] = {x, *identity};
      if (f->integer != nullptr) CHECK(f->integer(integers) == x);
      const double reals[] = {0.5 * static_cast<double>(x), static_cast<double>(*identity)};
      if (f->real != nullptr && !is_logical) CHECK(f->real(reals) == reals[0]);
    }
  }
  CHECK(known >= 4);
}

}  // namespace
}  // namespace rewright::operators
