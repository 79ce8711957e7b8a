#include "optimizer/folding/fold.h"

#include <catch2/catch.hpp>

#include "optimizer/folding/rounding.h"
#include "optimizer/folding/testing.h"

namespace rewright::optimizer {

using testing::add;
using testing::cast;
using testing::floats;
using testing::RandomConstants;
using testing::real_constant;
using testing::weights;

namespace {

Tensor constant_of(const Graph& graph, std::size_t output) { return graph.value(graph.outputs()[output].value).constant; }

}  // namespace

TEST_CASE("reals that become integers, truth values and positions are folded to the bits of execution") {
  const auto evaluator = make_reference_evaluator();
  int differ_in_double = 0, decided = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    INFO(seed);
    const Graph graph = RandomConstants(seed).run();
    if (graph.outputs().empty()) continue;
    const std::vector<Tensor> executed = interpret(graph, {});
    const std::vector<Tensor> in_double = evaluator->evaluate(graph, true);
    const std::vector<bool> deciding = deciding_values(graph);
    std::vector<ValueId> all;
    for (const GraphOutput& output : graph.outputs()) all.push_back(output.value);
    const Graph folded = fold(graph, all, *evaluator);
    for (std::size_t o = 0; o < executed.size(); ++o) {
      INFO(o << " of " << to_string(graph));
      const bool real = is_real(executed[o].type());
      if (real && !deciding[graph.outputs()[o].value]) continue;
      ++decided;
      REQUIRE(constant_of(folded, o) == executed[o]);
      if (!real && !(in_double[o] == executed[o])) ++differ_in_double;
    }
  }
  CHECK(decided > 1000);
  CHECK(differ_in_double > 20);  // otherwise the graphs would test nothing
}

TEST_CASE("what reads a folded position reads the one of execution") {
  // Buckets of relative positions, as tracing leaves them: 16 / 8 = 2 is a power of two.
  Graph graph;
  std::vector<double> distances(32), table(40);
  for (int i = 0; i < 32; ++i) distances[static_cast<std::size_t>(i)] = 8 + i;
  for (int i = 0; i < 40; ++i) table[static_cast<std::size_t>(i)] = i;
  const ValueId eight = real_constant(graph, 8);
  const ValueId near = add(graph, "Div", {graph.add_constant(Tensor::from_reals(DataType::kFloat, {32}, distances)), eight})[0];
  const ValueId scaled =
      add(graph, "Mul", {add(graph, "Div", {add(graph, "Log", {near})[0], real_constant(graph, 2.7725887)})[0], eight})[0];
  const ValueId bucket = cast(graph, scaled, DataType::kInt64);
  const ValueId read = add(graph, "Gather", {graph.add_constant(Tensor::from_reals(DataType::kFloat, {40}, table)), bucket})[0];
  graph.add_output("y", add(graph, "Add", {graph.add_input("x", floats({32})), read})[0]);
  const std::vector<ValueId> wanted = foldable(graph, {});
  REQUIRE(wanted == std::vector<ValueId>{read});
  const Tensor found = fold(graph, wanted, *make_reference_evaluator()).value(read).constant;
  Graph executed = graph;
  executed.set_outputs({});
  executed.add_output("read", read);
  executed.tidy();
  const Tensor zeros = Tensor::from_reals(DataType::kFloat, {32}, std::vector<double>(32));
  CHECK(found == interpret(executed, {&zeros, 1})[0]);
  CHECK(found.reals()[8] == 2);
}

TEST_CASE("which reals decide is read off the denotations") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({4, 8}));
  const ValueId w = graph.add_constant(weights({8, 8})), b = graph.add_constant(weights({8})),
                s = graph.add_constant(weights({8}, 2)), t = graph.add_constant(weights({8}, 3)),
                u = graph.add_constant(weights({4, 8}, 4));
  const ValueId product = add(graph, "MatMul", {x, w})[0];
  const ValueId sum = add(graph, "Add", {product, b})[0];
  const ValueId best = add(graph, "ArgMax", {sum})[0];
  const ValueId scaled = add(graph, "Mul", {add(graph, "Relu", {add(graph, "Mul", {sum, s})[0]})[0], t})[0];
  const ValueId smooth = add(graph, "Tanh", {add(graph, "Mul", {sum, u})[0]})[0];
  graph.add_output("best", best);
  graph.add_output("rounded", add(graph, "Round", {scaled})[0]);
  graph.add_output("smooth", smooth);
  const std::vector<bool> deciding = deciding_values(graph);
  CHECK(deciding[b]);
  CHECK(deciding[s]);
  CHECK(deciding[t]);
  CHECK(deciding[product]);
  CHECK_FALSE(deciding[w]);  // because of sums that depend on x
  CHECK_FALSE(deciding[u]);
  CHECK_FALSE(deciding[smooth]);
}

TEST_CASE("integers that are followed wrap around as in execution") {
  Graph graph;
  const auto integers = [&](DataType type, std::vector<std::int64_t> values) {
    const Sizes sizes = {static_cast<std::int64_t>(values.size())};
    return graph.add_constant(Tensor::from_integers(type, sizes, values));
  };
  const ValueId large = integers(DataType::kInt64, {(std::int64_t{1} << 40) + 5, -1, 300});
  const ValueId bytes = integers(DataType::kUint8, {200, 100, 255}), others = integers(DataType::kUint8, {100, 3, 1});
  const ValueId two = integers(DataType::kInt64, {2, 3, 7}), powers = integers(DataType::kInt64, {10, -1, 40});
  std::vector<ValueId> results;
  for (const DataType type : {DataType::kInt32, DataType::kInt8, DataType::kUint8, DataType::kBool})
    results.push_back(cast(graph, large, type));
  for (const char* op : {"Add", "Sub", "Mul"}) results.push_back(add(graph, op, {bytes, others})[0]);
  results.push_back(add(graph, "Pow", {two, powers})[0]);
  for (const ValueId id : results) graph.add_output("v" + std::to_string(id), id);
  const std::vector<Tensor> executed = interpret(graph, {});
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Value& value = graph.value(results[i]);
    INFO(i << ", " << to_string(graph));
    if (value.contents) CHECK(values(*value.contents) == executed[i].integers());
  }
  CHECK(graph.value(results[0]).contents);
}

TEST_CASE("constants that only scale are still rounded once") {
  Graph graph;
  const ValueId one = real_constant(graph, 1), tiny = real_constant(graph, 3e-8);
  ValueId sum = one;
  for (int i = 0; i < 4; ++i) sum = add(graph, "Add", {sum, tiny})[0];
  const ValueId y = add(graph, "Mul", {graph.add_input("x", floats({2})), sum})[0];
  for (const bool rounded : {false, true}) {
    Graph whole = graph;
    whole.add_output("y", rounded ? add(whole, "Floor", {y})[0] : y);
    const ValueId wanted[] = {sum};
    // In float every sum is 1, which matters if the product is then rounded to whole numbers.
    CHECK((fold(whole, wanted, *make_reference_evaluator()).value(sum).constant.reals()[0] > 1) == !rounded);
  }
}

}  // namespace rewright::optimizer
