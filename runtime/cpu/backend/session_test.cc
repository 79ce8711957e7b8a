// Sessions shared by threads, and plans shared by processes.
#include <atomic>
#include <fstream>
#include <thread>
#include <utility>

#include "base/temporary_folder.h"
#include "graph/file.h"
#include "runtime/cpu/testing/graphs.h"
#include "runtime/endable_run.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::node;
using rewright::testing::random_tensor;

namespace {

// A convolution with an epilogue, a pool, a product and a softmax: all families of kernels, and folded constants.
Graph small_network(std::mt19937& random) {
  Graph graph;
  const auto constant = [&](Sizes sizes) {
    return graph.add_constant(random_tensor(random, DataType::kFloat, sizes, -0.4, 0.4));
  };
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index(2), Index(3), Index(14), Index(14)}});
  const ValueId kernel = node(graph, "Mul", {constant({24, 3, 3, 3}), constant({24, 1, 1, 1})})[0];
  ValueId y = node(graph, "Conv", {x, kernel, constant({24})},
                   {{"strides", Indices{2, 2}},
                    {"dilations", Indices{1, 1}},
                    {"pads_begin", Indices{1, 1}},
                    {"pads_end", Indices{1, 1}},
                    {"group", Index(1)}})[0];
  y = node(graph, "Relu", {y})[0];
  y = node(graph, "GlobalAveragePool", {y})[0];
  y = node(graph, "Flatten", {y})[0];
  y = node(graph, "MatMul", {y, constant({24, 40})})[0];
  y = node(graph, "Softmax", {node(graph, "Add", {y, constant({40})})[0]})[0];
  graph.add_output("y", y);
  return graph;
}

// Quantized convolutions, also depthwise ones, a requantization that moves bytes, and a product.
Graph quantized_network(std::mt19937& random) {
  Graph graph;
  const auto number = [&](double value) { return graph.add_constant(Tensor::scalar(DataType::kFloat, value)); };
  const auto zero = [&](DataType t) { return graph.add_constant(Tensor::scalar(t, t == DataType::kUint8 ? 128 : 0)); };
  const auto weights = [&](const Sizes& sizes) {
    const ValueId w = graph.add_constant(random_tensor(random, DataType::kInt8, sizes, -127, 128));
    return node(graph, "DequantizeLinear", {w, number(0.01), zero(DataType::kInt8)})[0];
  };
  const auto rounded = [&](ValueId x) {
    const ValueId q = node(graph, "QuantizeLinear", {x, number(0.1), zero(DataType::kUint8)})[0];
    return node(graph, "DequantizeLinear", {q, number(0.1), zero(DataType::kUint8)})[0];
  };
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index(2), Index(3), Index(14), Index(14)}});
  const Indices ones{Index(1), Index(1)};
  ValueId y = rounded(node(graph, "Conv", {rounded(x), weights({32, 3, 3, 3})}, {{"pads_begin", ones}, {"pads_end", ones}})[0]);
  y = rounded(
      node(graph, "Conv", {y, weights({32, 1, 3, 3})}, {{"pads_begin", ones}, {"pads_end", ones}, {"group", Index(32)}})[0]);
  y = node(graph, "Reshape", {y}, {{"shape", Indices{2, 32, 196}}})[0];
  y = rounded(node(graph, "Transpose", {rounded(y)}, {{"perm", Indices{0, 2, 1}}})[0]);
  y = rounded(node(graph, "Transpose", {rounded(y)}, {{"perm", Indices{1, 0, 2}}})[0]);
  y = rounded(node(graph, "MatMul", {y, weights({32, 40})})[0]);
  graph.add_output("y", y);
  return graph;
}

Tensor input_for(std::mt19937& random) { return random_tensor(random, DataType::kFloat, {2, 3, 14, 14}); }

std::string read(const std::filesystem::path& file) { return std::string(map_file(file).text()); }

}  // namespace

