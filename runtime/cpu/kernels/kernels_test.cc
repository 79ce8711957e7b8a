// Pools, products and networks with fused operators.
#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;
using rewright::testing::random_tensor;
using rewright::testing::tested_isas;
using KernelBuilder = rewright::testing::GraphBuilder;

TEST_CASE("what only moves elements, or rounds them, is not taken for a function of each") {
  for (unsigned seed = 0; seed < testing::instances(32); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t n = b.pick(2, 9);
    const ValueId x = b.input({2, n, n, n});
    ValueId y = kNoValue;
    switch (seed % 4) {
      case 0:
        y = b.convolution(x, n, 3, 1);
        break;
      case 1:
        y = node(b.graph, "MatMul", {x, b.constant({n, n})})[0];
        break;
      case 2:
        y = node(b.graph, "MatMul", {x, b.input({2, n, n, n})})[0];
        break;
      default:
        y = node(b.graph, "Concat", {x, b.input({2, 1, n, n})}, {{"axis", Index(1)}})[0];
    }
    if (seed % 4 == 3) y = b.convolution(y, n, 1, 0);
    switch (seed / 4 % 4) {
      case 0: {
        const std::vector<std::int64_t> permutations[] = {{0, 2, 1, 3}, {0, 1, 3, 2}, {0, 3, 2, 1}};
        y = node(b.graph, "Transpose", {y}, {{"perm", to_indices(permutations[b.pick(0, 2)])}})[0];
        break;
      }
      case 1:
        y = node(b.graph, "Trilu", {y})[0];
        break;
      case 2: {
        const DataType type = b.pick(0, 1) == 0 ? DataType::kHalf : DataType::kBfloat16;
        y = node(b.graph, "Cast", {y}, {{"to", type}})[0];
        break;
      }
      case 3: {
        const ValueId chosen = b.input(DataType::kBool, {2, n, n, n});
        y = node(b.graph, "Where", {chosen, y, x})[0];
      }
    }
    if (b.pick(0, 1) == 0) y = node(b.graph, "Relu", {y})[0];
    b.check(y, seed / 4 % 4 == 2 ? 1e-2 : 5e-5);
  }
}

TEST_CASE("residuals and biases leave no step of their own") {
  KernelBuilder b(1);
  const ValueId x = b.input({1, 16, 8, 8});
  ValueId y = node(b.graph, "Relu", {node(b.graph, "Add", {x, b.batch_norm(b.convolution(x, 16, 3, 1))})[0]})[0];
  y = node(b.graph, "Mul", {y, node(b.graph, "Sigmoid", {y})[0]})[0];
  b.graph.add_output("z", b.convolution(y, 3, 1, 0));
  SessionOptions options;
  options.profile = true;
  const auto session = cpu_backend().prepare(b.graph, options);
  session->run(b.inputs);
  std::vector<std::string> operators;
  for (const StepProfile& step : session->profile())
    if (step.operators != "(layout)") operators.push_back(step.operators);
  CHECK(operators == std::vector<std::string>{"Conv+BatchNormalization+Add+Relu+Sigmoid+Mul", "Conv"});
  check_graph(b.graph, b.inputs);
}

TEST_CASE("pools") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::size_t rank = 1 + seed % 3;
    Sizes x{b.pick(1, 2), seed % 2 ? 16 : b.pick(1, 9)};
    for (std::size_t a = 0; a < rank; ++a) x.push_back(b.pick(5, 12));
    const ValueId input = b.input(x);
    const bool average = b.pick(0, 1);
    std::vector<std::pair<std::string, AttributeValue>> attributes{
        {"kernel", b.list(rank, 2, 3)},
        {"strides", b.list(rank, 1, 3)},
        {"dilations", Indices(rank, Index(average ? 1 : b.pick(1, 2)))},
        {"pads_begin", b.list(rank, 0, 1)},
        {"pads_end", b.list(rank, 0, 1)},
        {"ceil_mode", b.pick(0, 1) == 1}};
    if (average) attributes.emplace_back("count_include_pad", b.pick(0, 1) == 1);
    ValueId y = node(b.graph, average ? "AveragePool" : "MaxPool", {input}, attributes)[0];
    if (seed % 4 == 0) y = node(b.graph, "Add", {y, y})[0];
    if (seed % 5 == 0) y = node(b.graph, "Add", {y, b.input(values(b.graph.value(y).type.shape))})[0];
    if (seed % 3 == 0) y = node(b.graph, "Relu", {y})[0];
    b.check(y);
  }
}

