// Whole sessions on the host's device: plans, generated kernels, recordings.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "runtime/cuda/generated_kernel.h"
#include "runtime/cuda/host_driver.h"
#include "runtime/cuda/session.h"

namespace rewright::cuda {
namespace {

Tensor random_tensor(std::mt19937& random, DataType type, const Sizes& sizes, double low = -2, double high = 2) {
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(static_cast<std::size_t>(element_count(sizes)));
  for (double& v : values) v = is_real(type) ? uniform(random) : std::floor(uniform(random));
  return Tensor::from_reals(type, sizes, values);
}

Indices indices(std::initializer_list<std::int64_t> list) { return to_indices(std::vector<std::int64_t>(list)); }

struct Builder {
  std::mt19937 random;
  Graph graph;
  std::vector<Tensor> inputs;
  explicit Builder(unsigned seed) : random(seed) {}

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
  ValueId input(DataType type, Sizes sizes, double low = -2, double high = 2) {
    inputs.push_back(random_tensor(random, type, sizes, low, high));
    return graph.add_input("x" + std::to_string(inputs.size()), {type, to_indices(sizes)});
  }
  ValueId node(std::string_view name, std::vector<ValueId> operands,
               std::vector<std::pair<std::string, AttributeValue>> attributes = {}) {
    const Operator& op = registry().get(name);
    Attributes all = op.defaults();
    for (auto& [field, value] : attributes) all.at(op.field(field).value()) = std::move(value);
    return graph.add_node(op, std::move(all), std::move(operands))[0];
  }
  void output(ValueId value) { graph.add_output("y" + std::to_string(graph.outputs().size()), value); }

  void check(bool libraries = true, double tolerance = 2e-5) {
    const std::vector<Tensor> expected = interpret(graph, inputs);
    const auto session = make_session(make_host_driver(libraries), graph, {}, {});
    for (int round = 0; round < 2; ++round) {
      const std::vector<Tensor> actual = session->run(inputs);
      REQUIRE(actual.size() == expected.size());
      for (std::size_t o = 0; o < actual.size(); ++o) {
        INFO("output " << o << " of\n" << to_string(graph));
        REQUIRE(actual[o].type() == expected[o].type());
        REQUIRE(actual[o].sizes() == expected[o].sizes());
        const std::vector<double> a = actual[o].reals(), e = expected[o].reals();
        double largest = 0;
        for (const double v : e)
          if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
        const double limit = expected[o].type() == DataType::kHalf       ? 2e-3
                             : expected[o].type() == DataType::kBfloat16 ? 2e-2
                                                                         : tolerance;
        for (std::size_t i = 0; i < e.size(); ++i) {
          const bool same = a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]));
          if (same || std::fabs(a[i] - e[i]) <= limit * (std::fabs(e[i]) + 0.1 * largest + 1e-3)) continue;
          INFO("element " << i << " of " << e.size() << ": " << a[i] << ", expected " << e[i]);
          REQUIRE(false);
        }
      }
    }
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

TEST_CASE("a position that data leads outside is kept inside and noted") {
  const Operand x(0, {DataType::kFloat, indices({4})}), at(1, {DataType::kInt64, indices({2})});
  const Index i = Index::fresh("i");
  const GeneratedKernel kernel = generate_kernel(x({Index::load(at({i}))}), {i}, {DataType::kFloat, {2}},
                                                 {{DataType::kFloat, {4}}, {DataType::kInt64, {2}}});
  REQUIRE(kernel.checks_positions);
  const auto driver = make_host_driver(true);
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
  const auto session = make_session(make_host_driver(true), graph, {}, {});
  std::mt19937 random(1);
  for (const std::int64_t size : {2, 5, 0, 2}) {
    const Tensor t = random_tensor(random, DataType::kFloat, {size, 3});
    CHECK(session->run({&t, 1})[0] == interpret(graph, {&t, 1})[0]);
  }
}

}  // namespace rewright::cuda
