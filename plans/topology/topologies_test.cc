#include "plans/topology/topologies.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/error.h"
#include "plans/machines/rings.h"

namespace rewright::plans {
namespace {

// Cables by node, several side by side counted as many.
std::vector<double> ports_used(const NetworkDescription& network, const Ports& ports) {
  std::vector<double> used(ports.nodes);
  for (const Link& e : network.edges)
    for (const std::uint32_t node : {e.from, e.to}) used[node] += e.bytes_per_second / ports.bytes_per_second;
  return used;
}

bool joins(const NetworkDescription& network, std::uint32_t a, std::uint32_t b) {
  return std::ranges::any_of(network.edges,
                             [&](const Link& e) { return (e.from == a && e.to == b) || (e.from == b && e.to == a); });
}

}  // namespace

TEST_CASE("named topologies have as many cables as ports allow") {
  for (const std::size_t nodes : {2, 3, 8, 12, 16})
    for (const std::size_t each : {2, 3, 4, 6}) {
      const Ports ports{nodes, each, 1e-6, 1e10};
      const std::vector<Topology> all = named_topologies(ports);
      INFO(nodes << " nodes with " << each << " cables");
      REQUIRE(all.size() >= 1);
      std::set<std::string> names;
      for (const Topology& t : all) {
        INFO(t.name);
        CHECK(names.insert(t.name).second);
        CHECK(is_connected(t.network, nodes));
        const std::vector<double> used = ports_used(t.network, ports);
        CHECK(std::ranges::max(used) <= static_cast<double>(each));
        CHECK(std::ranges::min(used) == std::ranges::max(used));
        CHECK_NOTHROW(make_network(t.network, nodes, "node"));
      }
    }
  const auto names = [](const Ports& ports) {
    std::set<std::string> result;
    for (const Topology& t : named_topologies(ports)) result.insert(t.name);
    return result;
  };
  CHECK(names({16, 4, 1e-6, 1e10}) == std::set<std::string>{"ring", "torus 2x8", "torus 4x4", "torus 2x2x4", "torus 2x2x2x2"});
  CHECK_THROWS_AS(named_topologies({4, 1, 1e-6, 1e10}), Error);
}

TEST_CASE("a fat tree of like cost has as many ports as cables") {
  for (std::size_t nodes = 2; nodes <= 256; nodes += 1 + nodes / 7)
    for (const std::size_t each : {2, 3, 4, 8}) {
      const Ports ports{nodes, each, 1e-6, 1e10};
      const NetworkDescription tree = fat_tree_of_like_cost(ports).network;
      INFO(nodes << " nodes with " << each << " cables: " << tree.shape);
      std::unique_ptr<const Network> network;
      REQUIRE_NOTHROW(network = make_network(tree, nodes, "node"));
      // A message between pods leaves a node and enters five switches' ports.
      std::size_t most = 0;
      for (std::size_t to = 1; to < nodes; ++to) {
        std::vector<LinkNumber> links;
        network->route(0, to, links);
        most = std::max(most, links.size());
      }
      CHECK(most <= 6);
      CHECK(6 * tree.bytes_per_second == Approx(2 * ports.bytes_per_second * static_cast<double>(each)));
      const std::size_t size = std::stoul(tree.shape.substr(9));
      CHECK(size * size * size / 4 >= nodes);
      CHECK((size == 2 || (size - 2) * (size - 2) * (size - 2) / 4 < nodes));
    }
}

TEST_CASE("topologies join those that send each other most") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 20; ++trial) {
    const std::size_t nodes = 6 + 2 * (random() % 8), each = 3 + random() % 4;
    const Ports ports{nodes, each, 1e-6, 1e10};
    Traffic traffic{std::vector<double>(nodes * nodes), 1e6};
    // Each node sends much to its partner.
    std::vector<std::uint32_t> order(nodes);
    for (std::uint32_t k = 0; k < nodes; ++k) order[k] = k;
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t k = 0; k < nodes; ++k)
      traffic.between[order[k] * nodes + order[k ^ 1]] = 1e9, traffic.between[k * nodes + random() % nodes] += 1e3;
    const std::vector<Topology> all = topologies_for(traffic, ports);
    REQUIRE(!all.empty());
    for (const Topology& t : all) {
      INFO(nodes << " nodes with " << each << " cables: " << t.name);
      CHECK(is_connected(t.network, nodes));
      CHECK(std::ranges::max(ports_used(t.network, ports)) <= static_cast<double>(each));
      const auto network = make_network(t.network, nodes, "node");
      CHECK(rings_over(network->links(), nodes).size() >= 2);
    }
    if (each > 2)
      for (std::size_t k = 0; k < nodes; k += 2) CHECK(joins(all.front().network, order[k], order[k + 1]));
  }
}

TEST_CASE("exchanged ends keep each node's cables") {
  std::mt19937 random(1);
  const Ports ports{12, 4, 1e-6, 1e10};
  for (const Topology& t : named_topologies(ports)) {
    NetworkDescription network = t.network;
    for (int step = 0; step < 50; ++step) {
      network = with_exchanged_ends(network, random);
      CHECK(ports_used(network, ports) == ports_used(t.network, ports));
      std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
      for (const Link& e : network.edges) {
        CHECK(e.from != e.to);
        CHECK(pairs.insert({std::min(e.from, e.to), std::max(e.from, e.to)}).second);
      }
    }
    CHECK_FALSE(std::ranges::equal(network.edges, t.network.edges,
                                   [](const Link& a, const Link& b) { return a.from == b.from && a.to == b.to; }));
  }
  CHECK_FALSE(is_connected({.shape = "edges", .edges = {{0, 1, 0, 1}, {2, 3, 0, 1}}}, 4));
}

}  // namespace rewright::plans
