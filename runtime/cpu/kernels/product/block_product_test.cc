// Products with weights of a few bits in blocks.
#include "runtime/cpu/kernels/product/block_product.h"

#include <cmath>
#include <random>

#include "operators/testing/share.h"
#include "runtime/cpu/base/tile_registers.h"
#include "runtime/cpu/loops/block_tiles.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::random_tensor;
using rewright::testing::tested_isas;

namespace {

struct Case {
  std::int64_t rows, columns, depth, block, bits;
  bool has_zeros;
  BlockWeights weights;
  std::vector<double> w;  // [depth, columns]

  Case(std::mt19937& random, int round) {
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    rows = round % 2 == 0 ? pick(1, 4) : pick(5, 150);
    columns = pick(1, 130), depth = round % 5 == 0 ? pick(400, 1100) : pick(1, 100);
    block = std::int64_t{16} << pick(0, round % 7 == 0 ? 6 : 3), bits = std::int64_t{1} << pick(1, 3);
    has_zeros = pick(0, 1) == 1;
    make(random);
  }

  // As the operator says it: integers one after the other in bytes, low bits first.
  void make(std::mt19937& random) {
    const std::int64_t blocks = (depth + block - 1) / block, row = blocks * block * bits / 8,
                       zero_row = (blocks * bits + 7) / 8;
    const auto bytes = [&](std::int64_t count) {
      std::vector<std::int64_t> values;
      for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<std::int64_t>(random() % 256));
      return Tensor::from_integers(DataType::kUint8, {count}, values);
    };
    weights = {
        bytes(columns * row), random_tensor(random, DataType::kFloat, {columns, blocks}), {}, depth, columns, block, bits};
    if (has_zeros) weights.zeros = bytes(columns * zero_row);
    const auto integer = [&](const Tensor& from, std::int64_t first_byte, std::int64_t n) {
      const std::int64_t bit = n * bits;
      const auto byte = static_cast<unsigned>(from.integers()[static_cast<std::size_t>(first_byte + bit / 8)]);
      return static_cast<double>(byte >> (bit % 8) & ((1u << bits) - 1));
    };
    const std::vector<double> scales = weights.scales.reals();
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t b = k / block;
        const double zero = has_zeros ? integer(weights.zeros, c * zero_row, b) : std::ldexp(1, static_cast<int>(bits - 1));
        w.push_back((integer(weights.integers, c * row, k) - zero) * scales[static_cast<std::size_t>(c * blocks + b)]);
      }
  }
};

double largest(std::span<const float> x) {
  double most = 0;
  for (const float v : x) most = std::max(most, static_cast<double>(std::fabs(v)));
  return most;
}

}  // namespace

TEST_CASE("products with weights in blocks: any size, bits, block and number of threads") {
  std::mt19937 random(7);
  for (int round = 0; round < static_cast<int>(testing::instances(60)); ++round) {
    const Case c(random, round);
    CAPTURE(round, c.rows, c.columns, c.depth, c.block, c.bits, c.has_zeros);
    Tensor a = random_tensor(random, DataType::kFloat, {c.rows, c.depth});
    if (round % 9 == 0) a.mutable_data<float>()[0] = 1e-35f;  // is not split into integers
    std::vector<double> expected, magnitude, rounded;
    const auto x = a.data<float>();
    for (std::int64_t r = 0; r < c.rows; ++r) {
      std::vector<double> of_block;  // the largest element of each block of the row
      for (std::int64_t k = 0; k < c.depth; k += c.block)
        of_block.push_back(largest(
            x.subspan(static_cast<std::size_t>(r * c.depth + k), static_cast<std::size_t>(std::min(c.block, c.depth - k)))));
      for (std::int64_t n = 0; n < c.columns; ++n) {
        double sum = 0, size = 0, error = 0;
        for (std::int64_t k = 0; k < c.depth; ++k) {
          const double term = static_cast<double>(x[r * c.depth + k]) * c.w[static_cast<std::size_t>(k * c.columns + n)];
          sum += term, size += std::fabs(term);
          error +=
              of_block[static_cast<std::size_t>(k / c.block)] * std::fabs(c.w[static_cast<std::size_t>(k * c.columns + n)]);
        }
        expected.push_back(sum), magnitude.push_back(size), rounded.push_back(error);
      }
    }
    for (const Isa isa : tested_isas())
      for (const bool precise : {true, false}) {
        CAPTURE(name(isa), precise);
        ProductTask task;
        task.loops = &loops_for<ProductLoops>(isa);
        task.b = packed_shape(*task.loops, c.depth, c.columns);
        task.rows = c.rows, task.a_rows = c.depth, task.y_rows = c.columns;
        const BlockShape shape = block_shape(c.weights, task.b);
        Tensor packed(DataType::kUint8, {shape.bytes()});
        pack(c.weights, shape, {}, packed.mutable_bytes().data());
        const auto kernel = make_block_product(task, BlockLoops::best(isa), shape, precise, 0, packed, {});
        std::vector<float> first;
        for (const int threads : {1, 3}) {
          std::vector<float> y(expected.size(), -5);
          std::vector<std::byte> scratch(kernel->scratch_bytes() + 64);
          const std::byte* const input = a.bytes().data();
          std::byte* const output = reinterpret_cast<std::byte*>(y.data());
          auto* const aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64);
          const Workers workers(threads, 0);
          kernel->run({std::span(&input, 1), std::span(&output, 1), aligned, workers});
          // Rounded to bytes an element is off by up to 1/254 of the largest of its block, half a step.
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < y.size(); ++i)
            wrong += !(std::fabs(y[i] - expected[i]) <= 4e-7 * magnitude[i] + (precise ? 1e-30 : rounded[i] * 1.0001 / 254));
          REQUIRE(wrong == 0);
          if (first.empty()) first = y;
          REQUIRE(first == y);
        }
      }
  }
}

