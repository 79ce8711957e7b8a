// Contents that a model computes from the sizes of its inputs are expressions over them.
#include <catch2/catch.hpp>
#include <random>

#include "graph/graph.h"
#include "operators/testing.h"

namespace rewright::graph {
namespace {

using testing::attributes;

const Index n = Index::symbol("n"), m = Index::symbol("m");

struct SizeArithmetic {
  Graph graph;
  std::mt19937& random;
  std::vector<ValueId> numbers, truths;

  explicit SizeArithmetic(std::mt19937& r) : random(r) {
    const ValueId shape = add("Shape", {graph.add_input("x", testing::reals({n, m, 3}))});
    for (const std::int64_t axis : {0, 1, 2}) numbers.push_back(add("Gather", {shape, number(axis)}));
    for (const std::int64_t value : {-1, 0, 1, 2, 7}) numbers.push_back(number(value));
  }

  ValueId number(std::int64_t value) {
    return graph.add_constant(Tensor::from_integers(DataType::kInt64, {}, std::vector{value}));
  }
  ValueId add(const char* op, std::vector<ValueId> inputs, const testing::Named& named = {}) {
    return graph.add_node(registry().get(op), attributes(registry().get(op), named), std::move(inputs)).at(0);
  }
  template <class List>
  const auto& any(const List& list) {
    return list[random() % list.size()];
  }

  void grow() {
    const ValueId a = any(numbers), b = any(numbers);
    switch (random() % (truths.empty() ? 6 : 8)) {
      case 0:
        numbers.push_back(add(any(std::vector{"Add", "Sub", "Mul", "Min", "Max"}), {a, b}));
        break;
      case 1:
        numbers.push_back(add(any(std::vector{"Abs", "Sign", "Neg", "Relu"}), {a}));
        break;
      case 2:  // divisors are positive
        numbers.push_back(add(any(std::vector{"Div", "Mod"}), {a, add("Max", {b, number(1 + random() % 3)})}));
        break;
      case 3:
        numbers.push_back(add("Mod", {a, number(1 + random() % 5)}, {{"fmod", true}}));
        break;
      case 4:
        truths.push_back(add(any(std::vector{"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}), {a, b}));
        break;
      case 5:
        truths.push_back(add("Cast", {a}, {{"to", DataType::kBool}}));
        break;
      case 6:
        truths.push_back(add(any(std::vector{"And", "Or", "Xor"}), {any(truths), any(truths)}));
        break;
      default:
        numbers.push_back(add("Where", {any(truths), a, b}));
    }
  }
};

}  // namespace

TEST_CASE("sizes that a model computes are what it computes") {
  std::mt19937 random(1);
  std::size_t known = 0, unknown = 0;
  for (int round = 0; round < 400; ++round) {
    SizeArithmetic model(random);
    for (int step = 0; step < 12; ++step) model.grow();
    std::vector<ValueId> computed;
    for (const auto* list : {&model.numbers, &model.truths})
      for (const ValueId id : *list)
        if (!model.graph.is_constant(id)) computed.push_back(id);
    for (const ValueId id : computed) model.graph.add_output("y" + std::to_string(id), id);
    for (const auto& [n_is, m_is] : {std::pair(0, 1), {1, 1}, {2, 5}, {9, 4}}) {
      const std::vector<Tensor> results = interpret(model.graph, std::vector{Tensor(DataType::kFloat, {n_is, m_is, 3})});
      for (std::size_t i = 0; i < computed.size(); ++i) {
        const auto& contents = model.graph.value(computed[i]).contents;
        ++(contents ? known : unknown);
        if (!contents) continue;
        const Index value = substitute(contents->at(0), [n = n_is, m = m_is](const Atom& atom) -> std::optional<Index> {
          if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
          return Index(atom.name == "n" ? n : m);
        });
        INFO(to_string(model.graph) << contents->at(0).to_string() << " at n = " << n_is << ", m = " << m_is);
        REQUIRE(value.constant() == results[i].integers()[0]);
      }
    }
  }
  CHECK(known > unknown);
}

TEST_CASE("a size is not -1, so expanding to a shape that may say so is followed") {
  std::mt19937 random(1);
  SizeArithmetic model(random);
  Graph& graph = model.graph;
  const ValueId shape = model.add("Shape", {graph.inputs()[0]});
  const ValueId ones = graph.add_constant(Tensor::from_integers(DataType::kInt64, {3}, std::vector<std::int64_t>{1, 1, 1}));
  const ValueId is_kept = model.add("Equal", {shape, model.number(-1)});
  CHECK(graph.value(model.add("Where", {is_kept, ones, shape})).contents == Indices{n, m, 3});
}

TEST_CASE("a tensor of open sizes is no constant, whatever it is filled with") {
  Graph graph;
  graph.add_input("x", testing::reals({n, m}));
  const Operator &fill = registry().get("Fill"), &shape = registry().get("Shape");
  const auto filled = [&](Indices sizes) {
    return graph.add_node(fill, attributes(fill, {{"shape", std::move(sizes)}}), {})[0];
  };
  const ValueId open = filled({n, m}), sized = filled({2, 3});
  const ValueId of_open = graph.add_node(shape, shape.defaults(), {open})[0];
  CHECK(!graph.constant_values()[open]);
  CHECK(!graph.constant_values()[of_open]);
  CHECK(graph.constant_values()[sized]);
}

}  // namespace rewright::graph
