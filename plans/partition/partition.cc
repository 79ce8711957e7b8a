#include "plans/partition/partition.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/error.h"
#include "optimizer/costs/cost_model.h"
#include "optimizer/integer_program/integer_program.h"
#include "plans/partition/chains.h"
#include "plans/partition/classes.h"
#include "plans/partition/labels.h"
#include "plans/partition/moved_shares.h"

namespace rewright::plans {

namespace {

// The share of the time to find where the program's search begins, the least seconds, and those where nothing is found in
// these.
constexpr double kStarting = 0.3, kLeastStarting = 0.2, kMostStarting = 2;
// Chains are added to the program in so many rounds, so many at once, where they are longer by this than what the program
// knows, in this share of the time.
constexpr int kMostRounds = 60, kIdleRounds = 4;
constexpr std::size_t kChainsAtOnce = 20;
constexpr double kLeastLonger = 1e-3, kChaining = 0.6;
constexpr std::size_t kMostChained = 5000;  // nodes, as time and memory are the square of them
constexpr double kUnit = 1e3;               // of a second: rows in milliseconds, so that the solver's tolerances are small

class Program {
 public:
  Program(const Graph& graph, ChoiceFinder& choices, const PartitionOptions& options)
      : graph_(graph), options_(options), classes_(classes_of(graph, kAlikeDistance)) {
    const auto nodes = graph.nodes();
    producers_ = graph.producers();
    const std::vector<double> moved = moved_shares(graph);
    first_node_.assign(classes_.nodes, -1), node_count_.assign(classes_.nodes, 0);
    choices_.resize(classes_.nodes);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const std::uint32_t c = classes_.of_node[n];
      if (node_count_[c]++ > 0) continue;
      first_node_[c] = static_cast<std::int32_t>(n);
      choices_[c] = choices.within_reach(graph, producers_, *nodes[n], moved[n]);
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
    number_labels();
    add_nodes();
    add_given();
    if (cannot_be_held_) return {};
    add_edges();
    IntegerProgram::Options limits;
    limits.seconds = options_.seconds, limits.seed = options_.seed, limits.nodes = options_.nodes;
    const auto begin = std::chrono::steady_clock::now();
    std::vector<double> start;
    if (options_.overlapped)
      add_longest(), add_chains();
    else
      start = good_start(options_.quick ? limits.seconds : std::max(kStarting * limits.seconds, kLeastStarting));
    if (options_.quick && !options_.overlapped) return start.empty() ? Partition{} : chosen(start);
    if (start.empty() && !options_.overlapped && kStarting * limits.seconds < kMostStarting) start = good_start(kMostStarting);
    limits.seconds -= std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    IntegerProgram::Solution solution = program_.minimize(start, limits);
    Partition result;
    if (solution.values.empty()) solution.values = start;
    if (!solution.values.empty()) result = chosen(solution.values);
    result.classes = classes_.nodes;
    result.bound = std::max(solution.bound, relaxed_bound_);
    result.timed_out = solution.timed_out;
    result.proved_best = result.found && solution.status == IntegerProgram::Status::kOptimal;
    return result;
  }

 private:
  Partition chosen(const std::vector<double>& values) const {
    Partition result;
    result.classes = classes_.nodes;
    result.found = true;
    read(values, result);
    return result;
  }

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

  // The longer one of computing and exchanging, or their sum.
  void add_longest() {
    longest_ = program_.add_variable(1 / kUnit, 0, IntegerProgram::kInfinite, false);
    if (!options_.beside) {
      Terms all = computing_;
      all.insert(all.end(), exchanging_.begin(), exchanging_.end());
      all.emplace_back(longest_, 1.0);
      program_.add_row(0, IntegerProgram::kInfinite, all);
      return;
    }
    for (Terms* times : {&computing_, &exchanging_}) {
      times->emplace_back(longest_, 1.0);
      program_.add_row(0, IntegerProgram::kInfinite, *times);
    }
  }

