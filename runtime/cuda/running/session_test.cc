// Whole sessions on the test device: generated kernels, streams, open sizes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/cuda/planning/plan.h"
#include "runtime/cuda/source/generated_kernel.h"
#include "runtime/cuda/source/source_names.h"
#include "runtime/cuda/testing/tested_graph.h"

namespace rewright::cuda {

TEST_CASE("elementwise functions in every real type") {
  TestedGraph b(1);
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
  TestedGraph b(1);
  b.inputs.push_back(Tensor::from_reals(DataType::kFloat, {12}, special));
  const ValueId x = b.graph.add_input("x", {DataType::kFloat, indices({12})});
  for (const char* op : {"Exp", "Sigmoid", "Tanh", "Relu", "Abs", "Sqrt", "Neg", "Softplus", "Sign", "IsNaN", "IsInf"})
    b.output(b.node(op, {x}));
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16, DataType::kInt32, DataType::kBool, DataType::kInt64})
    b.output(b.node("Cast", {x}, {{"to", type}}));
  b.check();
}

TEST_CASE("broadcasting, layouts, concatenations, slices, padding") {
  TestedGraph b(5);
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
  TestedGraph b(6);
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
  TestedGraph b(7);
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
  TestedGraph b(8);
  for (const Sizes& s : {Sizes{2, 3, 9}, Sizes{2, 3, 40}, Sizes{2, 37, 6}, Sizes{1, 2, 1500}}) {
    const ValueId x = b.input(DataType::kFloat, s, -20, 20);
    for (std::int64_t axis = 0; axis < 3; ++axis) b.output(b.node("Softmax", {x}, {{"axis", Index(axis)}}));
    b.output(b.node("LayerNormalization", {x, b.input(DataType::kFloat, {s[2]}), b.input(DataType::kFloat, {s[2]})}));
    b.output(b.node("InstanceNormalization", {x, b.input(DataType::kFloat, {s[1]}), b.input(DataType::kFloat, {s[1]})}));
  }
  b.check(true, 1e-4);
}

TEST_CASE("integers, truth values, gathers, pools") {
  TestedGraph b(3);
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

TEST_CASE("the parts of a vector each have loops of their own") {
  TestedGraph b(4);
  const ValueId image = b.input(DataType::kFloat, {4, 64, 32, 32});
  const std::vector<ValueId> pooled = testing::node(b.graph, "MaxPool", {image},
                                                    {{"kernel", indices({3, 3})},
                                                     {"strides", indices({2, 2})},
                                                     {"pads_begin", indices({1, 1})},
                                                     {"pads_end", indices({1, 1})},
                                                     {"dilations", indices({1, 1})},
                                                     {"indices", true}});
  for (const ValueId v : pooled) b.output(v);
  b.check();
}

TEST_CASE("a position that data leads outside is kept inside and noted", "[host]") {
  const Operand x(0, {DataType::kFloat, indices({4})}), at(1, {DataType::kInt64, indices({2})});
  const Index i = Index::fresh("i");
  const auto kernel = generate_kernel(x({Index::load(at({i}))}), {i}, {DataType::kFloat, {2}},
                                      {{DataType::kFloat, {4}}, {DataType::kInt64, {2}}});
  REQUIRE(kernel);
  REQUIRE(kernel->checks_positions);
  const auto driver = make_host_driver();
  const auto module = driver->load(driver->compile(kernel_file({&*kernel})));
  float values[4] = {1, 2, 3, 4}, y[2];
  for (const std::int64_t second : {3, 4, -1}) {
    std::int64_t positions[2] = {0, second};
    int outside = 0;
    void* const arguments[] = {values, positions, y, &outside};
    module->start(kernel->name, kernel->launch.blocks, kernel->launch.threads, arguments);
    CHECK(outside == (second != 3));
    CHECK(y[1] == (second < 0 ? 1 : 4));
  }
}

TEST_CASE("an index outside of a gather's axis ends the run") {
  for (const std::int64_t size : {1, 4}) {
    TestedGraph b(1);
    const ValueId x = b.input(DataType::kFloat, {size}), i = b.graph.add_input("i", {DataType::kInt64, indices({1})});
    b.output(b.node("Neg", {b.node("Gather", {x, i})}));
    b.inputs.emplace_back();
    const TemporaryFolder cache;
    const auto session =
        make_session(tested_driver(true), b.graph, {},
                     {.cache = cache.path(), .choices = std::make_shared<Choices>(std::filesystem::path(), "tested")});
    for (const std::int64_t index : {-size - 1, -size, size - 1, size}) {
      CAPTURE(size, index);
      b.inputs[1] = Tensor::from_integers(DataType::kInt64, {1}, std::vector<std::int64_t>{index});
      if (index == size || index < -size)
        CHECK_THROWS_WITH(session->run(b.inputs), Catch::Contains("outside of what it indexes"));
      else
        b.require_close(session->run(b.inputs), interpret(b.graph, b.inputs), 1e-6);
    }
  }
}

TEST_CASE("updates are scattered in their order, as often as a place is named") {
  TestedGraph b(14);
  const auto at = [&](const Sizes& sizes, std::int64_t below, DataType type = DataType::kInt64) {
    return b.input(type, sizes, static_cast<double>(-below), static_cast<double>(below));  // also from the end
  };
  for (const char* name : {"none", "add", "mul", "max", "min"}) {
    const std::pair<std::string, AttributeValue> by{"reduction", std::string(name)};
    for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kInt32}) {
      const bool whole = type == DataType::kInt32;
      const auto numbers = [&](const Sizes& sizes) { return b.input(type, sizes, whole ? -3 : 0.9, whole ? 4 : 1.1); };
      b.output(b.node("ScatterND", {numbers({7, 3}), at({90, 1}, 7), numbers({90, 3})}, {by}));
      b.output(b.node("ScatterND", {numbers({4, 5, 2}), at({3, 20, 2}, 4), numbers({3, 20, 2})}, {by}));
      b.output(b.node("ScatterElements", {numbers({3, 8, 2}), at({3, 11, 2}, 8, DataType::kInt32), numbers({3, 11, 2})},
                      {by, {"axis", Index(1)}}));
    }
  }
  b.check(true, 1e-4);
  for (const Step& step : make_plan(b.graph).steps) {
    CHECK(!std::holds_alternative<HostStep>(step.work));
    // A profile starts each step repeatedly, so a step must not overwrite what it reads.
    for (const int read : step.inputs) CHECK(std::count(step.outputs.begin(), step.outputs.end(), read) == 0);
  }
}

TEST_CASE("nodes without a denotation run on the host between recordings") {
  TestedGraph b(4);
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
    TestedGraph b(seed);
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

TEST_CASE("floating-point types of 8 bits and less") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  TestedGraph b(61);
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
    // Rounded between the two casts, although both are computed in one kernel with their neighbours.
    b.output(b.node("Cast", {b.node("Cast", {b.node("Exp", {x})}, {{"to", type}})}, {{"to", DataType::kFloat}}));
  }
  b.check(true, 0);
}

TEST_CASE("kernels have every function of the operators") {
  for (const Function* f : all_functions()) {
    INFO(f->name);
    CHECK_FALSE(function_name(*f).empty());
  }
}

}  // namespace rewright::cuda