TEST_CASE("pools of long rows and wide windows, with numbers that are none") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::size_t rank = 1 + seed % 3;
    Sizes x{1, b.pick(1, 20)};
    for (std::size_t a = 0; a < rank; ++a) x.push_back(a + 1 == rank ? b.pick(20, 150) : b.pick(6, 9));
    const bool average = b.pick(0, 1);
    const DataType type = !average && seed % 4 == 1 ? DataType::kDouble : DataType::kFloat;
    const ValueId input = b.input(type, x);
    if (!average) {
      std::vector<double> elements = b.inputs[0].reals();
      for (const double special : {std::nan(""), HUGE_VAL, -HUGE_VAL})
        elements[static_cast<std::size_t>(b.pick(0, std::ssize(elements) - 1))] = special;
      b.inputs[0] = Tensor::from_reals(type, x, elements);
    }
    Indices kernel = b.list(rank, 1, 5);
    kernel.back() = b.pick(1, 20);
    Indices before, behind;
    for (const Index& size : kernel)
      before.push_back(b.pick(0, size.value() - 1)), behind.push_back(b.pick(0, size.value() - 1));
    std::vector<std::pair<std::string, AttributeValue>> attributes{
        {"kernel", kernel}, {"strides", b.list(rank, 1, 5)}, {"pads_begin", before}, {"pads_end", behind}};
    if (average) attributes.emplace_back("count_include_pad", b.pick(0, 1) == 1);
    b.check(node(b.graph, average ? "AveragePool" : "MaxPool", {input}, attributes)[0]);
  }
}

TEST_CASE("pools of short windows on rows of all lengths") {
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::size_t rank = 1 + seed % 3;
    Sizes x{b.pick(1, 3), b.pick(1, 9)};
    for (std::size_t a = 0; a < rank; ++a) x.push_back(a + 1 == rank ? b.pick(4, 70) : b.pick(4, 9));
    const bool average = seed / 3 % 2 == 1;
    const ValueId input = b.input(x);
    if (!average) {
      std::vector<double> elements = b.inputs[0].reals();
      for (const double special : {std::nan(""), HUGE_VAL, -HUGE_VAL, -0.0})
        elements[static_cast<std::size_t>(b.pick(0, std::ssize(elements) - 1))] = special;
      b.inputs[0] = Tensor::from_reals(DataType::kFloat, x, elements);
    }
    const Indices kernel = b.list(rank, 1, 3);
    Indices before, behind;
    for (const Index& size : kernel)
      before.push_back(b.pick(0, size.value() - 1)), behind.push_back(b.pick(0, size.value() - 1));
    std::vector<std::pair<std::string, AttributeValue>> attributes{{"kernel", kernel},
                                                                   {"strides", b.list(rank, 1, 2)},
                                                                   {"pads_begin", before},
                                                                   {"pads_end", behind},
                                                                   {"ceil_mode", b.pick(0, 1) == 1}};
    if (average) attributes.emplace_back("count_include_pad", b.pick(0, 1) == 1);
    b.check(node(b.graph, average ? "AveragePool" : "MaxPool", {input}, attributes)[0]);
  }
}

// Kernels without such tests of their own: pools, concatenations, moves, scatters, separable convolutions.
TEST_CASE("elements that are NaN, infinite or subnormal pass through") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (unsigned seed = 0; seed < testing::instances(42); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t channels = seed % 2 ? 16 : b.pick(1, 40), height = b.pick(5, 12), width = b.pick(5, 12);
    ValueId x = b.input({1, channels, height, width});
    auto elements = b.inputs[0].mutable_data<float>();
    for (const float special : {nan, inf, -inf, 1e-41f, -1e-41f})
      elements[static_cast<std::size_t>(b.pick(0, static_cast<std::int64_t>(elements.size()) - 1))] = special;
    const Indices three{Index(3), Index(3)}, ones{Index(1), Index(1)};
    switch (seed % 7) {
      case 0:
        x = node(b.graph, "MaxPool", {x}, {{"kernel", three}, {"pads_begin", ones}, {"pads_end", ones}})[0];
        break;
      case 1:
        x = node(b.graph, "AveragePool", {x}, {{"kernel", three}, {"pads_begin", ones}, {"pads_end", ones}})[0];
        break;
      case 2:
        x = node(b.graph, "GlobalAveragePool", {x})[0];
        break;
      case 3:
        x = node(b.graph, "Relu", {node(b.graph, "Concat", {x, b.input({1, 5, height, width})}, {{"axis", Index(1)}})[0]})[0];
        break;
      case 4:
        x = b.convolution(b.convolution(x, channels, 3, 1, 1, channels), 16, 1, 0);
        break;
      case 5: {
        std::vector<std::int64_t> rows{0, height - 1};
        const ValueId at = b.graph.add_constant(Tensor::from_integers(DataType::kInt64, {2}, rows));
        x = node(b.graph, "Gather", {x, at}, {{"axis", Index(2)}})[0];
        break;
      }
      default: {
        std::vector<std::int64_t> row{0};
        const ValueId at = b.graph.add_constant(Tensor::from_integers(DataType::kInt64, {1, 1}, row));
        x = node(b.graph, "ScatterND", {x, at, b.input({1, channels, height, width})}, {{"reduction", std::string("add")}})[0];
      }
    }
    b.check(x);
  }
}

