// Sessions with inputs and outputs in device memory.
#include <catch2/catch.hpp>

#include "runtime/cuda/running/device_memory.h"
#include "runtime/cuda/running/session.h"
#include "runtime/cuda/testing/device.h"
#include "runtime/testing.h"

namespace rewright::cuda {
namespace {

using testing::node;
using testing::random_tensor;
using testing::RandomGraph;

// Two outputs of three inputs, one of them through a library.
RandomGraph small_graph(unsigned seed) {
  RandomGraph g(seed);
  const ValueId x = g.input({6, 40}), w = g.input({40, 24}), b = g.input({24});
  const ValueId y = node(g.graph, "Add", {node(g.graph, "MatMul", {x, w})[0], b})[0];
  g.graph.add_output("y", node(g.graph, "Relu", {y})[0]);
  g.graph.add_output("z", node(g.graph, "Exp", {x})[0]);
  return g;
}

DeviceTensor placed(const MemoryOfDevice& memory, const Tensor& tensor) {
  const DeviceTensor there = memory.allocate(tensor.type(), tensor.sizes());
  memory.copy_in(there, tensor);
  return there;
}

DeviceSession& on_device(Session& session) { return dynamic_cast<DeviceSession&>(session); }

}  // namespace

TEST_CASE("inputs are read and outputs written wherever they are") {
  const auto driver = tested_driver();
  const MemoryOfDriver memory(driver, 0);
  for (unsigned seed = 1; seed <= 8; ++seed) {
    RandomGraph g = small_graph(seed);
    const auto session = make_session(driver, g.graph, {}, {});
    const std::vector<Tensor> expected = session->run(g.inputs);
    for (int round = 0; round < 4; ++round) {
      std::vector<PlacedTensor> inputs;
      for (const Tensor& input : g.inputs) inputs.emplace_back(g.pick(0, 1) == 0 ? PlacedTensor(input) : placed(memory, input));
      std::vector<Destination> outputs;
      for (const Tensor& output : expected) {
        const Destination all[] = {Nowhere(), OnHost(), OnDevice{0}, memory.allocate(output.type(), output.sizes())};
        outputs.push_back(all[g.pick(0, 3)]);
      }
      const std::vector<PlacedTensor> found = on_device(*session).run_placed(inputs, outputs);
      for (std::size_t o = 0; o < expected.size(); ++o) {
        const auto* const there = std::get_if<DeviceTensor>(&found[o]);
        REQUIRE((there != nullptr) == (outputs[o].index() >= 2));
        if (const auto* const buffer = std::get_if<DeviceTensor>(&outputs[o])) CHECK(there->data == buffer->data);
        if (there != nullptr)
          CHECK(memory.copy_out(*there) == expected[o]);
        else if (outputs[o].index() == 1)
          CHECK(std::get<Tensor>(found[o]) == expected[o]);
        else
          CHECK_FALSE(std::get<Tensor>(found[o]));
      }
    }
    CHECK(session->run(g.inputs) == expected);
  }
}

TEST_CASE("what is on the device does not go through the host, and its memory is given back", "[host]") {
  const auto report = std::make_shared<HostDriverReport>();
  const auto driver = make_host_driver({}, report);
  const MemoryOfDriver memory(driver, 0);
  {
    const RandomGraph g = small_graph(3);
    const auto session = make_session(driver, g.graph, {}, {});
    std::vector<PlacedTensor> inputs;
    for (const Tensor& input : g.inputs) inputs.emplace_back(placed(memory, input));
    const std::vector<Destination> outputs{OnDevice{0}, memory.allocate(DataType::kFloat, {6, 40})};
    std::vector<PlacedTensor> kept = on_device(*session).run_placed(inputs, outputs);
    const std::size_t before = report->through_host, allocated = report->allocated;
    for (int run = 0; run < 3; ++run) kept = on_device(*session).run_placed(inputs, outputs);
    CHECK(report->through_host == before);
    CHECK(report->allocated == allocated);
    session->run(g.inputs);
    CHECK(report->through_host > before);
  }
  CHECK(report->allocated == 0);
}

TEST_CASE("an output of one run is the input of the next one, in place as well") {
  const auto driver = tested_driver();
  const MemoryOfDriver memory(driver, 0);
  RandomGraph g(4);
  const ValueId x = g.input({5, 7});
  g.graph.add_output("y", node(g.graph, "Add", {x, g.constant({5, 7})})[0]);
  const auto session = make_session(driver, g.graph, {}, {});
  Tensor expected = g.inputs[0];
  const DeviceTensor state = placed(memory, expected);
  for (int step = 0; step < 5; ++step) {
    expected = session->run({&expected, 1})[0];
    const PlacedTensor input = state;
    const Destination output = state;
    on_device(*session).run_placed({&input, 1}, {&output, 1});
    CHECK(memory.copy_out(state) == expected);
  }
}

TEST_CASE("memory that comes again is used directly, with the same results", "[host]") {
  const auto report = std::make_shared<HostDriverReport>();
  const auto driver = make_host_driver({}, report);
  const MemoryOfDriver memory(driver, 0);
  RandomGraph g(6);
  const ValueId x = g.input({5, 8}), w = g.input({8, 8});
  g.graph.add_output("y", node(g.graph, "MatMul", {node(g.graph, "Relu", {x})[0], w})[0]);
  g.graph.add_output("x", x);  // an output that is an input
  const auto session = make_session(driver, g.graph, {}, {});
  std::vector<Tensor> expected = session->run(g.inputs);
  const DeviceTensor states[] = {placed(memory, g.inputs[0]), memory.allocate(DataType::kFloat, {5, 8})};
  const DeviceTensor weights = placed(memory, g.inputs[1]), same = memory.allocate(DataType::kFloat, {5, 8});
  // Two places take turns.
  constexpr std::size_t bytes = 5 * 8 * sizeof(float);
  std::size_t copied = 0;
  for (int step = 0; step < 8; ++step) {
    const std::vector<PlacedTensor> inputs{states[step % 2], weights};
    const std::vector<Destination> outputs{states[(step + 1) % 2], same};
    const std::size_t before = report->copied;
    on_device(*session).run_placed(inputs, outputs);
    if (step == 0) copied = report->copied - before;
    if (step >= 4) CHECK(report->copied - before == bytes);  // the output that is an input
    CHECK(memory.copy_out(same) == expected[1]);
    CHECK(memory.copy_out(states[(step + 1) % 2]) == expected[0]);
    expected = session->run(std::vector<Tensor>{expected[0], g.inputs[1]});
  }
  CHECK(copied > bytes);
  // An output in the memory of an input, or of another output, is written when all have been read.
  const std::vector<Tensor> alone = session->run(g.inputs);
  for (int round = 0; round < 4; ++round) {
    memory.copy_in(states[0], g.inputs[0]);
    const std::vector<PlacedTensor> inputs{states[0], weights};
    const std::vector<Destination> outputs{states[0], same};
    on_device(*session).run_placed(inputs, outputs);
    CHECK(memory.copy_out(states[0]) == alone[0]);
    CHECK(memory.copy_out(same) == alone[1]);
  }
}

TEST_CASE("recordings for memory of the caller are few, and only for memory that is aligned") {
  const auto driver = tested_driver();
  const MemoryOfDriver memory(driver, 0);
  RandomGraph g = small_graph(9);
  const auto session = make_session(driver, g.graph, {}, {});
  const std::vector<Tensor> expected = session->run(g.inputs);
  std::vector<DeviceTensor> places;
  for (int p = 0; p < 7; ++p) {
    DeviceTensor whole = memory.allocate(DataType::kFloat, {6 * 24 + 64});
    whole.sizes = {6, 24};
    if (p % 3 == 2) whole.data += sizeof(float);
    places.push_back(whole);
  }
  const std::vector<PlacedTensor> inputs{placed(memory, g.inputs[0]), g.inputs[1], placed(memory, g.inputs[2])};
  for (int run = 0; run < 60; ++run) {
    const std::vector<Destination> outputs{places[static_cast<std::size_t>(g.pick(0, run < 30 ? 6 : 2))], OnHost()};
    const auto found = on_device(*session).run_placed(inputs, outputs);
    CHECK(memory.copy_out(std::get<DeviceTensor>(found[0])) == expected[0]);
    CHECK(std::get<Tensor>(found[1]) == expected[1]);
  }
}

TEST_CASE("sizes are bound by tensors on the device, and empty ones are none of its business") {
  const Index n = Index::symbol("N");
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {n, Index(3)}});
  graph.add_output("y", node(graph, "Neg", {x})[0]);
  const auto driver = tested_driver();
  const MemoryOfDriver memory(driver, 0);
  const auto session = make_session(driver, graph, {}, {});
  std::mt19937 random(1);
  for (const std::int64_t size : {2, 5, 0, 2}) {
    const Tensor t = random_tensor(random, DataType::kFloat, {size, 3});
    const PlacedTensor input = placed(memory, t);
    const Destination output = OnDevice{0};
    const auto found = on_device(*session).run_placed({&input, 1}, {&output, 1});
    CHECK(memory.copy_out(std::get<DeviceTensor>(found[0])) == interpret(graph, {&t, 1})[0]);
  }
  const PlacedTensor wrong = placed(memory, random_tensor(random, DataType::kFloat, {2, 4}));
  const Destination nowhere = Nowhere();
  CHECK_THROWS_WITH(on_device(*session).run_placed({&wrong, 1}, {&nowhere, 1}), Catch::Contains("input \"x\""));
}

