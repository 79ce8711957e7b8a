// Convolutions in graphs, with fused operators.
#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;
using rewright::testing::tested_isas;
using KernelBuilder = rewright::testing::GraphBuilder;

// Rows that threads cannot share evenly, and more weights than pixels: the library's kernels are not divided so.
TEST_CASE("convolutions that threads share by outputs") {
  struct Shape {
    std::int64_t channels, outputs, kernel[2], stride, pixels;
  };
  for (const Shape& s : {Shape{96, 96, {3, 3}, 2, 35}, Shape{32, 192, {1, 7}, 1, 17}, Shape{96, 192, {1, 1}, 1, 30},
                         Shape{1100, 490, {1, 1}, 2, 7}, Shape{64, 960, {3, 3}, 1, 4}}) {
    CAPTURE(s.channels, s.outputs);
    KernelBuilder b(static_cast<unsigned>(s.channels));
    const ValueId x = b.input({1, s.channels, s.pixels, s.pixels});
    const ValueId w = b.constant({s.outputs, s.channels, s.kernel[0], s.kernel[1]});
    const Indices strides{s.stride, s.stride}, pads{s.kernel[0] / 2, s.kernel[1] / 2};
    const ValueId y = node(b.graph, "Conv", {x, w},
                           {{"strides", strides}, {"dilations", Indices{1, 1}}, {"pads_begin", pads}, {"pads_end", pads}})[0];
    b.graph.add_output("y", node(b.graph, "Relu", {y})[0]);
    check_graph(b.graph, b.inputs, 5e-5);
  }
}

TEST_CASE("convolutions of random shapes") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::size_t rank = 1 + seed % 3;
    const std::int64_t group = b.pick(0, 2) == 0 ? b.pick(2, 4) : 1;
    const std::int64_t in = group * b.pick(1, 9), out = group * b.pick(1, 9);
    Sizes x{b.pick(1, 2), in}, w{out, in / group};
    for (std::size_t a = 0; a < rank; ++a) {
      x.push_back(b.pick(5, 11));
      w.push_back(b.pick(1, 3));
    }
    const ValueId input = b.input(x);
    const ValueId weights = seed % 5 == 0 ? b.input(w) : b.constant(w);
    std::vector<ValueId> inputs{input, weights};
    if (b.pick(0, 1)) inputs.push_back(seed % 7 == 0 ? b.input({out}) : b.constant({out}));
    ValueId y = node(b.graph, "Conv", inputs,
                     {{"strides", b.list(rank, 1, 2)},
                      {"dilations", b.list(rank, 1, 2)},
                      {"pads_begin", b.list(rank, 0, 2)},
                      {"pads_end", b.list(rank, 0, 2)},
                      {"group", Index(group)}})[0];
    if (b.pick(0, 1)) y = node(b.graph, "Relu", {y})[0];
    b.check(y);
  }
}

// Windows that are planes or columns are those of images; with open sizes the others are our own as well.
namespace {

// Plans for open sizes give the interpreter's results, without kernels of the library.
void require_own_kernels(const KernelBuilder& b, int threads) {
  const std::vector<Tensor> expected = interpret(b.graph, b.inputs);
  for (const Isa isa : tested_isas()) {
    PlanOptions options;
    options.isa = isa;
    options.threads = threads;
    options.piece_nanoseconds = 0;
    options.open_sizes = true;
    PlanRunner runner(make_plan(b.graph, options));
    INFO("isa " << cpu::name(isa));
    testing::require_close(b.graph, runner.run(b.inputs), expected, {5e-5});
    for (const Step& step : runner.plan().steps)
      CHECK((step.changes_layout || step.kernel->source().find("oneDNN") == std::string::npos));
  }
}

}  // namespace

