// Whole sessions on the host's device: plans, generated kernels, recordings.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <thread>

#include "graph/temporary_folder.h"
#include "runtime/cuda/generated_kernel.h"
#include "runtime/cuda/plan.h"
#include "runtime/cuda/session.h"
#include "runtime/cuda/source_names.h"
#include "runtime/cuda/testing.h"
#include "runtime/testing.h"

namespace rewright::cuda {
namespace {

using testing::indices;
using testing::random_tensor;
using testing::RandomGraph;

struct Builder : RandomGraph {
  using RandomGraph::RandomGraph;

  ValueId node(std::string_view name, std::vector<ValueId> operands,
               std::vector<std::pair<std::string, AttributeValue>> attributes = {}) {
    return testing::node(graph, name, std::move(operands), std::move(attributes))[0];
  }
  void output(ValueId value) { graph.add_output("y" + std::to_string(graph.outputs().size()), value); }

  void check(bool libraries = true, double tolerance = 2e-5) {
    const std::vector<Tensor> expected = interpret(graph, inputs);
    const TemporaryFolder cache;  // of kernels that both have
    const auto choices = std::make_shared<Choices>(std::filesystem::path(), "tested");
    for (const bool other : {false, true}) {
      INFO((other ? "in streams, channels last" : "one after the other, channels first"));
      const auto session =
          make_session(tested_driver(libraries), graph, {},
                       {.cache = cache.path(), .choices = choices, .in_streams = other, .channels_last = other});
      for (int round = 0; round < (other ? 4 : 2); ++round) require_close(session->run(inputs), expected, tolerance);
    }
  }

  void require_close(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected, double tolerance) const {
    testing::require_close(graph, actual, expected, {tolerance, 2e-3});
  }

  ValueId convolution(ValueId x, std::int64_t channels, std::int64_t kernel) {
    const Sizes sizes = values(graph.value(x).type.shape);
    Sizes w{channels, sizes[1]};
    w.resize(sizes.size(), kernel);
    const std::vector<std::int64_t> pads(sizes.size() - 2, kernel / 2), ones(sizes.size() - 2, 1);
    return node("Conv", {x, constant(w), constant({channels})},
                {{"strides", to_indices(ones)},
                 {"dilations", to_indices(ones)},
                 {"pads_begin", to_indices(pads)},
                 {"pads_end", to_indices(pads)}});
  }
};

}  // namespace

TEST_CASE("elementwise functions in every real type") {
  Builder b(1);
  for (const char* op : {"Relu",      "Sigmoid", "Tanh",       "Exp",   "Erf",  "Abs",   "Neg",  "Gelu", "HardSwish",
                         "Softplus",  "Sqrt",    "Log",        "Floor", "Sign", "Sin",   "Cos",  "Atan", "Elu",
                         "LeakyRelu", "Mish",    "Reciprocal", "Round", "Ceil", "Asinh", "Acosh"}) {
    const std::string name = op;
    const bool positive = name == "Sqrt" || name == "Log" || name == "Reciprocal" || name == "Acosh";
    for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16})
      b.output(b.node(op, {b.input(type, {3, 7, 9}, positive ? 1.1 : -6, 6)}));
  }
  b.check();
}

TEST_CASE("special values pass through elementwise functions") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> special{0.0, -0.0, 1e-42, -1e-42, inf, -inf, nan, 88.9, 100, -103.5, -120, 3e38};
  Builder b(1);
  b.inputs.push_back(Tensor::from_reals(DataType::kFloat, {12}, special));
  const ValueId x = b.graph.add_input("x", {DataType::kFloat, indices({12})});
  for (const char* op : {"Exp", "Sigmoid", "Tanh", "Relu", "Abs", "Sqrt", "Neg", "Softplus", "Sign", "IsNaN", "IsInf"})
    b.output(b.node(op, {x}));
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16, DataType::kInt32, DataType::kBool, DataType::kInt64})
    b.output(b.node("Cast", {x}, {{"to", type}}));
  b.check();
}

