#include <cmath>

#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;

TEST_CASE("many narrow parts side by side") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    rewright::testing::GraphBuilder b(seed);
    const DataType type =
        std::vector<DataType>{DataType::kFloat, DataType::kDouble, DataType::kInt64, DataType::kInt8}[b.pick(0, 3)];
    const std::int64_t rows = b.pick(1, 600), behind = b.pick(1, 2);
    std::vector<ValueId> parts;
    for (std::int64_t n = b.pick(2, 40); n > 0; --n) {
      ValueId part = !parts.empty() && b.pick(0, 4) == 0 ? parts.back() : b.input(type, {rows, b.pick(0, 3), behind});
      if (b.pick(0, 2) == 0) part = node(b.graph, "Add", {part, part})[0];
      parts.push_back(part);
    }
    b.graph.add_output("y", node(b.graph, "Concat", parts, {{"axis", Index(1)}})[0]);
    check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("extrema of short rows, with ties and missing numbers") {
  for (unsigned seed = 0; seed < 80; ++seed) {
    INFO("seed " << seed);
    rewright::testing::GraphBuilder b(seed);
    const std::int64_t rows = b.pick(1, 700), size = b.pick(1, b.pick(0, 1) == 0 ? 20 : 150);
    const DataType type = std::vector<DataType>{DataType::kFloat, DataType::kDouble, DataType::kHalf}[b.pick(0, 2)];
    std::vector<double> x(static_cast<std::size_t>(rows * size));
    for (double& v : x) v = b.pick(0, 20) == 0 ? std::nan("") : static_cast<double>(b.pick(-2, 2));
    b.inputs.push_back(Tensor::from_reals(type, {rows, size}, x));
    const ValueId y = node(b.graph, b.pick(0, 1) == 0 ? "ArgMax" : "ArgMin", {b.graph.add_input("x", {type, {rows, size}})},
                           {{"axis", Index(1)}, {"keepdims", false}, {"select_last_index", b.pick(0, 1) == 0}})[0];
    b.graph.add_output("y", y);
    check_graph(b.graph, b.inputs);
  }
}
