// Products with every packing, and attention.
#include <map>

#include "operators/testing/share.h"
#include "runtime/cpu/kernels/product/packed_product.h"
#include "runtime/cpu/planning/prepared_constants.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;
using rewright::testing::random_tensor;
using rewright::testing::tested_isas;

namespace {

struct ProductBuilder : rewright::testing::GraphBuilder {
  using GraphBuilder::GraphBuilder;
  ValueId constant(const Sizes& sizes) { return GraphBuilder::constant(sizes, -2, 2); }
  ValueId scalar(double value) { return graph.add_constant(Tensor::from_reals(DataType::kFloat, {}, std::vector{value})); }
  ValueId transpose(ValueId x, std::vector<std::int64_t> permutation) {
    return node(graph, "Transpose", {x}, {{"perm", to_indices(permutation)}})[0];
  }
  ValueId softmax(ValueId x) { return node(graph, "Softmax", {x}, {{"axis", Index(-1)}})[0]; }
  void check(double tolerance = 5e-5) { check_graph(graph, inputs, tolerance); }
};

// The definition, in double.
std::vector<double> multiplied(const Tensor& a, const Tensor& b, std::int64_t m, std::int64_t k, std::int64_t n) {
  std::vector<double> y(static_cast<std::size_t>(m * n));
  const auto x = a.data<float>(), w = b.data<float>();
  for (std::int64_t r = 0; r < m; ++r)
    for (std::int64_t c = 0; c < n; ++c)
      for (std::int64_t i = 0; i < k; ++i) y[r * n + c] += static_cast<double>(x[r * k + i]) * w[i * n + c];
  return y;
}

}  // namespace

TEST_CASE("packed products of any size, by any number of threads") {
  std::mt19937 random(1);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 60; ++round) {
    const std::int64_t m = round % 3 == 0 ? 1 : pick(1, 300), k = round % 7 == 0 ? pick(380, 900) : pick(0, 40),
                       n = pick(1, 150);
    CAPTURE(m, k, n);
    const Tensor a = random_tensor(random, DataType::kFloat, {m, k}), b = random_tensor(random, DataType::kFloat, {k, n});
    const Tensor bias = random_tensor(random, DataType::kFloat, {n});
    const std::vector<double> expected = multiplied(a, b, m, k, n);
    for (const Isa isa : tested_isas()) {
      CAPTURE(name(isa));
      ProductTask task;
      task.loops = &loops_for<ProductLoops>(isa);
      task.b = packed_shape(*task.loops, m, k, n);
      task.rows = m;
      task.a_rows = k;
      task.y_rows = n;
      std::vector<float> packed(static_cast<std::size_t>(task.b.floats()), 77);
      if (k > 0) pack(*task.loops, b.data<float>().data(), {k, n, n, 1}, task.b, {}, packed.data(), 0, task.b.panels());
      std::vector<float> filled(static_cast<std::size_t>(task.b.panels() * task.b.width));
      std::copy_n(bias.data<float>().data(), n, filled.data());
      task.bias = filled.data();
      std::vector<float> first;
      for (const int threads : {1, 2, 5}) {
        std::vector<float> y(static_cast<std::size_t>(m * n), -5);
        for (int t = 0; t < threads; ++t)
          task.run(a.data<float>().data(), packed.data(), y.data(), {}, task.part(t, threads, task.cut_by_columns(threads)));
        for (std::size_t i = 0; i < y.size(); ++i) {
          const double e = expected[i] + filled[i % static_cast<std::size_t>(n)];
          REQUIRE(std::fabs(y[i] - e) <= 1e-6 * static_cast<double>(k + 4));
        }
        if (first.empty()) first = y;
        REQUIRE(first == y);
      }
      if (m > 1) continue;
      // The row has the same bits among others.
      std::vector<float> twice(a.data<float>().begin(), a.data<float>().end()), y(static_cast<std::size_t>(2 * n));
      twice.insert(twice.end(), a.data<float>().begin(), a.data<float>().end());
      task.rows = 2;
      task.run(twice.data(), packed.data(), y.data(), {}, task.part(0, 1, false));
      REQUIRE(std::equal(first.begin(), first.end(), y.begin()));
    }
  }
}