TEST_CASE("broadcasting, layouts, concatenations, slices, padding") {
  Builder b(5);
  for (int n = 0; n < 12; ++n) {
    const Sizes s{b.pick(1, 3), b.pick(1, 6), b.pick(1, 12), b.pick(1, 12)};
    Sizes t = s;
    for (std::int64_t& size : t)
      if (b.pick(0, 2) == 0) size = 1;
    const ValueId x = b.input(DataType::kFloat, s), y = b.input(DataType::kFloat, t);
    static const char* const kBinary[] = {"Add", "Mul", "Sub", "Max", "Min"};
    ValueId z = b.node(kBinary[b.pick(0, 4)], {x, y});
    std::vector<std::int64_t> permutation{0, 1, 2, 3};
    std::shuffle(permutation.begin(), permutation.end(), b.random);
    z = b.node("Transpose", {z}, {{"perm", to_indices(permutation)}});
    b.output(b.node("Concat", {z, z}, {{"axis", Index(b.pick(0, 3))}}));
    b.output(b.node("Reshape", {z}, {{"shape", indices({s[0] * s[1] * s[2] * s[3]})}}));
    b.output(b.node("Pad", {z}, {{"pads_begin", indices({0, 1, 0, 2})}, {"pads_end", indices({0, 0, 1, 3})}}));
  }
  b.check();
}

TEST_CASE("vectors of elements are read and written at once") {
  Builder b(6);
  const ValueId x = b.input(DataType::kFloat, {4, 96, 128}), row = b.input(DataType::kFloat, {128}),
                column = b.input(DataType::kFloat, {96, 1});
  b.output(b.node("Add", {b.node("Mul", {x, row}), column}));
  b.output(b.node("Cast", {x}, {{"to", DataType::kHalf}}));
  b.output(b.node("Cast", {x}, {{"to", DataType::kBool}}));
  b.output(b.node("Concat", {x, x}, {{"axis", Index(2)}}));
  b.output(b.node("Pad", {x}, {{"pads_begin", indices({0, 0, 1})}, {"pads_end", indices({0, 0, 3})}}));
  b.output(b.node("Transpose", {x}, {{"perm", indices({0, 2, 1})}}));
  b.check();
}

TEST_CASE("reductions by a thread, a warp and a block") {
  Builder b(7);
  for (const Sizes& s : {Sizes{3, 5, 7}, Sizes{2, 3, 40}, Sizes{2, 1, 700}, Sizes{1, 2, 3000}, Sizes{1, 1, 20000}})
    for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"})
      b.output(b.node(op, {b.input(DataType::kFloat, s, 0.999, 1.001)}, {{"axes", indices({2})}}));
  const ValueId x = b.input(DataType::kFloat, {40, 30, 33});
  for (const Indices& axes : {indices({0}), indices({1}), indices({0, 1}), indices({0, 2}), indices({0, 1, 2})})
    b.output(b.node("ReduceSum", {x}, {{"axes", axes}}));
  b.output(b.node("ReduceMax", {b.input(DataType::kInt64, {4, 50}, -9, 9)}, {{"axes", indices({1})}}));
  b.output(b.node("ReduceSum", {b.input(DataType::kDouble, {4, 50})}, {{"axes", indices({1})}}));
  b.check(true, 1e-4);
}

TEST_CASE("softmax and normalizations") {
  Builder b(8);
  for (const Sizes& s : {Sizes{2, 3, 9}, Sizes{2, 3, 40}, Sizes{2, 37, 6}, Sizes{1, 2, 1500}}) {
    const ValueId x = b.input(DataType::kFloat, s, -20, 20);
    for (std::int64_t axis = 0; axis < 3; ++axis) b.output(b.node("Softmax", {x}, {{"axis", Index(axis)}}));
    b.output(b.node("LayerNormalization", {x, b.input(DataType::kFloat, {s[2]}), b.input(DataType::kFloat, {s[2]})}));
    b.output(b.node("InstanceNormalization", {x, b.input(DataType::kFloat, {s[1]}), b.input(DataType::kFloat, {s[1]})}));
  }
  b.check(true, 1e-4);
}

