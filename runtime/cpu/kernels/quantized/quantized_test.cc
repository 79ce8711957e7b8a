// 8-bit integers against the interpreter: quantized operators exactly; operators between dequantization and quantization up to
// one quantum where the real result is close to a tie.
#include <algorithm>
#include <array>
#include <cmath>

#include "operators/testing/share.h"
#include "runtime/cpu/base/tile_registers.h"
#include "runtime/cpu/testing/graphs.h"

namespace rewright::cpu {

namespace {

using testing::GraphBuilder;
using testing::node;

constexpr DataType kTypes[] = {DataType::kInt8, DataType::kUint8};

std::vector<Tensor> run_at(const Graph& graph, std::span<const Tensor> inputs, Isa isa) {
  SessionOptions options;
  options.max_isa = isa;
  return cpu_backend().prepare(graph, options)->run(inputs);
}

// On three threads, in as many pieces as possible.
std::vector<Tensor> run_in_pieces(const Graph& graph, std::span<const Tensor> inputs, Isa isa) {
  cpu::PlanOptions options;
  options.isa = isa;
  options.threads = 3;
  options.piece_nanoseconds = 0;
  return cpu::PlanRunner(cpu::make_plan(graph, options)).run(inputs);
}

// No element is off by more than one quantum, and few are off at all.
void check_quanta(const GraphBuilder& b, double often = 0.01) {
  const std::vector<Tensor> expected = interpret(b.graph, b.inputs);
  for (const Isa isa : testing::tested_isas()) {
    const std::vector<Tensor> actual = run_at(b.graph, b.inputs, isa);
    REQUIRE(run_in_pieces(b.graph, b.inputs, isa) == actual);
    for (std::size_t o = 0; o < expected.size(); ++o) {
      INFO(to_string(b.graph) << "output " << o << ", isa " << cpu::name(isa));
      REQUIRE(actual[o].type() == expected[o].type());
      REQUIRE(actual[o].sizes() == expected[o].sizes());
      const auto a = actual[o].integers(), e = expected[o].integers();
      std::size_t differ = 0;
      for (std::size_t i = 0; i < e.size(); ++i) {
        INFO("element " << i << " of " << e.size() << ": " << a[i] << ", expected " << e[i]);
        if (std::abs(a[i] - e[i]) > 1) REQUIRE(false);
        differ += a[i] != e[i];
      }
      REQUIRE(static_cast<double>(differ) <= 1 + often * static_cast<double>(e.size()));
    }
  }
}

class QuantizedBuilder : public GraphBuilder {
 public:
  using GraphBuilder::GraphBuilder;

  DataType type() { return kTypes[pick(0, 1)]; }
  double low(DataType t) const { return t == DataType::kInt8 ? -128 : 0; }
  // All values of the type, or only extreme ones, pairs of whose products exceed 16 bits.
  Tensor elements(DataType t, const Sizes& sizes) {
    Tensor tensor = testing::random_tensor(random, t, sizes, low(t), low(t) + 256);
    if (pick(0, 2) > 0) return tensor;
    std::vector<double> values = tensor.reals();
    for (double& v : values) v = pick(0, 1) == 0 ? low(t) : low(t) + 255;
    return Tensor::from_reals(t, sizes, values);
  }
  // Rows, depth and columns of a product: a few, or more than one tile of registers has.
  std::array<std::int64_t, 3> product_sizes(std::int64_t most_rows) {
    if (pick(0, 3) > 0) return {pick(1, most_rows), pick(1, 70), pick(1, 70)};
    return {pick(1, 100), pick(1, 400), pick(1, 70)};
  }
  ValueId quantized_input(DataType t, const Sizes& sizes) {
    inputs.push_back(elements(t, sizes));
    return graph.add_input("x" + std::to_string(inputs.size()), {t, to_indices(sizes)});
  }
  ValueId quantized_constant(DataType t, const Sizes& sizes) { return graph.add_constant(elements(t, sizes)); }
  // Zero points: none, 0, extreme, or any; one, or `count`.
  ValueId zero_point(DataType t, std::int64_t count = 0) {
    const Sizes sizes = count > 0 ? Sizes{count} : Sizes{};
    switch (pick(0, 4)) {
      case 0:
        return graph.add_constant(
            Tensor::from_reals(t, sizes, std::vector<double>(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)), 0.0)));
      case 1:
        return graph.add_constant(elements(t, sizes));
      default:
        return graph.add_constant(testing::random_tensor(random, t, sizes, low(t), low(t) + 256));
    }
  }
  ValueId scale(double low, double high, std::int64_t count = 0) {
    return constant(count > 0 ? Sizes{count} : Sizes{}, low, high);
  }

