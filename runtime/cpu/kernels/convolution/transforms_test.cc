// Convolutions by Winograd's and Fourier's transforms against sums in double, for random shapes, on each instruction set.
#include <set>

#include "operators/testing/share.h"
#include "runtime/cpu/kernels/convolution/convolution_choice.h"
#include "runtime/cpu/kernels/convolution/convolution_testing.h"
#include "runtime/cpu/loops/fourier_loops.h"

using namespace rewright;
using namespace rewright::cpu;
using cpu::FourierLoops;
using cpu::ImageShape;
using rewright::testing::Case;
using rewright::testing::check_graph;
using rewright::testing::kInf;
using rewright::testing::kNan;
using rewright::testing::node;
using rewright::testing::random_tensor;
using rewright::testing::tested_isas;

namespace {

void random_winograd(Case& c) {
  c.s.images = c.pick(1, 2);
  c.s.channels = c.pick(1, c.pick(0, 9) == 0 ? 300 : 40);
  c.s.outputs = c.pick(1, 70);
  c.s.kernel[0] = c.s.kernel[1] = 3;
  c.s.height = c.pick(1, 17);
  c.s.width = c.pick(1, 30);
  c.fill();
}

// Returns the tile size.
std::int64_t random_fourier(Case& c) {
  const std::int64_t size = FourierLoops::kSizes[static_cast<std::size_t>(c.pick(0, FourierLoops::kSizes.size() - 1))];
  c.s.images = c.pick(1, 2);
  c.s.channels = c.pick(1, 40);
  c.s.outputs = c.pick(1, 40);
  if (c.pick(0, 2) == 0) c.s.group = c.s.outputs = c.s.channels;  // by channels
  for (int a = 0; a < 2; ++a) {
    c.s.dilations[a] = c.pick(1, 3);
    c.s.kernel[a] = c.pick(1, std::min<std::int64_t>(11, (size - 1) / c.s.dilations[a] + 1));
  }
  c.s.height = c.pick(1, 20);
  c.s.width = c.pick(1, 30);
  c.fill();
  return size;
}

}  // namespace

TEST_CASE("convolutions by Winograd's method, of random shapes") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      random_winograd(c);
      REQUIRE(cpu::is_winograd(c.s));
      if (seed % 3 == 0) c.finish.function = cpu::ResultFunction(cpu::loops_for<cpu::RowLoops>(isa).swish);
      if (seed % 4 == 0) c.finish.y_stride = c.s.outputs + c.pick(0, 20);
      const int tile = seed % 2 ? 4 : 2, threads = 1 + static_cast<int>(seed % 3);
      c.run(*cpu::make_winograd_convolution(c.s, tile, c.given(), c.finish, isa, threads), threads);
      CHECK(c.error() < (tile == 2 ? 2e-6 : 5e-6));
    }
}

TEST_CASE("convolutions by Fourier's method, of random shapes") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
      Case c(seed);
      const std::int64_t size = random_fourier(c);
      CAPTURE(seed, cpu::name(isa), size);
      REQUIRE(cpu::is_fourier(c.s, size));
      if (seed % 3 == 0) c.finish.function = cpu::ResultFunction(cpu::loops_for<cpu::RowLoops>(isa).swish);
      if (seed % 4 == 0) c.finish.y_stride = c.s.outputs + c.pick(0, 20);
      const int threads = 1 + static_cast<int>(seed % 3);
      c.run(*cpu::make_fourier_convolution(c.s, size, c.given(), c.finish, isa, threads), threads);
      CHECK(c.error() < 2e-6);
    }
}

// However tiles and points are divided among threads.
TEST_CASE("Fourier's method gives the same bits on any number of threads") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(10); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      const std::int64_t size = random_fourier(c);
      std::vector<std::vector<float>> results;
      for (int threads = 1; threads <= 3; ++threads) {
        c.run(*cpu::make_fourier_convolution(c.s, size, c.given(), c.finish, isa, threads), threads);
        results.push_back(c.y);
      }
      CHECK(results[0] == results[1]);
      CHECK(results[0] == results[2]);
    }
}

