#include "optimizer/matching/match.h"

#include <catch2/catch.hpp>

#include "optimizer/testing.h"

namespace rewright::optimizer {

using testing::add;
using testing::floats;
using testing::weights;

namespace {

std::vector<Match> find(const Graph& graph, const RuleIndex& index) {
  const MatchedGraph facts(graph, index.options().for_training);
  return Matcher(index).find(facts);
}

// relu(x a) + relu(x b), optionally with a second use of the first product.
Graph two_products(bool second_use) {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({2, 3}));
  const ValueId p = add(graph, "MatMul", {x, graph.add_constant(weights({3, 4}, 1))})[0];
  const ValueId q = add(graph, "MatMul", {x, graph.add_constant(weights({3, 4}, 2))})[0];
  graph.add_output("sum", add(graph, "Add", {p, q})[0]);
  if (second_use) graph.add_output("product", p);
  return graph;
}

}  // namespace

TEST_CASE("a rule is found, and applying it keeps outputs and results") {
  const Graph graph = two_products(false);
  const RuleIndex index(testing::rules(), {});
  const std::vector<Match> matches = find(graph, index);
  REQUIRE(matches.size() == 2);  // the sum is commutative: both orders match
  CHECK(index.rules()[matches[0].rule].name == "two_products");
  const std::optional<Graph> rewritten = apply(graph, index.rules()[matches[0].rule], matches[0]);
  REQUIRE(rewritten);
  CHECK(rewritten->outputs()[0].name == "sum");
  CHECK(rewritten->nodes().size() == 2);  // the sum of the weights, and the product
  const Tensor input[] = {weights({2, 3}, 5)};
  const auto before = interpret(graph, input)[0].reals(), after = interpret(*rewritten, input)[0].reals();
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(after[i] == Approx(before[i]));
}

TEST_CASE("no rule fits tensors without elements") {
  for (const std::int64_t size : {1, 0}) {
    Graph graph;
    const ValueId x = graph.add_input("x", floats({size, 3}));
    graph.add_output("y", add(graph, "Relu", add(graph, "Relu", {x}))[0]);
    CHECK(find(graph, RuleIndex(testing::rules(), {})).size() == (size == 0 ? 0 : 1));
  }
}

TEST_CASE("axes of a source may count from the back") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({2, 3, 4}));
  const Operator& sum = registry().get("ReduceSum");
  Attributes attributes = sum.defaults();
  attributes[sum.field("axes").value()] = Indices{2};
  graph.add_output("y", graph.add_node(sum, attributes, add(graph, "Relu", {x}))[0]);
  const auto found = [&](const std::string& axes) {
    const auto rules =
        parse_algebra("rule r: \"\" x ReduceSum(Relu(x); axes=" + axes + ") => ReduceSum(x; axes=[0]) exact", "test");
    return find(graph, RuleIndex(rules, {})).size();
  };
  CHECK(found("[-1]") == 1);
  CHECK(found("[2]") == 1);
  CHECK(found("[-2]") == 0);
}

TEST_CASE("what others use is not taken away") { CHECK(find(two_products(true), RuleIndex(testing::rules(), {})).empty()); }

TEST_CASE("a match is found again by its place") {
  const Graph graph = two_products(false);
  const RuleIndex index(testing::rules(), {});
  const MatchedGraph facts(graph, false);
  Matcher matcher(index);
  for (const Match& match : matcher.find(facts)) {
    const std::optional<Match> again = matcher.find_at(facts, match.rule, match.where, match.swapped);
    REQUIRE(again);
    CHECK(again->inputs == match.inputs);
  }
  CHECK_FALSE(matcher.find_at(facts, 1, std::vector<std::int64_t>{0, 0, 0}, 0));
  CHECK_FALSE(matcher.find_at(facts, 1, std::vector<std::int64_t>{7, 8, 90}, 0));
}

TEST_CASE("an input that is to be constant is computed from constants") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({2, 3})), a = graph.add_input("a", floats({3, 4}));
  const ValueId p = add(graph, "MatMul", {x, a})[0];
  const ValueId q = add(graph, "MatMul", {x, graph.add_constant(weights({3, 4}))})[0];
  graph.add_output("sum", add(graph, "Add", {p, q})[0]);
  CHECK(find(graph, RuleIndex(testing::rules(), {})).empty());
}