  struct Window {
    Sizes x, w;
    std::vector<std::pair<std::string, AttributeValue>> attributes;
    std::int64_t outputs = 0;
  };
  Window window(bool by_channel) {
    const std::int64_t axes = pick(1, 2), group = by_channel ? pick(2, 40) : pick(0, 2) == 0 ? pick(2, 4) : 1;
    const std::int64_t inputs = by_channel ? 1 : pick(0, 2) == 0 ? pick(1, 4) : pick(1, 40);
    Window r;
    r.outputs = by_channel ? group : group * pick(1, 40);
    r.x = {pick(1, 2), group * inputs};
    r.w = {r.outputs, inputs};
    Indices strides, dilations, begin, end;
    for (std::int64_t a = 0; a < axes; ++a) {
      const std::int64_t kernel = pick(0, 1) == 0 ? 1 : pick(1, 5), dilation = pick(0, 3) == 0 ? 2 : 1;
      r.w.push_back(kernel);
      r.x.push_back((kernel - 1) * dilation + pick(1, 18));
      strides.push_back(pick(1, 2));
      dilations.push_back(dilation);
      begin.push_back(pick(0, 1) == 0 ? 0 : pick(0, kernel));
      end.push_back(pick(0, 1) == 0 ? 0 : pick(0, kernel));
    }
    r.attributes = {
        {"strides", strides}, {"dilations", dilations}, {"pads_begin", begin}, {"pads_end", end}, {"group", Index(group)}};
    return r;
  }

  // x dequantized with its own scale and zero point.
  ValueId dequantized(ValueId x, ValueId s, ValueId zero, std::int64_t axis = 1) {
    return node(graph, "DequantizeLinear", {x, s, zero}, {{"axis", Index(axis)}})[0];
  }
  ValueId quantized(ValueId x, ValueId s, DataType t) { return node(graph, "QuantizeLinear", {x, s, zero_point(t)})[0]; }
  // Quantized with a scale that spreads sums of `terms` products over the type's range.
  ValueId quantized_sum(ValueId x, DataType t, std::int64_t terms, double scales) {
    const double spread = scales * 5000 * std::sqrt(static_cast<double>(terms)) / 100;
    return quantized(x, scale(0.5 * spread, 2 * spread), t);
  }
};

}  // namespace

TEST_CASE("integer convolutions are exact") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    QuantizedBuilder b(seed);
    const auto w = b.window(seed % 3 == 0);
    const DataType x_type = b.type(), w_type = b.type();
    const ValueId x = b.quantized_input(x_type, w.x), weights = b.quantized_constant(w_type, w.w);
    std::vector<ValueId> inputs{x, weights};
    if (b.pick(0, 3) > 0) inputs.push_back(b.zero_point(x_type));
    if (inputs.size() == 3 && b.pick(0, 1) == 0) inputs.push_back(b.zero_point(w_type, b.pick(0, 1) == 0 ? w.outputs : 0));
    if (inputs.size() >= 3 && b.pick(0, 3) == 0) inputs[2] = b.quantized_input(x_type, {});
    b.graph.add_output("y", node(b.graph, "ConvInteger", inputs, w.attributes)[0]);
    testing::check_graph(b.graph, b.inputs, 0);
  }
}