TEST_CASE("convolutions of volumes, of random shapes") {
  for (unsigned seed = 0; seed < testing::instances(80); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const bool by_channel = b.pick(0, 2) == 0, apart = b.pick(0, 1) == 0;
    const std::int64_t group = by_channel ? b.pick(2, 40) : b.pick(0, 2) == 0 ? b.pick(2, 4) : 1;
    const std::int64_t in = by_channel ? group : group * b.pick(2, 20);
    const std::int64_t out = by_channel ? group * b.pick(1, 2) : group * b.pick(1, 40);
    Sizes x{b.pick(1, 2), in}, w{out, in / group};
    Indices strides, dilations, begin, end;
    const std::int64_t kept = b.pick(0, 7);  // axes along which windows have one position, as bits
    for (int a = 0; a < 3; ++a) {
      const bool keeps = apart && (kept >> a & 1) != 0;
      w.push_back(keeps ? 1 : b.pick(1, 3));
      strides.emplace_back(keeps ? 1 : b.pick(1, 2));
      dilations.emplace_back(b.pick(1, 2));
      begin.emplace_back(keeps ? 0 : b.pick(0, 3));
      end.emplace_back(keeps ? 0 : b.pick(0, 3));
      x.push_back(b.pick(5, 9));
    }
    const ValueId input = b.input(x);
    ValueId y = node(
        b.graph, "Conv", {input, b.constant(w), b.constant({out})},
        {{"strides", strides}, {"dilations", dilations}, {"pads_begin", begin}, {"pads_end", end}, {"group", Index(group)}})[0];
    if (b.pick(0, 2) == 0) y = node(b.graph, "Add", {y, b.input(values(b.graph.value(y).type.shape))})[0];
    if (b.pick(0, 1) == 0) y = node(b.graph, "Relu", {y})[0];
    if (b.pick(0, 3) == 0) y = node(b.graph, "Mul", {y, node(b.graph, "Sigmoid", {y})[0]})[0];
    b.check(y);
    require_own_kernels(b, 1 + static_cast<int>(seed % 3));
  }
}

// With open sizes the library would generate code for each set of them.
TEST_CASE("depthwise convolutions of any windows and open sizes are our own") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t channels = b.pick(2, 40);
    Sizes x{b.pick(1, 2), channels}, w{channels, 1};
    Indices strides, dilations, begin, end;
    for (std::int64_t axis = b.pick(1, 2); axis > 0; --axis) {
      w.push_back(b.pick(1, 8));
      strides.emplace_back(b.pick(1, 3));
      dilations.emplace_back(b.pick(1, 3));
      const std::int64_t extent = (w.back() - 1) * dilations.back().value() + 1;
      begin.emplace_back(b.pick(0, extent - 1));
      end.emplace_back(b.pick(0, extent - 1));
      x.push_back(extent + b.pick(0, 9));
    }
    ValueId y = node(b.graph, "Conv", {b.input(x), b.constant(w), b.constant({channels})},
                     {{"strides", strides},
                      {"dilations", dilations},
                      {"pads_begin", begin},
                      {"pads_end", end},
                      {"group", Index(channels)}})[0];
    if (b.pick(0, 2) == 0) y = node(b.graph, "Add", {y, b.input(values(b.graph.value(y).type.shape))})[0];
    if (b.pick(0, 1) == 0) y = node(b.graph, "Relu", {y})[0];
    b.check(y);
    require_own_kernels(b, 1 + static_cast<int>(seed % 3));
  }
}

TEST_CASE("depthwise convolutions") {
  for (unsigned seed = 0; seed < testing::instances(12); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t c = b.pick(1, 40);
    b.check(b.convolution(b.input({1, c, b.pick(3, 15), b.pick(3, 15)}), c, 3, 1, b.pick(1, 2), c));
  }
}

// As in NASNet: pairs of Relu, depthwise and 1x1 convolutions, on values that others use too.
TEST_CASE("separable convolutions in networks") {
  for (unsigned seed = 0; seed < testing::instances(24); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t channels = b.pick(1, 40);
    const ValueId h = b.convolution(b.input({b.pick(1, 2), 3, b.pick(7, 18), b.pick(7, 18)}), channels, 1, 0);
    const auto separable = [&](ValueId x, std::int64_t kernel) {
      if (b.pick(0, 3)) x = node(b.graph, "Relu", {x})[0];
      x = b.convolution(x, channels, kernel, kernel / 2, 1, channels);
      if (b.pick(0, 1)) x = b.batch_norm(x);
      if (b.pick(0, 1)) x = node(b.graph, b.pick(0, 1) ? "Relu" : "Sigmoid", {x})[0];
      x = b.batch_norm(b.convolution(x, channels, 1, 0));
      return x;
    };
    ValueId y = node(b.graph, "Add", {separable(h, 3), h})[0];
    y = node(b.graph, "Add", {separable(y, 5), separable(h, 7)})[0];
    if (seed % 2) y = node(b.graph, "Relu", {y})[0];
    if (seed % 3 == 0) y = node(b.graph, "Sigmoid", {y})[0];
    b.check(y, 1e-4);
  }
}

