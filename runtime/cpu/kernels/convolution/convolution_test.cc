// Our own convolutions against sums in double, for random shapes, on each instruction set.
#include "operators/testing/share.h"
#include "runtime/cpu/kernels/convolution/convolution_parts.h"
#include "runtime/cpu/kernels/convolution/convolution_testing.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;
using rewright::testing::random_tensor;
using rewright::testing::tested_isas;

namespace {

using cpu::ImageShape;
using cpu::Kernel;
using rewright::testing::Case;
using rewright::testing::kInf;
using rewright::testing::kNan;

void random_direct(Case& c) {
  c.s.group = c.pick(0, 2) == 0 ? c.pick(2, 4) : 1;
  c.s.images = c.pick(1, 2);
  c.s.channels = c.s.group * c.pick(1, 20);
  c.s.outputs = c.s.group * c.pick(1, 70);
  for (int a = 0; a < 2; ++a) {
    c.s.kernel[a] = c.pick(1, 4);
    c.s.strides[a] = c.pick(1, 3);
    c.s.dilations[a] = c.pick(1, 2);
  }
  c.s.height = c.pick(1, 9);
  c.s.width = c.pick(1, 40);
  c.fill();
}

// Groups of 4 or 8 channels, in vectors of `lanes`.
void random_groups(Case& c, std::int64_t lanes) {
  const std::int64_t width = lanes >= 8 && c.pick(0, 1) ? 8 : 4;
  c.s.channels = c.s.outputs = lanes * c.pick(1, 3);
  c.s.group = c.s.channels / width;
  c.s.images = c.pick(1, 2);
  c.s.kernel[0] = c.pick(1, 3);
  c.s.kernel[1] = 3;
  c.s.strides[0] = c.pick(1, 3);
  c.s.strides[1] = c.pick(1, 2);
  c.s.dilations[0] = c.pick(1, 2);
  c.s.height = c.pick(1, 9);
  c.s.width = c.pick(9, 25);  // at least four pixels of the result
  c.fill();
}

// Depthwise.
void random_depthwise(Case& c) {
  constexpr std::int64_t kWidths[] = {1, 3, 5, 7};
  c.s.channels = c.s.outputs = c.s.group = c.pick(1, 70);
  c.s.images = c.pick(1, 2);
  c.s.kernel[0] = c.pick(1, 7);
  c.s.kernel[1] = kWidths[c.pick(0, 3)];
  c.s.strides[0] = c.pick(1, 3);
  c.s.strides[1] = c.pick(1, 2);
  c.s.dilations[0] = c.pick(1, 2);
  if (c.s.strides[1] == 1) c.s.dilations[1] = c.pick(1, 4);
  c.s.height = c.pick(1, 12);
  c.s.width = c.pick(1, 40);
  c.fill();
}

std::unique_ptr<Kernel> depthwise(const Case& c, Isa isa, float floor = -kInf) {
  const cpu::DepthwiseConvolution convolution{c.s, c.given(), c.finish, floor};
  return cpu::make_depthwise_convolution({&convolution, 1}, isa);
}

}  // namespace

TEST_CASE("convolutions by channels, of random shapes") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(120); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      random_depthwise(c);
      REQUIRE(cpu::is_by_channel(c.s));
      if (seed % 3 == 0) c.finish.function = cpu::ResultFunction(cpu::loops_for<cpu::RowLoops>(isa).swish);
      const float floor = seed % 2 ? 0 : -kInf;
      c.run(*depthwise(c, isa, floor), 1 + static_cast<int>(seed % 3));
      for (float& x : c.x) x = std::max(x, floor);
      CHECK(c.error() < 1e-6);
    }
}

TEST_CASE("convolutions by channels with any windows, steps and dilations") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(120); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      c.s.images = c.pick(1, 2);
      c.s.channels = c.s.outputs = c.s.group = c.pick(1, 70);
      for (int a = 0; a < 2; ++a) c.s.kernel[a] = c.pick(1, 8), c.s.strides[a] = c.pick(1, 4), c.s.dilations[a] = c.pick(1, 4);
      c.s.height = c.pick(1, 12);
      c.s.width = c.pick(1, 40);
      c.fill();
      if (seed % 3 == 0) c.finish.function = cpu::ResultFunction(cpu::loops_for<cpu::RowLoops>(isa).swish);
      if (seed % 4 == 0) c.finish.y_stride = c.s.outputs + c.pick(0, 9);
      c.run(*cpu::make_window_convolution({c.s, {}}, c.given(), c.finish, isa), 1 + static_cast<int>(seed % 3));
      CHECK(c.error() < 1e-6);
    }
}

