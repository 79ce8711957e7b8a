// Attention of a few queries, heads that share keys, and products of few rows with what follows them.
#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;

namespace {

struct AttentionBuilder : rewright::testing::GraphBuilder {
  using GraphBuilder::GraphBuilder;
  ValueId transpose(ValueId x, std::vector<std::int64_t> permutation) {
    return node(graph, "Transpose", {x}, {{"perm", to_indices(permutation)}})[0];
  }
  // [batch, shared, length, size] to [batch, heads, length, size], as transformers' repeat_kv.
  ValueId repeat(ValueId x, std::int64_t times) {
    const Sizes s = values(graph.value(x).type.shape);
    x = node(graph, "Reshape", {x}, {{"shape", to_indices(Sizes{s[0], s[1], 1, s[2], s[3]})}})[0];
    x = node(graph, "Expand", {x}, {{"shape", to_indices(Sizes{s[0], s[1], times, s[2], s[3]})}})[0];
    return node(graph, "Reshape", {x}, {{"shape", to_indices(Sizes{s[0], s[1] * times, s[2], s[3]})}})[0];
  }
  // Floats that were numbers of 16 bits.
  ValueId short_input(DataType type, Sizes sizes) {
    std::vector<double> elements(static_cast<std::size_t>(element_count(sizes)));
    for (double& e : elements) e = static_cast<double>(pick(-1000, 1000)) / 1000;
    inputs.push_back(Tensor::from_reals(type, sizes, elements));
    const ValueId given = graph.add_input("given " + std::to_string(inputs.size()), {type, to_indices(sizes)});
    return node(graph, "Cast", {given}, {{"to", DataType::kFloat}})[0];
  }
  void check(double tolerance = 5e-5) { check_graph(graph, inputs, tolerance); }
};

}  // namespace

TEST_CASE("attention of a few queries with keys that heads share") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    AttentionBuilder b(seed);
    const std::int64_t batch = b.pick(1, 3), shared = b.pick(1, 3), times = b.pick(1, 7), size = b.pick(1, 70),
                       width = seed % 3 ? size : b.pick(2, 70), queries = seed % 3 == 0 ? b.pick(1, 18) : 1,
                       keys = seed % 5 == 4 ? b.pick(190, 700) : b.pick(2, 80);
    const bool by_place = b.pick(0, 1) == 1;  // [batch, length, heads, size]
    const auto given = [&](std::int64_t heads, std::int64_t length, std::int64_t columns, bool is_short = false) {
      const DataType type = seed % 2 == 0 ? DataType::kHalf : DataType::kBfloat16;
      const auto input = [&](const Sizes& sizes) { return is_short ? b.short_input(type, sizes) : b.input(sizes); };
      if (!by_place) return input({batch, heads, length, columns});
      return b.transpose(input({batch, length, heads, columns}), {0, 2, 1, 3});
    };
    const bool short_keys = b.pick(0, 2) == 0, short_values = b.pick(0, 2) == 0;
    const ValueId q = given(shared * times, queries, size);
    ValueId k = given(shared, keys, size, short_keys), v = given(shared, keys, width, short_values);
    if (times > 1) k = b.repeat(k, times), v = b.repeat(v, times);
    ValueId scores = node(b.graph, "MatMul", {q, b.transpose(k, {0, 1, 3, 2})})[0];
    if (b.pick(0, 2) > 0) scores = node(b.graph, "Mul", {scores, b.constant({}, 0.1, 0.9)})[0];
    switch (seed % 4) {
      case 0:
        scores = node(b.graph, "Add", {scores, b.input({batch, 1, queries, keys})})[0];
        break;
      case 1:
        scores = node(b.graph, "Add", {scores, b.input({batch, shared * times, queries, keys})})[0];
        break;
      case 2:
        scores = node(b.graph, "Add", {scores, b.constant({keys})})[0];
        break;
      default:
        break;
    }
    const ValueId weights = node(b.graph, "Softmax", {scores}, {{"axis", Index(-1)}})[0];
    const ValueId y = node(b.graph, "MatMul", {weights, v})[0];
    b.graph.add_output("y", b.pick(0, 1) ? b.transpose(y, {0, 2, 1, 3}) : y);
    if (size > 1 && width > 1 && !(short_keys || short_values)) CHECK(b.steps().size() == 1);  // repeated keys are no step
    b.check();
  }
}

