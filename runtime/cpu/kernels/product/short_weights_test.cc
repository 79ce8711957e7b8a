// Weights whose numbers fit into 16 bits.
#include <bit>

#include "operators/testing/share.h"
#include "runtime/cpu/kernels/product/packed_product.h"
#include "runtime/cpu/planning/prepared_constants.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::node;
using rewright::testing::random_tensor;
using rewright::testing::tested_isas;

namespace {

// With the lower half of each float's bits 0.
Tensor shortened(const Tensor& x) {
  std::vector<double> values;
  for (const float v : x.data<float>()) values.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) & 0xffff0000u));
  return Tensor::from_reals(DataType::kFloat, x.sizes(), values);
}

}  // namespace

TEST_CASE("products with weights of 16 bits have the bits of those with floats") {
  std::mt19937 random(1);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (unsigned round = 0; round < testing::instances(60); ++round) {
    const std::int64_t m = round % 3 == 0 ? 1 : pick(1, 150), k = round % 7 == 0 ? pick(380, 900) : pick(1, 40),
                       n = pick(1, 200);
    CAPTURE(m, k, n);
    const Tensor a = random_tensor(random, DataType::kFloat, {m, k}),
                 b = shortened(random_tensor(random, DataType::kFloat, {k, n}));
    const float* const weights = b.data<float>().data();
    REQUIRE(fits_16_bits(weights, {k, n, n, 1}));
    for (const Isa isa : tested_isas()) {
      CAPTURE(name(isa));
      ProductTask task;
      task.loops = &loops_for<ProductLoops>(isa);
      task.b = round % 2 == 0 ? packed_shape(*task.loops, m, k, n) : packed_shape(*task.loops, k, n);
      task.rows = m, task.a_rows = k, task.y_rows = n;
      std::vector<float> packed(static_cast<std::size_t>(task.b.floats()));
      std::vector<std::uint16_t> shorts(packed.size());
      pack(*task.loops, weights, {k, n, n, 1}, task.b, {}, packed.data(), 0, task.b.panels());
      pack_short(*task.loops, weights, {k, n, n, 1}, task.b, shorts.data());
      std::vector<float> expected(static_cast<std::size_t>(m * n), -5), y(expected.size(), -5);
      task.run(a.data<float>().data(), packed.data(), expected.data(), {}, task.part(0, 1, false));
      task.is_short = true;
      for (const int threads : {1, 3}) {
        y.assign(y.size(), -5);
        for (int t = 0; t < threads; ++t)
          task.run(a.data<float>().data(), shorts.data(), y.data(), {}, task.part(t, threads, task.cut_by_columns(threads)));
        REQUIRE(y == expected);
      }
    }
  }
}

TEST_CASE("one element with more bits, and 16 bits are too few") {
  std::mt19937 random(2);
  for (unsigned round = 0; round < testing::instances(20); ++round) {
    const std::int64_t k = 1 + static_cast<std::int64_t>(random() % 50), n = 1 + static_cast<std::int64_t>(random() % 50);
    const Tensor b = shortened(random_tensor(random, DataType::kFloat, {k, n}));
    std::vector<float> x(b.data<float>().begin(), b.data<float>().end());
    CHECK(fits_16_bits(x.data(), {k, n, n, 1}));
    CHECK(fits_16_bits(x.data(), {n, k, 1, n}));  // transposed
    float& one = x[random() % x.size()];
    one = std::bit_cast<float>(std::bit_cast<std::uint32_t>(one) | (1u << (random() % 16)));
    CHECK(!fits_16_bits(x.data(), {k, n, n, 1}));
    CHECK(!fits_16_bits(x.data(), {n, k, 1, n}));
  }
}

TEST_CASE("plans read half as many bytes of weights that fit into 16 bits") {
  for (const bool fits : {false, true})
    for (const std::int64_t rows : {1, 3, 20}) {
      testing::GraphBuilder b(static_cast<unsigned>(rows));
      const std::int64_t k = 257, n = 300;
      const Tensor w = random_tensor(b.random, DataType::kFloat, {k, n});
      const ValueId weights = b.graph.add_constant(fits ? shortened(w) : w);
      const ValueId y = node(b.graph, "MatMul", {b.input({rows, k}), weights})[0];
      b.graph.add_output("y", node(b.graph, "Add", {y, b.constant({n})})[0]);
      const Plan plan = make_plan(b.graph, {});
      REQUIRE(plan.steps.size() == 1);
      const double floats = static_cast<double>(k * n) * sizeof(float);
      CHECK((plan.steps[0].bytes < floats) == fits);
      testing::check_graph(b.graph, b.inputs, 2e-4);
    }
}

TEST_CASE("plans of several sizes share one form of weights that fit into 16 bits") {
  std::mt19937 random(5);
  const std::int64_t k = 300, n = 260;
  const Tensor w = shortened(random_tensor(random, DataType::kFloat, {k, n}));
  PlanOptions options;
  options.constants = std::make_shared<PreparedConstants>();
  std::vector<float> first;
  for (const std::int64_t rows : {1, 200, 1}) {
    testing::GraphBuilder b(7);  // the same first row
    const ValueId y = node(b.graph, "MatMul", {b.input({rows, k}), b.graph.add_constant(w)})[0];
    b.graph.add_output("y", y);
    Plan plan = make_plan(b.graph, options);
    const double floats = static_cast<double>(k * n) * sizeof(float),
                 others = static_cast<double>(rows * (k + n)) * sizeof(float);
    CHECK(plan.steps[0].bytes - others < floats);
    PlanRunner runner(std::move(plan));
    const std::vector<Tensor> actual = runner.run(b.inputs);
    testing::require_close(b.graph, actual, interpret(b.graph, b.inputs), {2e-4});
    const auto row = actual[0].data<float>().first(static_cast<std::size_t>(n));
    if (first.empty()) first.assign(row.begin(), row.end());
    CHECK(std::equal(first.begin(), first.end(), row.begin()));  // whatever the number of rows
  }
}
