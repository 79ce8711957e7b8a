// Exchanges beside their formulas, and what follows from them for whole layers.
#include "plans/simulation/price.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "base/error.h"
#include "plans/machines/machine_file.h"
#include "plans/simulation/block_maker.h"
#include "plans/simulation/simulation.h"

namespace rewright::plans {
namespace {

using distribution::AllReduce;
using distribution::AllReduceStrategy;

constexpr double kAlpha = 3e-6, kRate = 12.5e9, kBeta = 1 / kRate;

Approx near(double value) { return Approx(value).epsilon(1e-12); }

Machine equal_links(std::size_t devices, const std::string& shape = "switch", double alpha = kAlpha) {
  return Machine(make_node(devices, {10e12, 1e12}, 16e9, {alpha, kRate, shape}));
}

Devices all_of(const Machine& machine) {
  Devices all(machine.devices());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Alone, by the simulator.
double simulated(const Machine& machine, const Collective& collective, ExchangeDetail detail) {
  BlockMaker block(machine, 0);
  block.collective("", collective, {}, detail);
  Simulation simulation(machine);
  simulation.set_block(0, block.take());
  simulation.run();
  return simulation.seconds();
}

void require_seconds(const Machine& machine, const Collective& collective, double seconds) {
  REQUIRE(price(machine, collective).seconds == near(seconds));
  REQUIRE(simulated(machine, collective, ExchangeDetail::kPriced) == near(seconds));
  REQUIRE(simulated(machine, collective, ExchangeDetail::kExact) == near(seconds));
  if (machine.devices() <= 64) REQUIRE(simulated(machine, collective, ExchangeDetail::kMessages) == near(seconds));
}

TEST_CASE("collectives on equal links take the time of their formulas") {
  for (const std::size_t count : {1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 64, 256}) {
    INFO(count << " processes");
    const Machine machine = equal_links(count), ring = equal_links(count, "ring");
    const auto p = static_cast<double>(count);
    for (const double bytes : {1.0, 4096.0, 1e8}) {
      const Devices all = all_of(machine);
      const double around = kAlpha * (p - 1) + kBeta * (p - 1) / p * bytes;
      for (const Machine* m : {&machine, &ring}) {
        require_seconds(*m, {CollectiveKind::kAllReduce, {all}, bytes}, 2 * around);
        require_seconds(*m, {CollectiveKind::kReduceScatter, {all}, bytes}, around);
        require_seconds(*m, {CollectiveKind::kAllGather, {all}, bytes}, around);
      }
      if (count > 64) continue;
      // A process's parts share its cable.
      const double at_once = count == 1 ? 0 : kAlpha + kBeta * (p - 1) / p * bytes;
      require_seconds(machine, {CollectiveKind::kAllToAll, {all}, bytes}, at_once);
      require_seconds(machine, {CollectiveKind::kReduceInOrder, {all}, bytes}, at_once);
      require_seconds(machine, {CollectiveKind::kBroadcast, {all}, bytes}, std::ceil(std::log2(p)) * (kAlpha + kBeta * bytes));
    }
  }
}

TEST_CASE("all-reduces take the time of the longest chain of their messages, and send their bytes") {
  for (const std::string_view name : distribution::all_reduce_names()) {
    const AllReduce how = distribution::all_reduce_from_name(name);
    if (how.strategy == AllReduceStrategy::kEngine) continue;
    for (const std::size_t count : {2, 3, 4, 6, 8, 13, 16}) {
      INFO(name << " in " << count << " processes");
      const Machine machine = equal_links(count);
      const double bytes = 1 << 20;
      const Collective collective{CollectiveKind::kAllReduce, {all_of(machine)}, bytes, how};
      distribution::LongestChain chain = distribution::longest_chain(how, count, bytes);
      if (how.strategy == AllReduceStrategy::kNaive) chain.messages = 1;  // they are sent at once
      require_seconds(machine, collective, kAlpha * chain.messages + kBeta * chain.bytes);
      double sent = 0;
      for (const auto& [device, part] : price(machine, collective).sent) sent += part;
      REQUIRE(sent == near(static_cast<double>(distribution::all_reduce_bytes(how, count, 1 << 20))));
    }
  }
}

TEST_CASE("a ring over nodes takes the time of its slowest cable") {
  const NetworkDescription node{1e-6, 100e9, "switch"}, cluster{10e-6, 10e9, "fat-tree:4"};
  const Machine machine(make_cluster(4, 4, {1, 1}, 1, node, cluster));
  const Collective collective{CollectiveKind::kAllReduce, {all_of(machine)}, 16e6};
  // From the last device of one node to the first of the next; the fat tree's second pair of nodes is two switches further
  // away.
  const double step = 20e-6 + 1e6 / 10e9;
  REQUIRE(price(machine, collective).seconds == near(30 * step));
  REQUIRE(!price(machine, collective).is_exact);
  REQUIRE(simulated(machine, collective, ExchangeDetail::kMessages) == near(30 * step));
  REQUIRE(simulated(machine, collective, ExchangeDetail::kPriced) == near(30 * step));
}

TEST_CASE("groups at the same time share what they have in common") {
  const NetworkDescription node{0, 100e9, "switch"}, cluster{0, 10e9, "switch"};
  const Machine machine(make_cluster(2, 4, {1, 1}, 1, node, cluster));
  // Four pairs across the nodes: each node's cable carries four messages at a time in each direction.
  const Collective pairs{CollectiveKind::kAllReduce, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}, 1e9};
  require_seconds(machine, pairs, 4 * 1e9 / 10e9);
  // Within nodes nothing is shared.
  require_seconds(machine, {CollectiveKind::kAllReduce, {{0, 1, 2, 3}, {4, 5, 6, 7}}, 1e9}, 2 * 0.75 * 1e9 / 100e9);
  REQUIRE_THROWS_AS(price(machine, {CollectiveKind::kAllReduce, {{0, 1}, {1, 2}}, 1}), Error);
  REQUIRE_THROWS_AS(price(machine, {CollectiveKind::kAllReduce, {{0, 1}, {2, 3, 4}}, 1}), Error);
}

TEST_CASE("halos go both ways at the same time, and messages to oneself or without bytes cost nothing") {
  const Machine machine = equal_links(4, "ring");
  Schedule halo(1);
  for (std::uint32_t d = 0; d < 4; ++d)
    for (const std::uint32_t other : {(d + 1) % 4, (d + 3) % 4}) halo[0].messages.push_back({d, other, 1e6});
  REQUIRE(price(machine, halo).seconds == near(kAlpha + 1e6 * kBeta));
  REQUIRE(price(machine, halo).is_exact);
  REQUIRE(price(machine, {{{{0, 0, 5e6}, {1, 2, 0}}}}).seconds == 0);
  BlockMaker block(machine, 0);
  block.exchange("", halo, {}, ExchangeDetail::kMessages);
  Simulation simulation(machine);
  simulation.set_block(0, block.take());
  simulation.run();
  REQUIRE(simulation.seconds() == near(kAlpha + 1e6 * kBeta));
}

TEST_CASE("exchanges that share links take longer, and others do not") {
  const Machine machine = equal_links(4, "switch", 0);
  const auto seconds = [&](const Devices& a, const Devices& b) {
    Simulation simulation(machine);
    for (const std::uint32_t number : {0, 1}) {
      BlockMaker block(machine, number);
      block.send("", (number == 0 ? a : b)[0], (number == 0 ? a : b)[1], kRate, {});
      simulation.set_block(number, block.take());
    }
    simulation.run();
    return simulation.seconds();
  };
  REQUIRE(seconds({0, 1}, {2, 3}) == near(1));
  REQUIRE(seconds({0, 1}, {1, 2}) == near(2));  // one process does one exchange after the other
  const NetworkDescription node{0, 100 * kRate, "switch"}, cluster{0, kRate, "switch"};
  const Machine two(make_cluster(2, 2, {1, 1}, 1, node, cluster));
  Simulation simulation(two);
  BlockMaker block(two, 0);
  const TaskName one = block.send("", 0, 2, kRate, {}), other = block.send("", 1, 3, 3 * kRate, {});
  simulation.set_block(0, block.take());
  simulation.run();
  REQUIRE(simulation.times(one).end == near(2));    // half of the rate each
  REQUIRE(simulation.times(other).end == near(4));  // all of it for the rest
}

// Dense layers of d features on both sides, for a batch: what training sends per step on P processes.
double data_parallel(const Machine& machine, const std::vector<double>& widths, CollectiveKind kind) {
  double sum = 0;
  for (const double d : widths) sum += price(machine, {kind, {all_of(machine)}, 4 * d * d}).seconds;
  return sum;
}

// Each process has rows of the weights: outputs are put together, and the gradients of inputs added up, but for the first
// layer.
double model_parallel(const Machine& machine, const std::vector<double>& widths, double batch) {
  double sum = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const double bytes = 4 * batch * widths[i];
    sum += price(machine, {CollectiveKind::kAllGather, {all_of(machine)}, bytes}).seconds;
    if (i > 0) sum += price(machine, {CollectiveKind::kAllReduce, {all_of(machine)}, bytes}).seconds;
  }
  return sum;
}

// The number at which `rising` reaches the level, by bisection.
double crossing(const std::function<double(double)>& rising, double level) {
  double low = 0, high = 1e9;
  for (int n = 0; n < 200; ++n) (rising((low + high) / 2) < level ? low : high) = (low + high) / 2;
  return low;
}

TEST_CASE("model-parallel dense layers cost what the formula says, and cross data parallelism at its batch") {
  std::mt19937 random(5);
  for (std::size_t count = 2; count <= 64; count *= 2) {
    const Machine machine = equal_links(count, "switch", 0);
    const auto p = static_cast<double>(count);
    std::vector<double> widths(1 + random() % 6);
    for (double& d : widths) d = 64 * static_cast<double>(1 + random() % 64);
    double all = 0, inner = 0, squares = 0;
    for (std::size_t i = 0; i < widths.size(); ++i)
      all += widths[i], inner += i > 0 ? widths[i] : 0, squares += widths[i] * widths[i];
    const double beta = 4 * kBeta, batch = 256;  // of a float
    REQUIRE(model_parallel(machine, widths, batch) ==
            near(beta * (p - 1) * batch * all / p + 2 * beta * (p - 1) * batch * inner / p));
    REQUIRE(data_parallel(machine, widths, CollectiveKind::kReduceScatter) == near(beta * (p - 1) * squares / p));
    REQUIRE(data_parallel(machine, widths, CollectiveKind::kAllReduce) == near(2 * beta * (p - 1) * squares / p));
    const auto model = [&](double b) { return model_parallel(machine, widths, b); };
    REQUIRE(crossing(model, data_parallel(machine, widths, CollectiveKind::kReduceScatter)) ==
            Approx(squares / (all + 2 * inner)).epsilon(1e-9));
    REQUIRE(crossing(model, data_parallel(machine, widths, CollectiveKind::kAllReduce)) ==
            Approx(2 * squares / (all + 2 * inner)).epsilon(1e-9));
  }
}

TEST_CASE("a dense layer's intensity is that of the multi-node roofline") {
  const Machine machine = equal_links(2);
  for (const auto& [m, k, n] : std::vector<std::array<double, 3>>{{512, 512, 128}, {4096, 1024, 32}, {100, 300, 7}}) {
    BlockMaker block(machine, 0);
    const TaskName product = block.compute("", {0}, 2 * m * k * n, 4 * (m * k + k * n + m * n), {});
    Simulation simulation(machine);
    const Block alone = block.take();
    simulation.set_block(0, alone);
    simulation.run();
    REQUIRE(totals(simulation).intensity() == near(m * k * n / (2 * (m * k + k * n + m * n))));
    BlockMaker sent(machine, 1);
    sent.send("", 0, 1, 4 * m * k, {product});
    simulation.set_block(1, sent.take());
    simulation.run();
    REQUIRE(totals(simulation).intensity() == near(m * k * n / (2 * (2 * m * k + k * n + m * n))));
    // The roofline's time of the product: its operations above the machine's balance, its bytes below.
    const double balance = 10e12 / 1e12, intensity = m * k * n / (2 * (m * k + k * n + m * n));
    REQUIRE(simulation.times(product).end == near(2 * m * k * n / (10e12 * std::min(1.0, intensity / balance))));
  }
}

}  // namespace
TEST_CASE("prices: which all-reduces go in pairs") {
  using distribution::ExchangeWay;
  const Machine switches(make_cluster(8, 8, {1e12, 1e12}, 1e9, {5e-6, 130e9, "switch"}, {5e-6, 25e9, "switch"})),
      ring(make_cluster(64, 1, {1e12, 1e12}, 1e9, {}, {5e-6, 25e9, "ring"}));
  for (const Machine* machine : {&switches, &ring}) {
    Devices all;
    for (std::uint32_t d = 0; d < 64; ++d) all.push_back(d);
    const distribution::PairLimits limits = fastest_pairs(*machine, {all});
    CHECK(limits.whole > 0);
    CHECK(limits.whole <= limits.halves);
    for (const double bytes : {64.0, limits.whole, 4 * limits.whole, limits.halves, 4 * limits.halves}) {
      const auto seconds = [&](ExchangeWay way) {
        return price(*machine, Collective{CollectiveKind::kAllReduce, {all}, bytes, {strategy_of(way)}, {}}).seconds;
      };
      const double chosen = seconds(distribution::way_of(64, bytes, limits));
      for (const ExchangeWay way : {ExchangeWay::kAtOnce, ExchangeWay::kHalves, ExchangeWay::kWhole})
        CHECK(chosen <= 1.0001 * seconds(way));
    }
  }
  // Neighbours first: what goes to other nodes is a ring's.
  Devices all;
  for (std::uint32_t d = 0; d < 64; ++d) all.push_back(d);
  const ExchangePrice halves =
      price(switches, Collective{CollectiveKind::kAllReduce, {all}, 1e8, {strategy_of(ExchangeWay::kHalves)}, {}});
  CHECK(halves.seconds < 1.3 * 2 * 1e8 / 25e9);
  CHECK(fastest_pairs(switches, {{0, 1, 2}}) == distribution::PairLimits{});
}

}  // namespace rewright::plans