TEST_CASE("a packed matrix is the same, however it lies") {
  std::mt19937 random(2);
  const std::int64_t k = 37, n = 53;
  const Tensor b = random_tensor(random, DataType::kFloat, {k, n});
  std::vector<float> turned(static_cast<std::size_t>(k * n));
  for (std::int64_t r = 0; r < k; ++r)
    for (std::int64_t c = 0; c < n; ++c) turned[c * k + r] = b.data<float>()[r * n + c];
  for (const Isa isa : tested_isas()) {
    const ProductLoops& loops = loops_for<ProductLoops>(isa);
    const PackedShape shape = packed_shape(loops, 5, k, n);
    std::vector<float> factors(static_cast<std::size_t>(n), 2), one(static_cast<std::size_t>(shape.floats())), other = one;
    pack(loops, b.data<float>().data(), {k, n, n, 1}, shape, factors, one.data(), 0, shape.panels());
    for (std::int64_t p = 0; p < shape.panels(); ++p)
      pack(loops, turned.data(), {k, n, 1, k}, shape, factors, other.data() + p * shape.panel_floats(), p, p + 1);
    CHECK(one == other);
  }
}

// Multiply-adds have a latency of four cycles and two start in each: fewer than eight sums in registers leave the processor
// idle. Blocks of few rows are limited by the second-level cache.
TEST_CASE("products of many rows are cut into blocks that keep the processor busy") {
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
    for (const std::int64_t columns : {64, 96, 768, 1000, 3072})
      for (const std::int64_t left_rows : {24, 48, 128, 3136}) {
        CAPTURE(static_cast<int>(isa), columns, left_rows);
        const ProductLoops& loops = loops_for<ProductLoops>(isa);
        const PackedShape shape = packed_shape(loops, left_rows, 768, columns);
        CHECK(loops.most_rows[shape.vectors] >= std::min<std::int64_t>(4, loops.most_rows[2]));
        CHECK(loops.most_rows[shape.vectors] * shape.vectors >= 8);
      }
}

TEST_CASE("functions behind a product") {
  const std::vector<float> special{-INFINITY, -200,  -88.5f, -9, -3.93f, -1, -0.6f, -1e-3f, -1e-40f,  -0.0f, 0,
                                   1e-40f,    1e-3f, 0.63f,  1,  3.92f,  9,  88.5f, 200,    INFINITY, NAN};
  struct Case {
    RowFunction function;
    float alpha, beta;
    double (*expected)(double x);
  };
  const Case cases[] = {
      {RowFunction::kRelu, 0, 0, [](double x) { return x < 0 ? 0 : x; }},
      {RowFunction::kRelu, 0.1f, 0, [](double x) { return x < 0 ? 0.1f * x : x; }},
      {RowFunction::kClip, -1, 2, [](double x) { return std::isnan(x) ? x : std::clamp(x, -1.0, 2.0); }},
      {RowFunction::kLinear, 2, 3, [](double x) { return 2 * x + 3; }},
      {RowFunction::kAbsolute, 0, 0, [](double x) { return std::fabs(x); }},
      {RowFunction::kLogistic, 0, 0, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {RowFunction::kSwish, 1, 0, [](double x) { return x / (1 + std::exp(-x)); }},
      {RowFunction::kHardSigmoid, 0.25f, 0.5f,
       [](double x) { return std::isnan(x) ? x : std::clamp(0.25 * x + 0.5, 0.0, 1.0); }},
      {RowFunction::kHardSwish, 0.25f, 0.5f,
       [](double x) { return std::isnan(x) ? x : x * std::clamp(0.25 * x + 0.5, 0.0, 1.0); }},
      {RowFunction::kElu, 0.7f, 0, [](double x) { return x > 0 ? x : 0.7 * std::expm1(x); }},
      {RowFunction::kTanh, 0, 0, [](double x) { return std::tanh(x); }},
      {RowFunction::kGelu, 0, 0, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {RowFunction::kGeluTanh, 0, 0,
       [](double x) { return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * x * (1 + 0.044715 * x * x))); }},
  };
  for (const Isa isa : tested_isas()) {
    for (const Case& c : cases) {
      std::vector<float> x = special;
      for (int i = -400; i <= 400; ++i) x.push_back(0.0173f * static_cast<float>(i));
      std::vector<float> y = x;
      const auto half = static_cast<std::int64_t>(x.size() / 2);  // two rows, not a multiple of a vector
      loops_for<ProductLoops>(isa).apply(c.function, c.alpha, c.beta, y.data(), half, 2, half);
      for (std::int64_t i = 0; i < 2 * half; ++i) {
        const double e = c.expected(x[i]);
        CAPTURE(name(isa), static_cast<int>(c.function), x[i], y[i], e);
        if (std::isnan(e)) {
          REQUIRE(std::isnan(y[i]));
        } else if (std::isinf(e)) {
          REQUIRE(static_cast<double>(y[i]) == e);
        } else {
          REQUIRE(std::fabs(y[i] - e) <= 4e-7 * std::fabs(e) + 1.2e-6 * std::min(std::fabs(double{x[i]}), 1.0) + 1e-37);
        }
      }
    }
  }
}