TEST_CASE("integers, truth values, gathers, pools") {
  Builder b(3);
  const ValueId x = b.input(DataType::kFloat, {11, 6}), y = b.input(DataType::kFloat, {11, 6});
  const ValueId i = b.input(DataType::kInt64, {4, 3}, 0, 11), k = b.input(DataType::kInt32, {5}, -100, 100);
  const ValueId less = b.node("Less", {x, y});
  b.output(b.node("Where", {less, x, y}));
  b.output(b.node("Not", {less}));
  b.output(b.node("Gather", {x, i}, {{"axis", Index(0)}}));
  b.output(b.node("Cast", {k}, {{"to", DataType::kFloat}}));
  b.output(b.node("Mul", {k, k}));
  const ValueId image = b.input(DataType::kFloat, {1, 3, 9, 9});
  const auto window = [&](const char* op) {
    return b.node(op, {image},
                  {{"kernel", indices({3, 3})},
                   {"strides", indices({2, 2})},
                   {"pads_begin", indices({1, 1})},
                   {"pads_end", indices({1, 1})},
                   {"dilations", indices({1, 1})}});
  };
  b.output(window("MaxPool"));
  b.check();
}

TEST_CASE("a position that data leads outside is kept inside and noted", "[host]") {
  const Operand x(0, {DataType::kFloat, indices({4})}), at(1, {DataType::kInt64, indices({2})});
  const Index i = Index::fresh("i");
  const GeneratedKernel kernel = generate_kernel(x({Index::load(at({i}))}), {i}, {DataType::kFloat, {2}},
                                                 {{DataType::kFloat, {4}}, {DataType::kInt64, {2}}});
  REQUIRE(kernel.checks_positions);
  const auto driver = make_host_driver();
  const auto module = driver->load(driver->compile(kernel_file({&kernel})));
  float values[4] = {1, 2, 3, 4}, y[2];
  for (const std::int64_t second : {3, 4, -1}) {
    std::int64_t positions[2] = {0, second};
    int outside = 0;
    void* const arguments[] = {values, positions, y, &outside};
    module->start(kernel.name, kernel.launch.blocks, kernel.launch.threads, arguments);
    CHECK(outside == (second != 3));
    CHECK(y[1] == (second < 0 ? 1 : 4));
  }
}

TEST_CASE("products and convolutions, by libraries and by kernels") {
  for (const bool libraries : {true, false}) {
    Builder b(9);
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

TEST_CASE("nodes without a denotation run on the host between recordings") {
  Builder b(4);
  const ValueId x = b.input(DataType::kFloat, {3, 8});
  const ValueId y = b.node("Relu", {x});
  const Operator& op = registry().get("TopK");
  Attributes attributes = op.defaults();
  attributes.at(op.field("k").value()) = Index(2);
  const auto top = b.graph.add_node(op, attributes, {y});
  b.output(b.node("Exp", {top[0]}));
  b.output(top[1]);
  b.check();
}

TEST_CASE("sizes that are bound when a model runs, and empty tensors") {
  const Index n = Index::symbol("N");
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {n, 3}});
  graph.add_output("y", graph.add_node(registry().get("Relu"), {}, {x})[0]);
  const auto session = make_session(tested_driver(), graph, {}, {});
  std::mt19937 random(1);
  for (const std::int64_t size : {2, 5, 0, 2}) {
    const Tensor t = random_tensor(random, DataType::kFloat, {size, 3});
    CHECK(session->run({&t, 1})[0] == interpret(graph, {&t, 1})[0]);
  }
}