TEST_CASE("keys that repeat one after the other, and values that do not repeat") {
  for (const bool all_again : {false, true}) {
    AttentionBuilder b(5);
    const ValueId q = b.input({1, 6, 2, 8});
    ValueId k = b.input({1, 2, 40, 8});
    if (all_again)
      k = node(b.graph, "Tile", {k}, {{"repeats", to_indices(Sizes{1, 3, 1, 1})}})[0];
    else
      k = b.repeat(k, 3);
    const ValueId scores = node(b.graph, "MatMul", {q, b.transpose(k, {0, 1, 3, 2})})[0];
    const ValueId weights = node(b.graph, "Softmax", {scores}, {{"axis", Index(-1)}})[0];
    b.graph.add_output("y", node(b.graph, "MatMul", {weights, b.input({1, 6, 40, 5})})[0]);
    b.check();
  }
}

TEST_CASE("a few queries with keys that are masked") {
  AttentionBuilder b(1);
  const std::int64_t n = 600;
  const ValueId q = b.input({4, 1, 8}), k = b.input({1, n, 8}), v = b.input({1, n, 8});
  b.inputs.push_back(rewright::testing::masks_of_four_queries(n, {4, 1, n}));
  const ValueId m = b.graph.add_input("mask", {DataType::kFloat, to_indices(Sizes{4, 1, n})});
  const ValueId scores = node(b.graph, "Add", {node(b.graph, "MatMul", {q, b.transpose(k, {0, 2, 1})})[0], m})[0];
  const ValueId weights = node(b.graph, "Softmax", {scores}, {{"axis", Index(-1)}})[0];
  b.graph.add_output("y", node(b.graph, "MatMul", {weights, v})[0]);
  b.check();
}

TEST_CASE("few rows times a computed matrix, and what follows") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    AttentionBuilder b(seed);
    const std::int64_t m = b.pick(1, 3), k = b.pick(1, 60), n = b.pick(2, 90);
    Sizes batch;
    for (std::int64_t axes = b.pick(0, 2); axes-- > 0;) batch.push_back(b.pick(1, 3));
    Sizes of_a = batch, of_b = batch, of_y = batch;
    of_a.insert(of_a.end(), {m, k}), of_b.insert(of_b.end(), {k, n}), of_y.insert(of_y.end(), {m, n});
    if (b.pick(0, 3) == 0) of_a = {k}, of_y.erase(of_y.end() - 2);  // a vector
    ValueId y = node(b.graph, "MatMul", {b.input(of_a), b.input(of_b)})[0];
    const auto broadcast = [&] {
      Sizes sizes = of_y;
      for (std::size_t axis = 0; axis + 1 < sizes.size(); ++axis)
        if (b.pick(0, 1) == 0) sizes[axis] = 1;
      return b.input(sizes);
    };
    for (std::int64_t more = b.pick(1, 6); more-- > 0;) {
      switch (b.pick(0, 3)) {
        case 0:
          y = node(b.graph, "Sigmoid", {y})[0];
          break;
        case 1:
          y = node(b.graph, "Add", {y, b.input(of_y)})[0];
          break;
        case 2:
          y = node(b.graph, "Mul", {y, b.constant({n})})[0];
          break;
        default:
          y = node(b.graph, "Add", {y, broadcast()})[0];
      }
    }
    b.graph.add_output("y", y);
    b.check(2e-4);
  }
}