TEST_CASE("convolutions of few channels of images as ONNX has them, of random shapes") {
  // From pixels whose channels follow each other to planes, or back.
  const auto moved = [](const std::vector<float>& from, std::int64_t images, std::int64_t rows, std::int64_t columns) {
    std::vector<float> to;
    for (std::int64_t n = 0; n < images; ++n)
      for (std::int64_t c = 0; c < columns; ++c)
        for (std::int64_t r = 0; r < rows; ++r) to.push_back(from[static_cast<std::size_t>((n * rows + r) * columns + c)]);
    return to;
  };
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(120); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      random_depthwise(c);
      if (seed % 4 == 0) c.s.height = c.pick(40, 120), c.s.width = c.pick(30, 150);  // several bands of rows
      if (seed % 4 < 2)
        c.s.group = c.pick(1, 2), c.s.channels = c.s.group * c.pick(1, 4), c.s.outputs = c.s.group * c.pick(1, 13);
      c.finish = {};
      c.fill();
      REQUIRE(cpu::has_few_channels(c.s));
      if (seed % 3 == 0) c.finish.function = cpu::ResultFunction(cpu::loops_for<cpu::RowLoops>(isa).swish);
      if (seed % 7 == 0)
        for (const float special : {kNan, kInf, -kInf, 1e-41f}) c.x[c.random() % c.x.size()] = special;
      const float floor = seed % 2 ? 0 : -kInf;
      const auto kernel = cpu::make_plain_convolution({c.s, c.given(), c.finish, floor}, isa);
      const std::int64_t pixels = c.s.height * c.s.width, results = c.s.out_height * c.s.out_width;
      const std::vector<float> x = c.x, addend = c.addend;
      c.x = moved(x, c.s.images, pixels, c.s.channels);
      if (c.finish.addend) c.addend = moved(addend, c.s.images, results, c.s.outputs);
      c.run(*kernel, 1 + static_cast<int>(seed % 3));
      c.x = x, c.addend = addend, c.y = moved(c.y, c.s.images, c.s.outputs, results);
      for (float& v : c.x)
        if (v < floor) v = floor;
      CHECK(c.error() < 1e-6);
    }
}

// 3x3 and 1x1 windows over the same pixels: their sum is a 3x3 window.
TEST_CASE("sums of convolutions by channels, of random shapes") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      c.s.channels = c.s.outputs = c.s.group = c.pick(1, 70);
      c.s.kernel[0] = c.s.kernel[1] = 3;
      c.s.strides[0] = c.s.strides[1] = c.pick(1, 2);
      c.s.height = c.pick(3, 12);
      c.s.width = c.pick(3, 30);
      c.fill();
      // Pads for windows centred in the image.
      c.s.pads_begin[0] = c.s.pads_begin[1] = 1;
      c.s.out_height = (c.s.height - 1) / c.s.strides[0] + 1;
      c.s.out_width = (c.s.width - 1) / c.s.strides[1] + 1;
      const std::int64_t results = c.s.images * c.s.out_height * c.s.out_width * c.s.outputs;
      c.y.assign(static_cast<std::size_t>(results), 7);
      if (c.finish.addend) c.addend = c.numbers(results, -1, 1);
      std::vector<cpu::DepthwiseConvolution> convolutions;
      std::vector<Tensor> each;
      Tensor sum(DataType::kFloat, c.weights.sizes());
      std::fill_n(sum.mutable_data<float>().data(), sum.size(), 0.0f);
      for (std::int64_t n = c.pick(1, 4); n > 0; --n) {
        const std::int64_t width = c.pick(0, 1) ? 3 : 1;
        each.push_back(random_tensor(c.random, DataType::kFloat, {c.s.channels, 1, width, width}, -1, 1));
        cpu::DepthwiseConvolution d{c.s, c.given(), {}};
        d.weights.plain = [w = each.back()] { return w; };
        d.shape.kernel[0] = d.shape.kernel[1] = width;
        d.shape.pads_begin[0] = d.shape.pads_begin[1] = width / 2;
        for (std::int64_t i = 0; i < each.back().size(); ++i)
          sum.mutable_data<float>()[width == 3 ? i : 9 * i + 4] += each.back().data<float>()[i];
        convolutions.push_back(std::move(d));
      }
      c.weights = sum;
      convolutions.back().finish = c.finish;
      convolutions.front().finish.addend = c.finish.addend;
      c.run(*cpu::make_depthwise_convolution(convolutions, isa), 1 + static_cast<int>(seed % 3));
      CHECK(c.error() < 2e-6);
    }
}

