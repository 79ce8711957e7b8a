#include "plans/topology/topologies.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "plans/machines/edge_network.h"

namespace rewright::plans {

namespace {

using Ends = std::pair<std::uint32_t, std::uint32_t>;

constexpr double kPortsOfCable = 2, kPortsInTree = 6;  // for a unit of a node's rate

// Cables between pairs of nodes, each pair with one or several.
class Cables {
 public:
  explicit Cables(const Ports& ports) : ports_(ports), free_(ports.nodes, ports.each) {}

  bool fit(std::size_t a, std::size_t b) const { return a != b && free_[a] > 0 && free_[b] > 0; }
  void join(std::size_t a, std::size_t b) {
    const auto [low, high] = std::minmax({static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b)});
    ++count_[{low, high}];
    --free_[a], --free_[b];
  }
  bool are_joined(std::size_t a, std::size_t b) const {
    const auto [low, high] = std::minmax({static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b)});
    return count_.contains({low, high});
  }
  NetworkDescription network() const {
    NetworkDescription result{.shape = "edges"};
    for (const auto& [ends, count] : count_)
      result.edges.push_back({ends.first, ends.second, ports_.latency, ports_.bytes_per_second * static_cast<double>(count)});
    return result;
  }

 private:
  const Ports& ports_;
  std::vector<std::size_t> free_;  // by node
  std::map<Ends, std::size_t> count_;
};

std::size_t cables_needed(const std::vector<std::size_t>& sizes) {
  std::size_t needed = 0;
  for (const std::size_t size : sizes) needed += size > 2 ? 2 : 1;
  return needed;
}

// A ring along each dimension, as many times as ports allow. A cable serves both directions.
NetworkDescription torus(const Ports& ports, const std::vector<std::size_t>& sizes) {
  std::string shape;
  for (const std::size_t size : sizes) shape = std::to_string(size) + (shape.empty() ? "" : "x") + shape;
  const auto times = static_cast<double>(ports.each / cables_needed(sizes));
  NetworkDescription result = as_edges({ports.latency, ports.bytes_per_second * times, "torus:" + shape}, ports.nodes);
  std::erase_if(result.edges, [](const Link& e) { return e.from > e.to; });
  std::ranges::sort(result.edges, {}, [](const Link& e) { return Ends(e.from, e.to); });
  return result;
}

void add_tori(const Ports& ports, std::size_t left, std::vector<std::size_t> sizes, std::vector<Topology>& result) {
  if (cables_needed(sizes) > ports.each) return;
  if (left == 1 && !sizes.empty()) {
    std::string name;
    for (const std::size_t size : sizes) name += (name.empty() ? "" : "x") + std::to_string(size);
    result.push_back({sizes.size() == 1 ? "ring" : "torus " + name, torus(ports, sizes)});
    return;
  }
  for (std::size_t size = sizes.empty() ? 2 : sizes.back(); size <= left; ++size) {
    if (left % size != 0) continue;
    sizes.push_back(size);
    add_tori(ports, left / size, sizes, result);
    sizes.pop_back();
  }
}

// Numbers from 1 without a common divisor with n: the one nearest to each power of n^(1/count), or the next that is free.
std::vector<std::size_t> geometric_strides(std::size_t n, std::size_t count) {
  std::vector<std::size_t> coprime;
  for (std::size_t stride = 1; 2 * stride <= n; ++stride)
    if (std::gcd(stride, n) == 1) coprime.push_back(stride);
  std::vector<std::size_t> chosen;
  const double factor = std::pow(static_cast<double>(n), 1 / static_cast<double>(count));
  for (std::size_t k = 0; k < count && !coprime.empty(); ++k) {
    const double wanted = std::pow(factor, static_cast<double>(k));
    const auto nearest =
        std::ranges::min_element(coprime, {}, [&](std::size_t s) { return std::fabs(static_cast<double>(s) - wanted); });
    chosen.push_back(*nearest);
    coprime.erase(nearest);
  }
  return chosen;
}