TEST_CASE("weights in blocks: tile registers give the bits of vectors") {
  if (!has_tile_registers()) {
    WARN("not tested: this processor has no tile registers");
    return;
  }
  const BlockLoops& loops = BlockLoops::vnni();
  std::mt19937 random(9);
  for (int round = 0; round < static_cast<int>(testing::instances(60)); ++round) {
    const Case c(random, round);
    const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % BlockTiles::kMostRows);
    const BlockShape shape = block_shape(c.weights, packed_shape(loops_for<ProductLoops>(Isa::kAvx512), c.depth, c.columns));
    CAPTURE(round, rows, c.columns, c.depth, shape.block, c.bits, c.has_zeros, shape.vectors);
    Tensor packed(DataType::kUint8, {shape.bytes()});
    pack(c.weights, shape, {}, packed.mutable_bytes().data());
    const Tensor a = random_tensor(random, DataType::kFloat, {rows, c.depth}),
                 start = random_tensor(random, DataType::kFloat, {shape.width});
    const auto length = static_cast<std::size_t>(shape.blocks() * shape.block);
    std::vector<std::int8_t> bytes(length * static_cast<std::size_t>(rows));
    std::vector<std::vector<ByteRow::Block>> blocks(static_cast<std::size_t>(rows),
                                                    std::vector<ByteRow::Block>(static_cast<std::size_t>(shape.blocks())));
    std::vector<ByteRow> given;
    for (std::size_t r = 0; r < blocks.size(); ++r) {
      given.push_back({bytes.data() + r * length, blocks[r].data()});
      REQUIRE(loops.round(given[r], a.data<float>().data() + static_cast<std::int64_t>(r) * c.depth, 1, shape));
    }
    std::vector<float> y(static_cast<std::size_t>(rows * shape.width)), expected(y.size());
    for (std::int64_t p = 0; p < shape.panels(); ++p) {
      const std::byte* const panel = packed.bytes().data() + p * shape.panel_bytes();
      const float* const first = round % 2 == 0 ? nullptr : start.data<float>().data();
      BlockTiles::multiply_bytes(shape, panel, given.data(), rows, first, y.data(), shape.width);
      for (std::int64_t r = 0; r < rows; ++r)
        loops.multiply_bytes(shape, panel, given.data() + r, 1, first, expected.data() + r * shape.width, shape.width);
      REQUIRE(y == expected);
    }
  }
}

TEST_CASE("weights in blocks: elements that are not finite reach all columns") {
  std::mt19937 random(8);
  const Case c(random, 0);
  Tensor a = random_tensor(random, DataType::kFloat, {1, c.depth});
  a.mutable_data<float>()[static_cast<std::size_t>(c.depth - 1)] = NAN;
  ProductTask task;
  const Isa isa = tested_isas().front();
  task.loops = &loops_for<ProductLoops>(isa);
  task.b = packed_shape(*task.loops, c.depth, c.columns);
  task.rows = 1, task.a_rows = c.depth, task.y_rows = c.columns;
  const BlockShape shape = block_shape(c.weights, task.b);
  Tensor packed(DataType::kUint8, {shape.bytes()});
  pack(c.weights, shape, {}, packed.mutable_bytes().data());
  const auto kernel = make_block_product(task, BlockLoops::best(isa), shape, true, 0, packed, {});
  std::vector<float> y(static_cast<std::size_t>(c.columns));
  std::vector<std::byte> scratch(kernel->scratch_bytes() + 64);
  const std::byte* const input = a.bytes().data();
  std::byte* const output = reinterpret_cast<std::byte*>(y.data());
  const Workers workers(1);
  kernel->run({std::span(&input, 1), std::span(&output, 1), scratch.data(), workers});
  for (const float v : y) CHECK(std::isnan(v));
}