// One fused step gives the same as two steps.
TEST_CASE("convolutions by channels with 1x1 convolutions behind them, of random shapes") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(120); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case first(seed), second(seed + 1000);
      random_depthwise(first);
      first.finish.addend = false;
      if (seed % 3 == 0) first.finish.function = cpu::ResultFunction(cpu::loops_for<cpu::RowLoops>(isa).swish);
      second.s.images = first.s.images;
      second.s.channels = first.s.channels;
      second.s.height = first.s.out_height;
      second.s.width = first.s.out_width;
      second.s.outputs = second.pick(1, 90);
      second.fill();
      REQUIRE(cpu::is_pointwise(second.s));
      if (seed % 4 == 0) second.finish.function = cpu::ResultFunction(cpu::loops_for<cpu::RowLoops>(isa).swish);
      const float floor = seed % 2 ? 0 : -kInf;
      first.run(*depthwise(first, isa, floor), 1);
      second.x = first.y;
      const int threads = 1 + static_cast<int>(seed % 4);
      const auto both = cpu::make_separable_convolution({first.s, first.given(), first.finish, floor}, second.s.outputs,
                                                        second.given(), second.finish, isa, threads);
      std::swap(first.x, second.x);  // the result between is never stored
      second.run(*both, threads);
      second.x = first.y;
      CHECK(second.error() < 1e-6);
    }
}

TEST_CASE("direct convolutions of random shapes") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      random_direct(c);
      if (seed % 3 == 0) c.finish.function = cpu::ResultFunction(cpu::loops_for<cpu::RowLoops>(isa).swish);
      if (seed % 4 == 0) c.finish.y_stride = c.s.outputs + c.pick(0, 20);
      const int threads = 1 + static_cast<int>(seed % 3);
      c.run(*cpu::make_direct_convolution(c.s, c.given(), c.finish, isa, threads), threads);
      CHECK(c.error() < 1e-6);
    }
}

// With megabytes of weights, rows of the window are processed one after the other.
TEST_CASE("direct convolutions of many channels") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(12); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      c.s.group = c.pick(1, 2);
      c.s.images = c.pick(1, 2);
      c.s.channels = c.s.group * c.pick(500, 600);
      c.s.outputs = c.s.group * c.pick(1, 70);
      for (int a = 0; a < 2; ++a) {
        c.s.kernel[a] = c.pick(5, 6);
        c.s.strides[a] = c.pick(1, 2);
        c.s.dilations[a] = c.pick(1, 2);
      }
      c.s.height = c.pick(1, 12);
      c.s.width = c.pick(1, 5);
      c.fill();
      if (seed % 3 == 0) c.finish.function = cpu::ResultFunction(cpu::loops_for<cpu::RowLoops>(isa).swish);
      const int threads = 1 + static_cast<int>(seed % 3);
      c.run(*cpu::make_direct_convolution(c.s, c.given(), c.finish, isa, threads), threads);
      CHECK(c.error() < 2e-6);
    }
}

TEST_CASE("direct convolutions of single pixels, with steps") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(30); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      c.s.images = c.pick(1, 2);
      c.s.channels = c.pick(1, 40);
      c.s.outputs = c.pick(1, 70);
      for (int a = 0; a < 2; ++a) c.s.strides[a] = c.pick(1, 3);
      c.s.height = c.pick(1, 20);
      c.s.width = c.pick(1, 20);
      c.fill();
      const int threads = 1 + static_cast<int>(seed % 3);
      c.run(*cpu::make_direct_convolution(c.s, c.given(), c.finish, isa, threads), threads);
      CHECK(c.error() < 1e-6);
    }
}