TEST_CASE("NaN, infinities and subnormal numbers pass through a product") {
  ProductBuilder b(3);
  std::vector<double> x(5 * 20, 0.5);
  x[3] = NAN;
  x[25] = INFINITY;
  x[47] = 1e-40;
  x[66] = -INFINITY;
  b.inputs.push_back(Tensor::from_reals(DataType::kFloat, {5, 20}, x));
  const ValueId a = b.graph.add_input("a", {DataType::kFloat, to_indices(Sizes{5, 20})});
  b.graph.add_output("y", node(b.graph, "Relu", {node(b.graph, "MatMul", {a, b.constant({20, 33})})[0]})[0]);
  b.graph.add_output("z", node(b.graph, "MatMul", {a, b.input({20, 18})})[0]);
  b.check();
}

TEST_CASE("products over no elements, with weights and without") {
  for (const Sizes& sizes : {Sizes{3, 0, 5}, Sizes{0, 4, 5}, Sizes{3, 4, 0}, Sizes{1, 0, 1}, Sizes{0, 0, 0}, Sizes{3, 1, 5}}) {
    const std::int64_t rows = sizes[0], depth = sizes[1], columns = sizes[2];
    for (const bool constant : {true, false}) {
      ProductBuilder b(13);
      const auto right = [&](Sizes s) { return constant ? b.constant(std::move(s)) : b.input(std::move(s)); };
      const ValueId w = right({depth, columns}), added = b.constant({columns});
      b.graph.add_output("y", node(b.graph, "Relu", {node(b.graph, "MatMul", {b.input({rows, depth}), w})[0]})[0]);
      b.graph.add_output("z", node(b.graph, "Gemm", {b.input({depth, rows}), w, added}, {{"transA", true}})[0]);
      b.graph.add_output("v", node(b.graph, "MatMul", {b.input({2, rows, depth}), right({2, depth, columns})})[0]);
      b.graph.add_output("e",
                         node(b.graph, "Einsum", {b.input({rows, depth}), w}, {{"equation", std::string("ij,jk->ki")}})[0]);
      b.check();
    }
  }
}

TEST_CASE("the first rows of a weight are packed beside all of them") {
  ProductBuilder b(17);
  const ValueId w = b.constant({32, 20});
  const ValueId first = node(b.graph, "Slice", {w}, {{"length", Indices{8, 20}}})[0];
  b.graph.add_output("y", node(b.graph, "MatMul", {b.input({5, 8}), first})[0]);
  b.graph.add_output("z", node(b.graph, "MatMul", {b.input({5, 32}), w})[0]);
  b.check();
}

