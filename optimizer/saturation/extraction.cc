#include "optimizer/saturation/extraction.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <set>

#include "optimizer/saturation/integer_program.h"

namespace rewright {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// What a choice has to do with, worked out once.
class Extractor {
 public:
  explicit Extractor(const ExtractionProblem& problem) : problem_(problem), graph_(*problem.graph) {
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

  bool varying(ENodeId id) const {
    for (const ClassId output : graph_.outputs(id))
      if (output != kNoClass && !graph_.constant(output)) return true;
    return false;
  }

  template <class F>
  void for_each_read(ENodeId id, const F& visit) const {
    for (const ClassId value : graph_.inputs(id))
      if (value != kNoClass) visit(graph_.find(value));
    for (const ClassId value : graph_.parameters(id))
      if (value != kNoClass) visit(graph_.find(value));
  }

  // In an order in which each comes after what it reads, without those that the outputs do not need; empty if these do not
  // make all outputs.
  std::vector<ENodeId> ordered(std::vector<ENodeId> selected) const {
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

  // Which savings a choice makes.
  std::vector<bool> savings_of(std::span<const ENodeId> chosen) const {
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

  double cost(std::span<const ENodeId> chosen) const {
    double total = 0;
    for (const ENodeId id : chosen)
      if (varying(id)) total += problem_.seconds[id];
    const std::vector<bool> made = savings_of(chosen);
    for (std::size_t s = 0; s < made.size(); ++s)
      if (made[s]) total -= problem_.savings[s].seconds;
    return total;
  }

  std::vector<ENodeId> given() const {
    std::vector<ENodeId> selected;
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph_.graph().nodes().size()); ++n)
      selected.push_back(graph_.live(*graph_.node_at(n)));
    return ordered(std::move(selected));
  }

  // The least cost of a class as a tree, by relaxation: costs are positive, so the choice has no cycles.
  std::vector<ENodeId> greedy() const {
    const std::vector<ENodeId> best = cheapest([&](ENodeId id) { return problem_.seconds[id]; }, useful_);
    std::vector<ENodeId> selected;
    for (const ENodeId id : best)
      if (id != kNone) selected.push_back(id);
    return ordered(std::move(selected));
  }

  Extraction solve(const ExtractionOptions& options) const;

 private:
  static constexpr ENodeId kNone = ~ENodeId{0};

  // For each class the e-node that makes it cheapest as a tree; leaves and constants cost nothing.
  std::vector<ENodeId> cheapest(const std::function<double(ENodeId)>& seconds, const std::vector<ENodeId>& among) const {
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

  // Constants are evaluated once, whatever they are computed by: by few operators.
  void choose_constants() {
    std::vector<ENodeId> among;
    for (ENodeId id = 0; id < graph_.node_count(); ++id)
      if (graph_.node(id).live && graph_.node(id).leaf == kNoValue && !varying(id)) among.push_back(id);
    for (const ENodeId id : cheapest([](ENodeId) { return 1.0; }, among))
      if (id != kNone) constants_.push_back(id);
    constants_known_ = true;
  }

  // E-nodes that a choice may hold: reached from the outputs, and with all they read made by others.
  void find_useful() {
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

  bool reads_itself(ENodeId id) const {
    bool found = false;
    for (const ClassId output : graph_.outputs(id))
      for_each_read(id, [&](ClassId read) { found = found || (output != kNoClass && graph_.find(output) == read); });
    return found;
  }

  // Of each class the number of its strongly connected component, and the components' sizes.
  void find_components(std::vector<std::uint32_t>& component, std::vector<std::size_t>& sizes) const;

  const ExtractionProblem& problem_;
  const EGraph& graph_;
  std::vector<ClassId> roots_;
  std::vector<bool> is_output_, has_leaf_;
  bool constants_known_ = false;
  std::vector<ENodeId> constants_;  // for each constant class one that makes it
  std::vector<ENodeId> useful_;
};

// Tarjan's, without recursion.
void Extractor::find_components(std::vector<std::uint32_t>& component, std::vector<std::size_t>& sizes) const {
  constexpr std::uint32_t kUnseen = ~std::uint32_t{0};
  std::vector<std::vector<ClassId>> next(graph_.value_count());
  for (const ENodeId id : useful_)
    for (const ClassId output : graph_.outputs(id))
      if (output != kNoClass) for_each_read(id, [&](ClassId read) { next[graph_.find(output)].push_back(read); });
  component.assign(graph_.value_count(), kUnseen);
  std::vector<std::uint32_t> index(graph_.value_count(), kUnseen), low(graph_.value_count());
  std::vector<ClassId> stack;
  std::vector<std::pair<ClassId, std::size_t>> calls;
  std::uint32_t count = 0;
  for (ClassId root = 0; root < graph_.value_count(); ++root) {
    if (index[root] != kUnseen || graph_.find(root) != root) continue;
    calls.emplace_back(root, 0);
    while (!calls.empty()) {
      auto& [id, edge] = calls.back();
      if (edge == 0 && index[id] == kUnseen) {
        index[id] = low[id] = count++;
        stack.push_back(id);
      }
      if (edge < next[id].size()) {
        const ClassId to = next[id][edge++];
        if (index[to] == kUnseen)
          calls.emplace_back(to, 0);
        else if (component[to] == kUnseen)
          low[id] = std::min(low[id], index[to]);
        continue;
      }
      const ClassId done = id;
      if (low[done] == index[done]) {
        sizes.push_back(0);
        ClassId member = kNoClass;
        while (member != done) {
          member = stack.back();
          stack.pop_back();
          component[member] = static_cast<std::uint32_t>(sizes.size() - 1);
          ++sizes.back();
        }
      }
      calls.pop_back();
      if (!calls.empty()) low[calls.back().first] = std::min(low[calls.back().first], low[done]);
    }
  }
}

Extraction Extractor::solve(const ExtractionOptions& options) const {
  Extraction result;
  result.chosen = given();
  result.seconds = cost(result.chosen);
  if (std::vector<ENodeId> other = greedy(); !other.empty() && cost(other) < result.seconds) {
    result.seconds = cost(other);
    result.chosen = std::move(other);
  }
  result.bound = result.seconds;
  result.optimal = useful_.empty();
  if (useful_.empty()) return result;  // all outputs are given
  result.bound = 0;
  const double scale = result.seconds > 0 ? 1000 / result.seconds : 1;  // so that the solver's tolerances fit

  IntegerProgram program;
  std::vector<int> chosen(graph_.node_count(), -1);
  for (const ENodeId id : useful_) chosen[id] = program.add_variable(problem_.seconds[id] * scale, 0, 1, true);
  const auto makers_of = [&](ClassId id) {
    std::vector<std::pair<int, double>> terms;
    for (const ENodeId maker : graph_.makers(id))
      if (chosen[maker] >= 0) terms.emplace_back(chosen[maker], 1);
    return terms;
  };
  const auto is_given = [&](ClassId id) { return has_leaf_[id] || graph_.constant(id); };
  // The outputs are made, and so is what a chosen e-node reads.
  for (const ClassId root : roots_)
    if (!is_given(root)) program.add_row(1, IntegerProgram::kInfinite, makers_of(root));
  for (const ENodeId id : useful_) {
    std::set<ClassId> reads;
    for_each_read(id, [&](ClassId read) {
      if (!is_given(read)) reads.insert(read);
    });
    for (const ClassId read : reads) {
      std::vector<std::pair<int, double>> terms = makers_of(read);
      terms.emplace_back(chosen[id], -1);
      program.add_row(0, IntegerProgram::kInfinite, terms);
    }
  }
  // No cycles: in a component that has some, what is read stands before what it makes.
  std::vector<std::uint32_t> component;
  std::vector<std::size_t> sizes;
  find_components(component, sizes);
  std::vector<int> place(graph_.value_count(), -1);
  const auto place_of = [&](ClassId id) {
    if (place[id] < 0) place[id] = program.add_variable(0, 0, static_cast<double>(sizes[component[id]] - 1), false);
    return place[id];
  };
  for (const ENodeId id : useful_) {
    for (const ClassId output : graph_.outputs(id)) {
      if (output == kNoClass) continue;
      const ClassId made = graph_.find(output);
      std::set<ClassId> reads;
      for_each_read(id, [&](ClassId read) {
        if (read != made && !is_given(read) && component[read] == component[made]) reads.insert(read);
      });
      const auto most = static_cast<double>(sizes[component[made]]);
      for (const ClassId read : reads)
        program.add_row(1 - most, IntegerProgram::kInfinite, {{place_of(made), 1}, {place_of(read), -1}, {chosen[id], -most}});
    }
  }
  // Savings: between 0 and 1, and as large as what they rest on.
  std::vector<int> saved(problem_.savings.size(), -1);
  std::vector<std::vector<std::pair<int, double>>> spent(graph_.node_count());
  for (std::size_t s = 0; s < problem_.savings.size(); ++s) {
    const Saving& saving = problem_.savings[s];
    bool possible = true;
    for (const ENodeId id : saving.nodes) possible = possible && chosen[id] >= 0;
    for (const ClassId inner : saving.inner) possible = possible && !is_output_[graph_.find(inner)];
    if (!possible) continue;
    saved[s] = program.add_variable(-saving.seconds * scale, 0, 1, false);
  }
  for (std::size_t s = 0; s < problem_.savings.size(); ++s) {
    if (saved[s] < 0) continue;
    const Saving& saving = problem_.savings[s];
    for (const ENodeId id : saving.nodes) program.add_row(0, IntegerProgram::kInfinite, {{chosen[id], 1}, {saved[s], -1}});
    std::set<ENodeId> others;
    for (const ClassId inner : saving.inner)
      for (const ENodeId user : graph_.users(graph_.find(inner)))
        if (chosen[user] >= 0 && std::find(saving.nodes.begin(), saving.nodes.end(), user) == saving.nodes.end())
          others.insert(user);
    for (const ENodeId user : others) program.add_row(-IntegerProgram::kInfinite, 1, {{chosen[user], 1}, {saved[s], 1}});
    if (!saving.one_of.empty()) {
      std::vector<std::pair<int, double>> terms{{saved[s], -1}};
      for (const std::uint32_t other : saving.one_of)
        if (saved[other] >= 0) terms.emplace_back(saved[other], 1);
      program.add_row(0, IntegerProgram::kInfinite, terms);
    }
    for (const ENodeId id : saving.spent) spent[id].emplace_back(saved[s], 1);
  }
  for (const auto& terms : spent)
    if (terms.size() > 1) program.add_row(-IntegerProgram::kInfinite, 1, terms);

  std::vector<double> start(program.variables());
  std::vector<std::uint32_t> depth(graph_.value_count());
  for (const ENodeId id : result.chosen) {
    if (chosen[id] < 0) continue;
    start[static_cast<std::size_t>(chosen[id])] = 1;
    std::uint32_t deepest = 0;
    bool inside = false;
    for (const ClassId output : graph_.outputs(id)) {
      if (output == kNoClass) continue;
      for_each_read(id, [&](ClassId read) {
        if (component[read] != component[graph_.find(output)]) return;
        inside = true;
        deepest = std::max(deepest, depth[read]);
      });
    }
    for (const ClassId output : graph_.outputs(id)) {
      if (output == kNoClass) continue;
      const ClassId made = graph_.find(output);
      depth[made] = std::max(depth[made], inside ? deepest + 1 : 0);
      if (place[made] >= 0) start[static_cast<std::size_t>(place[made])] = depth[made];
    }
  }
  const std::vector<bool> made = savings_of(result.chosen);
  for (std::size_t s = 0; s < made.size(); ++s)
    if (made[s] && saved[s] >= 0) start[static_cast<std::size_t>(saved[s])] = 1;

  const IntegerProgram::Solution solution =
      program.minimize(start, {options.gap, options.nodes, options.seconds, options.seed});
  result.timed_out = solution.timed_out;
  if (solution.status == IntegerProgram::Status::kNothing) return result;
  result.bound = solution.bound / scale;
  result.optimal = solution.status == IntegerProgram::Status::kOptimal;
  std::vector<ENodeId> selected;
  for (const ENodeId id : useful_)
    if (solution.values[static_cast<std::size_t>(chosen[id])] > 0.5) selected.push_back(id);
  std::vector<ENodeId> best = ordered(std::move(selected));
  if (best.empty()) return result;
  if (const double seconds = cost(best); seconds < result.seconds) {
    result.seconds = seconds;
    result.chosen = std::move(best);
  }
  return result;
}

}  // namespace

std::vector<ENodeId> given_choice(const ExtractionProblem& problem) { return Extractor(problem).given(); }
std::vector<ENodeId> greedy_choice(const ExtractionProblem& problem) { return Extractor(problem).greedy(); }
double cost_of(const ExtractionProblem& problem, std::span<const ENodeId> chosen) { return Extractor(problem).cost(chosen); }
Extraction extract(const ExtractionProblem& problem, const ExtractionOptions& options) {
  return Extractor(problem).solve(options);
}

}  // namespace rewright