TEST_CASE("threads share sessions, and get the results that one thread gets") {
  constexpr int kThreads = 32, kRuns = 20, kInputs = 4;
  std::mt19937 random(1);
  const Graph graph = small_network(random);
  // One session for all; then sessions with several threads beside one with one thread.
  for (const std::vector<int>& threads : {std::vector<int>{1}, std::vector<int>{1, 2, 3}}) {
    std::vector<std::unique_ptr<Session>> sessions;
    for (const int count : threads) sessions.push_back(cpu_backend().prepare(graph, {.threads = count}));
    std::vector<Tensor> inputs;
    std::vector<std::vector<Tensor>> expected;
    for (int i = 0; i < kInputs; ++i) {
      inputs.push_back(input_for(random));
      expected.emplace_back();
      for (const auto& session : sessions) expected.back().push_back(session->run({&inputs.back(), 1}).at(0));
    }
    std::atomic<int> wrong = 0;
    std::vector<std::thread> workers;
    for (int t = 0; t < kThreads; ++t)
      workers.emplace_back([&, t] {
        for (int run = 0; run < kRuns; ++run) {
          const auto i = static_cast<std::size_t>(t + run) % inputs.size(), s = static_cast<std::size_t>(t) % sessions.size();
          const Tensor result = sessions[s]->run({&inputs[i], 1}).at(0);
          if (!(result == expected[i][s])) ++wrong;
        }
      });
    for (std::thread& worker : workers) worker.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("threads share a plan whose steps are cut into pieces") {
  std::mt19937 random(3);
  const Graph graph = GENERATE(false, true) ? quantized_network(random) : small_network(random);
  cpu::PlanOptions options;
  options.isa = cpu::detected_isa();
  options.threads = 3;
  options.piece_nanoseconds = 0;
  cpu::PlanRunner runner(cpu::make_plan(graph, options));
  const std::vector<Tensor> inputs{input_for(random)};
  const Tensor expected = runner.run(inputs).at(0);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 8; ++c)
    callers.emplace_back([&] {
      for (int run = 0; run < 20; ++run) wrong += !(runner.run(inputs).at(0) == expected);
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("threads ask one session for plans of several sizes") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), Index(8)}});
  graph.add_output("y", node(graph, "Softmax", {x})[0]);
  const auto session = cpu_backend().prepare(graph, {});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> workers;
  for (int t = 0; t < 8; ++t)
    workers.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int run = 0; run < 6; ++run) {
        const std::int64_t rows = 1 + (t + run) % 3;
        const Tensor result = session->run(std::vector<Tensor>{random_tensor(random, DataType::kFloat, {rows, 8})}).at(0);
        double total = 0;
        for (const double v : result.reals()) total += v;
        if (std::fabs(total - static_cast<double>(rows)) > 1e-4) ++wrong;
      }
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(wrong == 0);
}

TEST_CASE("a prepared plan is kept beside the model") {
  const TemporaryFolder folder;
  std::mt19937 random(2);
  const Graph graph = small_network(random);
  const std::vector<Tensor> inputs{input_for(random)};
  const SessionOptions options{.plan_cache = (folder / "net.plan").string()};
  const Tensor expected = cpu_backend().prepare(graph, {})->run(inputs).at(0);
  const auto check = [&](const Graph& g, std::size_t warnings, const Tensor& result) {
    const auto session = cpu_backend().prepare(g, options);
    CHECK(session->run(inputs).at(0) == result);
    CHECK(session->warnings().size() == warnings);
  };
  check(graph, 0, expected);
  const std::string whole = read(options.plan_cache);
  const auto written = std::filesystem::last_write_time(options.plan_cache);
  check(graph, 0, expected);
  CHECK(std::filesystem::last_write_time(options.plan_cache) == written);  // nothing was missing

  SECTION("of another model it is made anew, with a word about it") {
    const Graph other = small_network(random);
    check(other, 1, cpu_backend().prepare(other, {})->run(inputs).at(0));
    check(other, 0, cpu_backend().prepare(other, {})->run(inputs).at(0));
  }
  SECTION("wherever it is damaged, it is made anew") {
    const std::size_t steps[] = {1, 7, 16, 20, 24, 32, 40, 41, 60, 200, whole.size() / 2, whole.size() - 70, whole.size() - 1};
    for (const std::size_t at : steps) {
      CAPTURE(at);
      for (const bool cut : {false, true}) {
        std::string bytes = whole;
        if (cut)
          bytes.resize(at);
        else
          bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
        write_file(options.plan_cache, bytes);
        if (!cut && at < 16) {  // no longer recognized as ours
          CHECK_THROWS_WITH(cpu_backend().prepare(graph, options), Catch::Contains("is not a prepared plan"));
          CHECK(read(options.plan_cache) == bytes);
          continue;
        }
        const auto session = cpu_backend().prepare(graph, options);
        CHECK(session->run(inputs).at(0) == expected);
        // Padding between entries is not checked.
        if (session->warnings().empty())
          CHECK(read(options.plan_cache) == bytes);
        else
          CHECK(read(options.plan_cache) == whole);
      }
    }
  }
  SECTION("where it cannot be written, the session works all the same") {
    const auto session = cpu_backend().prepare(graph, {.plan_cache = (folder / "nowhere/net.plan").string()});
    CHECK(session->run(inputs).at(0) == expected);
    CHECK_THAT(session->warnings().at(0), Catch::Contains("cannot be written"));
  }
  SECTION("another file is left as it is") {
    write_file(options.plan_cache, "something dear");
    CHECK_THROWS_WITH(cpu_backend().prepare(graph, options), Catch::Contains("is not a prepared plan"));
    CHECK(read(options.plan_cache) == "something dear");
  }
}

TEST_CASE("a run is ended between any two steps, and the session runs again as before") {
  std::mt19937 random(21);
  const Graph graph = small_network(random);
  const auto session = cpu_backend().prepare(graph, {.threads = 2});
  const Tensor input = input_for(random);
  const Tensor expected = session->run({&input, 1}).at(0);
  int steps = 0, end = -1;
  const Checkpoint checkpoint = [&] {
    if (steps++ == end) throw Error(ErrorCode::kCancelled, "enough");
  };
  {
    const EndableRun run(checkpoint);
    CHECK(session->run({&input, 1}).at(0) == expected);
  }
  REQUIRE(steps > 3);
  for (int all = std::exchange(steps, 0); ++end < all; steps = 0) {
    {
      const EndableRun run(checkpoint);
      CHECK_THROWS_WITH(session->run({&input, 1}), "enough");
    }
    CHECK(session->run({&input, 1}).at(0) == expected);
  }
}
