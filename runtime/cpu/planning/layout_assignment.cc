#include "runtime/cpu/planning/layout_assignment.h"

#include <algorithm>
#include <cmath>

namespace rewright::cpu {

namespace {

// Maximum flow by blocking flows of shortest paths: Dinic, "Algorithm for solution of a problem of maximum flow in networks
// with power estimation", 1970.
class Network {
 public:
  Network(std::size_t nodes, std::size_t edges) : first_(nodes + 1), level_(nodes), next_(nodes) { edges_.reserve(2 * edges); }
  // All edges are added before the first one is used.
  void add(int from, int to, std::int64_t capacity) {
    edges_.push_back({to, capacity});
    edges_.push_back({from, 0});
  }
  void saturate(int source, int sink) {
    sort_edges();
    while (find_levels(source, sink)) {
      std::copy(first_.begin(), first_.end() - 1, next_.begin());
      while (push(source, sink, kInfinite) > 0) {
      }
    }
  }
  // After saturate: can the node reach the sink? Such nodes are on the sink's side of the minimum cut closest to the source.
  std::vector<bool> reaches(int sink) const {
    std::vector<bool> result(level_.size());
    std::vector<int> open{sink};
    result[sink] = true;
    while (!open.empty()) {
      const int n = open.back();
      open.pop_back();
      for (int k = first_[n]; k < first_[n + 1]; ++k) {
        const int to = edges_[of_node_[k]].to;
        if (!result[to] && edges_[of_node_[k] ^ 1].left > 0) {
          result[to] = true;
          open.push_back(to);
        }
      }
    }
    return result;
  }

  static constexpr std::int64_t kInfinite = std::int64_t{1} << 60;

 private:
  struct Edge {  // the next or last one, of an even or odd number, is its reverse
    int to;
    std::int64_t left;
  };

  // Edges by the node that they leave.
  void sort_edges() {
    for (std::size_t e = 0; e < edges_.size(); ++e) ++first_[edges_[e ^ 1].to + 1];
    for (std::size_t n = 1; n < first_.size(); ++n) first_[n] += first_[n - 1];
    std::copy(first_.begin(), first_.end() - 1, next_.begin());
    of_node_.resize(edges_.size());
    for (std::size_t e = 0; e < edges_.size(); ++e) of_node_[next_[edges_[e ^ 1].to]++] = static_cast<int>(e);
  }

  bool find_levels(int source, int sink) {
    level_.assign(level_.size(), -1);
    level_[source] = 0;
    open_.assign(1, source);
    for (std::size_t done = 0; done < open_.size(); ++done) {
      const int n = open_[done];
      for (int k = first_[n]; k < first_[n + 1]; ++k) {
        const Edge& e = edges_[of_node_[k]];
        if (e.left > 0 && level_[e.to] < 0) {
          level_[e.to] = level_[n] + 1;
          open_.push_back(e.to);
        }
      }
    }
    return level_[sink] >= 0;
  }

  // Augments one path, without recursion: networks are as deep as graphs are long.
  std::int64_t push(int source, int sink, std::int64_t most) {
    path_.assign(1, source);  // of nodes; next_ says which edge each is left by
    while (path_.back() != sink) {
      const int n = path_.back();
      const auto leads_on = [&](const Edge& e) { return e.left > 0 && level_[e.to] == level_[n] + 1; };
      int& k = next_[n];
      while (k < first_[n + 1] && !leads_on(edges_[of_node_[k]])) ++k;
      if (k < first_[n + 1]) {
        path_.push_back(edges_[of_node_[k]].to);
      } else {
        path_.pop_back();
        if (path_.empty()) return 0;
        ++next_[path_.back()];
      }
    }
    path_.pop_back();
    for (const int n : path_) most = std::min(most, edges_[of_node_[next_[n]]].left);
    for (const int n : path_) {
      const int e = of_node_[next_[n]];
      edges_[e].left -= most;
      edges_[e ^ 1].left += most;
    }
    return most;
  }

  std::vector<Edge> edges_;
  std::vector<int> first_, of_node_;  // the numbers of a node's edges are of_node_[first_[n]], ...
  std::vector<int> level_, next_, open_, path_;
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
  const int count = static_cast<int>(steps.size());
  std::vector<int> number(changes.size(), -1);  // of the values that are read
  std::vector<int> read;
  std::size_t reads = 0;
  for (const LayoutStep& step : steps) {
    reads += step.reads.size();
    for (const int v : step.reads)
      if (number[v] < 0) {
        number[v] = static_cast<int>(read.size());
        read.push_back(v);
      }
  }
  const int values = static_cast<int>(read.size()), source = count + 2 * values, sink = source + 1;
  Network network(static_cast<std::size_t>(sink) + 1, 2 * (steps.size() + reads + read.size()));
  std::vector<int> computed_by(read.size(), source);
  for (int s = 0; s < count; ++s)
    for (const int v : steps[s].computes)
      if (number[v] >= 0) computed_by[number[v]] = s;
  for (int s = 0; s < count; ++s) {
    network.add(source, s, capacity(steps[s].channels_last));
    network.add(s, sink, capacity(steps[s].plain));
    for (const int v : steps[s].reads) {
      network.add(count + number[v], s, Network::kInfinite);
      network.add(s, count + values + number[v], Network::kInfinite);
    }
  }
  // Cutting a -> b costs if a is on the source's side and b on the sink's.
  for (int n = 0; n < values; ++n) {
    network.add(computed_by[n], count + n, capacity(changes[read[n]]));
    network.add(count + values + n, computed_by[n], capacity(changes[read[n]]));
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
