#include "plans/machines/network.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "plans/machines/machine.h"

namespace rewright::plans {
namespace {

struct Sample {
  std::string shape;
  std::size_t count;
};

const std::vector<Sample> kShapes{{"switch", 1},      {"switch", 5},      {"ring", 1},         {"ring", 2},
                                  {"ring", 3},        {"ring", 8},        {"torus:4x4", 16},   {"torus:2x3", 6},
                                  {"torus:1x5", 5},   {"torus:2x2x2", 8}, {"torus:3x4x5", 60}, {"fat-tree:2", 2},
                                  {"fat-tree:4", 16}, {"fat-tree:4", 7},  {"fat-tree:8", 128}};

std::vector<LinkNumber> route_of(const Network& network, std::size_t from, std::size_t to) {
  std::vector<LinkNumber> route;
  network.route(from, to, route);
  return route;
}

// The least number of links from a vertex to all others, by breadth first.
std::map<std::uint32_t, std::size_t> distances(const Network& network, std::uint32_t from) {
  std::map<std::uint32_t, std::size_t> result{{from, 0}};
  std::vector<std::uint32_t> front{from};
  while (!front.empty()) {
    std::vector<std::uint32_t> next;
    for (const std::uint32_t at : front)
      for (const Link& link : network.links())
        if (link.from == at && result.try_emplace(link.to, result[at] + 1).second) next.push_back(link.to);
    front = next;
  }
  return result;
}

void require_connected(const Network& network, std::size_t from, std::size_t to) {
  std::size_t at = from;
  for (const LinkNumber l : route_of(network, from, to)) {
    REQUIRE(network.links()[l].from == at);
    at = network.links()[l].to;
  }
  REQUIRE(at == to);
}

TEST_CASE("routes of all shapes are connected and shortest") {
  for (const Sample& sample : kShapes) {
    INFO(sample.shape << " of " << sample.count);
    const auto network = make_network({1e-6, 1e9, sample.shape}, sample.count, "node");
    for (std::size_t from = 0; from < sample.count; from += 1 + sample.count / 20) {
      const auto away = distances(*network, static_cast<std::uint32_t>(from));
      for (std::size_t to = 0; to < sample.count; ++to) {
        require_connected(*network, from, to);
        REQUIRE(route_of(*network, from, to).size() == away.at(static_cast<std::uint32_t>(to)));
        REQUIRE(route_of(*network, from, to) == route_of(*network, from, to));
      }
    }
    std::set<std::pair<std::uint32_t, std::uint32_t>> cables;
    for (const Link& link : network->links()) {
      REQUIRE(link.from != link.to);
      REQUIRE(cables.emplace(link.from, link.to).second);
    }
    for (const auto& [from, to] : cables) REQUIRE(cables.contains({to, from}));
  }
}

TEST_CASE("shapes have their links") {
  const auto links = [](const std::string& shape, std::size_t count) {
    return make_network({1, 1, shape}, count, "node")->links().size();
  };
  REQUIRE(links("switch", 5) == 10);
  REQUIRE(links("ring", 1) == 0);
  REQUIRE(links("ring", 2) == 2);
  REQUIRE(links("ring", 8) == 16);
  REQUIRE(links("torus:4x4", 16) == 64);
  REQUIRE(links("torus:2x4", 8) == 24);
  REQUIRE(links("fat-tree:4", 16) == 96);  // 16 cables of members, 16 to aggregation and 16 to core switches
}

TEST_CASE("a message's latency counts the cables and switches that it passes") {
  const auto latency = [](const std::string& shape, std::size_t count, std::size_t from, std::size_t to) {
    const auto network = make_network({1, 1, shape}, count, "node");
    double sum = 0;
    for (const LinkNumber l : route_of(*network, from, to)) sum += network->links()[l].latency;
    return sum;
  };
  REQUIRE(latency("switch", 4, 0, 3) == 1);
  REQUIRE(latency("ring", 8, 0, 1) == 1);
  REQUIRE(latency("ring", 8, 0, 5) == 3);
  REQUIRE(latency("torus:4x4", 16, 0, 15) == 2);
  REQUIRE(latency("torus:4x4", 16, 0, 10) == 4);
  REQUIRE(latency("fat-tree:4", 16, 0, 1) == 1);
  REQUIRE(latency("fat-tree:4", 16, 0, 2) == 2);
  REQUIRE(latency("fat-tree:4", 16, 0, 4) == 3);
}

TEST_CASE("a fat tree gives each receiver of a pod's exchange links of its own") {
  const auto network = make_network({1, 1, "fat-tree:4"}, 16, "node");
  for (std::size_t shift = 0; shift < 16; shift += 4) {  // from each member to that of another pod
    std::map<LinkNumber, int> uses;
    for (std::size_t m = 0; m < 16; ++m)
      for (const LinkNumber l : route_of(*network, m, (m + shift) % 16)) ++uses[l];
    for (const auto& [link, count] : uses) REQUIRE(count == 1);
  }
}

TEST_CASE("routes over random edges have the least latency") {
  std::mt19937 random(3);
  for (int n = 0; n < 40; ++n) {
    const std::size_t count = 2 + random() % 9;
    NetworkDescription d{.shape = "edges"};
    std::set<std::pair<std::uint32_t, std::uint32_t>> given;
    const auto add = [&](std::size_t from, std::size_t to) {
      const auto a = static_cast<std::uint32_t>(from), b = static_cast<std::uint32_t>(to);
      if (a != b && given.emplace(a, b).second) d.edges.push_back({a, b, 1.0 + static_cast<double>(random() % 4), 1});
    };
    for (std::size_t m = 1; m < count; ++m) add(random() % m, m);
    for (std::size_t k = random() % 12; k > 0; --k) add(random() % count, random() % count);
    const auto network = make_network(d, count, "node");
    std::vector<std::vector<double>> least(count, std::vector<double>(count, std::numeric_limits<double>::infinity()));
    for (std::size_t m = 0; m < count; ++m) least[m][m] = 0;
    for (const Link& link : network->links()) least[link.from][link.to] = link.latency;
    for (std::size_t k = 0; k < count; ++k)
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = 0; j < count; ++j) least[i][j] = std::min(least[i][j], least[i][k] + least[k][j]);
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < count; ++j) {
        require_connected(*network, i, j);
        double latency = 0;
        for (const LinkNumber l : route_of(*network, i, j)) latency += network->links()[l].latency;
        REQUIRE(latency == least[i][j]);
      }
  }
}