TEST_CASE("Relu, a depthwise and a 1x1 convolution are one step") {
  KernelBuilder b(3);
  const ValueId h = b.convolution(b.input({1, 3, 14, 14}), 20, 1, 0), positive = node(b.graph, "Relu", {h})[0];
  std::vector<ValueId> both;
  for (const std::int64_t kernel : {3, 5})
    both.push_back(b.batch_norm(b.convolution(b.convolution(positive, 20, kernel, kernel / 2, 1, 20), 20, 1, 0)));
  b.graph.add_output("y", node(b.graph, "Add", {both[0], both[1]})[0]);
  b.graph.add_output("h", h);
  check_graph(b.graph, b.inputs, 1e-4);
  CHECK(b.steps() == std::vector<std::string>{"Conv", "Conv+Conv+BatchNormalization", "Conv+Conv+BatchNormalization+Add"});
}

TEST_CASE("convolutions write where they are concatenated") {
  std::size_t in_place = 0;
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t channels = 4 * b.pick(4, 12);
    const ValueId h = b.convolution(b.input({b.pick(1, 2), 9, b.pick(6, 17), b.pick(6, 17)}), channels, 1, 0);
    std::vector<ValueId> parts;
    for (std::int64_t k = b.pick(2, 4); k > 0; --k) {
      ValueId part = h;
      switch (b.pick(0, 3)) {
        case 0:  // by Winograd's method
          part = b.convolution(h, b.pick(1, 40), 3, 1);
          break;
        case 1:  // directly
          part = b.convolution(h, 4 * b.pick(1, 9), 3, 1, 1, 4);
          break;
        case 2:
          part = b.convolution(b.convolution(h, channels, 5, 2, 1, channels), b.pick(1, 40), 1, 0);
          break;
        default:  // a copy
          parts.push_back(part);
          continue;
      }
      const ValueId before = part;
      if (b.pick(0, 1)) part = node(b.graph, "Relu", {part})[0];
      if (b.pick(0, 2) == 0) part = node(b.graph, "Mul", {part, node(b.graph, "Sigmoid", {part})[0]})[0];
      if (b.pick(0, 2) == 0) part = node(b.graph, "Add", {before, b.input(values(b.graph.value(before).type.shape))})[0];
      if (b.pick(0, 4) == 0) b.graph.add_output("part" + std::to_string(k), part);  // also stored elsewhere
      parts.push_back(part);
      if (b.pick(0, 7) == 0) parts.push_back(part);
    }
    ValueId y = node(b.graph, "Concat", parts, {{"axis", Index(1)}})[0];
    if (b.pick(0, 1)) y = node(b.graph, "Relu", {y})[0];
    if (b.pick(0, 2) == 0) y = node(b.graph, "Clip", {y, b.constant({}, -3, -1), b.constant({}, 1, 3)})[0];
    b.check(b.pick(0, 2) == 0 ? y : b.convolution(y, 7, 1, 0), 1e-4);
    const cpu::Plan plan = cpu::make_plan(b.graph, {.isa = tested_isas()[0]});
    in_place += static_cast<std::size_t>(
        std::count_if(plan.storages.begin(), plan.storages.end(), [](const cpu::Storage& s) { return s.part_of >= 0; }));
  }
  CHECK(in_place >= testing::instances(40) / 3);
}

TEST_CASE("a concatenation of what is written in place is no step") {
  KernelBuilder b(1);
  const ValueId x = b.convolution(b.input({1, 3, 16, 16}), 32, 1, 0);
  const ValueId separable = b.convolution(b.convolution(x, 32, 3, 1, 1, 32), 24, 1, 0);
  const ValueId added = node(b.graph, "Add", {separable, b.convolution(x, 24, 1, 0)})[0];
  ValueId y = node(b.graph, "Concat", {b.convolution(x, 48, 3, 1), added}, {{"axis", Index(1)}})[0];
  b.check(b.convolution(node(b.graph, "Relu", {y})[0], 8, 1, 0));
  const std::vector<std::string> steps = b.steps();
  CHECK(std::none_of(steps.begin(), steps.end(), [](const std::string& s) { return s.starts_with("Concat"); }));
}