  // And the chains of nodes that wait for each other: the longest ones of the relaxed program's solution, as long as they are
  // longer than what the program knows.
  void add_chains() {
    if (graph_.nodes().size() > kMostChained) return;
    const auto begin = std::chrono::steady_clock::now();
    const Chains chains(graph_);
    IntegerProgram::Options limits;
    limits.seed = options_.seed, limits.relaxed = true;
    for (int k = 0, idle = 0; k < kMostRounds && idle < kIdleRounds; ++k) {
      const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      limits.seconds = kChaining * options_.seconds - passed;
      if (limits.seconds <= 0) return;
      const IntegerProgram::Solution solution = program_.minimize({}, limits);
      if (solution.status != IntegerProgram::Status::kOptimal) return;
      idle = solution.cost > relaxed_bound_ * (1 + kLeastLonger) ? 0 : idle + 1;
      relaxed_bound_ = std::max(relaxed_bound_, solution.cost);
      const auto seconds = [&](const Terms& terms) {
        double sum = 0;
        for (const auto& [variable, factor] : terms) sum += factor * solution.values[static_cast<std::size_t>(variable)];
        return sum / kUnit;
      };
      const std::vector<Chain> found = chains.longest([&](std::size_t n) { return seconds(node_times(n)); },
                                                      [&](const ChainLink& link) { return seconds(link_times(link)); },
                                                      solution.cost * (1 + kLeastLonger), kChainsAtOnce);
      for (const Chain& chain : found) add_chain(chain);
      if (found.empty()) return;
    }
  }

  void add_chain(const Chain& chain) {
    std::map<int, double> all{{longest_, 1}};
    const auto add = [&](const Terms& terms) {
      for (const auto& [variable, factor] : terms) all[variable] -= factor;
    };
    for (const std::size_t n : chain.nodes) add(node_times(n));
    for (const ChainLink& link : chain.links) add(link_times(link));
    program_.add_row(0, IntegerProgram::kInfinite, Terms(all.begin(), all.end()));
  }

  // Milliseconds of one node, or of one value's exchange, by variable.
  Terms node_times(std::size_t n) const {
    Terms result;
    const std::uint32_t c = classes_.of_node[n];
    for (std::size_t i = 0; i < choices_[c].size(); ++i)
      result.emplace_back(node_variables_[c][i], options_.computing * choices_[c][i].seconds * kUnit);
    return result;
  }
  const Terms& link_times(const ChainLink& link) const {
    static const Terms kNothing;
    const auto at = link_times_.find(link_of(link));
    return at == link_times_.end() ? kNothing : at->second;
  }
  // Links of one class take alike; outputs of one value as well.
  using LinkClass = std::tuple<std::uint32_t, std::int64_t, std::size_t>;
  LinkClass link_of(const ChainLink& link) const {
    const std::uint32_t value = classes_.of_value[link.value];
    if (link.reader == ChainLink::kOutput) return {value, ChainLink::kOutput, 0};
    return {value, classes_.of_node[static_cast<std::size_t>(link.reader)], link.port};
  }

  void add_nodes() {
    for (std::size_t c = 0; c < classes_.nodes; ++c) {
      Terms one;
      auto& variables = node_variables_.emplace_back();
      for (const NodeChoice& choice : choices_[c]) {
        const double seconds = options_.computing * choice.seconds * node_count_[c];
        variables.push_back(add_timed(seconds, true, computing_));
        add_label(labels_of_node(c), variables.back(), seconds);
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
        const double bytes = value_count_[c] * held_bytes(type, h, options_.processes) / 1e6;
        add_label(labels_of_given(c), variable, 0);
        labels_.variables[labels_of_given(c)].bytes.push_back(bytes);
        one.emplace_back(variable, 1.0);
        memory.emplace_back(variable, bytes);
      }
      if (one.empty()) cannot_be_held_ = true;
      program_.add_row(1, 1, one);
    }
    if (options_.memory < std::numeric_limits<double>::infinity() && !memory.empty())
      program_.add_row(-IntegerProgram::kInfinite, options_.memory / 1e6, memory);
    labels_.most_bytes = options_.memory / 1e6;
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
      term_ = {}, needs_.clear();
      std::set<std::pair<std::uint32_t, std::size_t>> seen;
      for (const std::int32_t user : users[v]) {
        const Node& node = *graph_.nodes()[static_cast<std::size_t>(user)];
        const std::uint32_t reader = classes_.of_node[static_cast<std::size_t>(user)];
        for (std::size_t k = 0; k < node.inputs.size(); ++k) {
          if (node.inputs[k] != v || !seen.emplace(reader, k).second) continue;
          Ways<Need> to;
          for (std::size_t i = 0; i < choices_[reader].size(); ++i)
            to.add(choices_[reader][i].needs[k], node_variables_[reader][i]);
          add_edge({v, user, k}, c, from, to);
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
          if (always_ < 0) {
            always_ = program_.add_variable(0, 1, 1, false);
            add_label(labels_.variables.size(), always_, 0);
          }
          to.add(Need{}, always_);
        }
        add_edge({v, ChainLink::kOutput, o}, c, from, to);
        break;  // outputs of one value want it alike
      }
      if (!term_.readers.empty()) labels_.terms.push_back(std::move(term_));
    }
  }

