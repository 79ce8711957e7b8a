// Sessions whose sizes change from call to call: they agree with the interpreter, and bit for bit with sessions for known
// sizes among others.
#include <cstring>
#include <thread>

#include "operators/testing/share.h"
#include "runtime/cpu/backend/sized_plans.h"
#include "runtime/cpu/planning/passes.h"
#include "runtime/cpu/testing/open_networks.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::node;
using rewright::testing::random_tensor;
using rewright::testing::RandomGraph;
using rewright::testing::require_close;
using rewright::testing::require_same_bits;

TEST_CASE("random networks at random sizes, 0 and 1 among them") {
  for (unsigned seed = 0; seed < testing::instances(24); ++seed) {
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