TEST_CASE("sums of 1x1 convolutions of random shapes") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      c.s.images = c.pick(1, 2);
      c.s.channels = c.pick(1, 40);
      c.s.outputs = c.pick(1, 70);
      c.s.height = c.pick(1, 9);
      c.s.width = c.pick(1, 20);
      c.fill();
      std::vector<Tensor> each;
      for (std::int64_t n = c.pick(1, 5); n > 0; --n)
        each.push_back(random_tensor(c.random, DataType::kFloat, c.weights.sizes(), -1, 1));
      std::vector<cpu::Weights> weights;
      Tensor sum(DataType::kFloat, c.weights.sizes());
      std::fill_n(sum.mutable_data<float>().data(), sum.size(), 0.0f);
      for (const Tensor& w : each) {
        weights.push_back({[&w] { return w; }, {}, c.given().prepare});
        for (std::int64_t i = 0; i < sum.size(); ++i) sum.mutable_data<float>()[i] += w.data<float>()[i];
      }
      c.weights = sum;
      const int threads = 1 + static_cast<int>(seed % 3);
      c.run(*cpu::make_parallel_convolution(c.s, weights, c.finish, isa, threads), threads);
      CHECK(c.error() < 2e-6);
    }
}

TEST_CASE("convolutions in small groups, of random shapes") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      random_groups(c, isa == Isa::kAvx512 ? 16 : isa == Isa::kAvx2 ? 8 : 4);
      REQUIRE(cpu::is_in_small_groups(c.s, isa));
      if (seed % 3 == 0) c.finish.function = cpu::ResultFunction(cpu::loops_for<cpu::RowLoops>(isa).swish);
      const int threads = 1 + static_cast<int>(seed % 3);
      c.run(*cpu::make_grouped_convolution(c.s, c.given(), c.finish, isa, threads), threads);
      CHECK(c.error() < 1e-6);
    }
}

// Each row of the result is computed once, from exactly the rows that its windows reach.
TEST_CASE("transposed convolutions as products, of random shapes") {
  for (unsigned seed = 0; seed < testing::instances(150); ++seed) {
    Case c(seed);
    ImageShape& s = c.s;
    s.images = c.pick(1, 2);
    s.channels = c.pick(1, 40);
    s.outputs = c.pick(0, 1) ? c.pick(1, 4) : c.pick(1, 40);
    s.height = c.pick(0, 3) ? c.pick(1, 9) : 1;
    s.width = c.pick(1, 20);
    std::int64_t* const out[] = {&s.out_height, &s.out_width};
    for (int a = 0; a < 2; ++a) {
      s.kernel[a] = s.height == 1 && a == 0 ? 1 : c.pick(1, 7);
      s.strides[a] = c.pick(1, 4);  // also larger than the window: some results are only the bias
      s.dilations[a] = c.pick(0, 2) ? 1 : c.pick(2, 3);
      const std::int64_t whole = ((a == 0 ? s.height : s.width) - 1) * s.strides[a] + (s.kernel[a] - 1) * s.dilations[a] + 1;
      s.pads_begin[a] = c.pick(0, std::min<std::int64_t>(whole - 1, 6));
      *out[a] = std::max<std::int64_t>(1, whole - s.pads_begin[a] - c.pick(-2, 4));
    }
    const std::int64_t window = s.kernel[0] * s.kernel[1], results = s.images * s.out_height * s.out_width * s.outputs;
    c.weights = random_tensor(c.random, DataType::kFloat, {s.channels, s.outputs, s.kernel[0], s.kernel[1]}, -1, 1);
    c.x = c.numbers(s.images * s.height * s.width * s.channels, -2, 2);
    if (c.pick(0, 1)) c.finish.bias = c.numbers(s.outputs, -1, 1);
    c.finish.addend = c.pick(0, 1);
    if (c.finish.addend) c.addend = c.numbers(results, -1, 1);
    if (c.pick(0, 1)) c.finish.low = 0;
    if (c.pick(0, 2) == 0) c.finish.high = 3;

    std::vector<double> expected(c.addend.begin(), c.addend.end());
    expected.resize(static_cast<std::size_t>(results));
    for (std::size_t i = 0; i < expected.size() && !c.finish.bias.empty(); ++i)
      expected[i] += c.finish.bias[i % static_cast<std::size_t>(s.outputs)];
    const auto w = c.weights.data<float>();
    for (std::int64_t pixel = 0; pixel < s.images * s.height * s.width; ++pixel)
      for (std::int64_t p = 0; p < window; ++p) {
        const std::int64_t row = pixel / s.width % s.height * s.strides[0] + p / s.kernel[1] * s.dilations[0] - s.pads_begin[0];
        const std::int64_t column = pixel % s.width * s.strides[1] + p % s.kernel[1] * s.dilations[1] - s.pads_begin[1];
        if (row < 0 || row >= s.out_height || column < 0 || column >= s.out_width) continue;
        const std::int64_t at = (pixel / s.width / s.height * s.out_height + row) * s.out_width + column;
        for (std::int64_t k = 0; k < s.outputs; ++k)
          for (std::int64_t i = 0; i < s.channels; ++i)
            expected[static_cast<std::size_t>(at * s.outputs + k)] +=
                static_cast<double>(w[static_cast<std::size_t>((i * s.outputs + k) * window + p)]) *
                c.x[static_cast<std::size_t>(pixel * s.channels + i)];
      }
    double largest = 1;
    for (double& v : expected) {
      largest = std::max(largest, std::fabs(v));
      v = std::clamp(v, static_cast<double>(c.finish.low), static_cast<double>(c.finish.high));
    }
    for (const Isa isa : tested_isas())
      for (const int threads : {1, 3}) {
        CAPTURE(seed, cpu::name(isa), threads);
        c.y.assign(static_cast<std::size_t>(results), 7);
        c.run(*cpu::make_transposed_convolution(s, c.given(), c.finish, isa, threads), threads);
        double difference = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) difference = std::max(difference, std::fabs(expected[i] - c.y[i]));
        CHECK(difference < 2e-6 * largest);
      }
  }
}

