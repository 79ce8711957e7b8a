#include "optimizer/saturation/choices.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <set>

namespace rewright::optimizer {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr ENodeId kNone = ~ENodeId{0};

}  // namespace

ENodeChoices::ENodeChoices(const ExtractionProblem& problem) : problem_(problem), graph_(*problem.graph) {
  is_output_.assign(graph_.value_count(), false);
  for (const GraphOutput& output : graph_.graph().outputs()) {
    const ClassId root = graph_.find(graph_.value_of(output.value));
    if (!is_output_[root]) roots_.push_back(root);
    is_output_[root] = true;
  }
  has_leaf_.assign(graph_.value_count(), false);
  for (ENodeId id = 0; id < graph_.node_count(); ++id)
    if (graph_.node(id).leaf != kNoValue) has_leaf_[graph_.find(graph_.outputs(id)[0])] = true;
  choose_constants();
  find_useful();
}

bool ENodeChoices::varying(ENodeId id) const {
  for (const ClassId output : graph_.outputs(id))
    if (output != kNoClass && !graph_.constant(output)) return true;
  return false;
}

bool ENodeChoices::reads_itself(ENodeId id) const {
  bool found = false;
  for (const ClassId output : graph_.outputs(id))
    for_each_read(id, [&](ClassId read) { found = found || (output != kNoClass && graph_.find(output) == read); });
  return found;
}

std::vector<ENodeId> ENodeChoices::ordered(std::vector<ENodeId> selected) const {
  selected.insert(selected.end(), constants_.begin(), constants_.end());
  std::sort(selected.begin(), selected.end());
  selected.erase(std::unique(selected.begin(), selected.end()), selected.end());
  std::vector<ENodeId> maker(graph_.value_count(), kNone), order;
  std::vector<bool> made = has_leaf_;
  std::vector<std::vector<std::uint32_t>> waiting(graph_.value_count());
  std::vector<std::size_t> missing(selected.size());
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t i = 0; i < selected.size(); ++i) {
    std::set<ClassId> reads;
    for_each_read(selected[i], [&](ClassId id) {
      if (!made[id]) reads.insert(id);
    });
    missing[i] = reads.size();
    for (const ClassId id : reads) waiting[id].push_back(i);
    if (reads.empty()) ready.push(i);
  }
  while (!ready.empty()) {
    const ENodeId id = selected[ready.top()];
    ready.pop();
    bool adds = false;
    for (const ClassId output : graph_.outputs(id)) {
      if (output == kNoClass || made[graph_.find(output)]) continue;
      const ClassId root = graph_.find(output);
      made[root] = adds = true;
      maker[root] = id;
      for (const std::uint32_t next : waiting[root])
        if (--missing[next] == 0) ready.push(next);
    }
    if (adds) order.push_back(id);
  }
  std::vector<bool> needed(graph_.value_count());
  for (const ClassId root : roots_) {
    if (!made[root]) return {};
    needed[root] = true;
  }
  std::vector<ENodeId> result;
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    bool is_needed = false;
    for (const ClassId output : graph_.outputs(*id))
      is_needed = is_needed || (output != kNoClass && needed[graph_.find(output)] && maker[graph_.find(output)] == *id);
    if (!is_needed) continue;
    for_each_read(*id, [&](ClassId read) { needed[read] = true; });
    result.push_back(*id);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

std::vector<bool> ENodeChoices::savings_of(std::span<const ENodeId> chosen) const {
  std::vector<bool> is_chosen(graph_.node_count()), spent(graph_.node_count()), made(problem_.savings.size());
  for (const ENodeId id : chosen) is_chosen[id] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t s = 0; s < problem_.savings.size(); ++s) {
      const Saving& saving = problem_.savings[s];
      if (made[s]) continue;
      bool holds = saving.one_of.empty() ||
                   std::any_of(saving.one_of.begin(), saving.one_of.end(), [&](std::uint32_t other) { return made[other]; });
      for (const ENodeId id : saving.nodes) holds = holds && is_chosen[id];
      for (const ENodeId id : saving.spent) holds = holds && !spent[id];
      for (const ClassId inner : saving.inner) {
        const ClassId id = graph_.find(inner);
        holds = holds && !is_output_[id];
        for (const ENodeId user : graph_.users(id))
          holds =
              holds && (!is_chosen[user] || std::find(saving.nodes.begin(), saving.nodes.end(), user) != saving.nodes.end());
      }
      if (!holds) continue;
      made[s] = changed = true;
      for (const ENodeId id : saving.spent) spent[id] = true;
    }
  }
  return made;
}

