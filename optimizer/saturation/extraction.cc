#include "optimizer/saturation/extraction.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "optimizer/integer_program/integer_program.h"
#include "optimizer/saturation/choices.h"

namespace rewright::optimizer {

namespace {

using Terms = std::vector<std::pair<int, double>>;

// The most cycle cuts added in one round.
constexpr std::size_t kCyclesPerRound = 100;

bool has(const std::vector<ENodeId>& nodes, ENodeId id) { return std::find(nodes.begin(), nodes.end(), id) != nodes.end(); }

// A choice as an integer program: a variable for each useful e-node and for each saving. Cycles are forbidden when a solution
// has them: forbidding all at once needs more rows than everything else, and does not tighten the bound.
class ChoiceProgram {
 public:
  ChoiceProgram(const ExtractionProblem& problem, const ENodeChoices& choices, double scale)
      : problem_(problem), graph_(*problem.graph), choices_(choices) {
    variable_.assign(graph_.node_count(), -1);
    for (const ENodeId id : choices_.useful()) variable_[id] = program_.add_variable(problem.seconds[id] * scale, 0, 1, true);
    add_needs();
    add_savings(scale);
    add_short_cycles();
  }

  std::vector<double> values_of(std::span<const ENodeId> chosen) const {
    std::vector<double> values(program_.variables());
    for (const ENodeId id : chosen)
      if (variable_[id] >= 0) values[static_cast<std::size_t>(variable_[id])] = 1;
    const std::vector<bool> made = choices_.savings_of(chosen);
    for (std::size_t s = 0; s < made.size(); ++s)
      if (made[s] && saved_[s] >= 0) values[static_cast<std::size_t>(saved_[s])] = 1;
    return values;
  }

  std::vector<ENodeId> choice_of(const std::vector<double>& values) const {
    std::vector<ENodeId> chosen;
    for (const ENodeId id : choices_.useful())
      if (values[static_cast<std::size_t>(variable_[id])] > 0.5) chosen.push_back(id);
    return chosen;
  }

  IntegerProgram::Solution minimize(std::span<const ENodeId> start, const IntegerProgram::Options& options) const {
    return program_.minimize(values_of(start), options);
  }

  // Forbids cycles of a choice that leaves outputs uncomputed. False if all of its cycles are forbidden already.
  bool forbid_cycles(std::span<const ENodeId> chosen);

 private:
  struct Edge {
    ClassId made;
    ENodeId node;
    ClassId read;
  };

  bool single(ENodeId id) const { return graph_.outputs(id).size() == 1; }

  bool reads(ENodeId id, ClassId wanted) const {
    bool found = false;
    choices_.for_each_read(id, [&](ClassId read) { found = found || read == wanted; });
    return found;
  }

  Terms makers_of(ClassId id) const {
    Terms terms;
    for (const ENodeId maker : graph_.makers(id))
      if (variable_[maker] >= 0) terms.emplace_back(variable_[maker], 1);
    return terms;
  }

  // Outputs are computed, and so are operands of chosen e-nodes. Of two e-nodes that compute the same single class, one
  // suffices.
  void add_needs() {
    std::set<ClassId> read_classes;
    for (const ClassId root : choices_.roots())
      if (!choices_.is_given(root)) {
        program_.add_row(1, IntegerProgram::kInfinite, makers_of(root));
        read_classes.insert(root);
      }
    for (const ENodeId id : choices_.useful()) {
      std::set<ClassId> needed;
      choices_.for_each_read(id, [&](ClassId read) {
        if (!choices_.is_given(read)) needed.insert(read);
      });
      for (const ClassId read : needed) {
        Terms terms = makers_of(read);
        terms.emplace_back(variable_[id], -1);
        program_.add_row(0, IntegerProgram::kInfinite, terms);
      }
      read_classes.merge(needed);
    }
    for (const ClassId id : read_classes) {
      Terms terms;
      for (const ENodeId maker : graph_.makers(id))
        if (variable_[maker] >= 0 && single(maker)) terms.emplace_back(variable_[maker], 1);
      if (terms.size() > 1) program_.add_row(-IntegerProgram::kInfinite, 1, terms);
    }
  }

  void add_savings(double scale);

  // Cycles of length two are forbidden from the beginning.
  void add_short_cycles() {
    for (const ENodeId id : choices_.useful())
      for (const ClassId output : graph_.outputs(id)) {
        if (output == kNoClass) continue;
        const ClassId made = graph_.find(output);
        choices_.for_each_read(id, [&](ClassId read) {
          if (read == made || choices_.is_given(read)) return;
          for (const ENodeId other : graph_.makers(read))
            if (variable_[other] >= 0 && reads(other, made)) forbid({{made, id, read}, {read, other, made}});
        });
      }
  }