// A value that is not finite affects only its own tiles.
TEST_CASE("NaN and infinity stay in their tiles of Winograd's method") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(20); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      random_winograd(c);
      c.finish.low = -kInf;
      c.finish.high = kInf;
      const int tile = seed % 2 ? 4 : 2;
      const auto kernel = cpu::make_winograd_convolution(c.s, tile, c.given(), c.finish, isa, 1);
      c.run(*kernel, 1);
      const std::vector<float> before = c.y;
      const std::int64_t row = c.pick(0, c.s.height - 1), column = c.pick(0, c.s.width - 1);
      c.x[static_cast<std::size_t>((row * c.s.width + column) * c.s.channels)] = seed % 3 ? kNan : kInf;  // of image 0
      c.run(*kernel, 1);
      std::size_t i = 0;
      int wrong = 0;
      for (std::int64_t n = 0; n < c.s.images; ++n)
        for (std::int64_t r = 0; r < c.s.out_height; ++r)
          for (std::int64_t q = 0; q < c.s.out_width; ++q)
            for (std::int64_t k = 0; k < c.s.outputs; ++k, ++i) {
              const auto within = [&](std::int64_t at, std::int64_t out, std::int64_t pad, std::int64_t reach) {
                const std::int64_t first = out / reach * reach - pad;
                return at >= first && at < first + reach + 2;
              };
              const auto touches = [&](std::int64_t at, std::int64_t out, std::int64_t pad) {
                return at >= out - pad && at < out - pad + 3;
              };
              const bool in_tile =
                  n == 0 && within(row, r, c.s.pads_begin[0], tile) && within(column, q, c.s.pads_begin[1], tile);
              const bool in_window = n == 0 && touches(row, r, c.s.pads_begin[0]) && touches(column, q, c.s.pads_begin[1]);
              if (in_window) wrong += std::isfinite(c.y[i]);
              if (!in_tile) wrong += c.y[i] != before[i];
            }
      CHECK(wrong == 0);
    }
}

TEST_CASE("NaN, infinity and overflow stay in their tiles of Fourier's method") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(30); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      const std::int64_t size = random_fourier(c);
      c.finish.low = -kInf;
      c.finish.high = kInf;
      const auto kernel = cpu::make_fourier_convolution(c.s, size, c.given(), c.finish, isa, 1);
      c.run(*kernel, 1);
      const std::vector<float> before = c.y;
      const float special = seed % 3 == 0 ? kNan : seed % 3 == 1 ? -kInf : 3e38f;
      const std::int64_t at[] = {c.pick(0, c.s.height - 1), c.pick(0, c.s.width - 1)};
      c.x[static_cast<std::size_t>((at[0] * c.s.width + at[1]) * c.s.channels)] = special;  // of image 0
      c.run(*kernel, 1);
      const auto in_tile = [&](int axis, std::int64_t out) {
        const std::int64_t step = size - (c.s.kernel[axis] - 1) * c.s.dilations[axis];
        const std::int64_t first = out / step * step - c.s.pads_begin[axis];
        return at[axis] >= first && at[axis] < first + size;
      };
      std::size_t i = 0;
      int wrong = 0;
      for (std::int64_t n = 0; n < c.s.images; ++n)
        for (std::int64_t r = 0; r < c.s.out_height; ++r)
          for (std::int64_t q = 0; q < c.s.out_width; ++q)
            for (std::int64_t k = 0; k < c.s.outputs; ++k, ++i) {
              if (n == 0 && in_tile(0, r) && in_tile(1, q) && (c.s.group == 1 || k == 0))
                wrong += std::isfinite(c.y[i]);
              else
                wrong += c.y[i] != before[i];
            }
      CHECK(wrong == 0);
    }
}

// An image of subnormal numbers: they are kept, since nothing makes the processor flush them.
TEST_CASE("subnormal elements in Fourier's method") {
  for (const Isa isa : tested_isas())
    for (unsigned seed = 0; seed < testing::instances(10); ++seed) {
      CAPTURE(seed, cpu::name(isa));
      Case c(seed);
      const std::int64_t size = random_fourier(c);
      for (float& v : c.x) v = std::copysign(1e-39f, v);
      c.finish = {};
      c.run(*cpu::make_fourier_convolution(c.s, size, c.given(), c.finish, isa, 1), 1);
      double largest = 0, furthest = 0, sum = 0;
      const std::vector<double> e = c.expected(largest);
      for (std::size_t i = 0; i < e.size(); ++i) {
        furthest = std::max(furthest, std::fabs(e[i] - c.y[i]));
        sum = std::max(sum, std::fabs(e[i]));
      }
      CHECK(furthest < 1e-5 * sum + 1e-41);
    }
}

TEST_CASE("sizes of one convolution need at most two forms of its weights") {
  using cpu::ConvolutionMethod;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512})
    for (const std::int64_t channels : {16, 64, 256, 512}) {
      std::set<ConvolutionMethod> methods;
      for (std::int64_t side = 1; side < 130; ++side) {
        ImageShape s;
        s.channels = s.outputs = channels;
        s.height = s.width = s.out_height = s.out_width = side;
        s.kernel[0] = s.kernel[1] = 3;
        s.pads_begin[0] = s.pads_begin[1] = 1;
        methods.insert(cpu::open_convolution(s, isa));
        CHECK(cpu::open_convolution(s, isa, false) == ConvolutionMethod::kDirect);
      }
      CHECK(methods == std::set{ConvolutionMethod::kDirect, ConvolutionMethod::kWinograd4});
    }
}

