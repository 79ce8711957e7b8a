#include "plans/partition/partition.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "optimizer/costs/cost_model.h"
#include "optimizer/integer_program/integer_program.h"
#include "plans/partition/classes.h"

namespace rewright::plans {

namespace {

constexpr double kUnit = 1e3;  // of a second: rows in milliseconds, so that the solver's tolerances are small

double halo_bytes(const TensorType& type, const Need& need) {
  if (need.before + need.after == 0) return 0;
  return bytes_of(type) / static_cast<double>(type.shape[need.holding.axis].value()) *
         static_cast<double>(need.before + need.after);
}

class Program {
 public:
  Program(const Graph& graph, ChoiceFinder& choices, const PartitionOptions& options)
      : graph_(graph), options_(options), classes_(classes_of(graph, kAlikeDistance)) {
    const auto nodes = graph.nodes();
    producers_ = graph.producers();
    first_node_.assign(classes_.nodes, -1), node_count_.assign(classes_.nodes, 0);
    choices_.resize(classes_.nodes);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const std::uint32_t c = classes_.of_node[n];
      if (node_count_[c]++ > 0) continue;
      first_node_[c] = static_cast<std::int32_t>(n);
      choices_[c] = choices.within_reach(graph, producers_, *nodes[n]);
    }
    value_count_.assign(classes_.values, 0), first_value_.assign(classes_.values, kNoValue);
    const auto users = graph.users();
    std::set<ValueId> outputs;
    for (const GraphOutput& o : graph.outputs()) outputs.insert(o.value);
    for (ValueId v = 0; v < graph.value_count(); ++v) {
      if (users[v].empty() && outputs.count(v) == 0) continue;
      if (producers_[v] < 0 && !graph.is_constant(v) && !graph.is_input(v)) continue;
      const std::uint32_t c = classes_.of_value[v];
      if (value_count_[c]++ == 0) first_value_[c] = v;
    }
  }

  Partition solve() {
    add_nodes();
    add_given();
    add_edges();
    add_longest();
    IntegerProgram::Options limits;
    limits.seconds = options_.seconds, limits.seed = options_.seed, limits.nodes = options_.nodes;
    const IntegerProgram::Solution solution = program_.minimize({}, limits);
    Partition result;
    result.classes = classes_.nodes;
    result.bound = solution.bound;
    result.timed_out = solution.timed_out;
    if (solution.values.empty()) return result;
    result.found = true;
    result.proved_best = solution.status == IntegerProgram::Status::kOptimal;
    read(solution.values, result);
    return result;
  }

 private:
  using Terms = std::vector<std::pair<int, double>>;
  // The distributions in which a value may be computed or needed, each with the variables that choose it.
  template <class Way>
  struct Ways {
    std::vector<Way> ways;
    std::vector<Terms> chosen;
    void add(const Way& way, int variable) {
      const auto at = std::find(ways.begin(), ways.end(), way);
      const auto number = static_cast<std::size_t>(at - ways.begin());
      if (at == ways.end()) ways.push_back(way), chosen.emplace_back();
      chosen[number].emplace_back(variable, 1.0);
    }
  };

  // A variable that takes so many seconds where it is chosen.
  int add_timed(double seconds, bool is_integer, Terms& times) {
    const int variable = program_.add_variable(options_.overlapped ? 0 : seconds, 0, 1, is_integer);
    if (options_.overlapped && seconds > 0) times.emplace_back(variable, -seconds * kUnit);
    return variable;
  }

  // The longer one of computing and exchanging.
  void add_longest() {
    if (!options_.overlapped) return;
    const int longest = program_.add_variable(1 / kUnit, 0, IntegerProgram::kInfinite, false);
    for (Terms* times : {&computing_, &exchanging_}) {
      times->emplace_back(longest, 1.0);
      program_.add_row(0, IntegerProgram::kInfinite, *times);
    }
  }

