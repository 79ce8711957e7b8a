// Products with weights in blocks, as MatMulNBits and as DequantizeLinear and MatMul.
#include "runtime/cpu/planning/whole_operators.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#include "graph/testing.h"
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

namespace {

std::string list(std::mt19937& random, std::int64_t count, std::int64_t past) {
  std::ostringstream text;
  for (std::int64_t i = 0; i < count; ++i) text << (i == 0 ? "{" : ", ") << static_cast<std::int64_t>(random()) % past;
  return text.str() + "}";
}

// For each element of rows the largest absolute value of its block.
std::vector<double> largest_of_blocks(const std::vector<double>& x, std::int64_t depth, std::int64_t block) {
  std::vector<double> result(x.size());
  const auto count = static_cast<std::int64_t>(x.size());
  for (std::int64_t row = 0; row < count; row += depth)
    for (std::int64_t k = 0; k < depth; ++k) {
      const std::int64_t first = k / block * block, last = std::min(first + block, depth);
      for (std::int64_t i = first; i < last; ++i)
        result[static_cast<std::size_t>(row + k)] =
            std::max(result[static_cast<std::size_t>(row + k)], std::fabs(x[static_cast<std::size_t>(row + i)]));
    }
  return result;
}

}  // namespace

TEST_CASE(
    "MatMulNBits rounds its left operand at accuracy_level 4, by half a step of 1/127 of a block's largest, and at no other") {
  std::mt19937 random(5);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 40; ++round) {
    const std::int64_t rows = round % 2 == 0 ? 1 : pick(2, 20), bits = std::int64_t{1} << pick(1, 3), level = round % 5;
    const std::int64_t block = std::int64_t{16} << pick(0, 3), depth = pick(1, 200), columns = pick(1, 70);
    const std::int64_t blocks = (depth + block - 1) / block, bytes = block * bits / 8, zero_bytes = (blocks * bits + 7) / 8;
    const bool has_zeros = pick(0, 1) == 1;
    CAPTURE(round, rows, bits, level, block, depth, columns, has_zeros);
    std::ostringstream text;
    text << "<uint8[" << columns << ", " << blocks << ", " << bytes << "] q = " << list(random, columns * blocks * bytes, 256);
    if (has_zeros) text << ", uint8[" << columns * zero_bytes << "] z = " << list(random, columns * zero_bytes, 256);
    text << ", float[" << columns * blocks << "] s = " << list(random, columns * blocks, 9)
         << "> {\n  y = com.microsoft.MatMulNBits <K = " << depth << ", N = " << columns << ", bits = " << bits
         << ", block_size = " << block << ", accuracy_level = " << level << "> (x, q, s" << (has_zeros ? ", z" : "") << ")\n}";
    const auto with_rows = [&](std::int64_t count) {
      std::ostringstream head;
      head << "agraph (float[" << count << ", " << depth << "] x) => (float[" << count << ", " << columns << "] y)";
      return rewright::testing::import_text(head.str() + text.str(), 21, {}, ", \"com.microsoft\" : 1");
    };
    const Graph graph = with_rows(rows);
    const Tensor x = random_tensor(random, DataType::kFloat, {rows, depth});
    std::vector<double> identity(static_cast<std::size_t>(depth * depth));
    for (std::int64_t k = 0; k < depth; ++k) identity[static_cast<std::size_t>(k * depth + k)] = 1;
    const std::vector<Tensor> unit{Tensor::from_reals(DataType::kFloat, {depth, depth}, identity)}, given{x};
    const std::vector<double> left = x.reals(), largest = largest_of_blocks(left, depth, block);
    const std::vector<double> w = interpret(with_rows(depth), unit)[0].reals();
    const std::vector<double> expected = interpret(graph, given)[0].reals();
    for (const Isa isa : tested_isas()) {
      SessionOptions options;
      options.max_isa = isa;
      const std::vector<double> y = rewright::testing::cpu_backend().prepare(graph, options)->run(given)[0].reals();
      std::size_t wrong = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t n = 0; n < columns; ++n) {
          double summed = 0, rounded = 0;
          for (std::int64_t k = 0; k < depth; ++k) {
            const double weight = std::fabs(w[static_cast<std::size_t>(k * columns + n)]);
            summed += std::fabs(left[static_cast<std::size_t>(r * depth + k)]) * weight;
            rounded += largest[static_cast<std::size_t>(r * depth + k)] * weight;
          }
          const auto at = static_cast<std::size_t>(r * columns + n);
          wrong += !(std::fabs(y[at] - expected[at]) <= 4e-6 * summed + (level == 4 ? rounded * 1.0001 / 254 : 1e-30));
        }
      CHECK(wrong == 0);
    }
  }
}
