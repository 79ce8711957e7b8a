// Products with weights in blocks, as MatMulNBits and as DequantizeLinear and MatMul.
#include "runtime/cpu/planning/whole_operators.h"

#include <algorithm>
#include <random>

#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::node;
using rewright::testing::random_tensor;
using rewright::testing::require_close;
using rewright::testing::tested_isas;

namespace {

struct BlockGraph : rewright::testing::GraphBuilder {
  using GraphBuilder::GraphBuilder;

  // x times dequantized constants, `transposed` or not.
  ValueId product(ValueId x, std::int64_t depth, std::int64_t columns, std::int64_t block, DataType type, bool transposed,
                  bool has_zeros) {
    const std::int64_t blocks = (depth + block - 1) / block;
    const Sizes sizes = transposed ? Sizes{columns, depth} : Sizes{depth, columns};
    const Sizes by_block = transposed ? Sizes{columns, blocks} : Sizes{blocks, columns};
    std::vector<ValueId> inputs{integers(sizes, type), constant(by_block, -0.2, 0.2)};
    if (has_zeros) inputs.push_back(integers(by_block, type));
    ValueId w = node(graph, "DequantizeLinear", inputs, {{"axis", Index(transposed ? 1 : 0)}, {"block_size", Index(block)}})[0];
    if (transposed) w = node(graph, "Transpose", {w}, {{"perm", Indices{1, 0}}})[0];
    return node(graph, "MatMul", {x, w})[0];
  }

 private:
  ValueId integers(const Sizes& sizes, DataType type) {
    const std::int64_t bits = type == DataType::kInt4 || type == DataType::kUint4 ? 4 : 8;
    const std::int64_t low = type == DataType::kInt4 || type == DataType::kInt8 ? -(1 << (bits - 1)) : 0;
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < element_count(sizes); ++i) values.push_back(low + pick(0, (1 << bits) - 1));
    return graph.add_constant(Tensor::from_integers(type, sizes, values));
  }
};

std::int64_t block_products(const Graph& graph) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [](const auto& node) { return node->op != nullptr && node->op->name() == BlockProduct::kName; });
}

}  // namespace

TEST_CASE("products with dequantized weights in blocks keep their integers") {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    BlockGraph b(static_cast<unsigned>(round));
    const std::int64_t rows = round % 2 == 0 ? 1 : b.pick(2, 40), block = std::int64_t{16} << b.pick(0, 3);
    const std::int64_t depth = block * b.pick(1, 4), columns = b.pick(1, 70);
    const DataType types[] = {DataType::kInt4, DataType::kUint4, DataType::kInt8, DataType::kUint8};
    const DataType type = types[round % 4];
    const bool transposed = b.pick(0, 1) == 1, has_zeros = b.pick(0, 1) == 1;
    CAPTURE(round, rows, depth, columns, block, rewright::name(type), transposed, has_zeros);
    const ValueId x = b.input({rows, depth});
    ValueId y = b.product(x, depth, columns, block, type, transposed, has_zeros);
    if (round % 3 == 0) y = node(b.graph, "Relu", {node(b.graph, "Add", {y, b.constant({columns}, -1, 1)})[0]})[0];
    b.graph.add_output("y", y);
    const Graph whole = with_whole_operators(b.graph);
    REQUIRE(block_products(whole) == 1);
    const std::vector<Tensor> expected = interpret(b.graph, b.inputs);
    for (const Isa isa : tested_isas()) {
      SessionOptions options;
      options.max_isa = isa;
      require_close(b.graph, rewright::testing::cpu_backend().prepare(b.graph, options)->run(b.inputs), expected, {2e-5});
    }
  }
}

TEST_CASE("products with other weights stay as they are") {
  BlockGraph b(1);
  const ValueId x = b.input({2, 64});
  const ValueId scale = b.constant({3}, 0.1, 0.2);
  const ValueId q = b.graph.add_constant(Tensor::from_integers(DataType::kInt8, {64, 3}, std::vector<std::int64_t>(192, 5)));
  const ValueId w = node(b.graph, "DequantizeLinear", {q, scale}, {{"axis", Index(1)}})[0];
  b.graph.add_output("y", node(b.graph, "MatMul", {x, w})[0]);
  CHECK(block_products(with_whole_operators(b.graph)) == 0);
}
