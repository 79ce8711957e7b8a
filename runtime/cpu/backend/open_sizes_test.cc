// Sessions whose sizes change from call to call: they agree with the interpreter, and bit for bit with sessions for known
// sizes among others.
#include <cstring>
#include <thread>

#include "runtime/cpu/backend/sized_plans.h"
#include "runtime/cpu/planning/passes.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::node;
using rewright::testing::random_tensor;
using rewright::testing::RandomGraph;
using rewright::testing::require_close;

namespace {

// The constant as it is, or as exporters write weights that several layers share: behind nodes that change no element.
ValueId handed_on(RandomGraph& g, ValueId constant) {
  const Indices shape = g.graph.value(constant).type.shape;
  for (std::int64_t times = g.pick(0, 2); times > 0; --times) {
    const std::int64_t kind = g.pick(0, 2);
    if (kind == 0) constant = node(g.graph, "Identity", {constant})[0];
    if (kind == 1) constant = node(g.graph, "Reshape", {constant}, {{"shape", shape}})[0];
    if (kind == 2) {
      const ValueId longer = node(g.graph, "Unsqueeze", {constant}, {{"axes", Indices{0}}})[0];
      constant = node(g.graph, "Squeeze", {longer}, {{"axes", Indices{0}}})[0];
    }
  }
  return constant;
}

// A random network of rows: N x `width`.
Graph network_of_rows(RandomGraph& g) {
  std::int64_t width = g.pick(3, 40);
  ValueId x = g.graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), Index(width)}});
  for (std::int64_t layers = g.pick(1, 4); layers > 0; --layers) {
    const std::int64_t next = g.pick(1, 70);
    const ValueId y = node(g.graph, "MatMul", {x, handed_on(g, g.constant({width, next}))})[0];
    ValueId biased = node(g.graph, "Add", {y, handed_on(g, g.constant({next}))})[0];
    if (g.pick(0, 2) == 0) biased = node(g.graph, "Mul", {biased, g.constant({next})})[0];
    x = node(g.graph, g.pick(0, 1) == 0 ? "Relu" : "Tanh", {biased})[0];
    if (g.pick(0, 2) == 0) x = node(g.graph, "Softmax", {x})[0];
    if (g.pick(0, 2) == 0) x = node(g.graph, "Mul", {x, node(g.graph, "Sigmoid", {x})[0]})[0];
    width = next;
  }
  g.graph.add_output("y", x);
  if (g.pick(0, 1) == 0) {  // every row meets every other one
    const ValueId across = node(g.graph, "Transpose", {x}, {{"perm", Indices{1, 0}}})[0];
    const ValueId weights = node(g.graph, "Softmax", {node(g.graph, "MatMul", {x, across})[0]})[0];
    g.graph.add_output("z", node(g.graph, "MatMul", {weights, x})[0]);
  }
  return std::move(g.graph);
}