TEST_CASE("branches run side by side in memory of their own") {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    Builder b(seed);
    std::vector<ValueId> values{b.input(DataType::kFloat, {6, 40}), b.input(DataType::kFloat, {6, 40})};
    for (int n = 0; n < 24; ++n) {
      const auto one = [&] {
        return values[static_cast<std::size_t>(b.pick(0, static_cast<std::int64_t>(values.size()) - 1))];
      };
      values.push_back(b.node("Softmax", {b.node("MatMul", {one(), b.constant({40, 40})})}, {{"axis", Index(1)}}));
      if (n % 3 == 2) values.push_back(b.node("Add", {one(), values.back()}));
    }
    for (const ValueId v : {values.back(), values[values.size() - 2], values[values.size() - 5]}) b.output(b.node("Neg", {v}));
    const Plan plan = make_plan(b.graph);
    CHECK(plan.streams > 1);
    CHECK(make_plan(b.graph, {.most_streams = 1}).arena_bytes <= plan.arena_bytes);
    b.check();
  }
}

TEST_CASE("convolutions and what stands between them with channels last") {
  Builder b(12);
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
  // Weights that are computed are not moved: this one stays as it is.
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
  CHECK(layouts == 5);  // three inputs, and the results of two convolutions
  b.check();
  b.check(false);
}

TEST_CASE("activations behind products and convolutions are epilogues") {
  Builder b(13);
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

// softmax(q k / 8 + mask) v of several heads, as projections leave them beside each other and a projection reads them.
enum class Mask { kNone, kAdded, kByColumn, kChosen, kCausal, kCausalChoice, kComputed };
void add_attention(Builder& b, DataType type, Mask mask, std::int64_t batch, std::int64_t heads, std::int64_t queries,
                   std::int64_t keys) {
  constexpr std::int64_t kDepth = 8;
  const bool causal = mask == Mask::kCausal || mask == Mask::kCausalChoice;
  if (causal) keys = queries;
  const auto split = [&](std::int64_t length, std::initializer_list<std::int64_t> order) {
    const ValueId x = b.input(type, {batch, length, heads * kDepth});
    return b.node("Transpose", {b.node("Reshape", {x}, {{"shape", indices({batch, length, heads, kDepth})}})},
                  {{"perm", indices(order)}});
  };
  const auto number = [&](double value) { return b.graph.add_constant(Tensor::scalar(type, value)); };
  ValueId s = b.node("MatMul", {split(queries, {0, 2, 1, 3}), split(keys, {0, 2, 3, 1})});
  if (mask != Mask::kByColumn) s = b.node("Div", {s, number(8)});
  const auto triangle = [&](DataType of, double below, double above) {
    std::vector<double> elements;
    for (std::int64_t r = 0; r < queries; ++r)
      for (std::int64_t c = 0; c < keys; ++c) elements.push_back(c <= r ? below : above);
    return b.graph.add_constant(Tensor::from_reals(of, {1, 1, queries, keys}, elements));
  };
  if (mask == Mask::kAdded) s = b.node("Add", {b.input(type, {batch, 1, queries, keys}), s});
  if (mask == Mask::kByColumn) s = b.node("Add", {s, b.input(type, {1, 1, 1, keys})});
  if (mask == Mask::kChosen) s = b.node("Where", {b.input(DataType::kBool, {batch, 1, 1, keys}, 0, 2), s, number(-3e4)});
  if (mask == Mask::kCausal) s = b.node("Add", {s, triangle(type, 0, -6e4)});
  if (mask == Mask::kCausalChoice) s = b.node("Where", {triangle(DataType::kBool, 0, 1), number(-6e4), s});
  if (mask == Mask::kComputed) s = b.node("Add", {s, b.node("Mul", {b.input(type, {batch, 1, 1, keys}), number(-2)})});
  s = b.node("Softmax", {s}, {{"axis", Index(3)}});
  const ValueId y = b.node("Transpose", {b.node("MatMul", {s, split(keys, {0, 2, 1, 3})})}, {{"perm", indices({0, 2, 1, 3})}});
  const ValueId joined = b.node("Reshape", {y}, {{"shape", indices({batch, queries, heads * kDepth})}});
  const Tensor weights = random_tensor(b.random, type, {heads * kDepth, 4}, -1, 1);
  b.output(b.node("MatMul", {joined, b.graph.add_constant(weights)}));
}

const AttentionShape* attention_in(const Plan& plan) {
  const AttentionShape* found = nullptr;
  for (const LibraryStep* step : library_steps(plan))
    if (const auto* a = std::get_if<AttentionShape>(&step->shape)) found = a;
  return found;
}

}  // namespace