  void add_nodes() {
    for (std::size_t c = 0; c < classes_.nodes; ++c) {
      Terms one;
      auto& variables = node_variables_.emplace_back();
      for (const NodeChoice& choice : choices_[c]) {
        variables.push_back(add_timed(options_.computing * choice.seconds * node_count_[c], true, computing_));
        one.emplace_back(variables.back(), 1.0);
      }
      program_.add_row(1, 1, one);
    }
  }

  void add_given() {
    Terms memory;
    for (std::size_t c = 0; c < classes_.values; ++c) {
      const ValueId v = first_value_[c];
      if (v == kNoValue || producers_[v] >= 0) continue;
      const TensorType& type = graph_.value(v).type;
      Terms one;
      for (const Holding& h : given_holdings(type, v, options_)) {
        const int variable = program_.add_variable(0, 0, 1, true);
        given_[c].emplace_back(h, variable);
        one.emplace_back(variable, 1.0);
        memory.emplace_back(variable, value_count_[c] * held_bytes(type, h, options_.processes) / 1e6);
      }
      program_.add_row(1, 1, one);
    }
    if (options_.memory < std::numeric_limits<double>::infinity() && !memory.empty())
      program_.add_row(-IntegerProgram::kInfinite, options_.memory / 1e6, memory);
  }

  Ways<Holding> sources(std::size_t value_class) {
    Ways<Holding> result;
    const ValueId v = first_value_[value_class];
    if (producers_[v] < 0) {
      for (const auto& [h, variable] : given_[value_class]) result.add(h, variable);
      return result;
    }
    const auto position = static_cast<std::size_t>(producers_[v]);
    const Node& node = *graph_.nodes()[position];
    const auto port = static_cast<std::size_t>(std::find(node.outputs.begin(), node.outputs.end(), v) - node.outputs.begin());
    const std::uint32_t c = classes_.of_node[position];
    for (std::size_t i = 0; i < choices_[c].size(); ++i) result.add(choices_[c][i].gives[port], node_variables_[c][i]);
    return result;
  }

  void add_edges() {
    const auto users = graph_.users();
    for (std::size_t c = 0; c < classes_.values; ++c) {
      const ValueId v = first_value_[c];
      if (v == kNoValue) continue;
      const Ways<Holding> from = sources(c);
      exchanges_.clear();
      std::set<std::pair<std::uint32_t, std::size_t>> seen;
      for (const std::int32_t user : users[v]) {
        const Node& node = *graph_.nodes()[static_cast<std::size_t>(user)];
        const std::uint32_t reader = classes_.of_node[static_cast<std::size_t>(user)];
        for (std::size_t k = 0; k < node.inputs.size(); ++k) {
          if (node.inputs[k] != v || !seen.emplace(reader, k).second) continue;
          Ways<Need> to;
          for (std::size_t i = 0; i < choices_[reader].size(); ++i)
            to.add(choices_[reader][i].needs[k], node_variables_[reader][i]);
          add_edge(v, c, from, to);
        }
      }
      for (std::size_t o = 0; o < graph_.outputs().size(); ++o) {
        if (graph_.outputs()[o].value != v) continue;
        const auto place =
            std::find_if(options_.replaced.begin(), options_.replaced.end(), [&](const auto& pair) { return pair.first == o; });
        Ways<Need> to;
        if (place != options_.replaced.end()) {
          for (const auto& [h, variable] : given_[classes_.of_value[place->second]]) to.add(Need{h}, variable);
        } else {
          if (always_ < 0) always_ = program_.add_variable(0, 1, 1, false);
          to.add(Need{}, always_);
        }
        add_edge(v, c, from, to);
        break;  // outputs of one value want it alike
      }
    }
  }

