#include "runtime/training/graphs/rematerialization.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <nlohmann/json.hpp>
#include "base/error.h"
#include "optimizer/integer_program/integer_program.h"

namespace rewright::training {

namespace {

constexpr double kMega = 1e-6;  // units of bytes and seconds that suit the solver
constexpr double kMilli = 1e3;
constexpr std::size_t kMostVariables = 8000;
constexpr int kMostStages = 40, kFewestStages = 4;
constexpr int kAttempts = 6;
constexpr double kNearly = 0.96;  // this share of the budget is close enough

using Problem = RecomputationProblem;

// The values in memory at the beginning of each stage, and the units recomputed then.
struct Schedule {
  std::vector<std::vector<char>> kept, again;  // [stage][value], [stage][unit]
};

double peak_of(const Problem& problem, const Schedule& s) {
  double peak = 0;
  for (const auto& moment : problem.moments) {
    double bytes = moment.fixed_bytes;
    for (std::size_t v = 0; v < problem.values.size(); ++v) {
      const auto& value = problem.values[v];
      if (moment.stage < 0) {
        if (value.last_in_forward < moment.position && s.kept[0][v]) bytes += value.bytes;
        continue;
      }
      const auto t = static_cast<std::size_t>(moment.stage);
      const bool needed = value.last_in_stage[t] >= moment.position || moment.position == problem.stage_start[t];
      const bool in_memory =
          needed ? s.kept[t][v] || s.again[t][static_cast<std::size_t>(value.unit)] : t + 1 < s.kept.size() && s.kept[t + 1][v];
      if (in_memory) bytes += value.bytes;
    }
    peak = std::max(peak, bytes);
  }
  return peak;
}

double seconds_of(const Problem& problem, const Schedule& s) {
  double sum = 0;
  for (const auto& stage : s.again)
    for (std::size_t u = 0; u < problem.units.size(); ++u) sum += stage[u] ? problem.units[u].seconds : 0;
  return sum;
}

// Keeps values until their last use. Dropped ones are recomputed in a stage that reads them, and stay if the next stage reads
// them too.
Schedule schedule_without(const Problem& problem, const std::vector<char>& dropped) {
  const std::size_t stages = problem.stage_start.size(), values = problem.values.size();
  Schedule s{std::vector<std::vector<char>>(stages, std::vector<char>(values)),
             std::vector<std::vector<char>>(stages, std::vector<char>(problem.units.size()))};
  std::vector<int> last_read(values, -1);
  std::vector<std::vector<char>> held(stages, std::vector<char>(values));
  for (std::size_t t = 0; t < stages; ++t) {
    std::vector<char>& here = held[t];
    for (std::size_t v = 0; v < values; ++v) {
      const bool from_before = t == 0       ? !dropped[v]
                               : dropped[v] ? held[t - 1][v] && problem.values[v].last_in_stage[t] >= 0
                                            : true;
      here[v] = from_before && problem.values[v].last_stage >= static_cast<int>(t);
      s.kept[t][v] = here[v];
    }
    std::vector<int> open;
    for (std::size_t v = 0; v < values; ++v)
      if (problem.values[v].last_in_stage[t] >= 0) open.push_back(static_cast<int>(v));
    while (!open.empty()) {
      const auto v = static_cast<std::size_t>(open.back());
      open.pop_back();
      last_read[v] = static_cast<int>(t);
      if (here[v]) continue;
      const auto unit = static_cast<std::size_t>(problem.values[v].unit);
      s.again[t][unit] = 1;
      for (const int made : problem.units[unit].makes) here[static_cast<std::size_t>(made)] = 1;
      for (const int read : problem.units[unit].reads) open.push_back(read);
    }
  }
  for (std::size_t t = 0; t < stages; ++t)
    for (std::size_t v = 0; v < values; ++v)
      if (!dropped[v] && last_read[v] < static_cast<int>(t)) s.kept[t][v] = 0;
  return s;
}

// Heuristic schedules: dropping more and more of the values that are cheapest to recompute for their bytes, or all but every
// n-th value.
std::vector<Schedule> simple_schedules(const Problem& problem) {
  std::vector<int> order;
  for (std::size_t v = 0; v < problem.values.size(); ++v)
    if (problem.units[static_cast<std::size_t>(problem.values[v].unit)].repeatable && problem.values[v].last_stage >= 0)
      order.push_back(static_cast<int>(v));
  const auto rate = [&](int v) {
    const auto& value = problem.values[static_cast<std::size_t>(v)];
    return problem.units[static_cast<std::size_t>(value.unit)].seconds / value.bytes;
  };
  std::vector<int> by_rate = order;
  std::stable_sort(by_rate.begin(), by_rate.end(), [&](int a, int b) { return rate(a) < rate(b); });
  std::vector<Schedule> result;
  const std::size_t part = std::max<std::size_t>(1, by_rate.size() / 40);
  std::vector<char> dropped(problem.values.size());
  result.push_back(schedule_without(problem, dropped));
  for (std::size_t n = 0; n < by_rate.size(); ++n) {
    dropped[static_cast<std::size_t>(by_rate[n])] = 1;
    if ((n + 1) % part == 0 || n + 1 == by_rate.size()) result.push_back(schedule_without(problem, dropped));
  }
  for (std::size_t distance = 2; distance <= order.size(); distance += 1 + distance / 8) {
    std::fill(dropped.begin(), dropped.end(), 0);
    for (std::size_t n = 0; n < order.size(); ++n) dropped[static_cast<std::size_t>(order[n])] = n % distance != 0;
    result.push_back(schedule_without(problem, dropped));
  }
  return result;
}

class Program {
 public:
  // Without a budget, memory is minimized.
  Program(const Problem& problem, std::optional<double> budget) : problem_(problem) {
    const std::size_t stages = problem.stage_start.size();
    kept_.assign(stages, std::vector<int>(problem.values.size(), -1));
    again_.assign(stages, std::vector<int>(problem.units.size(), -1));
    const double price = budget ? 1 : 1e-6;  // breaks ties in memory by time
    for (std::size_t t = 0; t < stages; ++t) {
      for (std::size_t v = 0; v < problem.values.size(); ++v)
        if (problem.values[v].last_stage >= static_cast<int>(t)) kept_[t][v] = program_.add_variable(0, 0, 1, true);
      for (std::size_t u = 0; u < problem.units.size(); ++u) {
        const auto& unit = problem.units[u];
        const bool of_use = std::any_of(unit.makes.begin(), unit.makes.end(),
                                        [&](int v) { return kept_[t][static_cast<std::size_t>(v)] >= 0; });
        if (unit.repeatable && of_use) again_[t][u] = program_.add_variable(price * unit.seconds * kMilli, 0, 1, true);
      }
    }
    if (!budget) memory_ = program_.add_variable(1, 0, IntegerProgram::kInfinite, false);
    for (std::size_t t = 0; t < stages; ++t) add_stage(t);
    for (const auto& moment : problem.moments) add_moment(moment, budget);
  }