// As in MobileOne's training form.
TEST_CASE("1x1 convolutions of one value that are added are one step") {
  for (unsigned seed = 0; seed < testing::instances(12); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t channels = b.pick(1, 30), outputs = seed % 2 ? channels : b.pick(1, 30);
    const ValueId x = b.convolution(b.input({b.pick(1, 2), 3, b.pick(3, 12), b.pick(3, 12)}), channels, 1, 0);
    ValueId y = kNoValue;
    std::string step;
    for (std::int64_t n = b.pick(2, 4); n > 0; --n) {
      const ValueId branch = b.batch_norm(b.convolution(x, outputs, 1, 0));
      y = y == kNoValue ? branch : node(b.graph, "Add", {y, branch})[0];
      step += step.empty() ? "Conv+BatchNormalization" : "+Conv+BatchNormalization+Add";
    }
    y = node(b.graph, "Add", {y, b.constant({1})})[0];
    if (seed % 2) y = node(b.graph, "Add", {y, b.convolution(x, outputs, 3, 1)})[0];
    if (seed % 3) y = node(b.graph, "Relu", {y})[0];
    if (seed % 4 == 3) y = node(b.graph, "Sigmoid", {y})[0];  // which one of our kernels fuses
    b.check(y, 1e-4);
    if (seed % 2 == 0) CHECK(b.steps() == std::vector<std::string>{"Conv", step + (seed % 3 ? "+Add+Relu" : "+Add")});
  }
}

TEST_CASE("depthwise convolutions of one value that are added are one step") {
  for (unsigned seed = 0; seed < testing::instances(12); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t channels = b.pick(1, 30), stride = b.pick(1, 2);
    ValueId x = b.convolution(b.input({b.pick(1, 2), 3, b.pick(3, 12), b.pick(3, 12)}), channels, 1, 0), y = x;
    if (seed % 2) b.graph.add_output("x", x);
    x = node(b.graph, "Relu", {x})[0];
    std::string step;
    for (std::int64_t n = b.pick(2, 4); n > 0; --n) {
      const std::int64_t width = n == 1 ? 1 : 3;
      const ValueId branch = b.batch_norm(b.convolution(x, channels, width, width / 2, stride, channels));
      y = step.empty() ? branch : node(b.graph, "Add", {y, branch})[0];
      step += step.empty() ? "Conv+BatchNormalization" : "+Conv+BatchNormalization+Add";
    }
    if (seed % 3) y = node(b.graph, "Relu", {y})[0];
    b.check(y, 1e-4);
    CHECK(b.steps() == std::vector<std::string>{seed % 2 ? "Conv" : "Conv+Relu", step + (seed % 3 ? "+Relu" : "")});
  }
}

TEST_CASE("convolutions along one of two axes") {
  for (const std::int64_t channels : {16, 5}) {
    KernelBuilder b(1);
    const ValueId x = b.input({1, channels, 30, 1});
    const ValueId y = node(b.graph, "Conv", {x, b.constant({channels, channels, 5, 1}), b.constant({channels})})[0];
    b.check(node(b.graph, "Relu", {node(b.graph, "Add", {y, b.convolution(b.input({1, 3, 26, 1}), channels, 1, 0)})[0]})[0]);
  }
}

TEST_CASE("transposed convolutions") {
  for (unsigned seed = 0; seed < testing::instances(30); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t group = b.pick(0, 2) == 0 ? 2 : 1;
    const std::int64_t in = group * b.pick(1, 6), out = b.pick(1, 6);
    const ValueId x = b.input({b.pick(1, 2), in, b.pick(2, 7), b.pick(2, 7)});
    const Indices strides = b.list(2, 1, 3);
    Indices extra;
    for (const Index& s : strides) extra.push_back(b.pick(0, s.value() - 1));
    const ValueId y =
        node(b.graph, "ConvTranspose", {x, b.constant({in, out, b.pick(2, 4), b.pick(2, 4)}), b.constant({out * group})},
             {{"strides", strides},
              {"dilations", b.list(2, 1, 2)},
              {"pads_begin", b.list(2, 0, 1)},
              {"pads_end", b.list(2, 0, 1)},
              {"output_padding", extra},
              {"group", Index(group)}})[0];
    b.check(b.batch_norm(y));
  }
}