TEST_CASE("weights are packed from the constants that they lie in") {
  for (const bool used_elsewhere : {false, true}) {
    ProductBuilder b(7);
    const ValueId w = b.constant({33, 20});
    const ValueId t = b.transpose(w, {1, 0});
    b.graph.add_output("y", node(b.graph, "MatMul", {b.input({5, 20}), t})[0]);
    b.graph.add_output("z", node(b.graph, "Gemm", {b.input({3, 20}), w}, {{"transB", true}})[0]);
    if (used_elsewhere) {
      b.graph.add_output("t", t);
      b.graph.add_output("s", node(b.graph, "Add", {b.input({20, 33}), t})[0]);
    }
    const cpu::Plan plan = cpu::make_plan(b.graph, {});
    CHECK(plan.steps.size() == (used_elsewhere ? 3 : 2));
    const auto is_constant = [](const cpu::Storage& storage) { return storage.kind == cpu::Storage::Kind::kConstant; };
    CHECK(std::any_of(plan.storages.begin(), plan.storages.end(), is_constant) == used_elsewhere);
    b.check();
  }
}

TEST_CASE("matrices times vectors, and few rows") {
  for (unsigned seed = 0; seed < testing::instances(24); ++seed) {
    CAPTURE(seed);
    ProductBuilder b(seed);
    const std::int64_t batch = b.pick(1, 3), m = seed % 2 ? 1 : b.pick(2, 9), k = b.pick(1, 200), n = b.pick(1, 200);
    ValueId y = node(b.graph, "MatMul", {b.input({batch, m, k}), b.constant({k, n})})[0];
    y = node(b.graph, "Add", {y, node(b.graph, "MatMul", {b.input({batch, m, 7}), b.constant({7, n})})[0]})[0];
    b.graph.add_output("y", node(b.graph, "Tanh", {node(b.graph, "Add", {y, b.constant({n})})[0]})[0]);
    b.check(2e-4);
  }
}

TEST_CASE("an addend that is not known before") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    ProductBuilder b(seed);
    const std::int64_t m = seed % 9 == 8 ? 1 : b.pick(4, 40), k = b.pick(1, 60), n = seed % 7 == 6 ? 1 : b.pick(2, 90);
    const bool turned_a = b.pick(0, 1) == 1, turned_b = b.pick(0, 1) == 1;
    const Sizes a = turned_a ? Sizes{k, m} : Sizes{m, k}, w = turned_b ? Sizes{n, k} : Sizes{k, n};
    const Sizes addends[] = {{n}, {1, n}, {m, n}, {m, 1}, {1}, {}};
    const Sizes c = addends[seed % 6];
    const ValueId left = b.pick(0, 3) == 0 ? b.constant(a) : b.input(a);
    const ValueId right = b.pick(0, 3) == 0 ? b.constant(w) : b.input(w);
    ValueId y = node(b.graph, "Gemm", {left, right, b.input(c)},
                     {{"alpha", b.pick(0, 3) == 0 ? 0.5 : 1.0},
                      {"beta", b.pick(0, 4) == 0 ? 2.0 : 1.0},
                      {"transA", turned_a},
                      {"transB", turned_b}})[0];
    for (std::int64_t more = b.pick(0, 3); more-- > 0;) {
      switch (b.pick(0, 3)) {
        case 0:
          y = node(b.graph, "Relu", {y})[0];
          break;
        case 1:
          y = node(b.graph, "Add", {y, b.input({m, n})})[0];
          break;
        case 2:  // a following factor must also scale the addend
          y = node(b.graph, "Mul", {y, b.constant({n})})[0];
          break;
        default:
          y = node(b.graph, "Add", {b.constant({n}), y})[0];
      }
    }
    b.graph.add_output("y", y);
    b.check(2e-4);
  }
}

TEST_CASE("a trained layer is one step") {
  ProductBuilder b(1);
  const ValueId y = node(b.graph, "Gemm", {b.input({16, 24}), b.input({24, 32}), b.input({32})})[0];
  b.graph.add_output("y", node(b.graph, "Relu", {y})[0]);
  CHECK(b.steps().size() == 1);
  b.check();
}

