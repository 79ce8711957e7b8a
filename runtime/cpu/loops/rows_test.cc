// Our own loops over rows, by themselves and in kernels.
#include "runtime/cpu/loops/rows.h"

#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;
using rewright::testing::random_tensor;
using rewright::testing::tested_isas;

namespace {

constexpr float kRowInfinity = std::numeric_limits<float>::infinity(), kRowNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> with_special_values(std::mt19937& random, std::size_t count) {
  const float special[] = {kRowInfinity, -kRowInfinity, kRowNan, 1e-42f, -1e-42f, 0.0f,
                           -0.0f,        3e38f,         -3e38f,  88.5f,  -88.5f,  -87.9f};
  std::uniform_real_distribution<float> uniform(-9, 9);
  std::vector<float> values(count);
  for (float& v : values) v = random() % 4 == 0 ? special[random() % std::size(special)] : uniform(random);
  return values;
}

bool close(double actual, double expected, double tolerance) {
  if (std::isnan(expected) || std::isinf(expected)) return std::isnan(expected) ? std::isnan(actual) : actual == expected;
  return std::fabs(actual - expected) <= tolerance;
}

struct RowBuilder : rewright::testing::GraphBuilder {
  using GraphBuilder::GraphBuilder;
  // Leaves its result in the layout of convolutions.
  ValueId convolution(ValueId x, std::int64_t outputs) {
    const Indices shape = graph.value(x).type.shape;
    Sizes weights(shape.size(), 1);
    weights[0] = outputs;
    weights[1] = shape[1].value();
    return node(graph, "Conv", {x, constant(weights)})[0];
  }
};

}  // namespace