TEST_CASE("matrix products") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t m = b.pick(1, 33), n = b.pick(1, 33), k = b.pick(1, 40), batch = b.pick(1, 3);
    const DataType type = seed % 4 == 3 ? DataType::kDouble : DataType::kFloat;
    static const int kForms = 6;
    ValueId y = kNoValue;
    switch (seed % kForms) {
      case 0:
        y = node(b.graph, "MatMul", {b.input(type, {m, k}), b.input(type, {k, n})})[0];
        break;
      case 1:
        y = node(b.graph, "MatMul", {b.input(type, {batch, 2, m, k}), b.input(type, {2, k, n})})[0];
        break;
      case 2:
        y = node(b.graph, "MatMul", {b.input(type, {k}), b.input(type, {batch, k, n})})[0];
        break;
      case 3:
        y = node(b.graph, "MatMul", {b.input(type, {batch, m, k}), b.input(type, {k})})[0];
        break;
      case 4:
        y = node(b.graph, "MatMul", {b.input({batch, m, k}), b.constant({k, n})})[0];
        break;
      default: {
        const ValueId q = node(b.graph, "Transpose", {b.input(type, {batch, m, 4, k})},
                               {{"perm", to_indices(std::vector<std::int64_t>{0, 2, 1, 3})}})[0];
        const ValueId r = node(b.graph, "Transpose", {b.input(type, {batch, n, 4, k})},
                               {{"perm", to_indices(std::vector<std::int64_t>{0, 2, 3, 1})}})[0];
        y = node(b.graph, "MatMul", {q, r})[0];
      }
    }
    if (seed % kForms == 4) {
      y = node(b.graph, "Add", {y, b.constant({n})})[0];
      if (b.pick(0, 1)) y = node(b.graph, "Gelu", {y})[0];
      if (b.pick(0, 1)) y = node(b.graph, "Add", {y, b.input({batch, m, n})})[0];
    }
    b.check(y);
  }
}

TEST_CASE("pieces of a product are read where they are") {
  // Queries, keys and values computed as one product.
  for (unsigned seed = 0; seed < 4; ++seed) {
    KernelBuilder b(seed);
    const std::int64_t rows = b.pick(5, 40), heads = b.pick(2, 4), size = b.pick(3, 16), width = heads * size;
    const ValueId x = b.input({1, rows, width});
    const ValueId all = node(b.graph, "MatMul", {x, b.constant({width, 3 * width})})[0];
    const auto parts = node(b.graph, "Split", {all}, {{"axis", Index(2)}, {"sizes", to_indices(Sizes{width, width, width})}});
    const auto by_head = [&](ValueId v, Indices perm) {
      const ValueId r = node(b.graph, "Reshape", {v}, {{"shape", to_indices(Sizes{1, rows, heads, size})}})[0];
      return node(b.graph, "Transpose", {r}, {{"perm", std::move(perm)}})[0];
    };
    const ValueId scores = node(b.graph, "MatMul", {by_head(parts[0], {0, 2, 1, 3}), by_head(parts[1], {0, 2, 3, 1})})[0];
    const ValueId soft = node(b.graph, "Softmax", {scores}, {{"axis", Index(-1)}})[0];
    b.graph.add_output("y", node(b.graph, "MatMul", {soft, by_head(parts[2], {0, 2, 1, 3})})[0]);
    for (const std::string& step : b.steps()) CHECK_THAT(step, Catch::Contains("MatMul"));
    check_graph(b.graph, b.inputs, 5e-4);
  }
  // Functions of slices are one step each, whatever else reads them.
  for (unsigned seed = 0; seed < testing::instances(10); ++seed) {
    KernelBuilder b(seed);
    const std::int64_t n = b.pick(1, 9), l = b.pick(1, 20), m = b.pick(1, 20);
    const ValueId product = node(b.graph, "MatMul", {b.input({n, 7}), b.constant({7, l + m})})[0];
    const auto parts = node(b.graph, "Split", {product}, {{"axis", Index(1)}, {"sizes", to_indices(Sizes{l, m})}});
    const ValueId relu = node(b.graph, "Relu", {parts[0]})[0], tanh = node(b.graph, "Tanh", {parts[1]})[0];
    b.graph.add_output("relu", relu);
    b.graph.add_output("tanh", tanh);
    if (seed % 2 == 0) CHECK(b.steps().size() == 3);
    if (seed % 2 == 1) b.graph.add_output("piece", parts[seed % 4 / 2]);
    if (seed % 3 == 1)
      b.graph.add_output("flat", node(b.graph, "Reshape", {parts[1]}, {{"shape", to_indices(Sizes{n * m})}})[0]);
    check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("general matrix products") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t m = b.pick(1, 20), n = b.pick(1, 20), k = b.pick(1, 20);
    const bool ta = b.pick(0, 1), tb = b.pick(0, 1);
    const Sizes a{ta ? k : m, ta ? m : k}, w{tb ? n : k, tb ? k : n};
    std::vector<ValueId> inputs{b.input(a), seed % 2 ? b.constant(w) : b.input(w)};
    switch (seed % 5) {
      case 0:
        inputs.push_back(b.constant({n}));
        break;
      case 1:
        inputs.push_back(b.input({m, 1}));
        break;
      case 2:
        inputs.push_back(b.input({m, n}));
        break;
      case 3:
        inputs.push_back(b.input({1}));
        break;
      default:
        break;
    }
    b.check(node(b.graph, "Gemm", inputs, {{"alpha", Real(0.5)}, {"beta", Real(1.5)}, {"transA", ta}, {"transB", tb}})[0]);
  }
}