TEST_CASE("numbers of rows are added with what follows the product") {
  ProductBuilder b(1);
  const ValueId y = node(b.graph, "Gemm", {b.input({16, 24}), b.constant({24, 32}), b.input({16, 1})}, {{"beta", 0.5}})[0];
  b.graph.add_output("y", node(b.graph, "Add", {y, b.input({16, 1})})[0]);
  CHECK(b.steps().size() == 2);
  b.check();
}

TEST_CASE("attention") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    ProductBuilder b(seed);
    const std::int64_t batch = b.pick(1, 2), heads = b.pick(1, 4), depth = b.pick(2, 40),
                       width = seed % 3 ? depth : b.pick(2, 70);
    const std::int64_t queries = seed % 8 == 7 ? 130 : b.pick(4, 40), keys = seed % 8 == 6 ? 1100 : b.pick(2, 60);
    const ValueId q = b.transpose(b.input({batch, queries, heads, depth}), {0, 2, 1, 3});
    const ValueId k = b.transpose(b.input({batch, keys, heads, depth}), {0, 2, 3, 1});
    const ValueId v = b.transpose(b.input({batch, keys, heads, width}), {0, 2, 1, 3});
    ValueId scores = node(b.graph, "MatMul", {q, k})[0];
    if (b.pick(0, 1)) scores = node(b.graph, "Div", {scores, b.scalar(std::sqrt(static_cast<double>(depth)))})[0];
    switch (seed % 5) {
      case 0:
        scores = node(b.graph, "Add", {scores, b.input({batch, 1, 1, keys})})[0];
        break;
      case 1:
        scores = node(b.graph, "Add", {b.input({heads, queries, keys}), scores})[0];
        break;
      case 2:
        scores = node(b.graph, "Add", {scores, b.input({batch, heads, queries, keys})})[0];
        break;
      default:
        break;
    }
    const ValueId y = node(b.graph, "MatMul", {b.softmax(scores), v})[0];
    b.graph.add_output("y", b.pick(0, 1) ? b.transpose(y, {0, 2, 1, 3}) : y);
    CHECK(b.steps().size() == 1);
    b.check();
  }
}

TEST_CASE("attention with all keys masked, or a part of them") {
  ProductBuilder b(1);
  const std::int64_t n = 600;
  const ValueId q = b.input({4, 8}), k = b.input({8, n}), v = b.input({n, 8});
  b.inputs.push_back(rewright::testing::masks_of_four_queries(n, {4, n}));
  const ValueId m = b.graph.add_input("mask", {DataType::kFloat, to_indices(Sizes{4, n})});
  const ValueId scores = node(b.graph, "Add", {node(b.graph, "MatMul", {q, k})[0], m})[0];
  b.graph.add_output("y", node(b.graph, "MatMul", {b.softmax(scores), v})[0]);
  CHECK(b.steps() == std::vector<std::string>{"MatMul+Add+Softmax+MatMul"});
  b.check();
}

TEST_CASE("what is no attention stays apart") {
  ProductBuilder b(4);
  const ValueId q = b.input({2, 6, 5}), k = b.input({2, 5, 9}), v = b.input({2, 9, 4});
  const ValueId scores = node(b.graph, "MatMul", {q, k})[0];
  SECTION("scores that are wanted") {
    b.graph.add_output("scores", scores);
    b.graph.add_output("y", node(b.graph, "MatMul", {b.softmax(scores), v})[0]);
  }
  SECTION("weights that are used twice") {
    const ValueId weights = b.softmax(scores);
    b.graph.add_output("y", node(b.graph, "MatMul", {weights, v})[0]);
    b.graph.add_output("z", node(b.graph, "Relu", {weights})[0]);
  }
  SECTION("another axis") {
    const ValueId weights = node(b.graph, "Softmax", {scores}, {{"axis", Index(1)}})[0];
    b.graph.add_output("y", node(b.graph, "MatMul", {weights, v})[0]);
  }
  SECTION("the logarithm") {
    const ValueId weights = node(b.graph, "LogSoftmax", {scores}, {{"axis", Index(-1)}})[0];
    b.graph.add_output("y", node(b.graph, "MatMul", {weights, v})[0]);
  }
  CHECK(b.steps().size() > 1);
  b.check();
}

