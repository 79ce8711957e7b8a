// Kernels for training steps: gradients of weights, random bits, and outputs that replace inputs in memory.
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;
using rewright::testing::random_tensor;

namespace {

std::int64_t pick(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

TEST_CASE("gradients of convolutions' weights") {
  std::mt19937 random(1);
  for (int round = 0; round < 40; ++round) {
    const auto rank = static_cast<std::size_t>(pick(random, 1, 3));
    const std::int64_t group = pick(random, 1, 3) == 3 ? 2 : 1, wide = pick(random, 0, 2) == 0 ? 8 : 1;
    Sizes x{pick(random, 1, 3), group * wide * pick(random, 1, 3)}, g{x[0], group * wide * pick(random, 1, 3)};
    Indices kernel, strides, dilations, pads;
    for (std::size_t a = 0; a < rank; ++a) {
      const std::int64_t k = pick(random, 1, 3), s = pick(random, 1, 2), d = pick(random, 1, 2), begin = pick(random, 0, 2);
      const std::int64_t count = pick(random, 1, 5), rest = pick(random, -1, 2);
      kernel.emplace_back(k), strides.emplace_back(s), dilations.emplace_back(d), pads.emplace_back(begin);
      x.push_back(std::max<std::int64_t>(1, (count - 1) * s + (k - 1) * d + 1 - begin + rest));
      g.push_back(count);
    }
    Graph graph;
    const ValueId input = graph.add_input("x", {DataType::kFloat, to_indices(x)});
    const ValueId gradient = graph.add_input("g", {DataType::kFloat, to_indices(g)});
    graph.add_output("w", node(graph, "ConvWeightGradient", {input, gradient},
                               {{"kernel", kernel},
                                {"strides", strides},
                                {"dilations", dilations},
                                {"pads_begin", pads},
                                {"group", Index(group)}})[0]);
    INFO("x " << to_string(to_indices(x)) << ", g " << to_string(to_indices(g)) << ", kernel " << to_string(kernel)
              << ", strides " << to_string(strides) << ", dilations " << to_string(dilations) << ", pads " << to_string(pads)
              << ", group " << group);
    const std::vector<Tensor> inputs{random_tensor(random, DataType::kFloat, x, -1, 1),
                                     random_tensor(random, DataType::kFloat, g, -1, 1)};
    check_graph(graph, inputs);
  }
}

TEST_CASE("maxima and where they stand") {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    const auto rank = static_cast<std::size_t>(pick(random, 1, 3));
    Sizes x{pick(random, 1, 2), pick(random, 1, 5)};
    Indices kernel, strides, dilations, begin, end;
    for (std::size_t a = 0; a < rank; ++a) {
      const std::int64_t k = pick(random, 1, 3), d = pick(random, 1, 2), pad = pick(random, 0, (k - 1) * d);
      kernel.emplace_back(k), dilations.emplace_back(d), strides.emplace_back(pick(random, 1, 3));
      begin.emplace_back(pad), end.emplace_back((k - 1) * d - pad);
      x.push_back((k - 1) * d + pick(random, 1, a + 1 == rank && round % 3 == 0 ? 400 : 5));
    }
    Graph graph;
    const DataType type = round % 4 == 1 ? DataType::kDouble : DataType::kFloat;
    const ValueId input = graph.add_input("x", {type, to_indices(x)});
    const std::vector<ValueId> found = node(graph, "MaxPool", {input},
                                            {{"kernel", kernel},
                                             {"strides", strides},
                                             {"dilations", dilations},
                                             {"pads_begin", begin},
                                             {"pads_end", end},
                                             {"indices", true},
                                             {"storage_order", Index(pick(random, 0, 2))}});
    graph.add_output("y", found[0]), graph.add_output("where", found[1]);
    // Few distinct numbers, so that maxima are equal; sometimes NaN.
    std::vector<double> values = random_tensor(random, DataType::kDouble, x, -2, 2).reals();
    for (double& v : values) v = pick(random, 0, 20) == 0 ? NAN : std::round(v);
    const std::vector<Tensor> inputs{Tensor::from_reals(type, x, values)};
    INFO("x " << to_string(to_indices(x)) << ", kernel " << to_string(kernel) << ", strides " << to_string(strides));
    check_graph(graph, inputs, 0);
  }
}

TEST_CASE("random bits are those of their definition") {
  std::mt19937 random(2);
  for (const std::int64_t count : {0, 1, 4, 7, 1000})
    for (const std::int64_t first : {0, 3, 18}) {
      Graph graph;
      const TensorType scalar{DataType::kInt64, {}};
      const ValueId step = graph.add_input("step", scalar), part = graph.add_input("part", scalar);
      graph.add_output("y", node(graph, "RandomBits", {step, part},
                                 {{"count", Index(count)},
                                  {"seed", Index(pick(random, 0, INT64_MAX))},
                                  {"stream", Index(3)},
                                  {"first", Index(first)}})[0]);
      const std::vector<Tensor> inputs{Tensor::scalar(DataType::kInt64, 17), Tensor::scalar(DataType::kInt64, 2)};
      check_graph(graph, inputs, 0);
    }
}

// Inputs a, b of one size; outputs a', b' that replace them, computed as the case says.
struct Replacing {
  Graph graph;
  ValueId a, b;
  std::vector<Tensor> inputs;
  explicit Replacing(std::mt19937& random, std::int64_t n) {
    const TensorType type{DataType::kFloat, {n, n}};
    a = graph.add_input("a", type), b = graph.add_input("b", type);
    for (int k = 0; k < 2; ++k) inputs.push_back(random_tensor(random, DataType::kFloat, {n, n}, -1, 1));
  }
  ValueId op(const std::string& name, const std::vector<ValueId>& operands,
             const std::vector<std::pair<std::string, AttributeValue>>& fields = {}) {
    return node(graph, name, operands, fields)[0];
  }
  // Runs on copies; returns the number of outputs in an input's memory.
  int check(int threads) {
    const std::vector<Tensor> expected = interpret(graph, inputs);
    SessionOptions options;
    options.threads = threads;
    options.replacements = {{0, 0}, {1, 1}};
    const auto session = cpu_backend().prepare(graph, options);
    testing::require_close(graph, session->run(inputs), expected, {2e-5});
    std::vector<Tensor> given;
    std::vector<const std::byte*> places;
    for (const Tensor& t : inputs) {
      given.push_back(Tensor::from_reals(t.type(), t.sizes(), t.reals()));
      places.push_back(given.back().bytes().data());
    }
    const std::vector<Tensor> outputs = session->advance(std::move(given));
    testing::require_close(graph, outputs, expected, {2e-5});
    return (outputs[0].bytes().data() == places[0]) + (outputs[1].bytes().data() == places[1]);
  }
};

TEST_CASE("outputs lie where the inputs that they replace did, unless these are still needed") {
  std::mt19937 random(3);
  for (const std::int64_t n : {3, 17, 64, 200})
    for (const int threads : {1, 3}) {
      INFO("size " << n << ", threads " << threads);
      {  // a momentum step: the new a depends on the new b
        Replacing r(random, n);
        const ValueId b = r.op("Add", {r.op("Mul", {r.b, r.b}), r.a}), a = r.op("Sub", {r.a, b});
        r.graph.add_output("a'", a), r.graph.add_output("b'", b);
        CHECK(r.check(threads) >= 1);
      }
      {  // the same with products between, which read the inputs
        Replacing r(random, n);
        const ValueId p = r.op("MatMul", {r.a, r.b});
        r.graph.add_output("a'", r.op("Sub", {r.a, p})), r.graph.add_output("b'", r.op("Mul", {r.b, p}));
        r.check(threads);
      }
      {  // elements that others read
        Replacing r(random, n);
        r.graph.add_output("a'", r.op("Add", {r.a, r.op("Transpose", {r.a}, {{"perm", Indices{1, 0}}})}));
        r.graph.add_output("b'", r.op("Sub", {r.op("Transpose", {r.b}, {{"perm", Indices{1, 0}}}), r.b}));
        CHECK(r.check(threads) == 0);
      }
      {  // an input that is also an output, and two that are swapped
        Replacing r(random, n);
        r.graph.add_output("a'", r.op("Neg", {r.a})), r.graph.add_output("b'", r.op("Exp", {r.a}));
        r.check(threads);
        Replacing swap(random, n);
        swap.graph.add_output("a'", swap.op("Neg", {swap.b})), swap.graph.add_output("b'", swap.op("Neg", {swap.a}));
        CHECK(swap.check(threads) == 0);
      }
    }
}

}  // namespace