TEST_CASE("small networks") {
  for (unsigned seed = 0; seed < testing::instances(12); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    ValueId x = b.input({1, 3, 20, 18});
    for (int layer = 0; layer < 5; ++layer) {
      const std::int64_t channels = b.pick(0, 1) ? 16 * b.pick(1, 2) : b.pick(3, 20);
      ValueId y = b.convolution(x, channels, 3, 1, layer == 0 ? 2 : 1);
      if (b.pick(0, 1)) y = b.batch_norm(y);
      if (b.pick(0, 1)) y = node(b.graph, "Relu", {y})[0];
      if (b.pick(0, 2) == 0)
        y = node(b.graph, "Concat", {y, b.convolution(y, 16, 1, 0), b.convolution(y, 8, 1, 0)}, {{"axis", Index(1)}})[0];
      if (b.pick(0, 2) == 0) y = node(b.graph, "Add", {y, b.convolution(y, b.graph.value(y).type.shape[1].value(), 3, 1)})[0];
      x = y;
    }
    x = node(b.graph, "GlobalAveragePool", {x})[0];
    x = node(b.graph, "Flatten", {x}, {{"axis", Index(1)}})[0];
    b.check(node(b.graph, "Softmax", {x}, {{"axis", Index(1)}})[0], 1e-4);
  }
}

TEST_CASE("sizes bound when the model runs, constants in double") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), 3, 8, 8}});
  std::mt19937 random(1);
  const ValueId w = graph.add_constant(random_tensor(random, DataType::kFloat, {4, 3, 3, 3}));
  const ValueId y = node(graph, "Conv", {x, w})[0];
  graph.add_output("y", node(graph, "Relu", {y})[0]);
  const auto session = cpu_backend().prepare(graph);
  for (const std::int64_t n : {1, 3, 1}) {
    const Tensor input = random_tensor(random, DataType::kFloat, {n, 3, 8, 8});
    CHECK(session->run({&input, 1})[0].sizes() == Sizes{n, 4, 6, 6});
    check_graph(graph, {&input, 1});
  }
  const Tensor wrong = random_tensor(random, DataType::kFloat, {1, 3, 8, 9});
  CHECK_THROWS_AS(session->run({&wrong, 1}), Error);

  Graph constants;
  const ValueId a = constants.add_constant(random_tensor(random, DataType::kFloat, {30, 40}));
  const ValueId c = constants.add_constant(random_tensor(random, DataType::kFloat, {40, 20}));
  constants.add_output("p", node(constants, "MatMul", {a, c})[0]);
  SessionOptions options;
  options.precision_double = true;
  const Tensor exact = cpu_backend().prepare(constants, options)->run({})[0];
  CHECK(exact == interpret(constants, {})[0]);
}

TEST_CASE("rows of an affine grid differ by a number for each coordinate") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t rank = b.pick(2, 3);
    Indices size{b.pick(1, 4), b.pick(1, 3)};
    for (std::int64_t a = 0; a < rank; ++a) size.emplace_back(b.pick(0, 3) == 0 ? 1 : b.pick(1, rank == 2 ? 40 : 12));
    const ValueId theta = b.input(seed % 3 == 0 ? DataType::kDouble : DataType::kFloat, {size[0].value(), rank, rank + 1});
    b.check(node(b.graph, "AffineGrid", {theta}, {{"size", size}, {"align_corners", b.pick(0, 1) == 1}})[0]);
  }
}