TEST_CASE("convolutions of quantized tensors are exact") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    QuantizedBuilder b(seed);
    const auto w = b.window(seed % 3 == 0);
    const DataType x_type = b.type(), w_type = b.type(), y_type = b.type();
    const double terms = static_cast<double>(element_count(w.w) / w.outputs);
    const std::int64_t scales = b.pick(0, 1) == 0 ? w.outputs : 0;
    std::vector<ValueId> inputs{b.quantized_input(x_type, w.x),
                                b.scale(0.01, 0.1),
                                b.zero_point(x_type),
                                b.quantized_constant(w_type, w.w),
                                b.scale(0.01, 0.1, scales),
                                b.zero_point(w_type, scales),
                                b.scale(0.1 * std::sqrt(terms), std::sqrt(terms)),
                                b.zero_point(y_type)};
    if (b.pick(0, 1) == 0)
      inputs.push_back(b.graph.add_constant(testing::random_tensor(b.random, DataType::kInt32, {w.outputs}, -9000, 9000)));
    b.graph.add_output("y", node(b.graph, "QLinearConv", inputs, w.attributes)[0]);
    testing::check_graph(b.graph, b.inputs, 0);
  }
}

TEST_CASE("products of quantized tensors are exact") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    QuantizedBuilder b(seed);
    const auto [m, k, n] = b.product_sizes(30);
    const DataType a_type = b.type(), b_type = b.type(), y_type = b.type();
    Sizes sizes{m, k};
    if (b.pick(0, 2) == 0) sizes.insert(sizes.begin(), b.pick(1, 3));
    const std::int64_t columns = b.pick(0, 1) == 0 ? n : 0;
    const ValueId left = b.quantized_input(a_type, sizes), right = b.quantized_constant(b_type, {k, n});
    const ValueId a_zero = b.pick(0, 3) == 0 ? b.quantized_input(a_type, {}) : b.zero_point(a_type);
    const ValueId b_zero = b.zero_point(b_type, columns);
    b.graph.add_output("sums", node(b.graph, "MatMulInteger", {left, right, a_zero, b_zero})[0]);
    const double root = std::sqrt(static_cast<double>(k));
    b.graph.add_output("y", node(b.graph, "QLinearMatMul",
                                 {left, b.scale(0.01, 0.1), b.zero_point(a_type), right, b.scale(0.01, 0.1, columns), b_zero,
                                  b.scale(0.1 * root, root), b.zero_point(y_type)})[0]);
    testing::check_graph(b.graph, b.inputs, 0);
  }
}

TEST_CASE("products whose weights and parameters are computed are exact") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    QuantizedBuilder b(seed);
    const auto [m, k, n] = b.product_sizes(60);
    const DataType a_type = b.type(), b_type = b.type(), y_type = b.type();
    Sizes left_sizes{m, k}, right_sizes{k, n};
    if (b.pick(0, 2) == 0) left_sizes.insert(left_sizes.begin(), b.pick(1, 3));
    if (b.pick(0, 2) == 0) right_sizes.insert(right_sizes.begin(), left_sizes.size() > 2 ? left_sizes[0] : b.pick(1, 3));
    if (left_sizes.size() == 3 && right_sizes.size() == 3 && b.pick(0, 1)) (b.pick(0, 1) ? left_sizes : right_sizes)[0] = 1;
    const auto entries = [&](std::int64_t count) {
      return b.pick(0, 1) ? Sizes{count} : Sizes{b.pick(0, 1) ? Sizes{} : Sizes{1}};
    };
    const ValueId left = b.quantized_input(a_type, left_sizes);
    const ValueId right =
        b.pick(0, 2) == 0 ? b.quantized_constant(b_type, right_sizes) : b.quantized_input(b_type, right_sizes);
    const ValueId a_zero = b.quantized_input(a_type, entries(m)), b_zero = b.quantized_input(b_type, entries(n));
    b.graph.add_output("sums", node(b.graph, "MatMulInteger", {left, right, a_zero, b_zero})[0]);
    b.graph.add_output("plain", node(b.graph, "MatMulInteger", {left, right})[0]);
    const double root = std::sqrt(static_cast<double>(k));
    b.graph.add_output("y", node(b.graph, "QLinearMatMul",
                                 {left, b.input(DataType::kFloat, {}, 0.01, 0.1), a_zero, right,
                                  b.input(DataType::kFloat, entries(n), 0.01, 0.1), b_zero,
                                  b.input(DataType::kFloat, {}, 0.1 * root, root), b.quantized_input(y_type, {})})[0]);
    testing::check_graph(b.graph, b.inputs, 0);
  }
}

