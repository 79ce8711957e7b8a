#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;

namespace {

// sum(k) (a[i, k] - b[j, k])^2 of two matrices, which may be constant, transposed or exchanged, with a root behind.
struct DistanceBuilder : rewright::testing::GraphBuilder {
  explicit DistanceBuilder(unsigned seed) : GraphBuilder(seed), type(seed % 3 == 2 ? DataType::kDouble : DataType::kFloat) {
    const std::int64_t rows = pick(0, 3) == 0 ? 1 : pick(1, 150), columns = pick(1, 100), depth = pick(1, 40);
    const ValueId a = matrix({rows, 1}, rows, depth, false), b = matrix({1, columns}, columns, depth, pick(0, 1) == 0);
    const bool exchanged = pick(0, 1) == 0;
    const ValueId d = node(graph, "Sub", exchanged ? std::vector{b, a} : std::vector{a, b})[0];
    ValueId y =
        node(graph, "ReduceSum", {node(graph, "Mul", {d, d})[0]}, {{"axes", Indices{2}}, {"keepdims", pick(0, 1) == 0}})[0];
    if (pick(0, 1) == 0) y = node(graph, "Sqrt", {y})[0];
    graph.add_output("y", y);
  }

 private:
  DataType type;

  ValueId matrix(Sizes leading, std::int64_t rows, std::int64_t depth, bool is_constant) {
    const bool transposed = pick(0, 1) == 0;
    const Sizes sizes = transposed ? Sizes{depth, rows} : Sizes{rows, depth};
    ValueId x = is_constant ? graph.add_constant(rewright::testing::random_tensor(random, type, sizes)) : input(type, sizes);
    if (transposed) x = node(graph, "Transpose", {x}, {{"perm", Indices{1, 0}}})[0];
    leading.push_back(depth);
    return node(graph, "Reshape", {x}, {{"shape", to_indices(leading)}})[0];
  }
};

}  // namespace

TEST_CASE("squared distances of rows") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    const DistanceBuilder b(seed);
    check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("squared distances are one step") {
  rewright::testing::GraphBuilder b(1);
  const ValueId x = node(b.graph, "Reshape", {b.input(DataType::kFloat, {30, 7})}, {{"shape", Indices{30, 1, 7}}})[0];
  const ValueId d = node(b.graph, "Sub", {x, b.constant({1, 20, 7})})[0];
  b.graph.add_output(
      "y", node(b.graph, "ReduceSum", {node(b.graph, "Mul", {d, d})[0]}, {{"axes", Indices{2}}, {"keepdims", false}})[0]);
  const Plan plan = make_plan(b.graph, {});
  REQUIRE(plan.steps.size() == 1);
  CHECK(plan.steps[0].kernel->source() == "a kernel of Rewright");
}
