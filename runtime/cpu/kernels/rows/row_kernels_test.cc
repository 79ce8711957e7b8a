// Kernels of rows at lengths that fill vectors and do not: the best elements, norms, softmax, a row times narrow matrices.
#include <cmath>
#include <limits>

#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;

TEST_CASE("the best elements of long rows, with ties and infinite ones") {
  static constexpr DataType kTypes[] = {DataType::kFloat, DataType::kHalf,  DataType::kBfloat16, DataType::kDouble,
                                        DataType::kInt8,  DataType::kUint8, DataType::kInt32,    DataType::kInt64};
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    CAPTURE(seed);
    rewright::testing::GraphBuilder b(seed);
    const DataType type = kTypes[seed % std::size(kTypes)];
    const Sizes s{b.pick(1, 3), b.pick(200, 9000)};
    const std::int64_t k = b.pick(0, 2) == 0 ? b.pick(0, s[1]) : b.pick(1, 60);
    const double most = b.pick(0, 1) == 0 ? 100 : 3;
    const ValueId x = b.input(type, s, type == DataType::kUint8 ? 0 : -most, most);
    if (is_real(type) && b.pick(0, 2) == 0) {
      std::vector<double> values = b.inputs[0].reals();
      for (int n = 0; n < 3; ++n)
        values[static_cast<std::size_t>(b.pick(0, element_count(s) - 1))] =
            std::vector<double>{0, INFINITY, -INFINITY}[static_cast<std::size_t>(b.pick(0, 2))];
      b.inputs[0] = Tensor::from_reals(type, s, values);
    }
    const std::vector<ValueId> found =
        node(b.graph, "TopK", {x}, {{"axis", Index(1)}, {"k", Index(k)}, {"largest", Index(b.pick(0, 1))}});
    b.graph.add_output("where", found[1]);
    b.check(found[0], 0);
  }
}

TEST_CASE("rows are divided by their norms, where these are tiny as well") {
  for (unsigned seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    rewright::testing::GraphBuilder b(seed);
    const Sizes s{b.pick(1, 5), b.pick(1, 9), b.pick(1, 300)};
    const ValueId x = b.input(s);
    const std::int64_t p = seed % 3 == 0 ? 1 : b.pick(1, 2);  // squares of tiny numbers are no floats
    if (seed % 3 == 0) {
      std::vector<double> values = b.inputs[0].reals();
      const std::int64_t row = b.pick(0, s[0] * s[1] - 1) * s[2];
      for (std::int64_t n = 0; n < s[2]; ++n) values[static_cast<std::size_t>(row + n)] *= seed % 2 == 0 ? 0 : 1e-41;
      b.inputs[0] = Tensor::from_reals(DataType::kFloat, s, values);
    }
    b.graph.add_output("y", node(b.graph, "LpNormalization", {x}, {{"axis", Index(2)}, {"p", Index(p)}})[0]);
    check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("softmax and normalizations of rows of all lengths") {
  for (std::int64_t n = 1; n < 100; ++n) {
    CAPTURE(n);
    rewright::testing::GraphBuilder b(static_cast<unsigned>(n));
    const ValueId x = b.input(DataType::kFloat, {3, n}, -30, n % 2 == 0 ? 30 : -20);
    b.graph.add_output("softmax", node(b.graph, "Softmax", {x}, {{"axis", Index(1)}})[0]);
    b.graph.add_output("logarithm", node(b.graph, "LogSoftmax", {x}, {{"axis", Index(1)}})[0]);
    if (n > 1)
      b.graph.add_output("layer",
                         node(b.graph, "LayerNormalization", {x, b.constant({n}), b.constant({n})}, {{"axis", Index(1)}})[0]);
    check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("a row times matrices of few columns") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    rewright::testing::GraphBuilder b(seed);
    const std::int64_t k = b.pick(1, 600), n = b.pick(2, 300), batch = b.pick(1, 4);
    const ValueId a = b.input(b.pick(0, 1) == 0 ? Sizes{k} : Sizes{batch, 1, k}), w = b.input({batch, k, n});
    b.graph.add_output("y", node(b.graph, "MatMul", {a, w})[0]);
    check_graph(b.graph, b.inputs, 1e-4);
  }
}

TEST_CASE("rows quantized by constant steps, for all of a tensor or for each entry of an axis") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    rewright::testing::GraphBuilder b(seed);
    const Sizes s{b.pick(1, 4), b.pick(1, 6), b.pick(1, 200)};
    const DataType type = b.pick(0, 1) == 0 ? DataType::kUint8 : DataType::kInt8;
    const std::int64_t axis = b.pick(0, 2), entries = b.pick(0, 1) == 0 ? 1 : s[static_cast<std::size_t>(axis)];
    const ValueId x = b.input(DataType::kFloat, s, -20, 20);
    std::vector<double> values = b.inputs[0].reals();
    values[0] = std::vector<double>{NAN, INFINITY, -INFINITY, 0.25}[static_cast<std::size_t>(b.pick(0, 3))];
    b.inputs[0] = Tensor::from_reals(DataType::kFloat, s, values);
    const Sizes parameter = entries == 1 && b.pick(0, 1) == 0 ? Sizes{} : Sizes{entries};
    std::vector<ValueId> operands{x, b.constant(parameter, 0.01, 0.3)};
    if (b.pick(0, 3) > 0)
      operands.push_back(
          b.graph.add_constant(testing::random_tensor(b.random, type, parameter, type == DataType::kInt8 ? -50 : 0, 50)));
    b.graph.add_output("y", node(b.graph, "QuantizeLinear", operands, {{"axis", Index(axis)}})[0]);
    check_graph(b.graph, b.inputs, 0);
  }
}
