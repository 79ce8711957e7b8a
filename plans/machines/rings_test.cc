#include "plans/machines/rings.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "plans/machines/machine_file.h"
#include "plans/simulation/price.h"

namespace rewright::plans {
namespace {

using Ends = std::pair<std::uint32_t, std::uint32_t>;

constexpr double kAlpha = 3e-6, kRate = 12.5e9;

NetworkDescription network_of(const std::set<Ends>& cables) {
  NetworkDescription result{.shape = "edges"};
  for (const auto& [from, to] : cables) result.edges.push_back({from, to, kAlpha, kRate});
  return result;
}

void add_cycle(std::vector<std::uint32_t> order, std::set<Ends>& cables) {
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto [a, b] = std::minmax(order[k], order[(k + 1) % order.size()]);
    cables.emplace(a, b);
  }
}

// Each visits every member over links, and no link is in two of them.
std::vector<Ring> checked_rings(const NetworkDescription& description, std::size_t members) {
  const auto network = make_network(description, members, "node");
  std::set<Ends> links, used;
  for (const Link& link : network->links()) links.emplace(link.from, link.to);
  std::vector<Ring> rings = rings_over(network->links(), members);
  for (const Ring& ring : rings) {
    REQUIRE(std::set<std::uint32_t>(ring.order.begin(), ring.order.end()).size() == members);
    REQUIRE(ring.order.size() == members);
    for (std::size_t k = 0; k < members; ++k) {
      const Ends ends{ring.order[k], ring.order[(k + 1) % members]};
      REQUIRE(links.contains(ends));
      REQUIRE(used.insert(ends).second);
    }
  }
  return rings;
}

}  // namespace

TEST_CASE("rings are found over direct cables") {
  CHECK(checked_rings({kAlpha, kRate, "switch"}, 8).empty());
  CHECK(checked_rings({kAlpha, kRate, "fat-tree:4"}, 16).empty());
  CHECK(checked_rings(network_of({{0, 1}}), 2).size() == 1);
  CHECK(checked_rings(network_of({{0, 1}, {1, 2}}), 3).empty());
  CHECK(checked_rings({kAlpha, kRate, "ring"}, 9).size() == 2);
  for (const char* torus : {"torus:4x4", "torus:3x5", "torus:4x8"}) {
    const std::size_t members = std::string(torus) == "torus:4x4" ? 16 : std::string(torus) == "torus:3x5" ? 15 : 32;
    CHECK(checked_rings({kAlpha, kRate, torus}, members).size() == 4);
  }
}

TEST_CASE("rings are found in cables at random") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 20; ++trial) {
    const std::size_t members = 5 + random() % 60;
    std::vector<std::size_t> coprime;
    for (std::size_t stride = 1; 2 * stride < members; ++stride)
      if (std::gcd(stride, members) == 1) coprime.push_back(stride);
    std::shuffle(coprime.begin(), coprime.end(), random);
    coprime.resize(std::min<std::size_t>(coprime.size(), 1 + random() % 3));
    std::set<Ends> circulant, shuffled;
    std::vector<std::uint32_t> order(members);
    for (const std::size_t stride : coprime) {
      for (std::size_t k = 0; k < members; ++k) order[k] = static_cast<std::uint32_t>(k * stride % members);
      add_cycle(order, circulant);
      std::shuffle(order.begin(), order.end(), random);
      add_cycle(order, shuffled);
    }
    INFO(members << " members, " << coprime.size() << " cycles");
    CHECK(checked_rings(network_of(circulant), members).size() == 2 * coprime.size());
    CHECK(checked_rings(network_of(shuffled), members).size() >= 2);
  }
}

// k rings of n nodes divide the bytes of each round: 2 (n-1) (alpha + beta W / (n k)). Within nodes nothing takes any time
// here.
TEST_CASE("collectives go around all rings of a machine") {
  for (const auto& [nodes, per_node] : {std::pair<std::size_t, std::size_t>{16, 1}, {9, 1}, {16, 2}}) {
    std::set<Ends> cables;
    for (const std::size_t stride : {1, 5, 7})
      if (std::gcd(stride, nodes) == 1) {
        std::vector<std::uint32_t> order(nodes);
        for (std::size_t k = 0; k < nodes; ++k) order[k] = static_cast<std::uint32_t>(k * stride % nodes);
        add_cycle(order, cables);
      }
    const double rings = 2.0 * static_cast<double>(cables.size()) / static_cast<double>(nodes);
    MachineDescription description = make_cluster(nodes, per_node, {1e12, 1e12}, 1e9, {0, 1e15, "switch"}, network_of(cables));
    const Machine without(description);
    description.rings = true;
    const Machine machine(parse_machine(write_machine(description), "written"));
    Devices all(nodes * per_node);
    std::iota(all.begin(), all.end(), 0);
    Collective sum{CollectiveKind::kAllReduce, {all}, 1e8};
    CHECK(rings_of(without, sum.groups).empty());
    sum.rings = rings_of(machine, sum.groups);
    REQUIRE(static_cast<double>(sum.rings.size()) == rings);
    const auto n = static_cast<double>(nodes);
    const double around = (n - 1) * (kAlpha + sum.bytes / n / rings / kRate);
    CHECK(price(machine, sum).seconds == Approx(2 * around).epsilon(1e-3));
    for (const CollectiveKind kind : {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather}) {
      sum.kind = kind;
      CHECK(price(machine, sum).seconds == Approx(around).epsilon(1e-3));
    }
    // A part of the nodes goes around in the order of the ranks.
    CHECK(rings_of(machine, {{0, 1}}).empty());
  }
}

// Each device sends the others of its node w-1 parts of W/w at rate r, twice; the parts then go around the nodes.
TEST_CASE("collectives over switches are reduced and gathered within nodes, where the machine says that they look at it") {
  const double bytes = 1e8, rate = 1e11, late = 1e-6;
  for (const auto& [nodes, per_node] : {std::pair<std::size_t, std::size_t>{4, 4}, {7, 2}, {3, 1}}) {
    MachineDescription description =
        make_cluster(nodes, per_node, {1e12, 1e12}, 1e9, {late, rate, "switch"}, {kAlpha, kRate, "switch"});
    description.rings = true;
    const Machine machine(description);
    Devices all(nodes * per_node);
    std::iota(all.begin(), all.end(), 0);
    Collective sum{CollectiveKind::kAllReduce, {all}, bytes};
    sum.rings = rings_of(machine, sum.groups);
    REQUIRE(sum.rings.size() == 1);
    const auto n = static_cast<double>(nodes), w = static_cast<double>(per_node);
    const double within = (w - 1) * (late + bytes / w / rate), across = (n - 1) * (kAlpha + bytes / n / kRate);
    CHECK(price(machine, sum).seconds == Approx(2 * (within + across)));
    double sent = 0;
    for (const auto& [device, part] : price(machine, sum).sent) sent += part;
    CHECK(sent == Approx(2 * (n * w - 1) * bytes));
  }
}

}  // namespace rewright::plans