TEST_CASE("memory that is not for an output is refused by the output's name, before anything is done") {
  const RandomGraph g = small_graph(5);
  const auto driver = tested_driver();
  const MemoryOfDriver memory(driver, 0);
  const auto session = make_session(driver, g.graph, {}, {});
  const std::vector<PlacedTensor> inputs(g.inputs.begin(), g.inputs.end());
  for (const DeviceTensor& buffer : {memory.allocate(DataType::kFloat, {24, 6}), memory.allocate(DataType::kHalf, {6, 24})}) {
    const std::vector<Destination> outputs{buffer, Nowhere()};
    CHECK_THROWS_WITH(on_device(*session).run_placed(inputs, outputs),
                      Catch::Contains("output \"y\": is float[6, 24], the memory for it is of"));
  }
}

TEST_CASE("nodes that the host executes, with tensors on the device") {
  RandomGraph g(7);
  const ValueId x = g.input({3, 8});
  const Operator& op = registry().get("TopK");
  Attributes attributes = op.defaults();
  attributes.at(op.field("k").value()) = Index(2);
  const auto top = g.graph.add_node(op, attributes, {node(g.graph, "Relu", {x})[0]});
  g.graph.add_output("y", node(g.graph, "Exp", {top[0]})[0]);
  g.graph.add_output("z", top[1]);
  const auto driver = tested_driver();
  const MemoryOfDriver memory(driver, 0);
  const auto session = make_session(driver, g.graph, {}, {});
  const PlacedTensor input = placed(memory, g.inputs[0]);
  const std::vector<Destination> outputs{OnDevice{0}, OnHost()};
  for (int run = 0; run < 2; ++run) {
    const auto found = on_device(*session).run_placed({&input, 1}, outputs);
    const std::vector<Tensor> tensors{memory.copy_out(std::get<DeviceTensor>(found[0])), std::get<Tensor>(found[1])};
    testing::require_close(g.graph, tensors, interpret(g.graph, g.inputs), {});
  }
}

}  // namespace rewright::cuda