  // Adds the flow from each holding that the value may be computed in to each in which a reader needs it (the formulation of
  // Kolmogorov and Wainwright for pairwise terms, whose relaxation is tight on trees). Readers that need the same share an
  // exchange.
  void add_edge(ValueId v, std::size_t value_class, const Ways<Holding>& from, const Ways<Need>& to) {
    const TensorType& type = graph_.value(v).type;
    std::vector<Terms> rows(from.ways.size()), columns(to.ways.size());
    for (std::size_t f = 0; f < from.ways.size(); ++f)
      for (std::size_t t = 0; t < to.ways.size(); ++t) {
        const auto cost = edge_seconds(type, from.ways[f], to.ways[t]);
        if (!cost) continue;
        const int flow = program_.add_variable(0, 0, 1, false);
        rows[f].emplace_back(flow, 1.0), columns[t].emplace_back(flow, 1.0);
        if (*cost == 0) continue;
        const auto at = std::find_if(exchanges_.begin(), exchanges_.end(), [&](const auto& known) {
          return known.first.first == from.ways[f] && known.first.second == to.ways[t];
        });
        int exchange = -1;
        if (at == exchanges_.end()) {
          exchange = add_timed(options_.exchanging * *cost * value_count_[value_class], false, exchanging_);
          exchanges_.push_back({{from.ways[f], to.ways[t]}, exchange});
        } else {
          exchange = at->second;
        }
        program_.add_row(0, IntegerProgram::kInfinite, {{exchange, 1.0}, {flow, -1.0}});
      }
    const auto balance = [&](Terms& flows, const Terms& chosen) {
      // A variable may stand on both sides only of different values: a node does not read what it computes.
      for (const auto& [variable, factor] : chosen) flows.emplace_back(variable, -factor);
      program_.add_row(0, 0, flows);
    };
    for (std::size_t f = 0; f < rows.size(); ++f) balance(rows[f], from.chosen[f]);
    for (std::size_t t = 0; t < columns.size(); ++t) balance(columns[t], to.chosen[t]);
  }