TEST_CASE("an edge serves both directions, unless the other one is listed too") {
  const auto one = make_network({.shape = "edges", .edges = {{0, 1, 1, 10}}}, 2, "node");
  REQUIRE(one->links().size() == 2);
  REQUIRE(one->links()[route_of(*one, 1, 0)[0]].bytes_per_second == 10);
  const auto two = make_network({.shape = "edges", .edges = {{0, 1, 1, 10}, {1, 0, 1, 5}}}, 2, "node");
  REQUIRE(two->links().size() == 2);
  REQUIRE(two->links()[route_of(*two, 1, 0)[0]].bytes_per_second == 5);
}

TEST_CASE("shapes as edges have the same routes' lengths") {
  for (const Sample& sample : kShapes) {
    const NetworkDescription d{1e-6, 1e9, sample.shape};
    const auto network = make_network(d, sample.count, "node");
    if (sample.shape == "switch" || sample.shape.starts_with("fat")) {
      REQUIRE_THROWS_AS(as_edges(d, sample.count), Error);
      continue;
    }
    const auto edges = make_network(as_edges(d, sample.count), sample.count, "node");
    REQUIRE(edges->links().size() == network->links().size());
    for (std::size_t to = 0; to < sample.count; ++to)
      REQUIRE(route_of(*edges, 0, to).size() == route_of(*network, 0, to).size());
  }
}

TEST_CASE("devices of a node share its way to other nodes") {
  const NetworkDescription node{1e-6, 100e9, "switch"}, cluster{5e-6, 10e9, "ring"};
  const Machine machine({.devices = 12, .per_node = 4, .rates = DeviceRates{1e12, 1e11}, .node = node, .cluster = cluster});
  REQUIRE(machine.nodes() == 3);
  REQUIRE(machine.links().size() == 3 * 8 + 6);
  REQUIRE(machine.route(0, 5) == machine.route(3, 6));
  REQUIRE(machine.route(0, 1) != machine.route(4, 5));
  REQUIRE(machine.route(7, 7).empty());
  REQUIRE(machine.message_seconds(0, 5, 1e9) == Approx(5e-6 + 0.1));
  REQUIRE(machine.message_seconds(1, 2, 1e9) == Approx(1e-6 + 0.01));
  REQUIRE(machine.link_name(machine.route(5, 6)[0]) == "node 1: 1 -> switch");
  REQUIRE(machine.link_name(machine.route(0, 5)[0]) == "cluster: 0 -> 1");
  REQUIRE(machine.seconds(2e12, 1e10) == 2);
  REQUIRE(machine.seconds(2e9, 1e11) == 1);
}

}  // namespace
}  // namespace rewright::plans