  // Adds the flow from each holding that the value may be computed in to each in which a reader needs it (the formulation of
  // Kolmogorov and Wainwright for pairwise terms, whose relaxation is tight on trees). Readers that need the same share an
  // exchange.
  void add_edge(const ChainLink& link, std::size_t value_class, const Ways<Holding>& from, const Ways<Need>& to) {
    const TensorType& type = graph_.value(link.value).type;
    std::vector<Terms> rows(from.ways.size()), columns(to.ways.size());
    add_reader(type, value_class, from, to);
    const std::size_t edge = edges_.size();
    edges_.push_back({from.chosen, to.chosen});
    for (std::size_t f = 0; f < from.ways.size(); ++f)
      for (std::size_t t = 0; t < to.ways.size(); ++t) {
        const auto cost = edge_seconds(type, from.ways[f], to.ways[t]);
        if (!cost) continue;
        const int flow = program_.add_variable(0, 0, 1, false);
        flows_.push_back({edge, f, t, flow});
        rows[f].emplace_back(flow, 1.0), columns[t].emplace_back(flow, 1.0);
        if (*cost == 0) continue;
        link_times_[link_of(link)].emplace_back(flow, options_.exchanging * *cost * kUnit);
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
        flows_.back().exchange = exchange;
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
      const Exchange exchange = exchange_for(from, to);
      return exchange_seconds(exchange, exchanged_bytes(exchange, type, from, to, options_.processes), options_);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // ---- Where the search begins

  // Given values first, as nodes read them, then nodes in the order of the graph.
  void number_labels() {
    std::vector<std::size_t> order(classes_.nodes);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return first_node_[a] < first_node_[b]; });
    place_of_node_.resize(classes_.nodes);
    for (std::size_t k = 0; k < order.size(); ++k) place_of_node_[order[k]] = classes_.values + k;
    labels_.variables.resize(classes_.values + classes_.nodes);
  }
  std::size_t labels_of_given(std::size_t value_class) const { return value_class; }
  std::size_t labels_of_node(std::size_t node_class) const { return place_of_node_[node_class]; }

  void add_label(std::size_t place, int variable, double seconds) {
    if (place == labels_.variables.size()) labels_.variables.emplace_back();
    label_of_[variable] = {place, labels_.variables[place].costs.size()};
    labels_.variables[place].costs.push_back(seconds);
  }

  template <class Way>
  LabelProgram::Side side(const Ways<Way>& ways, const std::vector<std::size_t>& forms) const {
    LabelProgram::Side result;
    for (std::size_t k = 0; k < ways.ways.size(); ++k)
      for (const auto& [variable, factor] : ways.chosen[k]) {
        const auto [place, label] = label_of_.at(variable);
        result.variable = place;
        result.forms.resize(labels_.variables[place].costs.size());
        result.forms[label] = forms[k];
      }
    return result;
  }

  void add_reader(const TensorType& type, std::size_t value_class, const Ways<Holding>& from, const Ways<Need>& to) {
    if (options_.overlapped) return;
    std::vector<std::size_t> sources(from.ways.size()), forms;
    std::iota(sources.begin(), sources.end(), std::size_t{0});
    term_.costs.resize(from.ways.size());
    for (const Need& need : to.ways) {
      const auto at = std::find(needs_.begin(), needs_.end(), need);
      forms.push_back(static_cast<std::size_t>(at - needs_.begin()));
      if (at != needs_.end()) continue;
      needs_.push_back(need);
      for (std::size_t f = 0; f < from.ways.size(); ++f) {
        const auto cost = edge_seconds(type, from.ways[f], need);
        term_.costs[f].push_back(cost ? options_.exchanging * *cost * value_count_[value_class]
                                      : std::numeric_limits<double>::infinity());
      }
    }
    term_.source = side(from, sources);
    term_.readers.push_back(side(to, forms));
  }