TEST_CASE("the choice of a convolution") {
  ImageShape s;
  s.channels = s.outputs = 64;
  s.height = s.width = s.out_height = s.out_width = 56;
  s.kernel[0] = s.kernel[1] = 3;
  s.pads_begin[0] = s.pads_begin[1] = 1;
  using cpu::ConvolutionMethod;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    CHECK(cpu::fastest_convolution(s, isa) == ConvolutionMethod::kWinograd4);
    CHECK(cpu::fastest_convolution(s, isa, false) == ConvolutionMethod::kLibrary);
    ImageShape strided = s;
    strided.strides[0] = 2;
    CHECK(cpu::fastest_convolution(strided, isa) == ConvolutionMethod::kLibrary);
    ImageShape few = s;  // too few tiles for the weights' cost
    few.channels = few.outputs = 512;
    few.height = few.width = few.out_height = few.out_width = 7;
    // The direct one asks for so many weights early.
    CHECK(cpu::fastest_convolution(few, Isa::kAvx512) == ConvolutionMethod::kDirect);
    CHECK(cpu::fastest_convolution(few, isa, false) ==
          (isa == Isa::kAvx512 ? ConvolutionMethod::kDirect : ConvolutionMethod::kLibrary));
    ImageShape groups = s;
    groups.group = 16;
    CHECK(cpu::fastest_convolution(groups, isa) == ConvolutionMethod::kGrouped);
    ImageShape multiplied = s;
    multiplied.group = 64;
    CHECK(cpu::fastest_convolution(multiplied, isa, false) == ConvolutionMethod::kLibrary);
    multiplied.outputs = 128;
    CHECK(cpu::fastest_convolution(multiplied, isa) == ConvolutionMethod::kDirect);
    ImageShape wide = s;
    wide.kernel[0] = wide.kernel[1] = 7;
    wide.pads_begin[0] = wide.pads_begin[1] = 3;
    CHECK(cpu::fastest_convolution(wide, isa) == ConvolutionMethod::kFourier);
    CHECK(cpu::fastest_convolution(wide, isa, false) == ConvolutionMethod::kLibrary);
    CHECK(cpu::is_fourier(wide, cpu::fourier_size(wide, isa)));
    ImageShape by_channel = wide;
    by_channel.group = 64;
    by_channel.kernel[0] = by_channel.kernel[1] = 31;
    by_channel.pads_begin[0] = by_channel.pads_begin[1] = 15;
    CHECK(cpu::fastest_convolution(by_channel, isa) == ConvolutionMethod::kFourier);
    by_channel.out_height = by_channel.height = 3;  // mostly empty tiles
    by_channel.kernel[1] = 5;
    CHECK(cpu::fastest_convolution(by_channel, isa) == ConvolutionMethod::kLibrary);
    wide.strides[1] = 2;
    CHECK(cpu::fastest_convolution(wide, isa) == ConvolutionMethod::kLibrary);
    wide.strides[1] = 1;
    wide.channels = wide.outputs = 4096;  // gigabytes of weights
    CHECK(cpu::fastest_convolution(wide, isa) == ConvolutionMethod::kLibrary);
    wide.channels = wide.outputs = 64;
    wide.kernel[0] = wide.kernel[1] = 65;  // larger than any tile
    CHECK(cpu::fastest_convolution(wide, isa) == ConvolutionMethod::kLibrary);
  }
}

// As parts of networks: additions, functions, plan caches; without transforms if the options forbid them.
TEST_CASE("networks of wide convolutions") {
  for (unsigned seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Graph graph;
    const Tensor x = random_tensor(random, DataType::kFloat, {1, 16, 21, 19});
    ValueId v = graph.add_input("x", {DataType::kFloat, to_indices(x.sizes())});
    std::vector<ValueId> results;
    for (const std::int64_t window : {5, 9, 15, 7}) {
      const std::int64_t group = window == 15 ? 16 : 1;
      const Indices pads{Index(window / 2), Index(window / 2)};
      const Tensor weights = random_tensor(random, DataType::kFloat, {16, 16 / group, window, window}, -0.1, 0.1);
      const ValueId bias = graph.add_constant(random_tensor(random, DataType::kFloat, {16}));
      ValueId y = node(graph, "Conv", {v, graph.add_constant(weights), bias},
                       {{"pads_begin", pads}, {"pads_end", pads}, {"group", Index(group)}})[0];
      if (!results.empty() && seed % 2) y = node(graph, "Add", {y, results.back()})[0];
      y = seed / 2 ? node(graph, "Mul", {y, node(graph, "Sigmoid", {y})[0]})[0] : node(graph, "Relu", {y})[0];
      results.push_back(v = y);
    }
    // Some of these write their channels directly into the concatenation.
    graph.add_output("y", node(graph, "Concat", results, {{"axis", Index(1)}})[0]);
    check_graph(graph, std::vector<Tensor>{x}, 1e-4);
    const auto run = [&](bool transformed) {
      SessionOptions options;
      options.transformed_convolutions = transformed;
      return cpu_backend().prepare(graph, options)->run(std::vector<Tensor>{x});
    };
    CHECK(run(true) != run(false));
  }
}