TEST_CASE("softmax and normalizations of rows") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    ProductBuilder b(seed);
    const std::int64_t n = b.pick(1, 80);
    Sizes sizes(static_cast<std::size_t>(b.pick(2, 4)), b.pick(1, 5));
    sizes.back() = n;
    const ValueId x = b.input(sizes);
    ValueId y = kNoValue;
    switch (seed % 4) {
      case 0:
        y = b.softmax(x);
        break;
      case 1:
        y = node(b.graph, "LayerNormalization", {x, b.constant({n}), b.input({n})}, {{"epsilon", Real(1e-3)}})[0];
        break;
      case 2:
        y = node(b.graph, "LayerNormalization", {x, b.input({n})}, {{"epsilon", Real(1e-12)}})[0];
        break;
      default:
        y = node(b.graph, "RMSNormalization", {x, b.input({n})})[0];
    }
    b.graph.add_output("y", y);
    b.check(2e-4);
  }
}

TEST_CASE("what reduces along other axes is no function of rows") {
  for (unsigned seed = 0; seed < testing::instances(12); ++seed) {
    CAPTURE(seed);
    ProductBuilder b(seed);
    Sizes sizes(static_cast<std::size_t>(b.pick(2, 4)));
    for (std::int64_t& s : sizes) s = b.pick(2, 6);
    const ValueId x = b.input(sizes);
    const Index axis(b.pick(0, std::ssize(sizes) - 2));
    ValueId y = node(b.graph, seed % 2 == 0 ? "Softmax" : "LogSoftmax", {x}, {{"axis", axis}})[0];
    if (seed % 3 == 0)
      y = node(b.graph, "LayerNormalization", {x, b.constant(Sizes(sizes.begin() + axis.value(), sizes.end()))},
               {{"axis", axis}})[0];
    b.graph.add_output("y", y);
    b.check(2e-4);
  }
}

TEST_CASE("NaN and infinities in rows stay in their rows") {
  for (const char* const name : {"Softmax", "LayerNormalization"}) {
    ProductBuilder b(1);
    std::vector<double> x(6 * 37, 0.5);
    x[3] = NAN;
    x[40] = INFINITY;
    x[80] = -INFINITY;
    x[120] = 1e-40;
    x[121] = 3;
    for (int i = 0; i < 37; ++i) x[5 * 37 + i] = -INFINITY;
    b.inputs.push_back(Tensor::from_reals(DataType::kFloat, {6, 37}, x));
    const ValueId a = b.graph.add_input("a", {DataType::kFloat, to_indices(Sizes{6, 37})});
    std::vector<ValueId> operands{a};
    if (std::string(name) != "Softmax") operands.push_back(b.constant({37}));
    b.graph.add_output("y", node(b.graph, name, operands)[0]);
    b.check();
  }
}

TEST_CASE("results do not depend on the run, for a number of threads") {
  ProductBuilder b(5);
  const ValueId q = b.input({1, 4, 70, 32}), k = b.input({1, 4, 32, 90}), v = b.input({1, 4, 90, 32});
  const ValueId y = node(b.graph, "MatMul", {b.softmax(node(b.graph, "MatMul", {q, k})[0]), v})[0];
  b.graph.add_output("y", node(b.graph, "Gelu", {node(b.graph, "MatMul", {y, b.constant({32, 700})})[0]})[0]);
  for (const int threads : {1, 2, 3}) {
    SessionOptions options;
    options.threads = threads;
    const auto session = cpu_backend().prepare(b.graph, options);
    const Tensor first = session->run(b.inputs)[0];
    for (int round = 0; round < 3; ++round) CHECK(session->run(b.inputs)[0] == first);
    CHECK(cpu_backend().prepare(b.graph, options)->run(b.inputs)[0] == first);
  }
  b.check();
}