TEST_CASE("results in the middle between two integers are rounded to the even one") {
  for (unsigned seed = 0; seed < testing::instances(20); ++seed) {
    QuantizedBuilder b(seed);
    const auto [m, k, n] = b.product_sizes(30);
    const DataType a_type = b.type(), y_type = b.type();
    const ValueId left = b.quantized_input(a_type, {m, k}), right = b.quantized_constant(DataType::kInt8, {k, n});
    const auto power = [&](int low, int high) {
      const std::vector<double> number{std::ldexp(1.0, static_cast<int>(b.pick(low, high)))};
      return b.graph.add_constant(Tensor::from_reals(DataType::kFloat, {}, number));
    };
    const ValueId zero = b.graph.add_constant(Tensor::from_integers(DataType::kInt8, {}, std::vector<std::int64_t>{0}));
    b.graph.add_output("y", node(b.graph, "QLinearMatMul",
                                 {left, power(-4, 0), b.zero_point(a_type), right, power(-4, 0), zero, power(-2, 8),
                                  b.zero_point(y_type)})[0]);
    testing::check_graph(b.graph, b.inputs, 0);
  }
}

// Does this thread have tiles that the operating system would have to save?
bool has_tiles_in_use() {
  constexpr std::uint32_t kInUse = 1, kTileData = 18;
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(kInUse));
  return (low >> kTileData & 1) != 0;
}

TEST_CASE("tile registers are given back") {
  if (!has_tile_registers()) {
    WARN("not tested: this processor has no tile registers");
    return;
  }
  QuantizedBuilder b(1);
  const ValueId x = b.quantized_input(DataType::kUint8, {40, 300}), w = b.quantized_constant(DataType::kInt8, {300, 70});
  b.graph.add_output("constant", node(b.graph, "MatMulInteger", {x, w})[0]);
  b.graph.add_output("computed", node(b.graph, "MatMulInteger", {x, b.quantized_input(DataType::kInt8, {300, 70})})[0]);
  const auto session = cpu_backend().prepare(b.graph, SessionOptions());
  for (int run = 0; run < 3; ++run) {
    session->run(b.inputs);
    CHECK(!has_tiles_in_use());
  }
}

TEST_CASE("sums of pairs of the largest products do not saturate") {
  for (const DataType type : kTypes) {
    GraphBuilder b(1);
    const double largest = type == DataType::kInt8 ? -128 : 255;
    const std::int64_t k = 4096;
    b.inputs.push_back(Tensor::from_reals(type, {3, k}, std::vector<double>(static_cast<std::size_t>(3 * k), largest)));
    const ValueId x = b.graph.add_input("x", {type, {3, Index(k)}});
    for (const double w : {-128.0, 127.0}) {
      const ValueId right = b.graph.add_constant(
          Tensor::from_reals(DataType::kInt8, {k, 5}, std::vector<double>(static_cast<std::size_t>(5 * k), w)));
      b.graph.add_output("y" + std::to_string(w), node(b.graph, "MatMulInteger", {x, right})[0]);
    }
    testing::check_graph(b.graph, b.inputs, 0);
  }
}