TEST_CASE("attention is one operation of a library's, or products and a softmax") {
  unsigned seed = 20;
  for (const Mask mask :
       {Mask::kNone, Mask::kAdded, Mask::kByColumn, Mask::kChosen, Mask::kCausal, Mask::kCausalChoice, Mask::kComputed})
    for (const DataType type : {DataType::kHalf, DataType::kBfloat16}) {
      CAPTURE(static_cast<int>(mask), name(type));
      Builder b(++seed);
      add_attention(b, type, mask, b.pick(1, 2), b.pick(2, 3), b.pick(2, 6), b.pick(2, 6));
      const Plan plan = make_plan(b.graph);
      const AttentionShape* const a = attention_in(plan);
      REQUIRE(a != nullptr);
      const bool causal = mask == Mask::kCausal || mask == Mask::kCausalChoice;
      CHECK(a->causal == causal);
      CHECK(a->mask.empty() == (causal || mask == Mask::kNone));
      CHECK(a->scale == (mask == Mask::kByColumn ? 1 : 0.125));
      // Nothing is moved before or behind it: heads lie beside each other.
      CHECK(a->q == std::vector<std::int64_t>{a->queries * a->heads * 8, 8, a->heads * 8, 1});
      CHECK(a->k == std::vector<std::int64_t>{a->keys * a->heads * 8, 8, 1, a->heads * 8});
      CHECK(a->y == a->q);
      CHECK(plan.steps.size() == 2);
      const double tolerance = type == DataType::kHalf ? 2e-2 : 1e-1;  // scores are rounded in one, and not in the other
      b.check(true, tolerance);
      if (type == DataType::kBfloat16) continue;
      // A library that is slower at it, and none.
      const auto slow = [](const LibraryShape& s) { return std::holds_alternative<AttentionShape>(s) ? 100.0 : 0.5; };
      const HostDriverOptions with_slow{.seconds = slow}, with_none{.libraries = false};
      for (const int which : {0, 1, 2}) {
        const HostDriverOptions options = which == 0 ? HostDriverOptions{} : which == 1 ? with_slow : with_none;
        const auto report = std::make_shared<HostDriverReport>();
        const auto session = make_session(make_host_driver(options, report), b.graph, {}, {});
        b.require_close(session->run(b.inputs), interpret(b.graph, b.inputs), tolerance);
        CHECK(report->recorded_last.contains("attention") == (which == 0));
      }
    }
}

TEST_CASE("what is no attention stays apart") {
  const auto found = [](const std::function<void(Builder&)>& make) {
    Builder b(41);
    make(b);
    return attention_in(make_plan(b.graph)) != nullptr;
  };
  const auto attention = [](Builder& b, DataType type, std::int64_t axis, bool shown, double factor_behind) {
    const ValueId keys = b.node("Transpose", {b.input(type, {2, 3, 4, 8})}, {{"perm", indices({0, 1, 3, 2})}});
    const ValueId scores = b.node("MatMul", {b.input(type, {2, 3, 4, 8}), keys});
    ValueId s = b.node("Softmax", {scores}, {{"axis", Index(axis)}});
    if (factor_behind != 1) s = b.node("Mul", {s, b.graph.add_constant(Tensor::scalar(type, factor_behind))});
    b.output(b.node("MatMul", {s, b.input(type, {2, 3, 4, 8})}));
    if (shown) b.output(scores);
  };
  CHECK(found([&](Builder& b) { attention(b, DataType::kHalf, 3, false, 1); }));
  CHECK_FALSE(found([&](Builder& b) { attention(b, DataType::kFloat, 3, false, 1); }));
  CHECK_FALSE(found([&](Builder& b) { attention(b, DataType::kHalf, 2, false, 1); }));
  CHECK_FALSE(found([&](Builder& b) { attention(b, DataType::kHalf, 3, true, 1); }));
  CHECK_FALSE(found([&](Builder& b) { attention(b, DataType::kHalf, 3, false, 2); }));
}