// Letters of each kind in any order, as in Einsum; some axes have size 1.
TEST_CASE("contractions are products of matrices") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    ProductBuilder b(seed);
    std::map<char, std::int64_t> sizes;
    std::string first, second, result;
    const auto add = [&](std::string_view letters, std::int64_t least, bool in_first, bool in_second, bool in_result) {
      for (const char c : letters.substr(0, static_cast<std::size_t>(b.pick(least, 2)))) {
        sizes[c] = b.pick(0, 4) == 0 ? 1 : b.pick(2, 9);
        if (in_first) first += c;
        if (in_second) second += c;
        if (in_result) result += c;
      }
    };
    add("ab", 0, true, true, true);
    add("mn", 0, true, false, true);
    add("pq", 0, false, true, true);
    add("jk", 1, true, true, false);
    for (std::string* const list : {&first, &second, &result}) std::shuffle(list->begin(), list->end(), b.random);
    const auto operand = [&](const std::string& letters) {
      Sizes of;
      for (const char c : letters) of.push_back(sizes[c]);
      return b.pick(0, 4) == 0 ? b.constant(of) : b.input(of);
    };
    const std::string equation = first + "," + second + "->" + result;
    CAPTURE(equation);
    const ValueId x = operand(first);
    ValueId y = node(b.graph, "Einsum", {x, operand(second)}, {{"equation", equation}})[0];
    if (b.pick(0, 1)) y = node(b.graph, "Relu", {y})[0];
    b.graph.add_output("y", y);
    check_graph(b.graph, b.inputs, 5e-5);
    const std::vector<std::string> steps = b.steps();
    const bool known = b.inputs.empty();
    CHECK((known || std::any_of(steps.begin(), steps.end(), [](const std::string& s) { return s.starts_with("MatMul"); })));
  }
}

// Letters that only one operand has, that several share, and axes of size 1 that broadcast: in any order of operands.
TEST_CASE("contractions of several tensors are taken two at a time") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    ProductBuilder b(seed);
    constexpr std::string_view kLetters = "ijklmn";
    std::map<char, std::int64_t> sizes;
    for (const char c : kLetters) sizes[c] = b.pick(0, 5) == 0 ? 1 : b.pick(2, 6);
    std::string equation, used;
    std::vector<ValueId> operands;
    for (std::int64_t n = b.pick(2, 5); n > 0; --n) {
      std::string letters(kLetters);
      std::shuffle(letters.begin(), letters.end(), b.random);
      letters.resize(static_cast<std::size_t>(b.pick(0, 3)));
      Sizes of;
      for (const char c : letters) of.push_back(b.pick(0, 5) == 0 ? 1 : sizes[c]);
      operands.push_back(b.pick(0, 4) == 0 ? b.constant(of) : b.input(of));
      equation += (equation.empty() && used.empty() ? "" : ",") + letters;
      used += letters + ',';
    }
    std::string result;
    for (const char c : kLetters)
      if (used.find(c) != std::string::npos && b.pick(0, 1)) result += c;
    std::shuffle(result.begin(), result.end(), b.random);
    equation += "->" + result;
    CAPTURE(equation);
    ValueId y = node(b.graph, "Einsum", operands, {{"equation", equation}})[0];
    if (b.pick(0, 1)) y = node(b.graph, "Relu", {y})[0];
    b.graph.add_output("y", y);
    check_graph(b.graph, b.inputs, 5e-5);
  }
}

TEST_CASE("a chain of products by an equation multiplies the vector first") {
  ProductBuilder b(0);
  const std::int64_t n = 40;
  const std::vector<ValueId> operands = {b.input({n, n}), b.input({n, n}), b.input({n})};
  b.graph.add_output("y", node(b.graph, "Einsum", operands, {{"equation", std::string("ij,jk,k->i")}})[0]);
  check_graph(b.graph, b.inputs, 5e-5);
  SessionOptions options;
  options.profile = true;
  const auto session = cpu_backend().prepare(b.graph, options);
  session->run(b.inputs);
  double flops = 0;
  for (const StepProfile& step : session->profile()) flops += step.flops;
  CHECK(flops > 0);
  CHECK(flops < 10.0 * n * n);
}
