#include "plans/groups/rearranging.h"

#include <catch2/catch.hpp>
#include <random>
#include <utility>

#include "operators/operator.h"
#include "plans/groups/step.h"

namespace rewright::plans {

namespace {

constexpr double kRate = 1e9;

// A machine of so many devices whose convolutions have a layout of their own, which some functions keep.
Machine with_layouts(std::size_t devices, std::size_t least_channels, bool relu_keeps) {
  MachineDescription description;
  description.devices = description.per_node = devices;
  description.rates = DeviceRates{1e11, 1e11, 0};
  description.node = NetworkDescription{.latency = 1e-6, .bytes_per_second = 1e10};
  description.layouts = LayoutFacts{{"operand 0 of Conv", "result 0 of Conv"}, {}, {}, least_channels, kRate};
  if (relu_keeps) description.layouts->kept.insert("operand 0 of Relu");
  return Machine(description);
}

enum class Also { kNothing, kOutput, kReadBefore, kReadBehind, kTwice };

// A convolution, a function of it, and a convolution of that: 16, 32 and 8 channels of 8 x 8. `also`: the function's result is
// an output, or another function reads it before or behind the second convolution, or the function is applied twice.
Graph convolutions(Also also = Also::kNothing) {
  Graph graph;
  const auto add = [&](const char* name, std::vector<ValueId> inputs) {
    const Operator& op = registry().get(name);
    Attributes attributes = op.defaults();
    if (op.name() == "Conv")
      for (const char* pads : {"pads_begin", "pads_end"}) attributes.at(op.field(pads).value()) = Indices{1, 1};
    return graph.add_node(op, std::move(attributes), std::move(inputs)).at(0);
  };
  const auto given = [&](const char* name, std::vector<std::int64_t> sizes) {
    TensorType type{DataType::kFloat, {}};
    for (const std::int64_t size : sizes) type.shape.emplace_back(size);
    return graph.add_input(name, type);
  };
  ValueId first = add("Relu", {add("Conv", {given("x", {1, 16, 8, 8}), given("v", {32, 16, 3, 3})})});
  if (also == Also::kTwice) first = add("Relu", {first});
  if (also == Also::kOutput) graph.add_output("first", first);
  if (also == Also::kReadBefore) graph.add_output("e", add("Exp", {first}));
  graph.add_output("y", add("Conv", {first, given("w", {8, 32, 3, 3})}));
  if (also == Also::kReadBehind) graph.add_output("e", add("Exp", {first}));
  return graph;
}

// Seconds to copy so many channels of an image of `rows` rows.
double copy(double channels, double rows) { return 2 * channels * rows * 8 * sizeof(float) / kRate; }

std::vector<double> seconds(const Machine& machine, const Graph& graph, const Partition& partition,
                            const PartitionOptions& options) {
  const auto exchanges = exchanges_of(graph, partition, options);
  return rearranging_seconds(machine, graph, partition, options, exchanges, execution_order(graph, partition, exchanges, {}),
                             {});
}

}  // namespace

TEST_CASE("rearranging: values are changed where a layout begins and ends") {
  const Graph graph = convolutions();
  PartitionOptions options;
  Partition partition;
  for (const auto& node : graph.nodes()) partition.nodes.push_back(whole_choice(*node));
  partition.given.resize(graph.value_count());
  const auto on = [&](std::size_t least_channels, bool keeps) {
    return seconds(with_layouts(1, least_channels, keeps), graph, partition, options);
  };
  CHECK(on(8, true) == std::vector<double>{copy(16, 8), 0, copy(8, 8)});
  CHECK(on(8, false) == std::vector<double>{copy(16, 8), copy(32, 8), copy(32, 8) + copy(8, 8)});
  // A function that reads either layout writes the one that is wanted.
  MachineDescription reading = with_layouts(1, 8, false).description();
  reading.layouts->read.insert("operand 0 of Relu");
  CHECK(seconds(Machine(reading), graph, partition, options) == std::vector<double>{copy(16, 8), 0, copy(8, 8)});
  CHECK(on(9, true) == std::vector<double>{copy(16, 8), 0, 0});
  CHECK(on(17, true) == std::vector<double>{0, 0, 0});
  CHECK(on(33, true) == std::vector<double>{0, 0, 0});
  MachineDescription plain = with_layouts(1, 1, true).description();
  plain.layouts.reset();
  CHECK(seconds(Machine(plain), graph, partition, options) == std::vector<double>(3));
}

TEST_CASE("rearranging: what is written as it is wanted is there in one layout, and copied for the other") {
  const auto on = [&](Also also) {
    const Graph graph = convolutions(also);
    Partition partition;
    for (const auto& node : graph.nodes()) partition.nodes.push_back(whole_choice(*node));
    partition.given.resize(graph.value_count());
    MachineDescription reading = with_layouts(1, 8, false).description();
    reading.layouts->read.insert("operand 0 of Relu");
    return seconds(Machine(reading), graph, partition, PartitionOptions());
  };
  const double input = copy(16, 8), between = copy(32, 8), result = copy(8, 8);
  CHECK(on(Also::kOutput) == std::vector<double>{input, 0, between + result});
  CHECK(on(Also::kReadBefore) == std::vector<double>{input, 0, 0, between + result});
  CHECK(on(Also::kReadBehind) == std::vector<double>{input, 0, result, between});
  CHECK(on(Also::kTwice) == std::vector<double>{input, 0, 0, result});
}

TEST_CASE("rearranging: exchanges are of plain values, and parts of what is whole are copied") {
  const Graph graph = convolutions();
  PartitionOptions options;
  options.processes = 2;
  ChoiceFinder finder(2, [](const Operator&, const Attributes&, OperandTypes, double) { return 1.0; });
  Partition partition;  // rows of all images
  for (const auto& node : graph.nodes()) {
    const auto& choices = finder.of(graph, *node);
    const auto rows = std::ranges::find_if(
        choices, [](const NodeChoice& c) { return c.gives[0].kind == Holding::Kind::kCut && c.gives[0].axis == 2; });
    REQUIRE(rows != choices.end());
    partition.nodes.push_back(*rows);
  }
  partition.given.resize(graph.value_count());
  const Machine machine = with_layouts(2, 8, true);
  // The image is whole: its rows with those of the neighbour are copied, then changed. Rows between the convolutions are
  // exchanged, and so is the result.
  const std::vector<double> expected{2 * copy(16, 4), copy(32, 4), copy(32, 4) + copy(8, 4)};
  const std::vector<double> found = seconds(machine, graph, partition, options);
  for (std::size_t n = 0; n < 3; ++n) CHECK(found[n] == Approx(expected[n]));
  // A function that writes what is wanted does so for the exchange.
  MachineDescription reading = machine.description();
  reading.layouts->read = std::exchange(reading.layouts->kept, {});
  const std::vector<double> read = seconds(Machine(reading), graph, partition, options);
  for (std::size_t n = 0; n < 3; ++n) CHECK(read[n] == Approx(n == 1 ? 0 : expected[n]));
  // The simulated step takes them.
  MachineDescription plain = machine.description();
  plain.layouts.reset();
  const auto step = [&](const Machine& on) {
    Simulation simulation(on);
    simulate_step(simulation, graph, partition, options);
    simulation.run();
    return simulation.seconds();
  };
  CHECK(step(machine) - step(Machine(plain)) == Approx(expected[0] + expected[1] + expected[2]));
}

}  // namespace rewright::plans