  IntegerProgram::Solution minimize(const Schedule* start, double seconds) const {
    IntegerProgram::Options options;
    options.seconds = seconds;
    options.nodes = 100000;
    options.gap = 0.01;
    return program_.minimize(start ? values_of(*start) : std::vector<double>(), options);
  }

  Schedule schedule(const std::vector<double>& solution) const {
    Schedule s{std::vector<std::vector<char>>(kept_.size(), std::vector<char>(problem_.values.size())),
               std::vector<std::vector<char>>(kept_.size(), std::vector<char>(problem_.units.size()))};
    const auto on = [&](int variable) { return variable >= 0 && solution[static_cast<std::size_t>(variable)] > 0.5; };
    for (std::size_t t = 0; t < kept_.size(); ++t) {
      for (std::size_t v = 0; v < kept_[t].size(); ++v) s.kept[t][v] = on(kept_[t][v]);
      for (std::size_t u = 0; u < again_[t].size(); ++u) s.again[t][u] = on(again_[t][u]);
    }
    return s;
  }

 private:
  using Terms = std::vector<std::pair<int, double>>;

  // Adds the variables for a value's presence in memory in a stage.
  void add_presence(Terms& terms, std::size_t t, std::size_t v, double factor) const {
    if (kept_[t][v] >= 0) terms.emplace_back(kept_[t][v], factor);
    const int again = again_[t][static_cast<std::size_t>(problem_.values[v].unit)];
    if (again >= 0) terms.emplace_back(again, factor);
  }

  void add_stage(std::size_t t) {
    for (std::size_t v = 0; v < problem_.values.size(); ++v) {
      Terms here;
      add_presence(here, t, v, 1);
      if (here.size() == 2 || problem_.values[v].last_in_stage[t] >= 0)
        program_.add_row(problem_.values[v].last_in_stage[t] >= 0 ? 1 : 0, 1, here);
      if (t + 1 < kept_.size() && kept_[t + 1][v] >= 0) {
        here.emplace_back(kept_[t + 1][v], -1);
        program_.add_row(0, IntegerProgram::kInfinite, here);
      }
    }
    for (std::size_t u = 0; u < problem_.units.size(); ++u) {
      if (again_[t][u] < 0) continue;
      for (const int read : problem_.units[u].reads) {
        Terms terms;
        add_presence(terms, t, static_cast<std::size_t>(read), 1);
        terms.emplace_back(again_[t][u], -1);
        program_.add_row(0, IntegerProgram::kInfinite, terms);
      }
    }
  }