TEST_CASE("convolutions between dequantization and quantization are one step") {
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    QuantizedBuilder b(seed);
    const auto w = b.window(seed % 3 == 0);
    const DataType x_type = b.type(), w_type = b.type(), y_type = b.type();
    const std::int64_t terms = element_count(w.w) / w.outputs, scales = b.pick(0, 1) == 0 ? w.outputs : 0;
    const ValueId x = b.dequantized(b.quantized_input(x_type, w.x), b.scale(0.01, 0.1), b.zero_point(x_type));
    const ValueId weights =
        b.dequantized(b.quantized_constant(w_type, w.w), b.scale(0.01, 0.1, scales), b.zero_point(w_type, scales), 0);
    std::vector<ValueId> inputs{x, weights};
    if (b.pick(0, 1) == 0) inputs.push_back(b.constant({w.outputs}));
    ValueId y = node(b.graph, "Conv", inputs, w.attributes)[0];
    if (b.pick(0, 3) == 0) y = b.batch_norm(y);
    if (b.pick(0, 2) == 0) y = node(b.graph, "Relu", {y})[0];
    b.graph.add_output("y", b.quantized_sum(y, y_type, terms, 0.05 * 0.05));
    CHECK(b.steps().size() == 1);
    check_quanta(b);
  }
}

TEST_CASE("products between dequantization and quantization are one step") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    QuantizedBuilder b(seed);
    const std::int64_t m = b.pick(1, 30), k = b.pick(1, 70), n = b.pick(1, 70);
    const bool general = b.pick(0, 1) == 0, transposed = general && b.pick(0, 1) == 0;
    const DataType a_type = b.type(), b_type = b.type(), y_type = b.type();
    Sizes sizes{m, k};
    if (!general && b.pick(0, 2) == 0) sizes.insert(sizes.begin(), b.pick(1, 3));
    const std::int64_t columns = b.pick(0, 1) == 0 ? n : 0;
    const ValueId left = b.dequantized(b.quantized_input(a_type, sizes), b.scale(0.01, 0.1), b.zero_point(a_type));
    const ValueId right = b.dequantized(b.quantized_constant(b_type, transposed ? Sizes{n, k} : Sizes{k, n}),
                                        b.scale(0.01, 0.1, columns), b.zero_point(b_type, columns), transposed ? 0 : 1);
    ValueId y = kNoValue;
    if (general)
      y = node(b.graph, "Gemm", {left, right, b.constant({n})},
               {{"alpha", Real(0.5)}, {"beta", Real(2.0)}, {"transB", transposed}})[0];
    else
      y = node(b.graph, "Add", {node(b.graph, "MatMul", {left, right})[0], b.constant({n})})[0];
    if (b.pick(0, 2) == 0) y = node(b.graph, "Relu", {y})[0];
    b.graph.add_output("y", b.quantized_sum(y, y_type, k, 0.05 * 0.05));
    CHECK(b.steps().size() == 1);
    check_quanta(b);
  }
}