TEST_CASE("what a kernel reads in place of a node that it computes itself is there, wherever else it is read") {
  for (unsigned seed = 0; seed < testing::instances(24); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t channels = b.pick(8, 40), side = b.pick(12, 60);
    ValueId y = node(b.graph, "Exp", {b.input({1, channels, side, side})})[0];
    // Two groups that read each other, between or around which the convolution reads what is before the Relu.
    const auto convolve = [&] {
      const ValueId relu = node(b.graph, "Relu", {y})[0];
      b.graph.add_output("k", b.convolution(relu, channels, 3, 1, 1, channels));
    };
    if (seed % 2) convolve();
    ValueId z = seed % 4 < 2 ? node(b.graph, "Mul", {y, y})[0]
                             : node(b.graph, "ReduceMax", {y}, {{"axes", testing::indices({1})}, {"keepdims", true}})[0];
    if (seed % 3) z = node(b.graph, "Sub", {y, z})[0];
    b.graph.add_output("z", z);
    if (seed % 2 == 0) convolve();
    if (seed % 5 == 0) b.graph.add_output("y", y);
    b.check(node(b.graph, "Neg", {z})[0]);
  }
}

TEST_CASE("groups that read each other may read numbers that were folded for them") {
  for (unsigned seed = 0; seed < testing::instances(8); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t channels = b.pick(24, 40), side = b.pick(50, 70);  // larger than the caches
    ValueId y = node(b.graph, "Exp", {b.input({1, channels, side, side})})[0];
    for (std::int64_t n = b.pick(2, 4); n > 0; --n) {
      const ValueId normal = b.batch_norm(y);
      b.graph.add_output("n" + std::to_string(n), normal);
      y = node(b.graph, "Sigmoid", {node(b.graph, "Add", {normal, y})[0]})[0];
    }
    b.check(y);
  }
}

TEST_CASE("transposed convolutions of nothing, and to nothing") {
  for (const Sizes& x : {Sizes{0, 4, 5, 5}, Sizes{1, 4, 0, 5}, Sizes{1, 4, 5, 0}, Sizes{1, 0, 5, 5}})
    for (const std::int64_t outputs : {3, 0}) {
      CAPTURE(x, outputs);
      KernelBuilder b(1);
      b.check(node(b.graph, "ConvTranspose", {b.input(x), b.constant({x[1], outputs, 3, 3})})[0]);
    }
}

TEST_CASE("depthwise convolutions along one axis have windows of any width") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t channels = b.pick(2, 40);
    const ValueId x = b.input({b.pick(1, 2), channels, b.pick(1, 60)});
    const std::int64_t step = b.pick(1, 3), apart = b.pick(1, 3), reach = b.pick(0, 6);
    const auto convolved = [&](std::int64_t kernel) {  // as many results for any window
      const std::int64_t pad = apart * (kernel - 1) / 2 + reach, more = apart * (kernel - 1) % 2;
      return node(b.graph, "Conv", {x, b.constant({channels, 1, kernel}, -0.3, 0.3), b.constant({channels})},
                  {{"strides", Indices{step}},
                   {"pads_begin", Indices{pad}},
                   {"pads_end", Indices{pad + more}},
                   {"group", Index(channels)},
                   {"dilations", Indices{apart}}})[0];
    };
    ValueId y = convolved(b.pick(1, 33));
    if (seed % 3 == 1) y = node(b.graph, "Relu", {y})[0];
    if (seed % 3 == 2) y = node(b.graph, "Add", {y, convolved(b.pick(1, 9))})[0];
    b.check(y);
  }
}

TEST_CASE("columns are placed back") {
  for (unsigned seed = 0; seed < testing::instances(30); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::size_t axes = seed % 3 + 1;
    Sizes kernel, x{b.pick(1, 3), 1}, w;
    for (std::size_t a = 0; a < axes; ++a) {
      kernel.push_back(b.pick(1, 3));
      x.push_back(b.pick(1, axes == 1 ? 40 : 9));
    }
    const std::int64_t taps = element_count(kernel);
    x[1] = taps;
    w = {taps, 1};
    w.insert(w.end(), kernel.begin(), kernel.end());
    std::vector<double> own(static_cast<std::size_t>(taps * taps));
    for (std::int64_t t = 0; t < taps; ++t) own[static_cast<std::size_t>(t * taps + t)] = 1;
    Indices pads, strides = b.list(axes, 1, 3), dilations = b.list(axes, 1, 2), padding;
    for (std::size_t a = 0; a < axes; ++a) {
      const std::int64_t extent = dilations[a].value() * (kernel[a] - 1) + 1 + strides[a].value() * (x[a + 2] - 1);
      pads.emplace_back(b.pick(0, std::min<std::int64_t>(2, (extent - 1) / 2)));
      padding.emplace_back(b.pick(0, strides[a].value() - 1));
    }
    const ValueId weight = b.graph.add_constant(Tensor::from_reals(DataType::kFloat, w, own));
    b.check(node(b.graph, "ConvTranspose", {b.input(x), weight},
                 {{"strides", strides},
                  {"dilations", dilations},
                  {"pads_begin", pads},
                  {"pads_end", pads},
                  {"output_padding", padding}})[0]);
  }
}