// A random encoder of texts: B x N x width, with rows of tables for every word and attention.
Graph network_of_texts(RandomGraph& g) {
  constexpr std::int64_t kLongest = 40, kKinds = 3;
  const Index batch = Index::symbol("B"), length = Index::symbol("N");
  const std::int64_t heads = g.pick(1, 3), depth = g.pick(1, 9), width = heads * depth;
  ValueId x = g.graph.add_input("x", {DataType::kFloat, {batch, length, Index(width)}});
  const auto first = [&](ValueId table, const Indices& lengths) {
    return node(g.graph, "Slice", {table}, {{"length", lengths}})[0];
  };
  std::vector<std::int64_t> kinds;
  for (std::int64_t n = 0; n < kLongest; ++n) kinds.push_back(g.pick(0, 1) == 0 ? 0 : g.pick(0, kKinds - 1));
  const ValueId kind = first(g.graph.add_constant(Tensor::from_integers(DataType::kInt64, {1, kLongest}, kinds)), {1, length});
  const ValueId all = node(g.graph, "Expand", {kind}, {{"shape", Indices{batch, length}}})[0];
  x = node(g.graph, "Add", {x, node(g.graph, "Gather", {g.constant({kKinds, width}), all}, {{"axis", Index(0)}})[0]})[0];
  x = node(g.graph, "Add", {x, first(g.constant({1, kLongest, width}), {1, length, width})})[0];
  // May a word read another one? As exporters write it: positions, compared.
  const auto positions = [&](std::int64_t axis) {
    const ValueId all_words = node(g.graph, "Range", {}, {{"count", length}})[0];
    return node(g.graph, "Unsqueeze", {all_words}, {{"axes", Indices{axis}}})[0];
  };
  const char* const relations[] = {"GreaterOrEqual", "LessOrEqual", "Equal"};
  const ValueId may_read = node(g.graph, relations[g.pick(0, 2)], {positions(1), positions(0)})[0];
  const bool masked = g.pick(0, 1) == 0;
  const auto by_head = [&](Indices perm) {
    const ValueId y =
        node(g.graph, "Add", {node(g.graph, "MatMul", {x, g.constant({width, width})})[0], g.constant({width})})[0];
    const ValueId apart = node(g.graph, "Reshape", {y}, {{"shape", Indices{batch, length, heads, depth}}})[0];
    return node(g.graph, "Transpose", {apart}, {{"perm", std::move(perm)}})[0];
  };
  for (std::int64_t layers = g.pick(1, 2); layers > 0; --layers) {
    const ValueId scores = node(g.graph, "MatMul", {by_head({0, 2, 1, 3}), by_head({0, 2, 3, 1})})[0];
    ValueId scaled = g.pick(0, 1) == 0 ? node(g.graph, "Mul", {scores, g.constant({}, 0.1, 0.5)})[0] : scores;
    if (masked)
      scaled = node(
          g.graph, "Where",
          {may_read, scaled, g.graph.add_constant(Tensor::from_reals(DataType::kFloat, {}, std::vector<double>{-1e4}))})[0];
    const ValueId read = node(g.graph, "MatMul", {node(g.graph, "Softmax", {scaled})[0], by_head({0, 2, 1, 3})})[0];
    const ValueId moved = node(g.graph, "Transpose", {read}, {{"perm", Indices{0, 2, 1, 3}}})[0];
    const ValueId rows = node(g.graph, "Reshape", {moved}, {{"shape", Indices{batch, length, width}}})[0];
    x = node(g.graph, "Add", {x, node(g.graph, "MatMul", {rows, g.constant({width, width}, -0.3, 0.3)})[0]})[0];
    if (width > 1) x = node(g.graph, "LayerNormalization", {x, g.constant({width}), g.constant({width})})[0];
  }
  g.graph.add_output("y", x);
  return std::move(g.graph);
}

// A random network of images: N x channels x H x W.
Graph network_of_images(RandomGraph& g) {
  std::int64_t channels = g.pick(1, 9);
  ValueId x =
      g.graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), Index(channels), Index::symbol("H"), Index::symbol("W")}});
  const auto convolve = [&](std::int64_t outputs, std::int64_t size, std::int64_t group) {
    const std::int64_t pad = size / 2;
    return node(g.graph, "Conv", {x, g.constant({outputs, channels / group, size, size}), g.constant({outputs})},
                {{"strides", Indices{1, 1}},
                 {"dilations", Indices{1, 1}},
                 {"pads_begin", Indices{pad, pad}},
                 {"pads_end", Indices{pad, pad}},
                 {"group", Index(group)}})[0];
  };
  for (std::int64_t layers = g.pick(1, 3); layers > 0; --layers) {
    const std::int64_t outputs = 8 * g.pick(1, 5), sizes[] = {1, 3, 5};
    const ValueId y = convolve(outputs, sizes[g.pick(0, 2)], 1);
    channels = outputs;
    const ValueId scaled = g.pick(0, 2) == 0 ? node(g.graph, "Mul", {y, g.constant({outputs, 1, 1})})[0] : y;
    x = node(g.graph, "Relu", {scaled})[0];
    if (g.pick(0, 1) == 0) x = node(g.graph, "Add", {x, convolve(channels, 3, channels)})[0];
  }
  g.graph.add_output("y", x);
  g.graph.add_output("z", node(g.graph, "GlobalAveragePool", {x})[0]);
  return std::move(g.graph);
}