TEST_CASE("what becomes of integer sums is part of their product") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    QuantizedBuilder b(seed);
    const auto [m, k, n] = b.product_sizes(30);
    const DataType a_type = b.type(), b_type = b.type(), y_type = b.type();
    const ValueId left = b.quantized_input(a_type, {m, k}), right = b.quantized_constant(b_type, {k, n});
    ValueId y = node(b.graph, "MatMulInteger", {left, right, b.zero_point(a_type), b.zero_point(b_type)})[0];
    if (b.pick(0, 1) == 0)
      y = node(b.graph, "Add",
               {y, b.graph.add_constant(testing::random_tensor(b.random, DataType::kInt32, {n}, -9000, 9000))})[0];
    y = node(b.graph, "Cast", {y}, {{"to", DataType::kFloat}})[0];
    if (b.pick(0, 3) > 0) y = node(b.graph, "Mul", {y, b.scale(0.001, 0.003, b.pick(0, 1) == 0 ? n : 0)})[0];
    const bool quantizes = b.pick(0, 1) == 0;
    b.graph.add_output("y", quantizes ? b.quantized_sum(y, y_type, k, 0.002) : y);
    CHECK(b.steps().size() == 1);
    if (quantizes)
      check_quanta(b);
    else
      testing::check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("real results of quantized operands stay reals") {
  for (unsigned seed = 0; seed < testing::instances(20); ++seed) {
    QuantizedBuilder b(seed);
    const std::int64_t m = b.pick(1, 30), k = b.pick(1, 70), n = b.pick(1, 70);
    const DataType a_type = b.type(), b_type = b.type();
    const ValueId left = b.dequantized(b.quantized_input(a_type, {m, k}), b.scale(0.01, 0.1), b.zero_point(a_type));
    const ValueId right = b.dequantized(b.quantized_constant(b_type, {k, n}), b.scale(0.01, 0.1), b.zero_point(b_type));
    b.graph.add_output("y", node(b.graph, "Add", {node(b.graph, "MatMul", {left, right})[0], b.constant({n})})[0]);
    CHECK(b.steps().size() == 1);
    testing::check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("a second quantization is part of the convolution") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    QuantizedBuilder b(seed);
    const std::int64_t channels = b.pick(1, 40), outputs = b.pick(1, 40), size = b.pick(1, 12);
    const DataType x_type = b.type(), w_type = b.type(), y_type = b.type(), z_type = b.type();
    const ValueId x =
        b.dequantized(b.quantized_input(x_type, {1, channels, size, size}), b.scale(0.01, 0.1), b.zero_point(x_type));
    const ValueId weights =
        b.dequantized(b.quantized_constant(w_type, {outputs, channels, 1, 1}), b.scale(0.01, 0.1), b.zero_point(w_type));
    const ValueId sum = node(b.graph, "Conv", {x, weights})[0];
    const double spread = 0.0025 * 50 * std::sqrt(static_cast<double>(channels));
    const ValueId y_scale = b.scale(0.5 * spread, 2 * spread), y_zero = b.zero_point(y_type);
    const ValueId y = b.dequantized(node(b.graph, "QuantizeLinear", {sum, y_scale, y_zero})[0], y_scale, y_zero);
    const bool adds = b.pick(0, 1) == 0;
    const ValueId other = adds ? b.dequantized(b.quantized_input(z_type, {1, outputs, size, size}),
                                               b.scale(0.5 * spread, 2 * spread), b.zero_point(z_type))
                               : b.constant({outputs, 1, 1}, -40 * spread, 40 * spread);
    ValueId z = node(b.graph, "Add", {y, other})[0];
    if (b.pick(0, 1) == 0) z = node(b.graph, "Relu", {z})[0];
    b.graph.add_output("z", b.quantized(z, b.scale(spread, 2 * spread), z_type));
    CHECK(b.steps().size() == 1);
    check_quanta(b, 0.02);
  }
}

TEST_CASE("a dequantized value that several nodes use is not stored") {
  QuantizedBuilder b(3);
  const ValueId x =
      b.dequantized(b.quantized_input(DataType::kUint8, {1, 16, 8, 8}), b.scale(0.01, 0.1), b.zero_point(DataType::kUint8));
  for (int n = 0; n < 3; ++n) {
    const ValueId w =
        b.dequantized(b.quantized_constant(DataType::kInt8, {8, 16, 1, 1}), b.scale(0.01, 0.1), b.zero_point(DataType::kInt8));
    b.graph.add_output("y" + std::to_string(n), b.quantized_sum(node(b.graph, "Conv", {x, w})[0], DataType::kInt8, 16, 0.0025));
  }
  CHECK(b.steps().size() == 3);
  check_quanta(b);
}