// The library may have no safe kernel for the parts of such a convolution.
TEST_CASE("transposed convolutions in groups whose channels fill no vector") {
  for (unsigned seed = 0; seed < testing::instances(12); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::int64_t group = b.pick(2, 4), in = group * b.pick(33, 80), out = b.pick(17, 60);
    const ValueId x = b.input({1, in, b.pick(1, 4), b.pick(20, 49)});
    const ValueId y =
        node(b.graph, "ConvTranspose", {x, b.constant({in, out, b.pick(1, 3), 4}, -0.05, 0.05), b.constant({out * group})},
             {{"strides", Indices{2, 1}},
              {"dilations", Indices{1, 1}},
              {"pads_begin", Indices{0, 3}},
              {"pads_end", Indices{0, 3}},
              {"group", Index(group)}})[0];
    b.check(node(b.graph, "Add", {y, b.input(values(b.graph.value(y).type.shape))})[0]);
  }
}

TEST_CASE("what stands behind a convolution is fused, whatever it is") {
  for (int kind = 0; kind < 11; ++kind) {
    for (const std::int64_t channels : {16, 13}) {
      CAPTURE(kind, channels);
      KernelBuilder b(static_cast<unsigned>(kind));
      const ValueId x = b.input({1, 16, 9, 7});
      ValueId y = b.convolution(x, channels, 3, 1);
      switch (kind) {
        case 0:
          y = node(b.graph, "Relu", {b.batch_norm(y)})[0];
          break;
        case 1:
          y = node(b.graph, "Mul", {y, node(b.graph, "Sigmoid", {y})[0]})[0];
          break;
        case 2:
          y = node(b.graph, "Relu", {node(b.graph, "Add", {y, b.convolution(x, channels, 1, 0)})[0]})[0];
          break;
        case 3:
          y = node(b.graph, "HardSwish", {y})[0];
          break;
        case 4:
          y = node(b.graph, "Gelu", {b.batch_norm(y)})[0];
          break;
        case 5:
          y = node(b.graph, "Tanh", {node(b.graph, "Mul", {y, b.constant({channels, 1, 1})})[0]})[0];
          break;
        case 6:
          y = node(b.graph, "Add", {y, b.constant({1, channels, 1, 1})})[0];
          break;
        case 7:
          y = node(b.graph, "Mul", {y, b.input({1, channels, 1, 1})})[0];
          break;
        case 8:
          y = node(b.graph, "Add", {node(b.graph, "Relu", {y})[0], node(b.graph, "Exp", {y})[0]})[0];
          break;
        case 9:
          y = node(b.graph, "Add", {y, y})[0];
          break;
        default: {  // squeeze and excite
          const ValueId s = node(b.graph, "GlobalAveragePool", {y})[0];
          const ValueId t = node(b.graph, "Sigmoid",
                                 {b.convolution(node(b.graph, "Relu", {b.convolution(s, 4, 1, 0)})[0], channels, 1, 0)})[0];
          y = node(b.graph, "Mul", {y, t})[0];
        }
      }
      b.check(b.convolution(y, 8, 1, 0));
    }
  }
}