  void add_moment(const Problem::Moment& moment, std::optional<double> budget) {
    Terms terms;
    for (std::size_t v = 0; v < problem_.values.size(); ++v) {
      const auto& value = problem_.values[v];
      const double bytes = value.bytes * kMega;
      if (moment.stage < 0) {
        if (value.last_in_forward < moment.position && kept_[0][v] >= 0) terms.emplace_back(kept_[0][v], bytes);
        continue;
      }
      const auto t = static_cast<std::size_t>(moment.stage);
      if (value.last_in_stage[t] >= moment.position || moment.position == problem_.stage_start[t])
        add_presence(terms, t, v, bytes);
      else if (t + 1 < kept_.size() && kept_[t + 1][v] >= 0)
        terms.emplace_back(kept_[t + 1][v], bytes);
    }
    std::sort(terms.begin(), terms.end());  // merges terms of units that make several values
    Terms merged;
    for (const auto& [variable, factor] : terms) {
      if (!merged.empty() && merged.back().first == variable)
        merged.back().second += factor;
      else
        merged.emplace_back(variable, factor);
    }
    if (!budget) merged.emplace_back(memory_, -1);
    program_.add_row(-IntegerProgram::kInfinite, (budget.value_or(0) - moment.fixed_bytes) * kMega, merged);
  }

  std::vector<double> values_of(const Schedule& s) const {
    std::vector<double> result(program_.variables());
    const auto set = [&](int variable, char on) {
      if (variable >= 0) result[static_cast<std::size_t>(variable)] = on;
    };
    for (std::size_t t = 0; t < kept_.size(); ++t) {
      for (std::size_t v = 0; v < kept_[t].size(); ++v) set(kept_[t][v], s.kept[t][v]);
      for (std::size_t u = 0; u < again_[t].size(); ++u) set(again_[t][u], s.again[t][u]);
    }
    if (memory_ >= 0) result[static_cast<std::size_t>(memory_)] = peak_of(problem_, s) * kMega;
    return result;
  }