  // Values of all variables; empty where no labels are found.
  std::vector<double> good_start(double seconds) const {
    // Classes of values that are computed have no labels of their own.
    LabelProgram labels = labels_;
    for (LabelProgram::Variable& variable : labels.variables)
      if (variable.costs.empty()) variable.costs.push_back(0);
    const std::vector<std::size_t> chosen = good_labels(labels, seconds);
    std::vector<double> values(chosen.empty() ? 0 : program_.variables());
    if (chosen.empty()) return values;
    for (const auto& [variable, label] : label_of_)
      if (chosen[label.first] == label.second) values[static_cast<std::size_t>(variable)] = 1;
    const auto is_chosen = [&](const Terms& terms) {
      return std::any_of(terms.begin(), terms.end(),
                         [&](const auto& t) { return values[static_cast<std::size_t>(t.first)] > 0; });
    };
    for (const Flow& flow : flows_) {
      if (!is_chosen(edges_[flow.edge].first[flow.from]) || !is_chosen(edges_[flow.edge].second[flow.to])) continue;
      values[static_cast<std::size_t>(flow.variable)] = 1;
      if (flow.exchange >= 0) values[static_cast<std::size_t>(flow.exchange)] = 1;
    }
    return values;
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
  std::map<LinkClass, Terms> link_times_;                              // of flows; milliseconds
  double relaxed_bound_ = 0;
  int always_ = -1, longest_ = -1;
  bool cannot_be_held_ = false;  // a given value, in any way that is allowed

  // A variable that moves a value from one of its ways to one that is needed.
  struct Flow {
    std::size_t edge = 0, from = 0, to = 0;
    int variable = -1, exchange = -1;
  };
  std::vector<Flow> flows_;
  std::vector<std::pair<std::vector<Terms>, std::vector<Terms>>> edges_;  // what chooses the ways of both sides
  LabelProgram labels_;
  LabelProgram::Term term_;                                      // of the value at hand
  std::vector<Need> needs_;                                      // its forms in it
  std::vector<std::size_t> place_of_node_;                       // in labels_, by class
  std::map<int, std::pair<std::size_t, std::size_t>> label_of_;  // place and label of the program's variables
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

namespace {

double message_seconds(Exchange exchange, double bytes, const PartitionOptions& options) {
  const auto p = static_cast<double>(options.processes);
  const double a = options.latency, b = options.seconds_per_byte;
  // Messages that wait for each other, to gather or to reduce to parts.
  const distribution::ExchangeWay way = distribution::way_of(static_cast<std::size_t>(options.processes), bytes, options.pairs);
  const double rounds = way == distribution::ExchangeWay::kAtOnce ? p - 1 : std::log2(p);
  switch (exchange) {
    case Exchange::kNone:
      return 0;
    case Exchange::kAllGather:
    case Exchange::kReduceScatter:
      return rounds * a + (p - 1) * b * bytes / p;
    case Exchange::kAllReduce:
      if (way == distribution::ExchangeWay::kWhole) return rounds * (a + b * bytes);
      return 2 * (rounds * a + (p - 1) * b * bytes / p);
    case Exchange::kAllToAll:
      return p > 1 ? a + (p - 1) * options.all_to_all * b * bytes / (p * p) : 0;
    case Exchange::kHalo:
      return a + b * bytes;
  }
  return 0;
}

}  // namespace

double exchange_seconds(Exchange exchange, double bytes, const PartitionOptions& options) {
  if (exchange == Exchange::kNone || options.processes < 2) return 0;
  return options.exchange_seconds + message_seconds(exchange, bytes, options);
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
  const std::vector<double> moved = moved_shares(graph);
  for (std::size_t n = 0; n < partition.nodes.size(); ++n)
    if (const Node& node = *graph.nodes()[n]; node.op)
      partition.nodes[n].seconds =
          choice_seconds(node, graph.operand_types(node), partition.nodes[n], processes, seconds, moved[n]);
  return partition;
}

Partition partition(const Graph& graph, ChoiceFinder& choices, const PartitionOptions& options) {
  Partition result = Program(graph, choices, options).solve();
  if (!result.found) return result;
  for (const NodeChoice& c : result.nodes) result.seconds += c.seconds;
  for (const PlannedExchange& e : exchanges_of(graph, result, options)) {
    const double bytes = exchanged_bytes(e.exchange, graph.value(e.value).type, e.from, e.to, options.processes);
    result.exchange_seconds += exchange_seconds(e.exchange, bytes, options);
  }
  result.seconds += result.exchange_seconds;
  return result;
}

}  // namespace rewright::plans
