#include <cmath>
#include <string>
#include <vector>

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

TEST_CASE("reductions of short rows, and of few and long columns") {
  static constexpr const char* kOperators[] = {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"};
  static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kInt64,
                                        DataType::kFloat, DataType::kInt8,   DataType::kUint8};
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    rewright::testing::GraphBuilder b(seed);
    const bool is_row = seed % 2 == 0;
    const DataType type = kTypes[seed / 2 % std::size(kTypes)];
    const bool is_real_type = is_real(type);
    const Sizes s = is_row ? Sizes{b.pick(1, 3), b.pick(1, 90), b.pick(1, 40)}
                           : Sizes{b.pick(1, 3), b.pick(60, seed % 3 == 0 ? 2500 : 200), b.pick(1, 20)};
    const char* const op = kOperators[is_real_type ? seed % 5 : seed % 4];
    const ValueId x = is_real_type ? b.input(type, s, std::string(op) == "ReduceProd" ? 0.99 : -1.0, 1.01) : b.input(type, s);
    b.check(node(b.graph, op, {x}, {{"axes", Indices{Index(is_row ? 2 : 1)}}, {"keepdims", seed % 3 == 0}})[0], 1e-4);
  }
}