// The library generates code for each set of sizes.
TEST_CASE("convolutions of open sizes are computed by our kernels, with any of the usual functions behind them") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    KernelBuilder b(seed);
    const std::size_t axes = seed % 2 + 1;
    Sizes image{b.pick(1, 2), b.pick(0, 3) == 0 ? 1 : b.pick(1, 20)};
    for (std::size_t a = 0; a < axes; ++a) image.push_back(b.pick(4, 30));
    const std::int64_t outputs = b.pick(1, 20), window = b.pick(1, 4), step = b.pick(1, 3);
    const bool transposed = b.pick(0, 2) == 0;
    Sizes weights{transposed ? image[1] : outputs, transposed ? outputs : image[1]};
    weights.insert(weights.end(), axes, window);
    const ValueId x = b.input(image);
    ValueId y = node(b.graph, transposed ? "ConvTranspose" : "Conv", {x, b.constant(weights), b.constant({outputs})},
                     {{"strides", Indices(axes, Index(step))}})[0];
    static const char* const kFunctions[] = {"Relu",      "LeakyRelu", "Sigmoid", "Tanh", "Elu", "HardSigmoid",
                                             "HardSwish", "Softplus",  "Mish",    "Gelu", "Abs"};
    const auto number = static_cast<std::size_t>(b.pick(0, static_cast<std::int64_t>(std::size(kFunctions))));
    if (number < std::size(kFunctions)) y = node(b.graph, kFunctions[number], {y})[0];
    if (number == std::size(kFunctions)) y = node(b.graph, "Mul", {y, node(b.graph, "Sigmoid", {y})[0]})[0];
    if (b.pick(0, 2) == 0) y = node(b.graph, "Add", {y, b.input(values(b.graph.value(y).type.shape))})[0];
    b.graph.add_output("y", y);
    const std::vector<Tensor> expected = graph::interpret(b.graph, b.inputs);
    for (const Isa isa : tested_isas()) {
      cpu::PlanOptions options;
      options.isa = isa;
      options.open_sizes = true;
      cpu::Plan plan = cpu::make_plan(b.graph, options);
      for (const cpu::Step& one : plan.steps) CHECK(one.kernel->source().find("oneDNN") == std::string::npos);
      cpu::PlanRunner runner(std::move(plan));
      rewright::testing::require_close(b.graph, runner.run(b.inputs), expected, {5e-5});
    }
  }
}

// oneDNN 3.2 applies post-operations of such convolutions once for every block of input channels.
TEST_CASE("transposed convolutions of many channels with what follows them") {
  struct Shape {
    std::int64_t channels, outputs, kernel[2], stride;
    const char* function;  // after it; null: only a bias
  };
  for (const Shape& s :
       {Shape{512, 256, {4, 4}, 2, nullptr}, Shape{512, 128, {4, 4}, 2, nullptr}, Shape{1024, 4, {4, 4}, 2, nullptr},
        Shape{1280, 1, {4, 4}, 2, nullptr}, Shape{320, 160, {7, 7}, 2, nullptr}, Shape{640, 512, {3, 4}, 2, nullptr},
        Shape{1024, 48, {5, 5}, 3, "HardSwish"}, Shape{512, 16, {7, 7}, 2, "Tanh"}})
    for (const Isa isa : tested_isas())
      for (const int variant : {0, 1, 2}) {
        CAPTURE(s.channels, s.outputs, cpu::name(isa), variant);
        KernelBuilder b(static_cast<unsigned>(s.channels + variant));
        std::vector<ValueId> inputs{b.input({1, s.channels, 8, 6}),
                                    b.constant({s.channels, s.outputs, s.kernel[0], s.kernel[1]}, -0.05, 0.05)};
        if (variant == 2) inputs[1] = b.input({s.channels, s.outputs, s.kernel[0], s.kernel[1]});
        if (s.function == nullptr || variant > 0) inputs.push_back(b.constant({s.outputs}));
        ValueId y =
            node(b.graph, "ConvTranspose", inputs,
                 {{"strides", Indices{s.stride, s.stride}}, {"pads_begin", Indices{1, 1}}, {"pads_end", Indices{1, 1}}})[0];
        if (variant == 1) y = node(b.graph, "Add", {y, b.input(values(b.graph.value(y).type.shape))})[0];
        if (s.function != nullptr) y = node(b.graph, s.function, {y})[0];
        b.graph.add_output("y", y);
        SessionOptions options;
        options.max_isa = isa;
        options.threads = 1 + variant;
        options.check_kernels = CheckExtent{60, 5};
        const auto session = prepare_on_cpu(b.graph, options);
        session->run(b.inputs);
        CHECK(session->warnings() == std::vector<std::string>());
        const CheckedKernels counts = checked_kernels(*session);
        CHECK(counts.checked == counts.steps);
      }
}