TEST_CASE("loops over rows agree with their formulas, on special values too") {
  std::mt19937 random(1);
  for (const Isa isa : tested_isas()) {
    const cpu::RowLoops& loops = cpu::loops_for<cpu::RowLoops>(isa);
    for (const std::int64_t n : {0, 1, 3, 15, 16, 31, 64, 67, 200}) {
      CAPTURE(cpu::name(isa), n);
      const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 5), from = n + 3, to = n + 5;
      const auto count = static_cast<std::size_t>(n);
      const std::vector<float> x = with_special_values(random, static_cast<std::size_t>(rows * from));
      std::vector<float> scale(count), shift(count), y(static_cast<std::size_t>(rows * to), 7);
      for (std::size_t c = 0; c < count; ++c) {
        scale[c] = static_cast<float>(c % 5) - 1.5f;
        shift[c] = static_cast<float>(c % 3);
      }
      const auto bounded = [](double v, double low, double high) {
        return std::isnan(v) ? v : std::min(std::max(v, low), high);
      };
      int wrong = 0;

      loops.swish(y.data(), x.data(), n);
      for (std::size_t c = 0; c < count; ++c) {
        const double v = x[c], expected = v / (1 + std::exp(-v));
        wrong += !close(y[c], expected, 4 * std::fabs(expected) * 0x1p-24 + 1e-35);
      }
      CHECK(wrong == 0);

      const auto softplus = [](double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::fabs(v))); };
      loops.softplus(y.data(), x.data(), n);
      for (std::size_t c = 0; c < count; ++c) {
        const double expected = std::isnan(x[c]) ? kRowNan : softplus(x[c]);
        wrong += !close(y[c], expected, 8 * std::fabs(expected) * 0x1p-24 + 1e-35);
      }
      CHECK(wrong == 0);
      loops.mish(y.data(), x.data(), n);
      for (std::size_t c = 0; c < count; ++c) {
        const double v = x[c], expected = v * std::tanh(softplus(v));
        wrong += !close(y[c], expected, 12 * std::fabs(expected) * 0x1p-24 + 1e-35);
      }
      CHECK(wrong == 0);

      loops.gelu(y.data(), x.data(), n);
      for (std::size_t c = 0; c < count; ++c) {
        const double v = x[c], expected = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
        wrong += !close(y[c], expected, 1e-6 * std::fabs(v));
      }
      CHECK(wrong == 0);
      loops.gelu_tanh(y.data(), x.data(), n);
      for (std::size_t c = 0; c < count; ++c) {
        const double v = x[c], expected = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
        wrong += !close(y[c], expected, 1e-6 * std::fabs(v));
      }
      CHECK(wrong == 0);

      loops.scale_row(y.data(), x.data(), n, -1.5f, 0.5f, -2, 3);
      for (std::size_t c = 0; c < count; ++c) wrong += !close(y[c], bounded(x[c] * -1.5 + 0.5, -2, 3), 1e-6);
      CHECK(wrong == 0);

      // Memory between rows must stay unchanged.
      y.assign(y.size(), 7);
      loops.copy(y.data(), to, x.data(), from, rows, n);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < to; ++c)
          wrong += !close(y[static_cast<std::size_t>(r * to + c)], c < n ? x[static_cast<std::size_t>(r * from + c)] : 7, 0);
      CHECK(wrong == 0);
      y.assign(y.size(), 7);
      loops.scale_columns(y.data(), to, x.data(), from, rows, n, scale.data(), shift.data(), 0, kRowInfinity);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < to; ++c) {
          const auto k = static_cast<std::size_t>(c);
          // In float, where a product overflows.
          const float v = c < n ? x[static_cast<std::size_t>(r * from + c)] * scale[k] + shift[k] : 7;
          const double expected = c < n ? bounded(v, 0, kRowInfinity) : 7;
          wrong += !close(y[static_cast<std::size_t>(r * to + c)], expected, 1e-6 * std::fabs(expected) + 1e-40);
        }
      CHECK(wrong == 0);

      // The rows as a window of `rows` by 1, of 1 by `rows`, and as slices.
      for (const cpu::RowLoops::Window window :
           {cpu::RowLoops::Window{rows, from, 1, 0}, {1, 0, rows, from}, {0, from, 1, 0}, {1, 0, 1, 0, rows, from}}) {
        const std::int64_t taps = window.slices * window.rows * window.columns;
        const cpu::RowLoops::Ending plain{nullptr, -kRowInfinity, kRowInfinity};
        loops.window_maximum(y.data(), x.data(), window, n, plain);
        for (std::int64_t c = 0; c < n; ++c) {
          double expected = -kRowInfinity;
          for (std::int64_t r = 0; r < taps; ++r) {
            const double v = x[static_cast<std::size_t>(r * from + c)];
            if (std::isnan(v) || v > expected) expected = v;
            if (std::isnan(expected)) break;
          }
          wrong += !close(y[static_cast<std::size_t>(c)], expected, 0);
        }
        CHECK(wrong == 0);
        loops.window_sum(y.data(), x.data(), window, n, 0.25f, plain);
        for (std::int64_t c = 0; c < n; ++c) {
          float expected = 0;  // in float and in order, since sums of the largest numbers overflow
          for (std::int64_t r = 0; r < taps; ++r) expected += x[static_cast<std::size_t>(r * from + c)];
          expected *= 0.25f;
          wrong += !close(y[static_cast<std::size_t>(c)], expected, 1e-6 * std::fabs(expected));
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("concatenations along the channels, with what scales and bounds them") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    RowBuilder b(seed);
    const std::int64_t batch = b.pick(1, 3);
    Sizes image;
    for (std::int64_t a = b.pick(1, 3); a > 0; --a) image.push_back(b.pick(1, 9));
    std::vector<ValueId> parts;
    for (std::int64_t k = b.pick(1, 4); k > 0; --k) {
      Sizes sizes{batch, b.pick(0, 1) ? 16 * b.pick(1, 5) : b.pick(1, 40)};
      sizes.insert(sizes.end(), image.begin(), image.end());
      const ValueId x = b.input(sizes);
      parts.push_back(seed % 4 == 0 ? x : b.convolution(x, b.pick(1, 70)));
    }
    if (b.pick(0, 3) == 0) parts.push_back(parts[0]);
    ValueId y = node(b.graph, "Concat", parts, {{"axis", Index(1)}})[0];
    if (b.pick(0, 2)) y = b.batch_norm(y);
    switch (b.pick(0, 3)) {
      case 0:
        y = node(b.graph, "Relu", {y})[0];
        break;
      case 1:
        y = node(b.graph, "Clip", {y, b.constant({}, -0.5, -0.1), b.constant({}, 0.1, 0.9)})[0];
        break;
      case 2:  // stays a separate step
        y = node(b.graph, "Sigmoid", {y})[0];
        break;
      default:
        break;
    }
    b.graph.add_output("y", b.pick(0, 1) ? b.convolution(y, 5) : y);
    check_graph(b.graph, b.inputs, 5e-5);
  }
}