TEST_CASE("in training nothing is constant, and only rules for it are used") {
  MatchOptions training;
  training.for_training = true;
  CHECK(find(two_products(false), RuleIndex(testing::rules(), training)).empty());
}

TEST_CASE("rules beyond the math that is allowed are left out") {
  MatchOptions exact;
  exact.math = MathClass::kExact;
  const RuleIndex index(testing::rules(), exact);
  CHECK(index.rules().size() == 1);
  CHECK(index.rules()[0].name == "relu_relu");
}

TEST_CASE("two roots are matched together by what they share") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({2, 3})), z = graph.add_input("z", floats({2, 3}));
  const ValueId a = graph.add_constant(weights({3}, 1)), b = graph.add_constant(weights({3}, 2));
  graph.add_output("p", add(graph, "Add", {x, a})[0]);
  graph.add_output("q", add(graph, "Add", {x, b})[0]);
  graph.add_output("r", add(graph, "Add", {z, b})[0]);
  const RuleIndex index(testing::rules(), {});
  const std::vector<Match> matches = find(graph, index);
  REQUIRE(matches.size() == 2);  // p and q, q and p; r has another input
  const Tensor inputs[] = {weights({2, 3}, 5), weights({2, 3}, 6)};
  for (const Match& match : matches) {
    const std::optional<Graph> rewritten = apply(graph, index.rules()[match.rule], match);
    REQUIRE(rewritten);
    for (int i = 0; i < 3; ++i) {
      const auto before = interpret(graph, inputs)[i].reals(), after = interpret(*rewritten, inputs)[i].reals();
      for (std::size_t k = 0; k < before.size(); ++k) CHECK(after[k] == Approx(before[k]));
    }
  }
}

TEST_CASE("a constant of equal elements is a Fill") {
  const RuleIndex index(testing::rules(R"(
rule add_zero: "adding nothing"
  x[S...]
  x + Fill(; value=0, shape=[]) => x
  reassociates
)"),
                        {});
  Graph graph;
  const ValueId x = graph.add_input("x", floats({2, 3}));
  graph.add_output("y", add(graph, "Add", {x, graph.add_constant(Tensor::scalar(DataType::kFloat, 0))})[0]);
  graph.add_output("z", add(graph, "Add", {x, graph.add_constant(Tensor::scalar(DataType::kFloat, 1))})[0]);
  CHECK(find(graph, index).size() == 1);
}

TEST_CASE("a constant with the elements of an identity matrix is an Eye") {
  const RuleIndex index(testing::rules(R"(
rule matmul_identity: "a product with the identity matrix"
  x[N, K]
  MatMul(x, Eye(; size=K, type=T)) => x
  needs_finite
)"),
                        {.math = MathClass::kNeedsFinite});
  std::vector<double> elements(9);
  for (int i = 0; i < 3; ++i) elements[static_cast<std::size_t>(4 * i)] = 1;
  const auto matches = [&](Sizes sizes, const std::vector<double>& of) {
    Graph graph;
    const ValueId x = graph.add_input("x", floats({2, sizes[0]}));
    const ValueId constant = graph.add_constant(Tensor::from_reals(DataType::kFloat, std::move(sizes), of));
    graph.add_output("y", add(graph, "MatMul", {x, constant})[0]);
    const std::vector<Match> found = find(graph, index);
    for (const Match& match : found) CHECK(apply(graph, index.rules()[match.rule], match));
    return found.size();
  };
  CHECK(matches({3, 3}, elements) == 1);
  CHECK(matches({1, 9}, elements) == 0);
  CHECK(matches({3, 3}, std::vector<double>(9, 1)) == 0);
  elements[8] = 2;
  CHECK(matches({3, 3}, elements) == 0);
}

TEST_CASE("sizes that are not known leave conditions open: no match") {
  const RuleIndex index(testing::rules(R"(
rule only_even: "for the test"
  x[M, N]
  Relu(Relu(x)) => Relu(x)
  where M == 2
  exact
)"),
                        {});
  Graph graph;
  const ValueId x = graph.add_input("x", floats({Index::symbol("B"), 3}));
  graph.add_output("y", add(graph, "Relu", {add(graph, "Relu", {x})[0]})[0]);
  CHECK(find(graph, index).empty());
  const Graph known = with_sizes(graph, [](const Atom&) -> std::optional<Index> { return Index(2); });
  CHECK(find(known, index).size() == 1);
}

}  // namespace rewright::optimizer
