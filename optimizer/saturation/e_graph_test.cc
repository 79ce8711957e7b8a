#include "optimizer/saturation/e_graph.h"

#include <catch2/catch.hpp>
#include <random>

#include "optimizer/saturation/testing.h"

namespace rewright::optimizer {

using testing::floats;
using testing::weights;

namespace {

// All equalities that follow from the merges by definition: pairs of values, closed under congruence.
std::vector<std::size_t> closure(const EGraph& graph, const std::vector<std::pair<ClassId, ClassId>>& merges) {
  std::vector<std::size_t> label(graph.value_count());
  for (std::size_t i = 0; i < label.size(); ++i) label[i] = i;
  bool changed = true;
  const auto unite = [&](ClassId a, ClassId b) {
    if (label[a] == label[b]) return;
    const std::size_t from = std::max(label[a], label[b]), to = std::min(label[a], label[b]);
    for (std::size_t& l : label)
      if (l == from) l = to;
    changed = true;
  };
  for (const auto& [a, b] : merges) unite(a, b);
  while (changed) {
    changed = false;
    for (ENodeId a = 0; a < graph.node_count(); ++a) {
      for (ENodeId b = a + 1; b < graph.node_count(); ++b) {
        const ENode &left = graph.node(a), &right = graph.node(b);
        if (!left.op || left.op != right.op || left.attributes != right.attributes || left.inputs != right.inputs) continue;
        const auto inputs = graph.inputs(a), others = graph.inputs(b);
        const auto same = [&](std::size_t i, std::size_t k) { return label[inputs[i]] == label[others[k]]; };
        bool equal = true;
        for (std::size_t i = 0; i < inputs.size(); ++i) equal = equal && same(i, i);
        if (!equal && left.op->commutative()) equal = same(0, 1) && same(1, 0);
        if (!equal) continue;
        for (std::size_t o = 0; o < left.outputs; ++o) unite(graph.outputs(a)[o], graph.outputs(b)[o]);
      }
    }
  }
  return label;
}

}  // namespace

TEST_CASE("random merges keep the invariants, and make equal what follows and nothing else") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = testing::random_graph(seed, 14);
    EGraph e(graph, seed % 5 == 0);
    e.rebuild();
    REQUIRE(!e.violation());
    std::mt19937_64 random(seed);
    std::vector<std::pair<ClassId, ClassId>> merges;
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < 2; ++i) {
        const auto a = static_cast<ClassId>(random() % e.value_count()), b = static_cast<ClassId>(random() % e.value_count());
        if (!e.merge(a, b, {static_cast<std::uint32_t>(merges.size()), 0, 0, 0, false})) continue;
        merges.emplace_back(a, b);
      }
      e.rebuild();
      const std::optional<std::string> violation = e.violation();
      INFO("seed " << seed << ": " << violation.value_or(""));
      REQUIRE(!violation);
      const std::vector<std::size_t> expected = closure(e, merges);
      for (ClassId a = 0; a < e.value_count(); ++a)
        for (ClassId b = 0; b < a; ++b) REQUIRE(e.equal(a, b) == (expected[a] == expected[b]));
    }
    // An explanation rests only on the equalities it names and on those of its congruences.
    for (ClassId a = 0; a < e.value_count(); ++a) {
      if (e.find(a) == a) continue;
      std::vector<std::pair<ClassId, ClassId>> named, open{{a, e.find(a)}};
      std::vector<std::pair<ClassId, ClassId>> done;
      while (!open.empty()) {
        const auto [x, y] = open.back();
        open.pop_back();
        if (x == y || std::find(done.begin(), done.end(), std::pair(x, y)) != done.end()) continue;
        done.emplace_back(x, y);
        for (const Reason& reason : e.explain(x, y)) {
          if (reason.application != Reason::kCongruence) {
            named.push_back(merges[reason.application]);
            continue;
          }
          const auto left = e.inputs(reason.left), right = e.inputs(reason.right);
          for (std::size_t i = 0; i < left.size(); ++i)
            open.emplace_back(left[i], right[reason.exchanged && i < 2 ? 1 - i : i]);
        }
      }
      const std::vector<std::size_t> follows = closure(e, named);
      REQUIRE(follows[a] == follows[e.find(a)]);
    }
  }
}

TEST_CASE("an operator is made once, whatever the order of what it adds") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({2, 2})), y = graph.add_input("y", floats({2, 2}));
  graph.add_output("z", testing::add(graph, "Add", {x, y})[0]);
  EGraph e(graph, false);
  const Operator &sum = registry().get("Add"), &product = registry().get("MatMul");
  const ClassId a = e.value_of(x), b = e.value_of(y);
  const std::size_t before = e.node_count();
  CHECK(e.add(sum, e.intern(sum.defaults()), std::vector{b, a}) == e.node_at(0));
  CHECK(e.node_count() == before);
  const auto first = e.add(product, e.intern(product.defaults()), std::vector{a, b});
  CHECK(first == e.add(product, e.intern(product.defaults()), std::vector{a, b}));
  CHECK(first != e.add(product, e.intern(product.defaults()), std::vector{b, a}));
  CHECK(e.node_count() == before + 2);
  CHECK(!e.violation());
}

TEST_CASE("an operator with several outputs is one e-node, and its outputs follow together") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({4, 4})), y = graph.add_input("y", floats({4, 4}));
  const Operator& split = registry().get("Split");
  Attributes halves = split.defaults();
  for (AttributeValue& value : halves)
    if (std::holds_alternative<Indices>(value)) value = Indices{2, 2};
  const auto left = graph.add_node(split, halves, {x}), right = graph.add_node(split, halves, {y});
  REQUIRE(left.size() == 2);
  for (const ValueId id : {left[0], left[1], right[0], right[1]}) graph.add_output("o" + std::to_string(id), id);
  EGraph e(graph, false);
  REQUIRE(e.merge(e.value_of(x), e.value_of(y), {0, 0, 0, 0, false}));
  e.rebuild();
  CHECK(!e.violation());
  CHECK(e.equal(e.value_of(left[0]), e.value_of(right[0])));
  CHECK(e.equal(e.value_of(left[1]), e.value_of(right[1])));
  CHECK(!e.equal(e.value_of(left[0]), e.value_of(left[1])));
  CHECK(e.live(*e.node_at(1)) == *e.node_at(0));
}

TEST_CASE("values of different types are not merged, and what equals a constant is one") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({2, 2})), w = graph.add_constant(weights({2, 2})),
                v = graph.add_input("v", floats({3, 2}));
  const ValueId y = testing::add(graph, "Relu", {x})[0];
  graph.add_output("y", y);
  graph.add_output("p", testing::add(graph, "MatMul", {v, w})[0]);
  EGraph e(graph, false), training(graph, true);
  CHECK(!e.merge(e.value_of(x), e.value_of(v), {0, 0, 0, 0, false}));
  CHECK(!e.constant(e.value_of(y)));
  REQUIRE(e.merge(e.value_of(x), e.value_of(w), {0, 0, 0, 0, false}));
  e.rebuild();
  CHECK(e.constant(e.value_of(y)));
  CHECK(!e.violation());
  CHECK(!training.constant(training.value_of(w)));
}

}  // namespace rewright::optimizer