TEST_CASE("parts of convolutions have the rows that their windows reach") {
  std::mt19937 random(4);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 3000; ++round) {
    cpu::RowWindow w{pick(1, 20), 1, pick(1, 5), pick(1, 3), pick(1, 2), 0};
    const std::int64_t reach = (w.kernel - 1) * w.dilation + 1;
    w.pad_begin = pick(0, reach - 1);
    const std::int64_t pad_end = std::max(pick(0, reach - 1), reach - w.pad_begin - w.rows);
    w.out_rows = (w.rows + w.pad_begin + pad_end - reach) / w.stride + 1;
    const std::int64_t images = pick(1, 5), count = pick(1, 9);
    const bool one_image = round % 2;
    const auto parts = cpu::cut_rows(images, w, count, one_image);
    std::vector<int> computed(static_cast<std::size_t>(images * w.out_rows));
    for (const cpu::RowPart& p : parts) {
      CHECK((p.rows > 0 && p.first >= 0 && p.first + p.rows <= w.rows && p.pad_begin >= 0));
      CHECK((!one_image || p.images == 1));
      // As a convolution of its own, the part has as many rows, and its first window begins at the same place.
      CHECK((p.rows + p.pad_begin + p.pad_end - reach) / w.stride + 1 == p.out_rows);
      CHECK(p.first - p.pad_begin == p.out_first * w.stride - w.pad_begin);
      for (std::int64_t n = 0; n < p.images; ++n)
        for (std::int64_t r = 0; r < p.out_rows; ++r)
          ++computed[static_cast<std::size_t>((p.image + n) * w.out_rows + p.out_first + r)];
    }
    for (const int times : computed) CHECK((parts.empty() || times == 1));
  }
}

