// Times simulations of training steps, all of them and after a change, and prints the times as JSON:
//   rewright_measure_simulation ROUNDS
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "plans/machines/machine_file.h"
#include "plans/simulation/block_maker.h"
#include "plans/simulation/simulation.h"

namespace {

using namespace rewright;
using namespace rewright::plans;

constexpr double kOperations = 4e9, kWeights = 4e6;  // of a layer; bytes

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A step whose blocks can be made again with an operator that takes longer.
struct Step {
  std::string name;
  Machine machine;
  std::uint32_t blocks;
  std::function<Block(const Machine&, std::uint32_t number, double factor)> make;
};

Devices devices_from(std::size_t first, std::size_t count) {
  Devices result(count);
  std::iota(result.begin(), result.end(), static_cast<std::uint32_t>(first));
  return result;
}

// Layer by layer forward, then backward with a sum of gradients beside what is computed after it, then the update. Every device
// has tasks of its own, and every message is one.
Step data_parallel(std::size_t devices, std::uint32_t layers, ExchangeDetail detail) {
  const auto make = [=](const Machine& machine, std::uint32_t number, double factor) {
    BlockMaker block(machine, number);
    const bool is_forward = number < layers, is_backward = !is_forward && number < 2 * layers;
    const auto d = static_cast<std::uint32_t>(devices);
    if (is_forward || is_backward) {
      Waits computed;
      for (std::uint32_t p = 0; p < d; ++p) {
        const Waits before = number > 0 ? Waits{TaskName{number - 1, p}} : Waits{};
        computed.push_back({block.compute("layer", {p}, (is_forward ? 1 : 2) * kOperations * factor, 1e7, before), {p}});
        block.buffer(1e7, {p}, TaskName{number, p}, {});
      }
      if (is_backward)
        block.collective("gradient", {CollectiveKind::kAllReduce, {devices_from(0, devices)}, kWeights}, computed, detail);
    } else {
      for (std::uint32_t p = 0; p < d; ++p) block.compute("update", {p}, 1e8, kWeights, {{TaskName{number - 1, p}}});
    }
    return block.take();
  };
  const NetworkDescription node{5e-6, 100e9, "switch"}, cluster{10e-6, 12.5e9, "fat-tree:8"};
  const std::size_t per_node = std::min<std::size_t>(devices, 8);
  return {"data parallel, " + std::to_string(devices) + " devices, " +
              (detail == ExchangeDetail::kMessages ? "every message" : "priced sums"),
          Machine(make_cluster(devices / per_node, per_node, {15e12, 900e9}, 16e9, node, cluster)), 2 * layers + 1, make};
}

// Groups of 8 that divide each layer, and data parallelism over groups: tasks of all devices at the same time.
Step groups(std::size_t devices, std::uint32_t layers) {
  const auto make = [=](const Machine& machine, std::uint32_t number, double factor) {
    BlockMaker block(machine, number);
    const Devices all = devices_from(0, devices);
    Collective within{CollectiveKind::kAllReduce, {}, 1e7}, across{CollectiveKind::kAllReduce, {}, kWeights};
    for (std::size_t first = 0; first < devices; first += 8) within.groups.push_back(devices_from(first, 8));
    for (std::size_t member = 0; member < 8; ++member) {
      across.groups.emplace_back();
      for (std::size_t first = 0; first < devices; first += 8)
        across.groups.back().push_back(static_cast<std::uint32_t>(first + member));
    }
    const Waits before = number > 0 ? Waits{TaskName{number - 1, 1}} : Waits{};
    const TaskName computed = block.compute("layer", all, kOperations * factor, 1e7, before);
    block.collective("outputs", within, {computed});
    if (number >= layers) block.collective("gradient", across, {computed});
    return block.take();
  };
  return {"tensor and data parallel, " + std::to_string(devices) + " devices",
          Machine(make_cluster(devices / 8, 8, {15e12, 900e9}, 16e9, {5e-6, 100e9, "switch"}, {10e-6, 12.5e9, "fat-tree:16"})),
          2 * layers, make};
}

// Micro-batches through stages on two devices each, which send over a ring that stages share.
Step pipeline(std::size_t stages, std::uint32_t batches) {
  const auto make = [=](const Machine& machine, std::uint32_t number, double factor) {
    BlockMaker block(machine, number);
    Waits last;
    for (std::uint32_t s = 0; s < stages; ++s) {
      const auto a = static_cast<std::uint32_t>(2 * s);
      last = {block.compute("stage", {a, a + 1}, kOperations * factor, 1e7, last)};
      if (s + 1 < stages) last = {block.send("value", a, a + 2, 1e7, last), block.send("value", a + 1, a + 3, 1e7, last)};
    }
    return block.take();
  };
  return {"pipeline, " + std::to_string(stages) + " stages, " + std::to_string(batches) + " micro-batches",
          Machine(make_cluster(stages, 2, {15e12, 900e9}, 16e9, {5e-6, 100e9, "switch"}, {10e-6, 12.5e9, "ring"})), batches,
          make};
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

nlohmann::json measured(const Step& step, int rounds) {
  std::vector<double> whole, whole_bytes;
  std::unique_ptr<Simulation> simulation;
  std::vector<Block> blocks;
  for (std::uint32_t b = 0; b < step.blocks; ++b) blocks.push_back(step.make(step.machine, b, 1));
  for (int n = 0; n < rounds; ++n) {
    simulation = std::make_unique<Simulation>(step.machine);
    for (std::uint32_t b = 0; b < step.blocks; ++b) simulation->set_block(b, blocks[b]);
    double start = cpu_seconds();
    simulation->run();
    whole.push_back(cpu_seconds() - start);
    start = cpu_seconds();
    simulation->peak_bytes();
    whole_bytes.push_back(cpu_seconds() - start);
  }
  nlohmann::json changes = nlohmann::json::array();
  for (const double where : {0.0, 0.5, 0.9, 0.99}) {
    const auto block = static_cast<std::uint32_t>(where * step.blocks);
    std::vector<double> seconds, touched;
    for (int n = 0; n < 2 * rounds; ++n) {
      simulation->set_block(block, n % 2 == 0 ? step.make(step.machine, block, 1.01) : blocks[block]);
      const double start = cpu_seconds();
      simulation->run();
      seconds.push_back(cpu_seconds() - start);
      touched.push_back(static_cast<double>(simulation->touched()));
    }
    changes.push_back({{"block", block}, {"seconds", median(seconds)}, {"touched", median(touched)}});
  }
  return {{"step", step.name},        {"tasks", simulation->tasks()},
          {"blocks", step.blocks},    {"simulated_seconds", simulation->seconds()},
          {"seconds", median(whole)}, {"memory_seconds", median(whole_bytes)},
          {"changes", changes}};
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count != 2) throw Error(ErrorCode::kUsage, "usage: rewright_measure_simulation ROUNDS");
    const int rounds = std::max(1, std::atoi(arguments[1]));
    nlohmann::json results = nlohmann::json::array();
    for (const Step& step : {data_parallel(16, 20, ExchangeDetail::kMessages), data_parallel(64, 75, ExchangeDetail::kPriced),
                             groups(1024, 100), pipeline(16, 220)})
      results.push_back(measured(step, rounds));
    std::cout << results.dump() << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "rewright_measure_simulation: " << error.what() << "\n";
    return 1;
  }
}