TEST_CASE("a concatenation takes its norm and its bounds along") {
  RowBuilder b(1);
  const ValueId x = b.input({1, 16, 8, 8});
  const ValueId whole = node(b.graph, "Concat", {b.convolution(x, 16), b.convolution(x, 32)}, {{"axis", Index(1)}})[0];
  b.graph.add_output("y", b.convolution(node(b.graph, "Relu", {b.batch_norm(whole)})[0], 8));
  CHECK(b.steps() == std::vector<std::string>{"Conv", "Conv", "Concat+BatchNormalization+Relu", "Conv"});
}

TEST_CASE("pools take in what is behind them") {
  RowBuilder b(1);
  const ValueId x = b.convolution(b.input({1, 3, 9, 9}), 11);
  const Indices three{Index(3), Index(3)}, ones{Index(1), Index(1)};
  const std::vector<std::pair<std::string, AttributeValue>> window{{"kernel", three}, {"pads_begin", ones}, {"pads_end", ones}};
  ValueId y = node(b.graph, "AveragePool", {x}, window)[0];
  y = node(b.graph, "Relu", {node(b.graph, "Add", {node(b.graph, "Add", {y, y})[0], x})[0]})[0];
  b.graph.add_output("y", y);
  check_graph(b.graph, b.inputs);
  CHECK(b.steps() == std::vector<std::string>{"Conv", "AveragePool+Add+Add+Relu"});
}

TEST_CASE("pools of images whose channels stand last") {
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    CAPTURE(seed);
    RowBuilder b(seed);
    const ValueId x = b.convolution(b.input({b.pick(1, 2), b.pick(1, 20), b.pick(1, 12), b.pick(1, 12)}), b.pick(1, 90));
    ValueId y = kNoValue;
    if (seed % 4 == 0) {
      y = node(b.graph, "GlobalAveragePool", {x})[0];
    } else {
      const bool average = seed % 2;
      const Indices shape = b.graph.value(x).type.shape;
      Indices kernel, strides, dilations, begin, end;
      for (std::size_t a = 2; a < 4; ++a) {
        const std::int64_t k = b.pick(1, std::min<std::int64_t>(4, shape[a].value()));
        const std::int64_t d = !average && (k - 1) * 2 < shape[a].value() ? b.pick(1, 2) : 1;
        kernel.push_back(k);
        dilations.push_back(d);
        strides.push_back(b.pick(1, 3));
        begin.push_back(b.pick(0, k - 1));
        end.push_back(b.pick(0, k - 1));
      }
      std::vector<std::pair<std::string, AttributeValue>> attributes{
          {"kernel", kernel},    {"strides", strides}, {"dilations", dilations},
          {"pads_begin", begin}, {"pads_end", end},    {"ceil_mode", b.pick(0, 1) == 1}};
      if (average) attributes.emplace_back("count_include_pad", b.pick(0, 1) == 1);
      y = node(b.graph, average ? "AveragePool" : "MaxPool", {x}, attributes)[0];
    }
    if (seed % 5 == 0) y = node(b.graph, "Add", {y, y})[0];
    if (seed % 3 == 0) y = node(b.graph, "Add", {b.input(values(b.graph.value(y).type.shape)), y})[0];
    if (seed % 7 == 0) y = node(b.graph, "Relu", {y})[0];
    b.graph.add_output("y", y);
    check_graph(b.graph, b.inputs, 5e-5);
  }
}

TEST_CASE("convolutions and products followed by x * sigmoid(x)") {
  for (unsigned seed = 0; seed < testing::instances(30); ++seed) {
    CAPTURE(seed);
    RowBuilder b(seed);
    ValueId y = kNoValue;
    if (seed % 3 == 0) {
      const std::int64_t k = b.pick(1, 30);
      y = node(b.graph, "MatMul", {b.input({b.pick(1, 2), b.pick(1, 40), k}), b.constant({k, b.pick(1, 90)})})[0];
    } else {
      const ValueId x = b.input({b.pick(1, 2), b.pick(1, 20), b.pick(1, 30), b.pick(1, 30)});
      y = b.convolution(x, b.pick(1, 70));
      if (b.pick(0, 1)) y = b.batch_norm(y);
      if (b.pick(0, 1)) y = node(b.graph, "Add", {y, b.convolution(x, b.graph.value(y).type.shape[1].value())})[0];
    }
    b.graph.add_output("y", node(b.graph, "Mul", {y, node(b.graph, "Sigmoid", {y})[0]})[0]);
    check_graph(b.graph, b.inputs, 5e-5);
  }
}