// A random network of volumes: N x channels x D x H x W. Windows of some layers have one position along some axes.
Graph network_of_volumes(RandomGraph& g) {
  std::int64_t channels = g.pick(1, 9);
  Indices shape{Index::symbol("N"), Index(channels), Index::symbol("D"), Index::symbol("H"), Index::symbol("W")};
  ValueId x = g.graph.add_input("x", {DataType::kFloat, std::move(shape)});
  for (std::int64_t layers = g.pick(1, 3); layers > 0; --layers) {
    const std::int64_t group = channels % 2 == 0 ? g.pick(1, 2) : 1, outputs = group * g.pick(1, 4);
    Sizes w{outputs, channels / group};
    Indices pads;
    for (int axis = 0; axis < 3; ++axis) {
      w.push_back(2 * g.pick(0, 1) + 1);
      pads.emplace_back(w.back() / 2);
    }
    x = node(g.graph, "Conv", {x, g.constant(w), g.constant({outputs})},
             {{"strides", Indices{1, 1, 1}},
              {"dilations", Indices{1, 1, 1}},
              {"pads_begin", pads},
              {"pads_end", pads},
              {"group", Index(group)}})[0];
    if (g.pick(0, 1) == 0) x = node(g.graph, "Relu", {x})[0];
    channels = outputs;
  }
  g.graph.add_output("y", x);
  return std::move(g.graph);
}

std::vector<Tensor> inputs_of(const Graph& graph, RandomGraph& g, const std::vector<std::int64_t>& choices) {
  std::vector<Tensor> inputs;
  std::map<std::string, std::int64_t> bound;
  for (const ValueId id : graph.inputs()) {
    Sizes sizes;
    for (const Index& size : graph.value(id).type.shape) {
      if (all_constant({size}))
        sizes.push_back(size.value());
      else
        sizes.push_back(bound.emplace(to_string(size), choices[static_cast<std::size_t>(g.pick(0, std::ssize(choices) - 1))])
                            .first->second);
    }
    inputs.push_back(random_tensor(g.random, DataType::kFloat, sizes));
  }
  return inputs;
}

void require_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t o = 0; o < a.size(); ++o) REQUIRE(a[o] == b[o]);
}

Graph random_network(RandomGraph& g) {
  switch (g.pick(0, 3)) {
    case 0:
      return network_of_rows(g);
    case 1:
      return network_of_images(g);
    case 2:
      return network_of_volumes(g);
    default:
      return network_of_texts(g);
  }
}

}  // namespace

TEST_CASE("random networks at random sizes, 0 and 1 among them") {
  for (unsigned seed = 0; seed < 24; ++seed) {
    RandomGraph g(seed);
    const Graph graph = random_network(g);
    SessionOptions options;
    options.threads = 1 + static_cast<int>(seed % 2);
    const auto open = cpu_backend().prepare(graph, options);
    for (int call = 0; call < 12; ++call) {
      const std::vector<Tensor> inputs = inputs_of(graph, g, {0, 1, 2, 3, 5, 8, 13, 21, 22});
      INFO("seed " << seed << ", call " << call << "\n" << to_string(graph));
      std::vector<Tensor> expected;
      try {
        expected = interpret(graph, inputs);
      } catch (const Error&) {  // an image is smaller than a window
        CHECK_THROWS_AS(open->run(inputs), Error);
        continue;
      }
      const std::vector<Tensor> results = open->run(inputs);
      require_close(graph, results, expected, {2e-4});
      if (std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.size() == 0; })) continue;
      SessionOptions among_others = options;  // whose kernels for images share their weights' form with other sizes
      among_others.resources = cpu_backend().share_resources(1);
      const auto known = cpu_backend().prepare(with_sizes(graph, bind_sizes(graph, inputs)), among_others);
      require_same_bits(results, known->run(inputs));
      require_same_bits(results, open->run(inputs));
    }
  }
}