  const Problem& problem_;
  IntegerProgram program_;
  std::vector<std::vector<int>> kept_, again_;  // variables; -1: none
  int memory_ = -1;
};

RecomputationChoice choice_of(const Problem& problem, const Schedule& s) {
  RecomputationChoice result;
  for (std::size_t t = 0; t < s.again.size(); ++t) {
    Recomputation r{problem.stage_start[t], {}};
    for (std::size_t u = 0; u < problem.units.size(); ++u)
      if (s.again[t][u]) r.nodes.insert(r.nodes.end(), problem.units[u].nodes.begin(), problem.units[u].nodes.end());
    if (!r.nodes.empty()) result.recomputations.push_back(std::move(r));
  }
  result.peak_bytes = peak_of(problem, s);
  result.seconds = seconds_of(problem, s);
  return result;
}

}  // namespace

int stages_for(const Graph& graph, std::span<const NodeCost> costs) {
  const RecomputationProblem one = make_recomputation_problem(graph, costs, 1);
  const std::size_t each = std::max<std::size_t>(1, 2 * one.values.size());
  return std::clamp(static_cast<int>(2 * kMostVariables / each), kFewestStages, kMostStages);  // half are of no use
}

std::optional<RecomputationChoice> choose_recomputations(const RecomputationProblem& problem, double budget, double seconds) {
  std::optional<Schedule> start;
  for (Schedule& s : simple_schedules(problem))
    if (peak_of(problem, s) <= budget && (!start || seconds_of(problem, s) < seconds_of(problem, *start))) start = std::move(s);
  if (start && seconds_of(problem, *start) == 0) return choice_of(problem, *start);
  const Program program(problem, budget);
  const IntegerProgram::Solution solution = program.minimize(start ? &*start : nullptr, seconds);
  std::optional<RecomputationChoice> result;
  if (solution.status != IntegerProgram::Status::kNothing) {
    result = choice_of(problem, program.schedule(solution.values));
    result->least = std::max(0.0, solution.bound / kMilli);
  } else if (start) {
    result = choice_of(problem, *start);
  }
  return result;
}

std::optional<RecomputationChoice> choose_least_memory(const RecomputationProblem& problem, double seconds) {
  std::optional<Schedule> start;
  for (Schedule& s : simple_schedules(problem))
    if (!start || peak_of(problem, s) < peak_of(problem, *start)) start = std::move(s);
  const Program program(problem, std::nullopt);
  const IntegerProgram::Solution solution = program.minimize(&*start, seconds);
  if (solution.status != IntegerProgram::Status::kNothing) start = program.schedule(solution.values);
  return choice_of(problem, *start);
}

Rematerialized rematerialize(const Graph& graph, std::vector<NodeCost> costs, std::size_t budget, double seconds,
                             const std::function<std::size_t(const Graph&)>& measure) {
  Rematerialized result{.graph = graph, .peak_before = measure(graph)};
  result.peak_bytes = result.peak_before;
  for (const NodeCost& cost : costs) result.seconds += cost.seconds;
  if (result.peak_bytes <= budget) return result;
  const Graph ordered = in_order_of_execution(graph, costs);
  const Problem problem = make_recomputation_problem(ordered, costs, stages_for(ordered, costs));
  const auto result_of = [&](const RecomputationChoice& choice) {
    Rematerialized r{.graph = with_recomputations(ordered, choice.recomputations).graph,
                     .recomputations = choice.recomputations,
                     .peak_before = result.peak_before,
                     .predicted_bytes = choice.peak_bytes,
                     .seconds = result.seconds,
                     .seconds_again = choice.seconds,
                     .least_seconds_again = choice.least};
    r.peak_bytes = measure(r.graph);
    r.nodes_again = r.graph.nodes().size() - ordered.nodes().size();
    return r;
  };
  // The backend's plan differs from the estimate: it has gaps, scratch memory, results in several layouts, and other fusions.
  // So the program's budget is corrected by the ratio of planned to estimated memory from choice to choice.
  std::optional<Rematerialized> best;
  std::size_t least = result.peak_before;
  double given = static_cast<double>(budget);
  const auto start = std::chrono::steady_clock::now();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double left = seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (attempt > 0 && left <= 0) break;
    std::optional<RecomputationChoice> choice = choose_recomputations(problem, given, std::max(left, 0.0) / 3);
    const bool last = !choice;
    if (last && !best) choice = choose_least_memory(problem, std::max(left, 0.0) / 3);
    if (!choice) break;
    Rematerialized r = result_of(*choice);
    const double taken = static_cast<double>(r.peak_bytes) / static_cast<double>(budget);
    given = choice->peak_bytes / taken * 0.995;
    least = std::min(least, r.peak_bytes);
    const bool keeps = r.peak_bytes <= budget;
    if (keeps && (!best || r.seconds_again < best->seconds_again)) best = std::move(r);
    if (last || (keeps && (taken > kNearly || best->seconds_again == 0))) break;
  }
  if (best) return *std::move(best);
  throw Error(ErrorCode::kBadInput, "a step cannot be computed in " + std::to_string(budget) +
                                        " bytes for intermediate values: it takes " + std::to_string(result.peak_before) +
                                        ", the least that was found is " + std::to_string(least));
}

Rematerialized rematerialize(const Graph& graph, const MemoryBudget& budget, Communicator& processes, const Backend& backend,
                             const SessionOptions& options) {
  const auto estimated = [](const Graph& g) {
    CostOptions for_training;
    for_training.for_training = true;
    return CostModel(nullptr, nullptr, for_training).alone(MatchedGraph(g, true));
  };
  Rematerialized result{.graph = graph};
  std::string message;
  if (processes.rank() == 0) {
    const auto measure = [&](const Graph& g) -> std::size_t {
      const bool is_planned = std::ranges::all_of(g.nodes(), [](const auto& node) { return node->op != nullptr; });
      if (const std::size_t planned = is_planned ? backend.prepare(g, options)->peak_bytes() : 0) return planned;
      std::vector<NodeCost> costs = estimated(g);  // a backend without plans, or that compiles only parts of the graph
      const Graph ordered = in_order_of_execution(g, costs);
      return planned_bytes(ordered, costs);
    };
    result = rematerialize(graph, budget.costs ? budget.costs(graph) : estimated(graph), budget.bytes, budget.seconds, measure);
    nlohmann::json list = nlohmann::json::array();
    for (const Recomputation& r : result.recomputations) list.push_back({r.before, r.nodes});
    message = list.dump();
  }
  processes.broadcast(message, 0);
  if (processes.rank() == 0) return result;
  for (const auto& r : nlohmann::json::parse(message))
    result.recomputations.push_back({r.at(0).get<std::int32_t>(), r.at(1).get<std::vector<std::int32_t>>()});
  if (result.recomputations.empty()) return result;
  std::vector<NodeCost> costs = estimated(graph);
  result.graph = with_recomputations(in_order_of_execution(graph, costs), result.recomputations).graph;
  return result;
}

}  // namespace rewright::training
