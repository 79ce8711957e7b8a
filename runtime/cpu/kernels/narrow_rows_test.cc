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

TEST_CASE("reductions over axes with others between them") {
  static constexpr const char* kOperators[] = {"ReduceSum",  "ReduceMax", "ReduceMin",
                                               "ReduceMean", "ReduceL1",  "ReduceLogSumExp"};
  static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kDouble, DataType::kFloat, DataType::kHalf,
                                        DataType::kInt64, DataType::kInt32,  DataType::kInt8};
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    rewright::testing::GraphBuilder b(seed);
    const DataType type = kTypes[seed % std::size(kTypes)];
    const std::string op = kOperators[seed % (is_real(type) ? std::size(kOperators) : 3)];
    const Sizes s{b.pick(1, 20), b.pick(1, 70), b.pick(1, 6), b.pick(1, 60)};
    const Indices axes = seed % 4 == 0   ? Indices{0, 2, 3}
                         : seed % 4 == 1 ? Indices{0, 3}
                         : seed % 4 == 2 ? Indices{1, 3}
                                         : Indices{0, 2};
    ValueId x = b.input(type, s, -1.0, 1.01);
    if (b.pick(0, 2) == 0) x = node(b.graph, "Mul", {x, b.input(type, {s[1], 1, 1})})[0];
    b.check(node(b.graph, op, {x}, {{"axes", axes}, {"keepdims", seed % 3 == 0}})[0], type == DataType::kHalf ? 5e-3 : 1e-4);
  }
}

TEST_CASE("rows of a few elements from where a table says") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    rewright::testing::GraphBuilder b(seed);
    const DataType type = std::vector<DataType>{DataType::kFloat, DataType::kHalf, DataType::kInt64, DataType::kUint8,
                                                DataType::kDouble}[seed % 5];
    const std::int64_t entries = b.pick(1, 50), width = b.pick(1, 20), before = b.pick(1, 3), count = b.pick(1, 300);
    std::vector<std::int64_t> table(static_cast<std::size_t>(count));
    for (std::int64_t& entry : table) entry = b.pick(-entries, entries - 1);
    const DataType indices = seed % 2 == 0 ? DataType::kInt64 : DataType::kInt32;
    const ValueId x = b.input(type, {before, entries, width});
    b.inputs.push_back(Tensor::from_integers(indices, {count}, table));
    const ValueId at = b.graph.add_input("table", {indices, {Index(count)}});
    b.check(node(b.graph, "Gather", {x, at}, {{"axis", Index(1)}})[0], 0);
  }
}

TEST_CASE("numbers of channels of a few elements") {
  static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kDouble, DataType::kInt64, DataType::kInt32,
                                        DataType::kUint8};
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    rewright::testing::GraphBuilder b(seed);
    const DataType type = kTypes[seed % std::size(kTypes)];
    const Sizes s{b.pick(1, 4), b.pick(1, 600), b.pick(1, 3), b.pick(1, 40)};
    const ValueId x = b.input(type, s), y = b.input(type, {s[1], 1, 1}), z = b.input(type, {s[0], s[1], 1, 1});
    b.check(node(b.graph, "Add", {node(b.graph, "Mul", {x, y})[0], z})[0]);
  }
}

TEST_CASE("outputs that are copies of computed values") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    rewright::testing::GraphBuilder b(seed);
    const ValueId x = b.input({b.pick(1, 9), 7}), y = node(b.graph, "Concat", {x, x}, {{"axis", Index(1)}})[0];
    const ValueId copy = node(b.graph, "Identity", {y})[0], again = node(b.graph, "Identity", {copy})[0];
    b.graph.add_output("copy", copy);
    if (b.pick(0, 1) == 0) b.graph.add_output("again", again);
    if (b.pick(0, 1) == 0) b.graph.add_output("itself", y);
    if (b.pick(0, 1) == 0) b.graph.add_output("given", node(b.graph, "Identity", {x})[0]);
    b.graph.add_output("used", node(b.graph, "Neg", {b.pick(0, 1) == 0 ? y : copy})[0]);
    check_graph(b.graph, b.inputs, 0);
  }
}

TEST_CASE("the best along any axis, NaN among them") {
  static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kHalf,
                                        DataType::kInt8,  DataType::kUint16, DataType::kInt64, DataType::kUint32,
                                        DataType::kUint8, DataType::kUint64, DataType::kInt16, DataType::kBfloat16};
  for (unsigned seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    rewright::testing::GraphBuilder b(seed);
    const DataType type = kTypes[seed % std::size(kTypes)];
    const bool has_sign = is_real(type) || type == DataType::kInt8 || type == DataType::kInt16 || type == DataType::kInt32 ||
                          type == DataType::kInt64;
    const std::int64_t axis = b.pick(0, 2);
    Sizes s{b.pick(1, 3), b.pick(1, 12), b.pick(1, 40)};
    s[static_cast<std::size_t>(axis)] = b.pick(1, b.pick(0, 1) == 0 ? 400 : 40);
    std::vector<double> x(static_cast<std::size_t>(element_count(s)));
    const std::int64_t most = b.pick(0, 1) == 0 ? 100 : 6;  // many of the same
    const std::int64_t others = is_real(type) ? b.pick(0, 2) : 0;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (double& v : x) {
      v = static_cast<double>(b.pick(has_sign ? -most : 0, most));
      if (others == 0 || b.pick(0, others == 1 ? 1 : 40) != 0) continue;
      v = std::vector{std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::quiet_NaN(), kInfinity,
                      -kInfinity, -0.0}[static_cast<std::size_t>(b.pick(0, 4))];
    }
    b.inputs.push_back(Tensor::from_reals(type, s, x));
    const std::int64_t size = s[static_cast<std::size_t>(axis)];
    const std::int64_t k = b.pick(1, std::min<std::int64_t>(size, b.pick(0, 1) == 0 ? 8 : b.pick(1, 30)));
    const auto best = node(b.graph, "TopK", {b.graph.add_input("x", {type, {Index(s[0]), Index(s[1]), Index(s[2])}})},
                           {{"axis", Index(axis)}, {"k", Index(k)}, {"largest", Index(b.pick(0, 1))}});
    b.graph.add_output("values", best[0]);
    b.graph.add_output("positions", best[1]);
    check_graph(b.graph, b.inputs, 0);
  }
}
