#include "runtime/cpu/planning/layout_assignment.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace rewright::cpu {

namespace {

// Maximum flow by blocking flows of shortest paths: Dinic, "Algorithm for solution of a problem of maximum flow in networks
// with power estimation", 1970.
class Network {
 public:
  explicit Network(std::size_t nodes) : edges_(nodes) {}
  void add(int from, int to, std::int64_t capacity, std::int64_t back = 0) {
    edges_[from].push_back({to, static_cast<int>(edges_[to].size()), capacity});
    edges_[to].push_back({from, static_cast<int>(edges_[from].size()) - 1, back});
  }
  void saturate(int source, int sink) {
    while (find_levels(source, sink)) {
      next_.assign(edges_.size(), 0);
      while (push(source, sink, kInfinite) > 0) {
      }
    }
  }
  // After saturate: can the node reach the sink? Such nodes are on the sink's side of the minimum cut closest to the source.
  std::vector<bool> reaches(int sink) const {
    std::vector<bool> result(edges_.size());
    std::vector<int> open{sink};
    result[sink] = true;
    while (!open.empty()) {
      const int n = open.back();
      open.pop_back();
      for (const Edge& e : edges_[n])
        if (!result[e.to] && edges_[e.to][e.reverse].left > 0) {
          result[e.to] = true;
          open.push_back(e.to);
        }
    }
    return result;
  }

  static constexpr std::int64_t kInfinite = std::int64_t{1} << 60;

 private:
  struct Edge {
    int to, reverse;
    std::int64_t left;
  };

  bool find_levels(int source, int sink) {
    level_.assign(edges_.size(), -1);
    level_[source] = 0;
    std::queue<int> open({source});
    for (; !open.empty(); open.pop())
      for (const Edge& e : edges_[open.front()])
        if (e.left > 0 && level_[e.to] < 0) {
          level_[e.to] = level_[open.front()] + 1;
          open.push(e.to);
        }
    return level_[sink] >= 0;
  }

  // Augments one path, without recursion: networks are as deep as graphs are long.
  std::int64_t push(int source, int sink, std::int64_t most) {
    std::vector<int> path{source};  // of nodes; next_ says which edge each is left by
    while (path.back() != sink) {
      const int n = path.back();
      std::size_t& e = next_[n];
      while (e < edges_[n].size() && (edges_[n][e].left <= 0 || level_[edges_[n][e].to] != level_[n] + 1)) ++e;
      if (e < edges_[n].size()) {
        path.push_back(edges_[n][e].to);
      } else {
        path.pop_back();
        if (path.empty()) return 0;
        ++next_[path.back()];
      }
    }
    path.pop_back();
    for (const int n : path) most = std::min(most, edges_[n][next_[n]].left);
    for (const int n : path) {
      Edge& e = edges_[n][next_[n]];
      e.left -= most;
      edges_[e.to][e.reverse].left += most;
    }
    return most;
  }

  std::vector<std::vector<Edge>> edges_;
  std::vector<int> level_;
  std::vector<std::size_t> next_;
};

// Capacities in units of a thousandth of a nanosecond.
std::int64_t capacity(double nanoseconds) {
  return std::isfinite(nanoseconds) ? std::llround(nanoseconds * 1000) : Network::kInfinite;
}

}  // namespace

// A step is a node; on the source's side it is row-major. A value whose layout may be converted has two more nodes: "a
// channels-last copy exists although it is computed row-major", and the opposite. A reader forces the first one to the sink's
// side, or the second one to the source's, which cuts the edge between that node and the step that computes the value.
std::vector<bool> assign_layouts(std::span<const LayoutStep> steps, std::span<const double> changes) {
  const int count = static_cast<int>(steps.size()), values = static_cast<int>(changes.size());
  const int source = count + 2 * values, sink = source + 1;
  Network network(static_cast<std::size_t>(sink) + 1);
  std::vector<int> computed_by(changes.size(), source);
  for (int s = 0; s < count; ++s)
    for (const int v : steps[s].computes) computed_by[v] = s;
  for (int s = 0; s < count; ++s) {
    network.add(source, s, capacity(steps[s].channels_last));
    network.add(s, sink, capacity(steps[s].plain));
    for (const int v : steps[s].reads) {
      network.add(count + v, s, Network::kInfinite);
      network.add(s, count + values + v, Network::kInfinite);
    }
  }
  // Cutting a -> b costs if a is on the source's side and b on the sink's.
  for (int v = 0; v < values; ++v) {
    network.add(computed_by[v], count + v, capacity(changes[v]));
    network.add(count + values + v, computed_by[v], capacity(changes[v]));
  }
  network.saturate(source, sink);
  std::vector<bool> side = network.reaches(sink);
  side.resize(steps.size());
  return side;
}

double layout_cost(std::span<const LayoutStep> steps, std::span<const double> changes, const std::vector<bool>& channels_last) {
  double sum = 0;
  std::vector<bool> computed(changes.size()), changed(changes.size());
  for (std::size_t s = 0; s < steps.size(); ++s) {
    sum += channels_last[s] ? steps[s].channels_last : steps[s].plain;
    for (const int v : steps[s].computes) computed[v] = channels_last[s];
  }
  for (std::size_t s = 0; s < steps.size(); ++s)
    for (const int v : steps[s].reads)
      if (computed[v] != channels_last[s] && !changed[v]) {
        changed[v] = true;
        sum += changes[v];
      }
  return sum;
}

}  // namespace rewright::cpu