TEST_CASE("nodes that only hand on constants are none of an open graph") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomGraph g(seed);
    const ValueId x = g.graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), Index(6)}});
    const ValueId given = g.constant({2, 3, 6});
    const ValueId same = handed_on(g, given), moved = node(g.graph, "Transpose", {same}, {{"perm", Indices{0, 2, 1}}})[0];
    const ValueId sum = node(g.graph, "Add", {node(g.graph, "MatMul", {x, moved})[0], g.constant({3})})[0];
    g.graph.add_output("y", sum);
    const bool is_output = g.pick(0, 1) == 0;
    if (is_output) g.graph.add_output("z", handed_on(g, same));
    const Graph graph = std::move(g.graph), less = with_constants_handed_on(graph);
    INFO("seed " << seed << "\n" << to_string(graph));
    for (const auto& node : less.nodes()) {
      const bool is_of_output = is_output && node->outputs[0] == graph.outputs()[1].value;
      CHECK((node->op->name() == "Transpose" || node->op->name() == "MatMul" || node->op->name() == "Add" || is_of_output));
    }
    if (!is_output || graph.outputs()[1].value != same)  // in the same memory
      CHECK(less.value(same).constant.bytes().data() == graph.value(given).constant.bytes().data());
    const std::vector<Tensor> inputs{random_tensor(g.random, DataType::kFloat, {5, 6})};
    require_same_bits(interpret(less, inputs), interpret(graph, inputs));
  }
}

TEST_CASE("more sizes than plans are kept") {
  RandomGraph g(5);
  const Graph graph = network_of_rows(g);
  const auto resources = std::make_shared<CpuResources>(1);
  resources->plan_bytes = std::size_t{1} << 40;  // no memory is left for more plans than are always kept
  SessionOptions options;
  options.resources = resources;
  const auto open = cpu_backend().prepare(graph, options);
  std::vector<std::vector<Tensor>> inputs, results;
  for (std::int64_t n = 1; n <= 50; ++n) {
    inputs.push_back(inputs_of(graph, g, {n}));
    results.push_back(open->run(inputs.back()));
  }
  for (std::size_t n = 0; n < inputs.size(); ++n) require_same_bits(results[n], open->run(inputs[n]));
}

TEST_CASE("threads that call with different sizes at once") {
  for (unsigned seed = 0; seed < 4; ++seed) {
    RandomGraph g(100 + seed);
    const Graph graph = random_network(g);
    const auto open = cpu_backend().prepare(graph, {});
    std::vector<std::vector<Tensor>> inputs, expected;
    for (std::int64_t n = 1; n <= 20; ++n) {
      inputs.push_back(inputs_of(graph, g, {n, n + 1}));
      expected.push_back(cpu_backend().prepare(graph, {})->run(inputs.back()));
    }
    std::vector<int> wrong(4);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        for (std::size_t round = 0; round < 60; ++round) {
          const std::size_t n = (round * (2 * t + 1) + 7 * t) % inputs.size();
          wrong[t] += open->run(inputs[n]) == expected[n] ? 0 : 1;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == std::vector<int>(wrong.size()));
  }
}

TEST_CASE("sizes that do not fit end a run and not the session") {
  Graph graph;
  const ValueId a = graph.add_input("a", {DataType::kFloat, {Index::symbol("N"), Index(1)}});
  const ValueId b = graph.add_input("b", {DataType::kFloat, {Index(1), Index::symbol("N")}});
  graph.add_output("y", node(graph, "Relu", {node(graph, "Add", {a, b})[0]})[0]);
  const auto open = cpu_backend().prepare(graph, {});
  std::mt19937 random(1);
  const auto run = [&](std::int64_t rows, std::int64_t columns) {
    return open->run(std::vector<Tensor>{random_tensor(random, DataType::kFloat, {rows, 1}),
                                         random_tensor(random, DataType::kFloat, {1, columns})});
  };
  CHECK(run(3, 3)[0].sizes() == Sizes{3, 3});
  CHECK_THROWS_AS(run(3, 4), Error);                                                              // contradict
  CHECK_THROWS_AS(open->run(std::vector<Tensor>{random_tensor(random, DataType::kFloat, {3, 2}),  // not the model's
                                                random_tensor(random, DataType::kFloat, {1, 3})}),
                  Error);
  CHECK_THROWS_AS(run(std::int64_t{1} << 23, std::int64_t{1} << 23), Error);  // 256 TiB
  CHECK(run(5, 5)[0].sizes() == Sizes{5, 5});
}