TEST_CASE("pooling and normalizations by libraries or with what stands around them") {
  Builder b(51);
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
  // Windows that the library has not: a dilated one, and one of a mean that rounds up.
  b.output(b.node("MaxPool", {image},
                  {{"kernel", indices({2, 2})},
                   {"strides", indices({1, 1})},
                   {"pads_begin", indices({0, 0})},
                   {"pads_end", indices({0, 0})},
                   {"dilations", indices({2, 2})}}));
  b.output(window("AveragePool", image, 2, 2, 0, {{"ceil_mode", true}}));
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
  const auto recorded = [&](double seconds) {
    const auto report = std::make_shared<HostDriverReport>();
    make_session(make_host_driver({.seconds = [&](const LibraryShape&) { return seconds; }}, report), b.graph, {}, {});
    return report->recorded_last;
  };
  CHECK(recorded(0.1) == std::set<std::string>{"pooling", "normalization"});
  CHECK(recorded(10).empty());
}

TEST_CASE("floating-point types of 8 bits and less") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Builder b(61);
  std::vector<double> special{0.0,   -0.0,  inf, -inf, nan,    448,  464,   465, 57344,
                              61440, 61441, 240, 1e-3, 9.8e-4, 1e-7, 1e-42, 6,   7};
  for (int n = 0; n < 300; ++n) special.push_back(std::ldexp(b.pick(-64, 64), static_cast<int>(b.pick(-20, 12))));
  const Sizes sizes{static_cast<std::int64_t>(special.size())};
  b.inputs.push_back(Tensor::from_reals(DataType::kFloat, sizes, special));
  const ValueId x = b.graph.add_input("x", {DataType::kFloat, to_indices(sizes)});
  for (const DataType type : {DataType::kFloat8e4m3fn, DataType::kFloat8e4m3fnuz, DataType::kFloat8e5m2,
                              DataType::kFloat8e5m2fnuz, DataType::kFloat4e2m1, DataType::kFloat8e8m0}) {
    Tensor codes(type, {type == DataType::kFloat4e2m1 ? 16 : 256});
    for (std::size_t n = 0; n < codes.byte_count(); ++n) codes.mutable_bytes()[n] = static_cast<std::byte>(n);
    b.inputs.push_back(codes);
    const ValueId all = b.graph.add_input(std::string(name(type)), {type, to_indices(codes.sizes())});
    for (const DataType to : {DataType::kFloat, DataType::kHalf, DataType::kDouble})
      b.output(b.node("Cast", {all}, {{"to", to}}));
    for (const bool saturate : {false, true}) b.output(b.node("Cast", {x}, {{"to", type}, {"saturate", saturate}}));
    // Rounded in between, although both are computed together with what stands around them.
    b.output(b.node("Cast", {b.node("Cast", {b.node("Exp", {x})}, {{"to", type}})}, {{"to", DataType::kFloat}}));
  }
  b.check(true, 0);
}

TEST_CASE("products of float8 are those of the tensors themselves") {
  for (const bool constant_weights : {true, false})
    for (const DataType type : {DataType::kHalf, DataType::kFloat}) {
      CAPTURE(constant_weights, name(type));
      Builder b(constant_weights ? 62 : 63);
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
      CHECK(products == 2);  // with the bias, and with a kernel behind
      CHECK(plan.steps.size() == 2);
      b.check(true, 1e-2);
      b.check(false, 1e-2);
    }
}

TEST_CASE("what was measured once is not measured again", "[host]") {
  Builder b(14);
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
  // A way that is no longer there is looked for again, and what starts nothing is done by kernels.
  CHECK(measured(kept("none"), {.libraries = false}) == 0);
  CHECK(measured(kept("broken"), {.start_operations = false}) == all);
  CHECK(measured(kept("broken"), {.start_operations = false}) == 0);
  const auto spoilt = kept("spoilt");
  const Plan plan = make_plan(b.graph);
  for (const LibraryStep* step : library_steps(plan)) spoilt->store(to_string(step->shape), "what was never there");
  CHECK(measured(spoilt) == all);
}