// Each row of the result is in one part, which has all rows of the image that contribute to it.
TEST_CASE("parts of transposed convolutions have the rows that go to theirs") {
  std::mt19937 random(5);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 3000; ++round) {
    cpu::RowWindow w{pick(1, 12), 1, pick(1, 5), pick(1, 4), pick(1, 2), 0};
    const std::int64_t reach = (w.kernel - 1) * w.dilation, whole = (w.rows - 1) * w.stride + reach + 1;
    w.pad_begin = pick(0, std::min(reach + 2, whole - 1));
    w.out_rows = pick(1, whole - w.pad_begin + w.stride - 1);  // perhaps with rows without a contribution
    const std::int64_t images = pick(1, 5), count = pick(1, 9);
    const auto parts = cpu::cut_transposed_rows(images, w, count, round % 2);
    std::vector<int> computed(static_cast<std::size_t>(images * w.out_rows));
    for (const cpu::RowPart& p : parts) {
      CHECK((p.rows > 0 && p.first >= 0 && p.first + p.rows <= w.rows && p.pad_begin >= 0));
      CHECK((p.rows - 1) * w.stride + reach + 1 - p.pad_begin - p.pad_end == p.out_rows);
      // Copy k of row i of the image.
      for (std::int64_t i = 0; i < w.rows; ++i)
        for (std::int64_t k = 0; k < w.kernel; ++k) {
          const std::int64_t to = i * w.stride + k * w.dilation - w.pad_begin - p.out_first;
          if (to < 0 || to >= p.out_rows) continue;
          CHECK((i >= p.first && i < p.first + p.rows));
          CHECK((i - p.first) * w.stride + k * w.dilation - p.pad_begin == to);
        }
      for (std::int64_t n = 0; n < p.images; ++n)
        for (std::int64_t r = 0; r < p.out_rows; ++r)
          ++computed[static_cast<std::size_t>((p.image + n) * w.out_rows + p.out_first + r)];
    }
    for (const int times : computed) CHECK((parts.empty() || times == 1));
  }
}

TEST_CASE("NaN, infinite and subnormal elements in convolutions") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(30); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      if (seed % 3 == 0)
        random_direct(c);
      else if (seed % 3 == 1)
        random_groups(c, isa == Isa::kAvx512 ? 16 : isa == Isa::kAvx2 ? 8 : 4);
      else
        random_depthwise(c);
      const auto kernel = [&] {
        return seed % 3 == 0   ? cpu::make_direct_convolution(c.s, c.given(), c.finish, isa, 1)
               : seed % 3 == 1 ? cpu::make_grouped_convolution(c.s, c.given(), c.finish, isa, 1)
                               : depthwise(c, isa);
      };
      for (const float special : {kNan, kInf, -kInf, 1e-41f, -1e-41f}) c.x[c.random() % c.x.size()] = special;
      c.run(*kernel(), 1);
      CHECK(c.error() < 1e-6);

      // An image of subnormal numbers: they are kept.
      for (float& v : c.x) v = std::copysign(3e-42f, v);
      c.finish = {};
      c.run(*kernel(), 1);
      double largest = 0, furthest = 0;
      const std::vector<double> e = c.expected(largest);
      for (std::size_t i = 0; i < e.size(); ++i) furthest = std::max(furthest, std::fabs(e[i] - c.y[i]));
      CHECK(furthest < 2e-43);  // each product is rounded to a multiple of 1.4e-45
    }
}

TEST_CASE("networks of convolutions by all methods") {
  for (unsigned seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Graph graph;
    const Tensor x = random_tensor(random, DataType::kFloat, {1, 16, 21, 19});
    ValueId v = graph.add_input("x", {DataType::kFloat, to_indices(x.sizes())});
    std::vector<ValueId> results;
    const Indices ones{Index(1), Index(1)};
    for (const std::int64_t group : {1, 4, 1, 2}) {
      const Tensor weights = random_tensor(random, DataType::kFloat, {16, 16 / group, 3, 3}, -0.2, 0.2);
      const ValueId bias = graph.add_constant(random_tensor(random, DataType::kFloat, {16}));
      ValueId y = node(graph, "Conv", {v, graph.add_constant(weights), bias},
                       {{"pads_begin", ones}, {"pads_end", ones}, {"group", Index(group)}})[0];
      if (!results.empty() && seed % 2) y = node(graph, "Add", {y, results.back()})[0];
      y = seed / 2 ? node(graph, "Mul", {y, node(graph, "Sigmoid", {y})[0]})[0] : node(graph, "Relu", {y})[0];
      results.push_back(v = y);
    }
    graph.add_output("y", v);
    check_graph(graph, std::vector<Tensor>{x}, 1e-4);
  }
}