  // At most one of the e-nodes that compute only one class is chosen, so all that close the same cycle are counted together.
  bool forbid(const std::vector<Edge>& cycle) {
    std::set<int> variables;
    for (const Edge& edge : cycle) {
      variables.insert(variable_[edge.node]);
      if (!single(edge.node)) continue;
      for (const ENodeId other : graph_.makers(edge.made))
        if (variable_[other] >= 0 && single(other) && reads(other, edge.read)) variables.insert(variable_[other]);
    }
    if (!forbidden_.insert(std::vector<int>(variables.begin(), variables.end())).second) return false;
    Terms terms;
    for (const int variable : variables) terms.emplace_back(variable, 1);
    program_.add_row(-IntegerProgram::kInfinite, static_cast<double>(cycle.size()) - 1, terms);
    return true;
  }

  const ExtractionProblem& problem_;
  const EGraph& graph_;
  const ENodeChoices& choices_;
  IntegerProgram program_;
  std::vector<int> variable_, saved_;  // of e-nodes, of savings; -1: none
  std::set<std::vector<int>> forbidden_;
};

// Savings are between 0 and 1, and at most the variables they depend on. An e-node is used by at most one saving, and only if
// it is chosen.
void ChoiceProgram::add_savings(double scale) {
  saved_.assign(problem_.savings.size(), -1);
  for (std::size_t s = 0; s < problem_.savings.size(); ++s) {
    const Saving& saving = problem_.savings[s];
    bool possible = true;
    for (const ENodeId id : saving.nodes) possible = possible && variable_[id] >= 0;
    for (const ClassId inner : saving.inner) possible = possible && !choices_.is_output(graph_.find(inner));
    if (possible) saved_[s] = program_.add_variable(-saving.seconds * scale, 0, 1, false);
  }
  std::map<ENodeId, Terms> spent;
  std::map<ClassId, std::vector<std::uint32_t>> through;
  for (std::uint32_t s = 0; s < problem_.savings.size(); ++s) {
    if (saved_[s] < 0) continue;
    const Saving& saving = problem_.savings[s];
    for (const ClassId inner : saving.inner) through[graph_.find(inner)].push_back(s);
    for (const ENodeId id : saving.spent) spent[id].emplace_back(saved_[s], -1);
    for (const ENodeId id : saving.nodes)
      if (saving.inner.empty() && !has(saving.spent, id))
        program_.add_row(0, IntegerProgram::kInfinite, {{variable_[id], 1}, {saved_[s], -1}});
    if (saving.one_of.empty()) continue;
    Terms terms{{saved_[s], -1}};
    for (const std::uint32_t other : saving.one_of)
      if (saved_[other] >= 0) terms.emplace_back(saved_[other], 1);
    program_.add_row(0, IntegerProgram::kInfinite, terms);
  }
  for (auto& [id, terms] : spent) {
    terms.emplace_back(variable_[id], 1);
    program_.add_row(0, IntegerProgram::kInfinite, terms);
  }
  // At most one saving through a class is realized: a reader in one of them prevents the others, or would be used twice. So
  // they share their rows.
  for (const auto& [id, savings] : through) {
    for (const ENodeId user : graph_.users(id)) {
      if (variable_[user] < 0) continue;
      Terms terms{{variable_[user], 1}};
      for (const std::uint32_t s : savings)
        if (!has(problem_.savings[s].nodes, user)) terms.emplace_back(saved_[s], 1);
      if (terms.size() > 1) program_.add_row(-IntegerProgram::kInfinite, 1, terms);
    }
    std::map<ENodeId, Terms> resting;
    for (const std::uint32_t s : savings)
      for (const ENodeId node : problem_.savings[s].nodes)
        if (!has(problem_.savings[s].spent, node)) resting[node].emplace_back(saved_[s], -1);
    for (auto& [node, terms] : resting) {
      terms.emplace_back(variable_[node], 1);
      program_.add_row(0, IntegerProgram::kInfinite, terms);
    }
  }
}

bool ChoiceProgram::forbid_cycles(std::span<const ENodeId> chosen) {
  // An e-node is computed once its operands are; the others read an uncomputed class.
  std::vector<bool> made(graph_.value_count());
  std::vector<ENodeId> left(chosen.begin(), chosen.end());
  for (bool changed = true; changed;) {
    changed = false;
    std::erase_if(left, [&](ENodeId id) {
      bool ready = true;
      choices_.for_each_read(id, [&](ClassId read) { ready = ready && (made[read] || choices_.is_given(read)); });
      for (const ClassId output : graph_.outputs(id))
        if (ready && output != kNoClass) made[graph_.find(output)] = true;
      changed = changed || ready;
      return ready;
    });
  }
  std::map<ClassId, std::vector<Edge>> edges;
  for (const ENodeId id : left)
    for (const ClassId output : graph_.outputs(id)) {
      if (output == kNoClass || made[graph_.find(output)]) continue;
      choices_.for_each_read(id, [&](ClassId read) {
        if (!made[read] && !choices_.is_given(read)) edges[graph_.find(output)].push_back({graph_.find(output), id, read});
      });
    }
  // The shortest cycle through each class, by breadth-first search.
  std::size_t forbidden = 0;
  for (const auto& [from, out] : edges) {
    std::map<ClassId, Edge> reached;  // the edge that leads there
    std::vector<ClassId> open{from};
    for (std::size_t next = 0; next < open.size() && !reached.contains(from); ++next) {
      const auto found = edges.find(open[next]);
      if (found == edges.end()) continue;
      for (const Edge& edge : found->second)
        if (reached.emplace(edge.read, edge).second) open.push_back(edge.read);
    }
    if (!reached.contains(from)) continue;
    std::vector<Edge> cycle;
    ClassId at = from;
    do {
      cycle.push_back(reached.at(at));
      at = cycle.back().made;
    } while (at != from);
    forbidden += forbid(cycle);
    if (forbidden == kCyclesPerRound) break;
  }
  return forbidden > 0;
}

void improve_with(Extraction& result, const ENodeChoices& choices, std::vector<ENodeId> chosen) {
  if (chosen.empty()) return;
  const double seconds = choices.cost(chosen);
  if (seconds >= result.seconds) return;
  result.seconds = seconds;
  result.chosen = std::move(chosen);
}

}  // namespace

std::vector<ENodeId> given_choice(const ExtractionProblem& problem) { return ENodeChoices(problem).given(); }
std::vector<ENodeId> greedy_choice(const ExtractionProblem& problem) { return ENodeChoices(problem).greedy(); }
double cost_of(const ExtractionProblem& problem, std::span<const ENodeId> chosen) { return ENodeChoices(problem).cost(chosen); }

Extraction extract(const ExtractionProblem& problem, const ExtractionOptions& options) {
  const ENodeChoices choices(problem);
  Extraction result;
  result.chosen = choices.given();
  result.seconds = choices.cost(result.chosen);
  improve_with(result, choices, choices.greedy());
  result.bound = result.seconds;
  result.optimal = choices.useful().empty();
  if (result.optimal) return result;  // all outputs are inputs or constants
  result.bound = 0;
  const double scale = result.seconds > 0 ? 1000 / result.seconds : 1;  // scaled to suit the solver's tolerances
  ChoiceProgram program(problem, choices, scale);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.seconds);
  IntegerProgram::Options limits{options.gap, options.nodes, options.iterations, options.hopeless, 0, options.seed};
  for (;;) {
    const std::chrono::duration<double> left = end - std::chrono::steady_clock::now();
    limits.seconds = std::max(0.0, left.count());
    const IntegerProgram::Solution solution = program.minimize(result.chosen, limits);
    result.timed_out = solution.timed_out;
    result.iterations += solution.iterations;
    if (solution.status == IntegerProgram::Status::kNothing) return result;
    result.bound = std::min(result.seconds, std::max(result.bound, solution.bound / scale));
    const std::vector<ENodeId> chosen = program.choice_of(solution.values);
    std::vector<ENodeId> ordered = choices.ordered(chosen);
    const bool whole = !ordered.empty();
    // If the solution has cycles, takes the nearest choice without.
    improve_with(result, choices, whole ? std::move(ordered) : choices.greedy(chosen));
    result.optimal = solution.status == IntegerProgram::Status::kOptimal && whole;
    if (result.seconds * (1 - options.gap) <= result.bound) result.optimal = true;
    limits.nodes -= std::min(limits.nodes, solution.nodes);
    limits.iterations -= std::min(limits.iterations, solution.iterations);
    if (result.optimal || result.timed_out || solution.status != IntegerProgram::Status::kOptimal) return result;
    if (!program.forbid_cycles(chosen)) return result;
  }
}

}  // namespace rewright::optimizer