TEST_CASE("a device without enough memory is an error, and gives back what it gave", "[host]") {
  Builder b(15);
  b.output(b.node("Exp", {b.convolution(b.input(DataType::kFloat, {1, 4, 20, 20}), 8, 3)}));
  const auto report = std::make_shared<HostDriverReport>();
  {
    const auto session = make_session(make_host_driver({}, report), b.graph, {}, {});
    session->run(b.inputs);
  }
  REQUIRE(report->allocated == 0);
  for (const std::size_t memory : {std::size_t{100}, std::size_t{10000}, std::size_t{30000}}) {
    try {
      make_session(make_host_driver({.memory = memory}, report), b.graph, {}, {});
      FAIL("there is too little memory");
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kMissing);
    }
    CHECK(report->allocated == 0);
  }
}

TEST_CASE("a device that is lost is an error that names it, and what it held is given up", "[host]") {
  Builder b(18);
  b.output(b.node("Exp", {b.convolution(b.input(DataType::kFloat, {1, 4, 6, 6}), 8, 3)}));
  const TemporaryFolder cache;
  int failed = 0;
  for (long work = 0; failed == work; ++work) {
    const auto report = std::make_shared<HostDriverReport>();
    const auto driver = make_host_driver({.lost_after = work}, report);
    try {
      const auto session = make_session(driver, b.graph, {}, {.cache = cache.path()});
      session->run(b.inputs);
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kMissing);
      CHECK(std::string(e.what()) == "host: the device is lost");
      ++failed;
    }
    CHECK(report->allocated == 0);
  }
  CHECK(failed > 10);
}

// A GPU is lost to the process that it fails in: tools/gpu_check runs this in one of its own.
TEST_CASE("a kernel that fails loses the GPU, and the process ends as always", "[.][lost]") {
  const auto driver = tested_driver();
  Builder b(19);
  b.output(b.node("Exp", {b.input(DataType::kFloat, {5, 7})}));
  const auto session = make_session(driver, b.graph, {}, {});
  session->run(b.inputs);
  const auto module = driver->load(driver->compile("extern \"C\" __global__ void fails() { *(volatile int*)16 = 1; }"));
  module->start("fails", 1, 1, {});
  try {
    session->run(b.inputs);
    FAIL("the GPU works on");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kMissing);
    CHECK(std::string(e.what()).find(driver->device_name()) != std::string::npos);
  }
  CHECK_THROWS_AS(make_session(driver, b.graph, {}, {}), Error);
}

TEST_CASE("a device goes on after it had too little memory") {
  const auto driver = tested_driver();
  try {
    driver->allocate(std::size_t{1} << 50);
    FAIL("no device has so much memory");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kMissing);
  }
  Builder b(17);
  b.output(b.node("Exp", {b.input(DataType::kFloat, {5, 7})}));
  b.require_close(make_session(driver, b.graph, {}, {})->run(b.inputs), interpret(b.graph, b.inputs), 2e-5);
}

TEST_CASE("threads share a device") {
  Builder b(16);
  b.output(
      b.node("Softmax", {b.node("MatMul", {b.input(DataType::kFloat, {5, 7}), b.constant({7, 9})})}, {{"axis", Index(1)}}));
  const std::vector<Tensor> expected = interpret(b.graph, b.inputs);
  const auto session = make_session(tested_driver(), b.graph, {}, {});
  std::vector<std::vector<Tensor>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) result = session->run(b.inputs);
    });
  for (std::thread& t : threads) t.join();
  for (const auto& result : results) b.require_close(result, expected, 2e-5);
}

TEST_CASE("kernels have every function of the operators") {
  for (const Function* f : all_functions()) {
    INFO(f->name);
    CHECK_FALSE(function_name(*f).empty());
  }
}

}  // namespace rewright::cuda