  std::optional<double> edge_seconds(const TensorType& type, const Holding& from, const Need& to) const {
    try {
      return exchange_seconds(exchange_for(from, to), bytes_of(type), halo_bytes(type, to), options_);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  void read(const std::vector<double>& values, Partition& result) const {
    const auto nodes = graph_.nodes();
    const auto chosen = [&](int variable) { return values[static_cast<std::size_t>(variable)] > 0.5; };
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const std::uint32_t c = classes_.of_node[n];
      for (std::size_t i = 0; i < choices_[c].size(); ++i)
        if (chosen(node_variables_[c][i])) {
          result.nodes.push_back(choices_[c][i]);
          break;
        }
    }
    result.given.resize(graph_.value_count());
    for (ValueId v = 0; v < graph_.value_count(); ++v) {
      const auto at = given_.find(classes_.of_value[v]);
      if (producers_[v] >= 0 || at == given_.end()) continue;
      for (const auto& [h, variable] : at->second)
        if (chosen(variable)) result.given[v] = h;
      result.given_bytes += held_bytes(graph_.value(v).type, result.given[v], options_.processes);
    }
  }

  const Graph& graph_;
  const PartitionOptions& options_;
  Classes classes_;
  IntegerProgram program_;
  std::vector<std::int32_t> first_node_, producers_;
  std::vector<double> node_count_, value_count_;
  std::vector<ValueId> first_value_;  // of each class
  std::vector<std::vector<NodeChoice>> choices_;
  std::vector<std::vector<int>> node_variables_;
  std::map<std::size_t, std::vector<std::pair<Holding, int>>> given_;  // by class of value
  std::vector<std::pair<std::pair<Holding, Need>, int>> exchanges_;    // of the value at hand
  Terms computing_, exchanging_;                                       // of all variables with a time; milliseconds
  int always_ = -1;
};

}  // namespace

std::vector<Holding> given_holdings(const TensorType& type, ValueId value, const PartitionOptions& options) {
  std::vector<Holding> result;
  const auto add = [&](const Holding& h) {
    if (!options.allowed || options.allowed(value, h)) result.push_back(h);
  };
  add(whole());
  for (std::size_t a = 0; a < type.rank(); ++a) {
    const std::int64_t rows = type.shape[a].value();
    if (rows >= options.processes && (!options.alike || rows % options.processes == 0))
      add(cut_along(a, 1, rows, options.processes, rows));
  }
  return result;
}

double exchange_seconds(Exchange exchange, double bytes, double halo_bytes, const PartitionOptions& options) {
  const auto p = static_cast<double>(options.processes);
  const double a = options.latency, b = options.seconds_per_byte;
  // Messages that wait for each other, to gather or to reduce to parts.
  const double rounds = distribution::in_pairs(static_cast<std::size_t>(options.processes), bytes) ? std::log2(p) : p - 1;
  switch (exchange) {
    case Exchange::kNone:
      return 0;
    case Exchange::kAllGather:
    case Exchange::kReduceScatter:
      return rounds * a + (p - 1) * b * bytes / p;
    case Exchange::kAllReduce:
      return 2 * (rounds * a + (p - 1) * b * bytes / p);
    case Exchange::kAllToAll:
      return (p - 1) * (a + b * bytes / (p * p));
    case Exchange::kHalo:
      return a + b * halo_bytes;
  }
  return 0;
}

std::vector<PlannedExchange> exchanges_of(const Graph& graph, const Partition& partition, const PartitionOptions& options) {
  std::vector<Holding> held = partition.given;
  held.resize(graph.value_count());
  std::vector<PlannedExchange> result;
  const auto need = [&](ValueId v, const Need& to, std::int32_t reader) {
    const Exchange exchange = exchange_for(held[v], to);
    if (exchange == Exchange::kNone) return;
    const bool is_known =
        std::any_of(result.begin(), result.end(), [&](const PlannedExchange& e) { return e.value == v && e.to == to; });
    if (!is_known) result.push_back({v, held[v], to, exchange, reader});
  };
  const auto nodes = graph.nodes();
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = *nodes[n];
    for (std::size_t k = 0; k < node.inputs.size(); ++k) try {
        if (node.inputs[k] != kNoValue) need(node.inputs[k], partition.nodes.at(n).needs.at(k), static_cast<std::int32_t>(n));
      } catch (const Error& e) {
        throw Error(ErrorCode::kBadInput, "node " + std::to_string(n) + " (" + (node.op ? node.op->name() : "opaque") +
                                              "), operand " + std::to_string(k) + ": " + e.what());
      }
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      if (node.outputs[o] != kNoValue) held[node.outputs[o]] = partition.nodes.at(n).gives.at(o);
  }
  for (std::size_t o = 0; o < graph.outputs().size(); ++o) {
    Need to;
    for (const auto& [output, value] : options.replaced)
      if (output == o) to.holding = partition.given.at(value);
    need(graph.outputs()[o].value, to, -1);
  }
  return result;
}

Partition with_seconds(Partition partition, const Graph& graph, std::int64_t processes, const OperatorSeconds& seconds) {
  for (std::size_t n = 0; n < partition.nodes.size(); ++n)
    if (const Node& node = *graph.nodes()[n]; node.op)
      partition.nodes[n].seconds = choice_seconds(node, graph.operand_types(node), partition.nodes[n], processes, seconds);
  return partition;
}

Partition partition(const Graph& graph, ChoiceFinder& choices, const PartitionOptions& options) {
  Partition result = Program(graph, choices, options).solve();
  if (!result.found) return result;
  for (const NodeChoice& c : result.nodes) result.seconds += c.seconds;
  for (const PlannedExchange& e : exchanges_of(graph, result, options)) {
    const TensorType& type = graph.value(e.value).type;
    result.exchange_seconds += exchange_seconds(e.exchange, bytes_of(type), halo_bytes(type, e.to), options);
  }
  result.seconds += result.exchange_seconds;
  return result;
}

}  // namespace rewright::plans