// Pairs with the most bytes first, then exchanged in pairs of pairs while that gains: each node is in at most one.
std::vector<Ends> heavy_matching(const std::vector<std::vector<double>>& bytes, const Cables& cables) {
  const std::size_t n = bytes.size();
  std::vector<std::tuple<double, std::uint32_t, std::uint32_t>> all;
  const auto weight = [&](std::size_t a, std::size_t b) { return cables.fit(a, b) ? bytes[a][b] : -1; };
  for (std::uint32_t a = 0; a < n; ++a)
    for (std::uint32_t b = a + 1; b < n; ++b)
      if (weight(a, b) >= 0) all.emplace_back(-weight(a, b), a, b);
  std::sort(all.begin(), all.end());
  std::vector<Ends> result;
  std::vector<bool> is_taken(n);
  for (const auto& [negative, a, b] : all)
    if (!is_taken[a] && !is_taken[b]) is_taken[a] = is_taken[b] = true, result.emplace_back(a, b);
  for (bool gained = true; gained;) {
    gained = false;
    for (std::size_t i = 0; i < result.size(); ++i)
      for (std::size_t j = i + 1; j < result.size(); ++j) {
        auto& [a, b] = result[i];
        auto& [c, d] = result[j];
        const double now = weight(a, b) + weight(c, d), crossed = weight(a, c) + weight(b, d),
                     other = weight(a, d) + weight(b, c);
        if (std::min(weight(a, c), weight(b, d)) >= 0 && crossed > now * (1 + 1e-9) && crossed >= other)
          std::swap(b, c), gained = true;
        else if (std::min(weight(a, d), weight(b, c)) >= 0 && other > now * (1 + 1e-9))
          std::swap(b, d), gained = true;
      }
  }
  return result;
}

}  // namespace

Topology fat_tree_of_like_cost(const Ports& ports) {
  std::size_t size = 2;
  while (size * size * size / 4 < ports.nodes) size += 2;
  const double rate = ports.bytes_per_second * static_cast<double>(ports.each) * kPortsOfCable / kPortsInTree;
  return {"fat tree of like cost", {ports.latency, rate, "fat-tree:" + std::to_string(size)}};
}

std::vector<Topology> named_topologies(const Ports& ports) {
  if (ports.each == 0 || (ports.each < 2 && ports.nodes > 2))
    throw Error(ErrorCode::kUsage,
                std::to_string(ports.each) + " cables a node cannot join " + std::to_string(ports.nodes) + " nodes");
  std::vector<Topology> result;
  add_tori(ports, ports.nodes, {}, result);
  return result;
}

std::vector<Topology> topologies_for(const Traffic& traffic, const Ports& ports) {
  const std::size_t n = ports.nodes;
  std::vector<Topology> result;
  for (std::size_t rings = 1; 2 * rings <= ports.each && n > 2; ++rings) {
    const std::vector<std::size_t> strides = geometric_strides(n, rings);
    if (strides.size() < rings) break;
    Cables cables(ports);
    for (const std::size_t stride : strides)
      for (std::size_t node = 0; node < n; ++node) cables.join(node, (node + stride) % n);
    // Both directions of a pair, and of what a joined pair sends half is left for each cable.
    std::vector<std::vector<double>> bytes(n, std::vector<double>(n));
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b) {
        bytes[a][b] = traffic.between[a * n + b] + traffic.between[b * n + a];
        if (cables.are_joined(a, b)) bytes[a][b] /= 2;
      }
    for (std::size_t left = ports.each - 2 * rings; left > 0; --left)
      for (const auto& [a, b] : heavy_matching(bytes, cables)) {
        cables.join(a, b);
        bytes[a][b] /= 2, bytes[b][a] /= 2;
      }
    std::string name = "rings";
    for (const std::size_t stride : strides) name += " +" + std::to_string(stride);
    if (ports.each > 2 * rings) name += ", " + std::to_string(ports.each - 2 * rings) + " matchings";
    result.push_back({name, cables.network()});
  }
  return result;
}

NetworkDescription with_exchanged_ends(const NetworkDescription& network, std::mt19937& random) {
  constexpr int kAttempts = 20;
  std::set<Ends> joined;
  for (const Link& e : network.edges) joined.insert(std::minmax(e.from, e.to));
  NetworkDescription result = network;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Link &one = result.edges[random() % result.edges.size()], &other = result.edges[random() % result.edges.size()];
    std::uint32_t &a = random() % 2 == 0 ? one.to : one.from, &b = other.to;
    const std::uint32_t stays = &a == &one.to ? one.from : one.to;
    if (one.bytes_per_second != other.bytes_per_second || stays == b || a == other.from || a == b || stays == other.from ||
        joined.contains(std::minmax(stays, b)) || joined.contains(std::minmax(a, other.from)))
      continue;
    std::swap(a, b);
    return result;
  }
  return result;
}

bool is_connected(const NetworkDescription& network, std::size_t nodes) {
  return !unreached_member(network.edges, nodes).has_value();
}

}  // namespace rewright::plans