TEST_CASE("functions of one quantized tensor are tables") {
  for (unsigned seed = 0; seed < testing::instances(20); ++seed) {
    QuantizedBuilder b(seed);
    const std::int64_t channels = b.pick(2, 20), size = b.pick(8, 30);
    const DataType t = b.type(), u = b.type();
    ValueId x = b.quantized_input(t, {2, channels, size, size});
    const ValueId s = b.scale(0.01, 0.05), zero = b.zero_point(t);
    ValueId y = node(b.graph, "Erf", {b.dequantized(x, s, zero)})[0];
    y = b.dequantized(node(b.graph, "QuantizeLinear", {y, s, zero})[0], s, zero);
    y = node(b.graph, "Mul", {y, b.dequantized(x, s, zero)})[0];
    for (int n = 0; n < 4; ++n)  // with more scales and zero points than a step could have inputs
      y = b.dequantized(node(b.graph, "QuantizeLinear", {y, s, zero})[0], s, zero);
    y = node(b.graph, "Reshape", {y}, {{"shape", Indices{2, channels * size, size}}})[0];
    b.graph.add_output("y", b.quantized(y, b.scale(0.003, 0.03), u));
    CHECK(b.steps().size() == 1);
    check_quanta(b);
  }
}

// A pool of integers as a step, with operators before and after it.
TEST_CASE("pools between dequantization and quantization") {
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    CAPTURE(seed);
    QuantizedBuilder b(seed);
    const std::int64_t axes = b.pick(1, 3);
    const bool maximum = b.pick(0, 1) == 0, whole = !maximum && axes == 2 && b.pick(0, 2) == 0;
    const bool same = b.pick(0, 1) == 0, real = b.pick(0, 4) == 0;
    Sizes sizes{b.pick(1, 2), b.pick(0, 1) == 0 ? b.pick(1, 12) : b.pick(1, 150)};
    Indices kernel, strides, dilations, begin, end;
    for (std::int64_t a = 0; a < axes; ++a) {
      const std::int64_t k = b.pick(1, 4), dilation = maximum ? b.pick(1, 2) : 1, extent = (k - 1) * dilation + 1;
      kernel.push_back(k);
      dilations.push_back(dilation);
      strides.push_back(b.pick(1, 3));
      begin.push_back(b.pick(0, extent - 1));
      end.push_back(b.pick(0, extent - 1));
      sizes.push_back(std::max<std::int64_t>(extent, b.pick(1, 9)));
    }
    const DataType t = b.type(), u = same ? t : b.type();
    const ValueId s = b.scale(0.01, 0.1), zero = b.zero_point(t);
    ValueId y = b.dequantized(b.quantized_input(t, sizes), s, zero);
    std::vector<std::pair<std::string, AttributeValue>> attributes{
        {"kernel", kernel}, {"strides", strides}, {"pads_begin", begin}, {"pads_end", end}, {"dilations", dilations}};
    if (!maximum) attributes.emplace_back("count_include_pad", b.pick(0, 1) == 0);
    if (whole) attributes.clear();
    y = node(b.graph, whole ? "GlobalAveragePool" : maximum ? "MaxPool" : "AveragePool", {y}, attributes)[0];
    if (real) {
      b.graph.add_output("y", y);
      testing::check_graph(b.graph, b.inputs, 1e-6);
    } else {
      if (!same && b.pick(0, 1) == 0) y = node(b.graph, "Relu", {y})[0];
      y = same ? node(b.graph, "QuantizeLinear", {y, s, zero})[0] : b.quantized(y, b.scale(0.01, 0.1), u);
      b.graph.add_output("y", y);
      // Averages of integers are often ties, and floats slightly off.
      check_quanta(b, !maximum && same ? 0.6 : 0.01);
      if (maximum && same)
        for (const Isa isa : testing::tested_isas()) CHECK(run_at(b.graph, b.inputs, isa) == interpret(b.graph, b.inputs));
    }
    CHECK(b.steps().size() == 1);
  }
}

