// Library operations in whole sessions, and how they are chosen.
#include <catch2/catch.hpp>
#include <set>

#include "runtime/cuda/driver/library_shapes.h"
#include "runtime/cuda/planning/plan.h"
#include "runtime/cuda/testing/tested_graph.h"

namespace rewright::cuda {

TEST_CASE("products and convolutions, by libraries and by kernels") {
  for (const bool libraries : {true, false}) {
    TestedGraph b(9);
    const DataType f = DataType::kFloat;
    const ValueId a = b.input(f, {2, 3, 4, 5}), w = b.input(f, {5, 6});
    b.output(b.node("Relu", {b.node("Add", {b.node("MatMul", {a, w}), b.input(f, {6})})}));
    b.output(b.node("MatMul", {a, b.input(f, {2, 3, 5, 2})}));
    b.output(b.node("MatMul", {a, b.input(f, {2, 1, 5, 2})}));
    b.output(b.node("MatMul", {b.input(f, {5}), w}));
    b.output(b.node("MatMul", {a, b.input(f, {5})}));
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        b.output(b.node(
            "Gemm", {b.input(f, ta ? Sizes{3, 4} : Sizes{4, 3}), b.input(f, tb ? Sizes{5, 3} : Sizes{3, 5}), b.input(f, {5})},
            {{"transA", ta}, {"transB", tb}, {"alpha", Real(0.5)}}));
    b.output(b.node("Gemm", {b.input(f, {4, 3}), b.input(f, {3, 5}), b.input(f, {4, 1})}, {{"beta", Real(2)}}));
    const ValueId x = b.input(f, {2, 4, 9, 8});
    const ValueId y = b.node("Conv", {x, b.input(f, {6, 2, 3, 3}), b.input(f, {6})},
                             {{"strides", indices({2, 1})},
                              {"dilations", indices({1, 1})},
                              {"pads_begin", indices({1, 0})},
                              {"pads_end", indices({0, 1})},
                              {"group", Index(2)}});
    const Sizes sizes = values(b.graph.value(y).type.shape);
    b.output(b.node("Relu", {b.node("Add", {b.input(f, sizes), y})}));
    b.check(libraries);
  }
}

TEST_CASE("convolutions and what stands between them with channels last") {
  TestedGraph b(12);
  const ValueId x = b.input(DataType::kFloat, {2, 3, 8, 10});
  ValueId y = b.node("Clip", {b.convolution(x, 8, 3), b.graph.add_constant(Tensor::scalar(DataType::kFloat, 0)),
                              b.graph.add_constant(Tensor::scalar(DataType::kFloat, 6))});
  const ValueId branch = b.node("Swish", {b.convolution(y, 8, 1)});
  y = b.node("Relu", {b.node("Add", {b.convolution(branch, 8, 3), y})});
  const ValueId pooled = b.node("ReduceMean", {y}, {{"axes", indices({2, 3})}, {"keepdims", true}});
  const ValueId gate = b.node("Sigmoid", {b.convolution(pooled, 8, 1)});
  y = b.node("Mul", {y, gate});
  y = b.node("Concat", {y, branch}, {{"axis", Index(1)}});
  b.output(y);
  b.output(b.node("Softmax", {y}, {{"axis", Index(1)}}));
  b.output(b.node("Transpose", {y}, {{"perm", indices({0, 2, 3, 1})}}));
  b.output(b.node("Reshape", {y}, {{"shape", indices({2, 16 * 80})}}));
  b.output(b.node("MatMul", {y, b.constant({10, 4})}));
  for (const Sizes& sizes : {Sizes{1, 4, 9}, Sizes{2, 4, 5, 3, 4}}) {
    const ValueId z = b.convolution(b.node("Relu", {b.input(DataType::kFloat, sizes)}), 6, 3);
    b.output(b.node("Gelu", {z}, {{"approximate", std::string("tanh")}}));
  }
  // Computed weights are not moved, so this convolution stays row-major.
  b.output(b.node("Conv", {y, b.node("Neg", {b.input(DataType::kFloat, {4, 16, 1, 1})})},
                  {{"strides", indices({1, 1})},
                   {"dilations", indices({1, 1})},
                   {"pads_begin", indices({0, 0})},
                   {"pads_end", indices({0, 0})}}));
  const Plan plan = make_plan(b.graph, {.channels_last = true});
  int last = 0, layouts = 0;
  for (const Step& step : plan.steps) layouts += step.layout;
  for (const LibraryStep* step : library_steps(plan))
    if (const auto* c = std::get_if<ConvolutionShape>(&step->shape)) last += c->channels_last && c->bias;
  CHECK(last == 6);
  CHECK(layouts == 5);  // three inputs and the results of two convolutions
  b.check();
  b.check(false);
}

TEST_CASE("gradients of convolutions are convolutions of the library, whatever their windows") {
  for (unsigned seed = 0; seed < 12; ++seed) {
    INFO("seed " << seed);
    TestedGraph b(1000 + seed);
    const std::size_t rank = static_cast<std::size_t>(b.pick(1, 3));
    const std::int64_t group = b.pick(1, 3), depth = b.pick(1, 3), outputs = group * b.pick(1, 3);
    Sizes x{b.pick(1, 3), group * depth}, w{outputs, depth}, g{x[0], outputs}, strides, dilations, begin, end, rest, kernel;
    for (std::size_t a = 0; a < rank; ++a) {
      kernel.push_back(b.pick(1, 3)), strides.push_back(b.pick(1, 3)), dilations.push_back(b.pick(1, 2));
      const std::int64_t extent = dilations[a] * (kernel[a] - 1) + 1;
      begin.push_back(b.pick(0, extent - 1)), end.push_back(b.pick(0, extent - 1));
      rest.push_back(b.pick(0, strides[a] - 1));
      g.push_back(b.pick(2, 4)), w.push_back(kernel[a]);
      x.push_back((g.back() - 1) * strides[a] + extent + rest[a] - begin[a] - end[a]);
    }
    if (std::any_of(x.begin(), x.end(), [](std::int64_t size) { return size < 1; })) continue;
    const auto list = [](const Sizes& values) { return to_indices(values); };
    const ValueId gradient = b.input(g), image = b.input(x);
    const ValueId weight = b.pick(0, 1) == 0 ? b.constant(w) : b.input(w);
    std::vector<ValueId> operands{gradient, weight};
    if (b.pick(0, 1) == 0) operands.push_back(b.constant({x[1]}));
    const ValueId of_x = b.node("ConvTranspose", operands,
                                {{"strides", list(strides)},
                                 {"dilations", list(dilations)},
                                 {"pads_begin", list(begin)},
                                 {"pads_end", list(end)},
                                 {"output_padding", list(rest)},
                                 {"group", Index(group)}});
    b.output(b.pick(0, 1) == 0 ? of_x : b.node("Relu", {b.node("Add", {of_x, image})}));
    const ValueId of_w = b.node("ConvWeightGradient", {b.node("Neg", {image}), gradient},
                                {{"kernel", list(kernel)},
                                 {"strides", list(strides)},
                                 {"dilations", list(dilations)},
                                 {"pads_begin", list(begin)},
                                 {"group", Index(group)}});
    b.output(b.pick(0, 1) == 0 ? of_w : b.node("Add", {of_w, b.input(w)}));
    std::set<ConvolutionPass> passes;
    const Plan plan = make_plan(b.graph);
    for (const LibraryStep* step : library_steps(plan))
      if (const auto* c = std::get_if<ConvolutionShape>(&step->shape)) passes.insert(c->pass);
    CHECK(passes == std::set{ConvolutionPass::kBackwardData, ConvolutionPass::kBackwardFilter});
    b.check();
  }
}

TEST_CASE("long reductions for few rows may be divided") {
  const auto axes = [](const std::vector<std::int64_t>& list) { return to_indices(list); };
  struct Case {
    const char* name;
    Sizes sizes;
    std::vector<std::int64_t> axes;
    DataType type;
  };
  const Case cases[] = {
      {"ReduceSum", {137003}, {0}, DataType::kFloat},  // by chunks, the last of which is shorter
      {"ReduceL1", {64, 48, 3, 16}, {0, 1, 2, 3}, DataType::kFloat},
      {"ReduceMax", {3, 7001, 7}, {1, 2}, DataType::kFloat},    // three rows
      {"ReduceMin", {150, 5, 190}, {0, 2}, DataType::kDouble},  // rows within
      {"ReduceSum", {400, 400}, {0, 1}, DataType::kInt64},
      {"ReduceMean", {2, 513, 140}, {1, 2}, DataType::kHalf},
  };
  unsigned seed = 91;
  for (const Case& c : cases) {
    INFO(c.name << " " << to_string(to_indices(c.sizes)));
    TestedGraph b(seed++);
    const bool exact = c.type == DataType::kInt64;
    const ValueId x = b.input(c.type, c.sizes, exact ? -9 : 0, exact ? 9 : 1);
    const ValueId sum = b.node(c.name, {b.node("Neg", {x})}, {{"axes", axes(c.axes)}, {"keepdims", true}});
    b.output(exact ? sum : b.node("Mul", {b.node("Exp", {b.node("Neg", {b.node("Abs", {sum})})}), sum}));
    const Plan plan = make_plan(b.graph);
    std::size_t longest = 0;
    for (const Step& step : plan.steps)
      if (const auto* either = std::get_if<EitherStep>(&step.work))
        for (const auto& alternative : either->alternatives) longest = std::max(longest, alternative.steps.size());
    CHECK(longest == 2);
    b.check(true, c.type == DataType::kHalf ? 2e-2 : 2e-4);
  }
  TestedGraph small(5);
  small.output(small.node("ReduceSum", {small.input({300, 400})}, {{"axes", axes({0, 1})}, {"keepdims", false}}));
  for (const Step& step : make_plan(small.graph).steps) CHECK(std::holds_alternative<KernelStep>(step.work));
}

TEST_CASE("a product of few rows may read packed weights") {
  for (const std::int64_t rows : {1, 3, 40}) {
    TestedGraph b(77);
    const DataType bytes = DataType::kUint8;
    const auto list = [](const Sizes& sizes) { return to_indices(sizes); };
    // Two numbers of 4 bits a byte, in blocks of 16 columns with a scale each.
    const ValueId packed = b.graph.add_constant(random_tensor(b.random, bytes, {20, 4, 8, 1}, 0, 255));
    const ValueId low = b.node("BitwiseAnd", {packed, b.graph.add_constant(Tensor::scalar(bytes, 15))});
    const ValueId high =
        b.node("BitShift", {packed, b.graph.add_constant(Tensor::scalar(bytes, 4))}, {{"direction", std::string("RIGHT")}});
    const ValueId numbers = b.node("Cast", {b.node("Concat", {low, high}, {{"axis", Index(3)}})}, {{"to", DataType::kFloat}});
    const ValueId blocks = b.node("Reshape", {numbers}, {{"shape", list({20, 4, 16})}});
    const ValueId scaled = b.node("Mul", {blocks, b.constant({20, 4, 1})});
    const ValueId flat = b.node("Reshape", {scaled}, {{"shape", list({20, 64})}});
    const ValueId weights = b.node("Transpose", {flat}, {{"perm", indices({1, 0})}});
    b.output(b.node("Relu", {b.node("Add", {b.node("MatMul", {b.input({rows, 64}), weights}), b.constant({20})})}));
    const Plan plan = make_plan(b.graph);
    const bool reads = std::any_of(plan.buffers.begin(), plan.buffers.end(), [&](const Buffer& buffer) {
      return buffer.kind == Buffer::Kind::kConstant && buffer.constant.type() == bytes;
    });
    CHECK(reads == (rows <= 3));
    b.check();
    b.check(false);
  }
}

TEST_CASE("activations behind products and convolutions are epilogues") {
  TestedGraph b(13);
  std::vector<Activation> wanted;
  const auto add = [&](const char* op, Activation product, Activation convolution,
                       std::vector<std::pair<std::string, AttributeValue>> attributes = {}) {
    b.output(b.node(
        op, {b.node("Add", {b.node("MatMul", {b.input(DataType::kFloat, {4, 6}), b.constant({6, 8})}), b.constant({8})})},
        attributes));
    b.output(b.node(op, {b.convolution(b.input(DataType::kFloat, {1, 4, 5, 5}), 6, 3)}, attributes));
    wanted.push_back(product), wanted.push_back(convolution);
  };
  add("Relu", Activation::kRelu, Activation::kRelu);
  add("Gelu", Activation::kGelu, Activation::kGelu, {{"approximate", std::string("tanh")}});
  add("Gelu", Activation::kNone, Activation::kNone);
  add("Swish", Activation::kNone, Activation::kSilu);
  add("Sigmoid", Activation::kNone, Activation::kSigmoid);
  const ValueId x = b.convolution(b.input(DataType::kFloat, {1, 4, 5, 5}), 6, 3);
  b.output(b.node("Mul", {b.node("Sigmoid", {x}), x}));
  wanted.push_back(Activation::kSilu);
  std::vector<Activation> found;
  const Plan plan = make_plan(b.graph);
  for (const LibraryStep* step : library_steps(plan)) {
    if (const auto* p = std::get_if<ProductShape>(&step->shape); p != nullptr && p->bias) found.push_back(p->activation);
    if (const auto* c = std::get_if<ConvolutionShape>(&step->shape); c != nullptr && c->bias) found.push_back(c->activation);
  }
  CHECK(found == wanted);
  b.check();
}

namespace {

// Windows and rows that the library has, within what stands around them, and two windows that it lacks.
TestedGraph pools_and_normalizations() {
  TestedGraph b(51);
  const auto window = [&](const char* op, ValueId x, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                          std::vector<std::pair<std::string, AttributeValue>> more = {}) {
    const std::size_t rank = b.graph.value(x).type.shape.size() - 2;
    const auto list = [&](std::int64_t v) { return to_indices(std::vector<std::int64_t>(rank, v)); };
    more.insert(more.end(), {{"kernel", list(kernel)},
                             {"strides", list(stride)},
                             {"pads_begin", list(pad)},
                             {"pads_end", list(pad)},
                             {"dilations", list(1)}});
    return b.node(op, {x}, more);
  };
  const DataType f = DataType::kFloat;
  const ValueId image = b.input(f, {2, 3, 9, 8});
  b.output(b.node("Relu", {window("MaxPool", b.node("Neg", {image}), 3, 2, 1)}));
  b.output(window("MaxPool", image, 3, 2, 0, {{"ceil_mode", true}}));
  b.output(window("AveragePool", image, 3, 2, 1));
  b.output(window("AveragePool", image, 3, 1, 1, {{"count_include_pad", true}}));
  b.output(window("AveragePool", b.input(DataType::kHalf, {1, 2, 4, 5, 4}), 2, 2, 0));
  b.output(b.node("GlobalAveragePool", {b.node("Mul", {image, b.input(f, {2, 1, 9, 8})})}));
  b.output(b.node("GlobalMaxPool", {image}));
  const ValueId x = b.input(f, {2, 5, 24}), y = b.input(f, {2, 5, 24}), scale = b.input(f, {24}), shift = b.input(f, {24});
  const ValueId sum = b.node("Add", {x, y});
  b.output(
      b.node("Sigmoid", {b.node("LayerNormalization", {sum, scale, shift}, {{"axis", Index(2)}, {"epsilon", Real(0.01)}})}));
  b.output(b.node("RMSNormalization", {x, scale}, {{"axis", Index(2)}}));
  // Windows that the library lacks: dilated, and a mean that rounds up.
  b.output(b.node("MaxPool", {image},
                  {{"kernel", indices({2, 2})},
                   {"strides", indices({1, 1})},
                   {"pads_begin", indices({0, 0})},
                   {"pads_end", indices({0, 0})},
                   {"dilations", indices({2, 2})}}));
  b.output(window("AveragePool", image, 2, 2, 0, {{"ceil_mode", true}}));
  return b;
}

}  // namespace

TEST_CASE("pooling and normalizations by libraries or with what stands around them") {
  TestedGraph b = pools_and_normalizations();
  const Plan plan = make_plan(b.graph);
  std::size_t pools = 0, normalizations = 0;
  for (const LibraryStep* step : library_steps(plan)) {
    pools += std::holds_alternative<PoolingShape>(step->shape);
    normalizations += std::holds_alternative<NormalizationShape>(step->shape);
  }
  CHECK(pools == 7);
  CHECK(normalizations == 2);
  b.check();
  b.check(false);
}

TEST_CASE("a library's pooling and normalizations are used where they are fast", "[host]") {
  const TestedGraph b = pools_and_normalizations();
  const auto recorded = [&](double seconds) {
    const auto report = std::make_shared<HostDriverReport>();
    make_session(make_host_driver({.seconds = [&](const LibraryShape&) { return seconds; }}, report), b.graph, {}, {});
    return report->recorded_last;
  };
  CHECK(recorded(0.1) == std::set<std::string>{"pooling", "normalization"});
  CHECK(recorded(10).empty());
}

TEST_CASE("products of float8 are those of the tensors themselves") {
  for (const bool constant_weights : {true, false})
    for (const DataType type : {DataType::kHalf, DataType::kFloat}) {
      CAPTURE(constant_weights, name(type));
      TestedGraph b(constant_weights ? 62 : 63);
      const auto number = [&](double value) { return b.graph.add_constant(Tensor::scalar(type, value)); };
      const auto dequantized = [&](ValueId v, double scale) { return b.node("DequantizeLinear", {v, number(scale)}); };
      const ValueId x = b.input(type, {4, 32});
      const ValueId q = b.node("QuantizeLinear", {x, number(0.25)}, {{"output_dtype", DataType::kFloat8e4m3fn}});
      const ValueId w = constant_weights ? b.graph.add_constant(random_tensor(b.random, DataType::kFloat8e5m2, {32, 16}))
                                         : b.input(DataType::kFloat8e4m3fn, {32, 16});
      const ValueId y = b.node("MatMul", {dequantized(q, 0.25), dequantized(w, 0.5)});
      b.output(b.node("Relu", {b.node("Add", {y, b.input(type, {16})})}));
      const Plan plan = make_plan(b.graph);
      int products = 0;
      for (const LibraryStep* step : library_steps(plan)) {
        const auto& p = std::get<ProductShape>(step->shape);
        if (p.a_type == DataType::kUndefined) continue;
        ++products;
        CHECK(p.a_type == DataType::kFloat8e4m3fn);
        CHECK(p.b_type == (constant_weights ? DataType::kFloat8e5m2 : DataType::kFloat8e4m3fn));
        CHECK(p.alpha == 0.125);
        CHECK(p.b_transposed == constant_weights);
      }
      CHECK(products == 2);  // with the bias, and followed by a kernel
      CHECK(plan.steps.size() == 2);
      b.check(true, 1e-2);
      b.check(false, 1e-2);
    }
}

TEST_CASE("what was measured once is not measured again", "[host]") {
  TestedGraph b(14);
  const ValueId x = b.input(DataType::kFloat, {1, 4, 6, 6});
  b.output(b.node("Relu", {b.convolution(b.convolution(x, 4, 3), 4, 3)}));
  b.output(b.node("MatMul", {b.input(DataType::kFloat, {3, 4}), b.constant({4, 5})}));
  const TemporaryFolder folder;
  const auto measured = [&](const std::shared_ptr<Choices>& choices, const HostDriverOptions& options = {}) {
    const auto report = std::make_shared<HostDriverReport>();
    const auto session = make_session(make_host_driver(options, report), b.graph, {}, {.choices = choices});
    b.require_close(session->run(b.inputs), interpret(b.graph, b.inputs), 2e-5);
    return report->measured;
  };
  const int all = measured(nullptr);
  CHECK(all > 0);
  const auto kept = [&](const char* device) { return std::make_shared<Choices>(folder.path() / "costs.sqlite", device); };
  CHECK(measured(kept("one")) == all);
  CHECK(measured(kept("one")) == 0);
  CHECK(measured(kept("other")) == all);
  // An algorithm that is no longer available is searched for again; an operation recorded as "none" is computed by kernels.
  CHECK(measured(kept("none"), {.libraries = false}) == 0);
  CHECK(measured(kept("broken"), {.start_operations = false}) == all);
  CHECK(measured(kept("broken"), {.start_operations = false}) == 0);
  const auto spoilt = kept("spoilt");
  const Plan plan = make_plan(b.graph);
  for (const LibraryStep* step : library_steps(plan)) spoilt->store(to_string(step->shape), "what was never there");
  CHECK(measured(spoilt) == all);
}

}  // namespace rewright::cuda
