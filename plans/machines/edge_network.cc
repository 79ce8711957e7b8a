#include "plans/machines/edge_network.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace rewright::plans {

namespace {

constexpr LinkNumber kNoLink = std::numeric_limits<LinkNumber>::max();

class EdgeNetwork : public Network {
 public:
  EdgeNetwork(std::span<const Link> edges, std::size_t count, const std::string& member)
      : out_(count), trees_(count), once_(std::make_unique<std::once_flag[]>(count)) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> given;
    const auto bad = [&](const Link& e, const std::string& what) {
      return Error(ErrorCode::kBadInput,
                   "the link from " + member + " " + std::to_string(e.from) + " to " + std::to_string(e.to) + " " + what,
                   "edges");
    };
    for (const Link& e : edges) {
      if (e.from >= count || e.to >= count) throw bad(e, "leads nowhere: there are " + std::to_string(count));
      if (e.from == e.to) throw bad(e, "leads back to where it begins");
      if (!given.emplace(e.from, e.to).second) throw bad(e, "is given twice");
    }
    for (const Link& e : edges) {
      connect(e.from, e.to, e);
      if (!given.contains({e.to, e.from})) connect(e.to, e.from, e);
    }
    if (const auto missed = unreached_member(edges, count))
      throw Error(ErrorCode::kBadInput, "no links lead from " + member + " 0 to " + std::to_string(*missed), "edges");
  }

  void route(std::size_t from, std::size_t to, std::vector<LinkNumber>& route) const override {
    std::call_once(once_[from], [&] { trees_[from] = shortest_paths(from); });
    const std::size_t before = route.size();
    for (; to != from; to = links()[route.back()].from) route.push_back(trees_[from][to]);
    std::reverse(route.begin() + static_cast<std::ptrdiff_t>(before), route.end());
  }
  std::string vertex_name(std::size_t vertex) const override { return std::to_string(vertex); }

 private:
  void connect(std::size_t from, std::size_t to, const Link& cable) {
    out_[from].push_back(add_link(from, to, cable.latency, cable.bytes_per_second));
  }

  // For each member the link by which the shortest path reaches it (Dijkstra).
  std::vector<LinkNumber> shortest_paths(std::size_t source) const {
    using Length = std::pair<double, std::size_t>;  // latency, links
    std::vector<LinkNumber> by(out_.size(), kNoLink);
    std::vector<Length> length(out_.size(), {std::numeric_limits<double>::infinity(), 0});
    std::vector<bool> done(out_.size());
    std::priority_queue<std::pair<Length, std::size_t>, std::vector<std::pair<Length, std::size_t>>, std::greater<>> queue;
    length[source] = {0, 0};
    queue.push({length[source], source});
    while (!queue.empty()) {
      const std::size_t at = queue.top().second;
      queue.pop();
      if (done[at]) continue;
      done[at] = true;
      for (const LinkNumber l : out_[at]) {
        const Link& link = links()[l];
        const Length longer{length[at].first + link.latency, length[at].second + 1};
        if (done[link.to] || length[link.to] < longer) continue;
        if (length[link.to] == longer && links()[by[link.to]].from < at) continue;
        length[link.to] = longer, by[link.to] = l;
        queue.push({longer, link.to});
      }
    }
    return by;
  }

  std::vector<std::vector<LinkNumber>> out_;  // by member
  mutable std::vector<std::vector<LinkNumber>> trees_;
  std::unique_ptr<std::once_flag[]> once_;
};

}  // namespace

std::optional<std::size_t> unreached_member(std::span<const Link> edges, std::size_t count) {
  std::vector<std::vector<std::size_t>> near(count);
  for (const Link& e : edges) near[e.from].push_back(e.to), near[e.to].push_back(e.from);
  std::vector<bool> reached(count);
  std::vector<std::size_t> next{0};
  reached[0] = true;
  while (!next.empty()) {
    const std::size_t at = next.back();
    next.pop_back();
    for (const std::size_t to : near[at])
      if (!reached[to]) reached[to] = true, next.push_back(to);
  }
  const auto missed = std::find(reached.begin(), reached.end(), false);
  return missed == reached.end() ? std::nullopt : std::optional(static_cast<std::size_t>(missed - reached.begin()));
}

std::unique_ptr<const Network> make_edge_network(std::span<const Link> edges, std::size_t count, const std::string& member) {
  return std::make_unique<EdgeNetwork>(edges, count, member);
}

}  // namespace rewright::plans