// With a negative scale a maximum belongs to the least integer, and no kernel computes it.
TEST_CASE("maxima of decreasing functions of integers, and maxima of integers") {
  for (unsigned seed = 0; seed < testing::instances(10); ++seed) {
    CAPTURE(seed);
    QuantizedBuilder b(seed);
    const DataType t = b.type();
    const Indices two{2, 2};
    const ValueId x = b.quantized_input(t, {1, b.pick(1, 70), 6, 7});
    const ValueId y = b.dequantized(x, b.scale(-0.1, -0.01), b.zero_point(t));
    b.graph.add_output("decreasing", node(b.graph, "MaxPool", {y}, {{"kernel", two}})[0]);
    b.graph.add_output("integers", node(b.graph, "MaxPool", {x}, {{"kernel", two}, {"strides", two}})[0]);
    testing::check_graph(b.graph, b.inputs, 1e-6);
  }
}

TEST_CASE("transposes between quantizations move bytes through tables") {
  for (unsigned seed = 0; seed < testing::instances(32); ++seed) {
    CAPTURE(seed);
    QuantizedBuilder b(seed);
    const std::int64_t rows = b.pick(9, 20), heads = b.pick(2, 5), depth = b.pick(8, 40);
    const bool merges = seed % 2 == 0, from_reals = seed / 2 % 2 == 0, to_reals = seed / 4 % 2 == 0;
    const DataType t = b.type(), u = b.type();
    const ValueId s = b.scale(0.01, 0.02), zero = b.zero_point(t);
    const Sizes sizes = merges ? Sizes{1, heads, rows, depth} : Sizes{1, rows, heads * depth};
    ValueId y = from_reals ? node(b.graph, "QuantizeLinear", {b.input(sizes), s, zero})[0] : b.quantized_input(t, sizes);
    y = b.dequantized(y, s, zero);
    const auto requantize = [&] { y = b.dequantized(node(b.graph, "QuantizeLinear", {y, s, zero})[0], s, zero); };
    if (!merges) {
      y = node(b.graph, "Reshape", {y}, {{"shape", Indices{1, rows, heads, depth}}})[0];
      requantize();
    }
    y = node(b.graph, "Transpose", {y}, {{"perm", Indices{0, 2, 1, 3}}})[0];
    requantize();
    if (merges) {
      y = node(b.graph, "Reshape", {y}, {{"shape", Indices{1, rows, heads * depth}}})[0];
      requantize();
    }
    if (to_reals) {
      b.graph.add_output("y", y);
      testing::check_graph(b.graph, b.inputs, 1e-5);
    } else {
      b.graph.add_output("y", b.quantized(y, b.scale(0.01, 0.03), u));
      check_quanta(b);
    }
    CHECK(b.steps().size() == (from_reals ? 2 : 1));
  }
}

TEST_CASE("elementwise operators between quantized tensors are one step") {
  for (unsigned seed = 0; seed < testing::instances(30); ++seed) {
    QuantizedBuilder b(seed);
    const Sizes sizes{1, b.pick(1, 20), b.pick(1, 9), b.pick(1, 9)};
    const DataType t = b.type(), u = b.type();
    const ValueId x = b.dequantized(b.quantized_input(t, sizes), b.scale(0.01, 0.1), b.zero_point(t));
    const ValueId z = b.dequantized(b.quantized_input(u, sizes), b.scale(0.01, 0.1), b.zero_point(u));
    ValueId y = node(b.graph, seed % 2 == 0 ? "Add" : "Mul", {x, z})[0];
    const ValueId s = b.scale(0.02, 0.2), zero = b.zero_point(u);
    y = b.dequantized(node(b.graph, "QuantizeLinear", {y, s, zero})[0], s, zero);
    y = node(b.graph, "Sigmoid", {y})[0];
    b.graph.add_output("y", b.quantized(y, b.scale(0.003, 0.006), t));
    CHECK(b.steps().size() == 1);
    check_quanta(b, 0.02);
  }
}

}  // namespace rewright::cpu