double ENodeChoices::cost(std::span<const ENodeId> chosen) const {
  double total = 0;
  for (const ENodeId id : chosen)
    if (varying(id)) total += problem_.seconds[id];
  const std::vector<bool> made = savings_of(chosen);
  for (std::size_t s = 0; s < made.size(); ++s)
    if (made[s]) total -= problem_.savings[s].seconds;
  return total;
}

std::vector<ENodeId> ENodeChoices::given() const {
  std::vector<ENodeId> selected;
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph_.graph().nodes().size()); ++n)
    selected.push_back(graph_.live(*graph_.node_at(n)));
  return ordered(std::move(selected));
}

// By relaxation; costs are positive, so the choice has no cycles.
std::vector<ENodeId> ENodeChoices::greedy(std::span<const ENodeId> free) const {
  constexpr double kNextToNothing = 1e-6;
  std::vector<bool> is_free(graph_.node_count());
  for (const ENodeId id : free) is_free[id] = true;
  const std::vector<ENodeId> best =
      cheapest([&](ENodeId id) { return problem_.seconds[id] * (is_free[id] ? kNextToNothing : 1); }, useful_);
  std::vector<ENodeId> selected;
  for (const ENodeId id : best)
    if (id != kNone) selected.push_back(id);
  return ordered(std::move(selected));
}

// For each class the e-node that makes it cheapest as a tree; leaves and constants are free.
std::vector<ENodeId> ENodeChoices::cheapest(const std::function<double(ENodeId)>& seconds,
                                            std::span<const ENodeId> among) const {
  std::vector<double> cost(graph_.value_count(), kInfinite);
  std::vector<ENodeId> best(graph_.value_count(), kNone);
  for (ClassId id = 0; id < graph_.value_count(); ++id)
    if (has_leaf_[id] || (constants_known_ && graph_.constant(id))) cost[id] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const ENodeId id : among) {
      double total = seconds(id);
      for_each_read(id, [&](ClassId read) { total += cost[read]; });
      if (total == kInfinite) continue;
      for (const ClassId output : graph_.outputs(id)) {
        if (output == kNoClass || total >= cost[graph_.find(output)]) continue;
        cost[graph_.find(output)] = total;
        best[graph_.find(output)] = id;
        changed = true;
      }
    }
  }
  return best;
}

// Constants are evaluated once, however they are computed: prefers few operators.
void ENodeChoices::choose_constants() {
  std::vector<ENodeId> among;
  for (ENodeId id = 0; id < graph_.node_count(); ++id)
    if (graph_.node(id).live && graph_.node(id).leaf == kNoValue && !varying(id)) among.push_back(id);
  for (const ENodeId id : cheapest([](ENodeId) { return 1.0; }, among))
    if (id != kNone) constants_.push_back(id);
  constants_known_ = true;
}

void ENodeChoices::find_useful() {
  std::vector<bool> possible(graph_.value_count()), ready(graph_.node_count());
  for (ClassId id = 0; id < graph_.value_count(); ++id) possible[id] = has_leaf_[id] || graph_.constant(id);
  for (bool changed = true; changed;) {
    changed = false;
    for (ENodeId id = 0; id < graph_.node_count(); ++id) {
      if (ready[id] || !graph_.node(id).live || graph_.node(id).leaf != kNoValue || !varying(id)) continue;
      bool all = true;
      for_each_read(id, [&](ClassId read) { all = all && possible[read]; });
      if (!all) continue;
      ready[id] = changed = true;
      for (const ClassId output : graph_.outputs(id))
        if (output != kNoClass) possible[graph_.find(output)] = true;
    }
  }
  std::vector<bool> reached(graph_.value_count()), taken(graph_.node_count());
  std::vector<ClassId> open;
  const auto reach = [&](ClassId id) {
    if (reached[id] || has_leaf_[id] || graph_.constant(id)) return;
    reached[id] = true;
    open.push_back(id);
  };
  for (const ClassId root : roots_) reach(root);
  while (!open.empty()) {
    const ClassId id = open.back();
    open.pop_back();
    for (const ENodeId node : graph_.makers(id)) {
      if (!ready[node] || taken[node] || reads_itself(node)) continue;
      taken[node] = true;
      for_each_read(node, reach);
    }
  }
  for (ENodeId id = 0; id < graph_.node_count(); ++id)
    if (taken[id]) useful_.push_back(id);
}

}  // namespace rewright::optimizer
