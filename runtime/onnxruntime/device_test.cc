#include "runtime/onnxruntime/device.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/onnxruntime/worker.h"

namespace rewright::runtime {

namespace {

// Without ONNX Runtime only the message can be tested.
std::unique_ptr<Device> device() {
  try {
    return make_onnxruntime_device(1);
  } catch (const Error& error) {
    WARN("not tested: " << error.what());
    return nullptr;
  }
}

Graph product(std::int64_t size, const char* op = "Relu") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {size, size}});
  const Operator& product = registry().get("MatMul");
  std::vector<double> weights(static_cast<std::size_t>(size * size), 0.5);
  const ValueId w = graph.add_constant(Tensor::from_reals(DataType::kFloat, {size, size}, weights));
  const Operator& last = registry().get(op);
  graph.add_output("y", graph.add_node(last, last.defaults(), {graph.add_node(product, {}, {x, w})[0]})[0]);
  return graph;
}

struct Environment {
  explicit Environment(const char* value) {
    if (const char* before = std::getenv("REWRIGHT_PYTHON")) before_ = before;
    setenv("REWRIGHT_PYTHON", value, 1);
  }
  ~Environment() {
    if (before_.empty())
      unsetenv("REWRIGHT_PYTHON");
    else
      setenv("REWRIGHT_PYTHON", before_.c_str(), 1);
  }
  std::string before_;
};

}  // namespace

TEST_CASE("without an interpreter, or without ONNX Runtime, the device is missing") {
  const auto code = [](const char* python) {
    const Environment environment(python);
    try {
      make_onnxruntime_device(1);
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
      return error.code();
    }
    return ErrorCode::kUsage;
  };
  CHECK(code("/no/such/python") == ErrorCode::kMissing);
  CHECK(code("/bin/false") == ErrorCode::kMissing);
  CHECK(code("/bin/cat") == ErrorCode::kMissing);  // replies, but not in the protocol
}

TEST_CASE("ONNX Runtime runs a graph as the interpreter does") {
  const std::unique_ptr<Device> ort = device();
  if (!ort) return;
  const Graph graph = product(4);
  std::vector<double> numbers(16);
  for (std::size_t i = 0; i < 16; ++i) numbers[i] = static_cast<double>(i) - 7;
  const Tensor input[] = {Tensor::from_reals(DataType::kFloat, {4, 4}, numbers)};
  CHECK(ort->run(graph, input)[0].reals() == interpret(graph, input)[0].reals());
  CHECK(ort->identity().find("onnxruntime") == 0);
}

TEST_CASE("operators and graphs are timed") {
  const std::unique_ptr<Device> ort = device();
  if (!ort) return;
  const NodeSample samples[] = {{product(16)}, {product(512)}};
  const auto times = ort->time_nodes(samples);
  REQUIRE(times.size() == 2);
  REQUIRE(times[0]);
  REQUIRE(times[1]);
  CHECK(*times[0] < *times[1]);
  const Graph graphs[] = {product(16), product(512)};
  TimingOptions options;
  options.min_seconds = 0.1;
  const auto seconds = ort->time_graphs(graphs, options);
  REQUIRE(seconds.size() == 2);
  CHECK(seconds[0].size() == seconds[1].size());
  CHECK(seconds[0].size() >= 5);
}

TEST_CASE("a helper process that dies is started again, and requests that fail are errors") {
  if (!device()) return;
  Worker worker(python_interpreter());
  CHECK_THROWS_AS(worker.ask({{"op", "nonsense"}}, 30), Error);
  CHECK_THROWS_WITH(worker.ask({{"op", "time_models"}, {"paths", {"/no/such/model.onnx"}}}, 30),
                    Catch::Contains("ONNX Runtime"));
  CHECK_THROWS_WITH(worker.ask({{"op", "hello"}}, 0), Catch::Contains("took longer"));
  CHECK(worker.ask({{"op", "hello"}}, 30).contains("onnxruntime"));
  std::stop_source stop;
  stop.request_stop();
  CHECK_THROWS_AS(worker.ask({{"op", "hello"}}, 30, stop.get_token()), Error);
  CHECK(worker.ask({{"op", "hello"}}, 30).contains("onnxruntime"));
}

}  // namespace rewright::runtime
