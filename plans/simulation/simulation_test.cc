#include "plans/simulation/simulation.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "base/error.h"
#include "plans/machines/machine_file.h"
#include "plans/simulation/block_maker.h"
#include "plans/simulation/testing/slow_simulation.h"

namespace rewright::plans {
namespace {

using testing::simulate_slowly;
using testing::SlowTimes;
using Random = std::mt19937;

std::size_t below(Random& random, std::size_t count) {
  return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
}
double between(Random& random, double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); }

// Times of few values, so that many things happen at the same time, or of any.
double some_seconds(Random& random) {
  return below(random, 2) == 0 ? static_cast<double>(below(random, 4)) * 0.25 : between(random, 0, 2);
}

Machine random_machine(Random& random) {
  static const std::vector<std::string> shapes{"switch", "ring", "torus:2x3", "fat-tree:4", "torus:6"};
  const NetworkDescription node{some_seconds(random) / 8, between(random, 1, 3), below(random, 2) == 0 ? "switch" : "ring"};
  const NetworkDescription cluster{some_seconds(random) / 4, between(random, 0.5, 2), shapes[below(random, shapes.size())]};
  const std::size_t per_node = 1 + below(random, 3);
  MachineDescription machine = make_cluster(6, per_node, {1, 1}, 1, node, cluster);
  machine.exchanges_beside = below(random, 2) == 0;
  if (below(random, 2) == 0) machine.exchange_seconds = some_seconds(random) / 8;
  return Machine(machine);
}

Devices random_devices(Random& random, std::size_t count) {
  Devices all(count);
  for (std::size_t d = 0; d < count; ++d) all[d] = static_cast<std::uint32_t>(d);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(2 + below(random, std::min<std::size_t>(count, 5) - 1));
  return all;
}

using Blocks = std::map<std::uint32_t, Block>;

// Waits for tasks of earlier blocks that any block has.
Waits random_waits(Random& random, const Blocks& blocks, std::uint32_t number) {
  Waits waits;
  for (std::size_t n = below(random, 3); n > 0 && number > 0; --n) {
    const auto block = static_cast<std::uint32_t>(below(random, number));
    if (blocks.contains(block)) waits.emplace_back(TaskName{block, 0});
  }
  return waits;
}

Block random_block(Random& random, const Machine& machine, const Blocks& blocks, std::uint32_t number) {
  BlockMaker block(machine, number);
  const auto device = [&] { return static_cast<std::uint32_t>(below(random, machine.devices())); };
  Waits waits = random_waits(random, blocks, number);
  for (std::size_t n = 1 + below(random, 3); n > 0; --n) {
    const auto detail = static_cast<ExchangeDetail>(below(random, 3));
    switch (below(random, 6)) {
      case 0:
        waits.emplace_back(block.compute_for("", {device()}, some_seconds(random), waits));
        break;
      case 1:
        waits.emplace_back(block.compute_for("", random_devices(random, machine.devices()), some_seconds(random), waits));
        break;
      case 2:
      case 3:
        waits.emplace_back(block.send("", device(), device(), some_seconds(random), waits));
        break;
      case 4:
        waits = block.collective(
            "",
            {static_cast<CollectiveKind>(below(random, 6)), {random_devices(random, machine.devices())}, some_seconds(random)},
            waits, detail);
        break;
      case 5: {
        Schedule halo(1);
        for (std::size_t k = 1 + below(random, 6); k > 0; --k)
          halo[0].messages.push_back({device(), device(), some_seconds(random)});
        waits = block.exchange("", halo, waits, detail);
      }
    }
  }
  block.compute_for("", {device()}, 0, waits);
  return block.take();
}

void require_close(const Simulation& simulation, const std::map<TaskName, SlowTimes>& slow) {
  for (const auto& [name, times] : slow) {
    INFO("task " << name.block << "." << name.index);
    REQUIRE(simulation.times(name).start == Approx(times.start).margin(1e-9));
    REQUIRE(simulation.times(name).end == Approx(times.end).margin(1e-9));
  }
}

double longest_chain(const Simulation& simulation) {
  std::map<TaskName, double> ends;
  double longest = 0;
  const TaskGraph& graph = simulation.graph();
  std::map<TaskName, std::uint32_t> in_order;
  for (std::uint32_t t = 0; t < graph.numbers(); ++t)
    if (graph[t].exists) in_order[graph[t].name] = t;
  for (const auto& [name, t] : in_order) {
    double start = 0;
    for (const std::uint32_t other : graph[t].before) start = std::max(start, ends[graph[other].name]);
    double rate = graph[t].task.most_bytes_per_second;
    for (const LinkUse& use : graph[t].task.uses)
      rate = std::min(rate, simulation.machine().links()[use.link].bytes_per_second / use.messages);
    ends[name] = start + graph[t].task.seconds + (graph[t].task.bytes > 0 ? graph[t].task.bytes / rate : 0);
    longest = std::max(longest, ends[name]);
  }
  return longest;
}

void require_bounds(const Simulation& simulation) {
  const StepTotals sums = totals(simulation);
  const double seconds = simulation.seconds() * (1 + 1e-12) + 1e-12;
  REQUIRE(longest_chain(simulation) <= seconds);
  for (std::size_t d = 0; d < sums.computing_seconds.size(); ++d) {
    REQUIRE(sums.computing_seconds[d] <= seconds);
    REQUIRE(sums.exchanging_seconds[d] <= seconds);
  }
  for (std::size_t l = 0; l < sums.link_bytes.size(); ++l)
    REQUIRE(sums.link_bytes[l] / simulation.machine().links()[l].bytes_per_second <= seconds);
  const std::vector<TaskName> path = simulation.critical_path();
  REQUIRE(path.empty() == (simulation.tasks() == 0));
  if (path.empty()) return;
  REQUIRE(simulation.times(path.front()).start == 0);
  REQUIRE(simulation.times(path.back()).end == simulation.seconds());
  for (std::size_t n = 1; n < path.size(); ++n) REQUIRE(simulation.times(path[n]).start == simulation.times(path[n - 1]).end);
}

void require_same(Simulation& changed, const Machine& machine, const Blocks& blocks) {
  Simulation whole(machine);
  for (const auto& [number, block] : blocks) whole.set_block(number, block);
  whole.run();
  REQUIRE(changed.tasks() == whole.tasks());
  for (const auto& [number, block] : blocks)
    for (std::uint32_t n = 0; n < block.tasks.size(); ++n) {
      INFO("task " << number << "." << n << ": " << block.tasks[n].label);
      const TaskTimes a = changed.times({number, n}), b = whole.times({number, n});
      REQUIRE(a.start == b.start);
      REQUIRE(a.sending == b.sending);
      REQUIRE(a.end == b.end);
    }
  REQUIRE(changed.seconds() == whole.seconds());
  REQUIRE(changed.critical_path() == whole.critical_path());
  REQUIRE(std::ranges::equal(changed.peak_bytes(), whole.peak_bytes()));
}

TEST_CASE("random steps take as long as they do in a slow simulation") {
  for (unsigned seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const Machine machine = random_machine(random);
    Blocks blocks;
    for (std::uint32_t number = 0; number < 2 + seed % 12; ++number)
      blocks[number] = random_block(random, machine, blocks, number);
    Simulation simulation(machine);
    for (const auto& [number, block] : blocks) simulation.set_block(number, block);
    simulation.run();
    require_close(simulation, simulate_slowly(machine, blocks));
    require_bounds(simulation);
  }
}

TEST_CASE("exchanges that are not beside computing take their time from it") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    MachineDescription description =
        make_node(2 + below(random, 3), {1, 1}, 1, {some_seconds(random) / 8, between(random, 1, 3), "switch"});
    description.exchange_seconds = some_seconds(random);
    const auto detail = static_cast<ExchangeDetail>(below(random, 3));
    Devices all;
    for (std::uint32_t d = 0; d < description.devices; ++d) all.push_back(d);
    std::vector<std::pair<double, double>> work;  // seconds of computing, bytes that are gathered
    for (std::size_t n = 1 + below(random, 6); n > 0; --n) work.emplace_back(some_seconds(random), 1 + some_seconds(random));
    for (const bool beside : {false, true}) {
      description.exchanges_beside = beside;
      const Machine machine(description);
      Simulation simulation(machine);
      double computing = 0, exchanging = 0;
      for (std::uint32_t n = 0; n < work.size(); ++n) {
        const Collective gather{CollectiveKind::kAllGather, {all}, work[n].second};
        BlockMaker block(machine, n);
        block.collective("gathered", gather, {}, detail);
        block.compute_for("computed", all, work[n].first, {});
        simulation.set_block(n, block.take());
        computing += work[n].first, exchanging += description.exchange_seconds + price(machine, gather).seconds;
      }
      simulation.run();
      CHECK(simulation.seconds() == Approx(beside ? std::max(computing, exchanging) : computing + exchanging));
    }
  }
}

TEST_CASE("a changed block gives the same bits as a new simulation") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const Machine machine = random_machine(random);
    const std::uint32_t count = 2 + seed % 24;
    Blocks blocks;
    Simulation simulation(machine);
    for (std::uint32_t number = 0; number < count; ++number) {
      blocks[number] = random_block(random, machine, blocks, number);
      simulation.set_block(number, blocks[number]);
    }
    simulation.run();
    require_same(simulation, machine, blocks);
    for (int change = 0; change < 12; ++change) {
      INFO("seed " << seed << ", change " << change);
      for (std::size_t n = 1 + below(random, 2); n > 0; --n) {
        const auto number = static_cast<std::uint32_t>(below(random, count));
        blocks[number] = random_block(random, machine, blocks, number);
        simulation.set_block(number, blocks[number]);
      }
      simulation.run();
      require_same(simulation, machine, blocks);
    }
  }
}

}  // namespace
}  // namespace rewright::plans
