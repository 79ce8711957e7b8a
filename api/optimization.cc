#include "api/optimization.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "api/choices.h"
#include "api/devices.h"
#include "api/options.h"
#include "api/rule_files.h"
#include "report/report.h"
#include "runtime/cpu/evaluator.h"

namespace rewright {

namespace {

using Kind = OptimizationOption::Kind;
using Request = OptimizationRequest;
using Text = const std::string&;

Error not_possible(const std::string& value, const std::string& what) {
  return Error(ErrorCode::kUsage, "\"" + value + "\" is no " + what);
}

// How a value is written: what it is called, its text, and the value of a text.
template <class T>
struct Written {
  std::string type;
  std::function<std::string(const T&)> text;
  std::function<T(Text)> read;
};

Written<std::string> text(std::string type) {
  const auto same = [](Text v) { return v; };
  return {std::move(type), same, same};
}

template <class T>
Written<T> choice(const Choices<T>& choices) {
  return {choices.names("|"), [&](const T& v) { return std::string(choices.name(v)); },
          [&](Text v) { return choices.value(v); }};
}

Written<double> number(double least, double most) {
  const auto read = [=](Text v) {
    std::size_t used = 0;
    double result = 0;
    try {
      result = std::stod(v, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used == 0 || used != v.size() || !(result >= least && result <= most))
      throw not_possible(v, "number from " + std::to_string(least) + " to " + std::to_string(most));
    return result;
  };
  return {"NUMBER",
          [](double v) {
            std::ostringstream out;
            out << v;
            return out.str();
          },
          read};
}

template <class Integer>
Written<Integer> count(std::string type = "N", Integer least = 0) {
  const auto read = [=](Text v) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    std::size_t used = 0;
    std::int64_t result = -1;
    try {
      result = std::stoll(v, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used == 0 || used != v.size() || result < static_cast<std::int64_t>(least) || result > kMost ||
        !std::in_range<Integer>(result))
      throw not_possible(v, "whole number from " + std::to_string(least) + " on");
    return static_cast<Integer>(result);
  };
  return {std::move(type), [](Integer v) { return std::to_string(v); }, read};
}

Written<double> time() { return {"TIME", seconds_text, parse_seconds}; }
Written<std::size_t> bytes() { return {"BYTES", bytes_text, parse_bytes}; }

template <class T, class Member>
OptimizationOption option(std::string_view name, const Written<T>& written, Member member, std::string_view description) {
  Request initial;
  return {name,         Kind::kText,
          written.type, written.text(member(initial)),
          description,  [=](Request& r, Text v) { member(r) = written.read(v); }};
}

// `negated`: the member is what the option denies.
template <class Member>
OptimizationOption flag(std::string_view name, Member member, std::string_view description, bool negated = false) {
  Request initial;
  return {name,        Kind::kFlag,
          {},          std::string(truth_choices().name(member(initial) != negated)),
          description, [=](Request& r, Text v) { member(r) = truth_choices().value(v) != negated; }};
}

template <class Member>
OptimizationOption list(std::string_view name, std::string type, Member member, std::string_view description,
                        void (*check)(Text) = nullptr) {
  return {name, Kind::kList, std::move(type), {}, description, [=](Request& r, Text v) {
            if (check) check(v);
            member(r).push_back(v);
          }};
}

template <std::size_t kCount>
std::vector<OptimizationOption> all_of(OptimizationOption (&&options)[kCount]) {
  return {std::make_move_iterator(std::begin(options)), std::make_move_iterator(std::end(options))};
}

#define MEMBER(path) \
  [](Request & r) -> auto& { return r.path; }

const std::vector<OptimizationOption>& options_of_requests() {
  static const std::vector<OptimizationOption> kOptions = all_of({
      option("device", text("cpu|cuda[:N]|onnxruntime|profile:FILE"), MEMBER(device),
             "what it is to be fast on (default: cuda where there is one, else cpu)"),
      option("search", choice(strategy_choices()), MEMBER(optimize.strategy), "how equivalent graphs are searched"),
      option("alpha", number(1, 10), MEMBER(optimize.alpha), "how much worse than the best a graph on the way may be"),
      option("budget", time(), MEMBER(optimize.budget_seconds), "time for the search"),
      option("memory", bytes(), MEMBER(optimize.memory), "memory for the search"),
      list("rules", "FILE", MEMBER(rules), "rule databases (default: the shipped one)"),
      flag("unproved", MEMBER(unproved), "also use rules without a proof: the result may compute something else"),
      option("math", choice(math_choices()), MEMBER(optimize.math), "what may change in floating point"),
      option(
          "kernels", choice(kernel_choices()), MEMBER(kernels),
          "how convolutions are chosen on the CPU: estimated (the same bits everywhere), cached (as measured here before) or "
          "measured (what is missing as well)"),
      option("objective", choice(objective_choices()), MEMBER(optimize.objective),
             "what is to be little: latency, memory (its peak), energy-proxy (bytes moved)"),
      list("shape", "NAME=SIZES", MEMBER(shapes), "a size to optimize for, NAME=1x3x224x224",
           [](Text v) { parse_shapes({v}); }),
      flag("for-training", MEMBER(optimize.for_training), "weights are variables: only rules that keep their gradients"),
      option("check", count<int>(), MEMBER(optimize.check_runs), "random inputs on which both are compared (0: none)"),
      flag("no-timing", MEMBER(optimize.time_graphs), "choose by predicted cost: operators are timed, whole graphs are not",
           true),
      flag("estimate", MEMBER(optimize.measure), "choose by estimates with the same rates on every machine: nothing is timed",
           true),
      option("fold-limit", bytes(), MEMBER(optimize.fold.max_bytes),
             "folded constants larger than this must not grow the file"),
      option("region-nodes", count<std::size_t>("N", 2), MEMBER(optimize.search.region_nodes),
             "nodes of the graph that are searched as one"),
      option("region-graphs", count<std::size_t>(), MEMBER(optimize.search.max_graphs),
             "graphs a region is searched for, in backtracking"),
      option("patience", count<std::size_t>(), MEMBER(optimize.search.patience),
             "graphs a region is searched for without gain, in backtracking"),
      option("e-nodes", count<std::size_t>(), MEMBER(optimize.search.saturation.saturation.nodes),
             "size of a region's e-graph, in saturation"),
      option("extraction-nodes", count<std::int64_t>(), MEMBER(optimize.search.saturation.extraction.nodes),
             "branch-and-bound nodes of the extraction from it"),
      option("extraction-iterations", count<std::int64_t>(), MEMBER(optimize.search.saturation.extraction.iterations),
             "simplex iterations of the extraction"),
      option("saturation-share", number(0, 1), MEMBER(optimize.search.saturation_share), "of the time, in auto"),
      option("seed", count<std::uint64_t>("S"), MEMBER(optimize.seed), "seed of everything random"),
      option("threads", count<int>(), MEMBER(threads), "threads to use (0: all cores)"),
  });
  return kOptions;
}

#undef MEMBER

nlohmann::json facts_of(const OptimizeReport& r, const std::string& input, const std::string& output) {
  nlohmann::json rules = nlohmann::json::array(), opaque = nlohmann::json::array();
  for (const AppliedRule& rule : r.rules_applied) rules.push_back({{"rule", rule.rule}, {"where", rule.where}});
  nlohmann::json pareto = nlohmann::json::array();
  for (const FrontPoint& point : r.front)
    pareto.push_back({{"latency_ms", point.quantities.seconds * 1e3},
                      {"peak_bytes", std::llround(point.quantities.peak_bytes)},
                      {"rewrites", point.rewrites}});
  for (const OpaqueNode& node : r.opaque) opaque.push_back({{"node", node.node}, {"reason", node.reason}});
  return {
      {"input", input},
      {"output", output},
      {"device", r.device},
      {"search",
       {{"strategy", r.strategy},
        {"stop_reason", r.stop_reason},
        {"seconds", r.search_seconds},
        {"graphs_explored", r.graphs_explored},
        {"e_nodes", r.e_nodes},
        {"operators_measured", r.operators_measured},
        {"rules_applied", rules}}},
      {"objective", r.objective},
      {"predicted_peak_bytes",
       {{"before", std::llround(r.quantities_before.peak_bytes)}, {"after", std::llround(r.quantities_after.peak_bytes)}}},
      {"predicted_moved_bytes",
       {{"before", std::llround(r.quantities_before.moved_bytes)}, {"after", std::llround(r.quantities_after.moved_bytes)}}},
      {"pareto", pareto},
      {"predicted_ms", {{"before", r.predicted_before * 1e3}, {"after", r.predicted_after * 1e3}}},
      {"measured_ms", {{"before", r.measured_before * 1e3}, {"after", r.measured_after * 1e3}}},
      {"speedup", r.speedup},
      {"changed", r.changed},
      {"outcome", r.outcome},
      {"nodes", {{"before", r.nodes_before}, {"after", r.nodes_after}, {"opaque", opaque}}},
      {"check",
       {{"runs", r.check.runs},
        {"max_abs_error", r.check.max_abs_error},
        {"max_rel_error", r.check.max_rel_error},
        {"ok", r.check.ok},
        {"note", r.check.note}}},
      {"peak_bytes", r.peak_bytes}};
}

}  // namespace

std::span<const OptimizationOption> optimization_options() { return options_of_requests(); }

const OptimizationOption& optimization_option(std::string_view name) {
  const auto& all = options_of_requests();
  const auto found = std::find_if(all.begin(), all.end(), [&](const OptimizationOption& o) { return o.name == name; });
  if (found != all.end()) return *found;
  std::string names;
  for (const OptimizationOption& o : all) names += (names.empty() ? "" : ", ") + std::string(o.name);
  throw Error(ErrorCode::kUsage, "there is no option \"" + std::string(name) + "\"", {}, "there are " + names);
}

void set_option(OptimizationRequest& request, std::string_view name, const std::string& value) {
  const OptimizationOption& option = optimization_option(name);
  try {
    option.set(request, value);
  } catch (const Error& error) {
    throw error.within("option " + std::string(name));
  }
}

Optimization run_optimization(const Graph& graph, const OptimizationRequest& request, const std::string& input,
                              const std::string& output, bool with_page, std::stop_token cancel,
                              const std::function<void(const OptimizeProgress&)>& progress) {
  const int threads = usable_threads(request.threads);
  std::vector<Rule> rules = read_proved_rules(request.rules, request.unproved);
  rules.insert(rules.end(), request.more_rules.begin(), request.more_rules.end());
  if (!request.more_rules.empty()) rules = RuleSet(std::move(rules)).rules();  // names are unique
  OptimizeOptions options = request.optimize;
  options.sizes = symbol_sizes(graph, parse_shapes(request.shapes));
  options.cancel = std::move(cancel);
  options.search.threads = threads;
  std::unique_ptr<Device> device =
      make_device(request.device.empty() ? default_device() : request.device, threads, options.math, request.kernels);
  if (request.price) device = make_priced_device(request.price, std::move(device));
  const std::unique_ptr<Evaluator> evaluator = make_cpu_evaluator(threads);
  CostDatabase database(CostDatabase::default_file());
  std::vector<std::pair<double, double>> curve;
  const auto start = std::chrono::steady_clock::now();
  options.progress = [&](const OptimizeProgress& p) {
    if (p.predicted_seconds > 0 && (curve.empty() || p.predicted_seconds < curve.back().second))
      curve.emplace_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), p.predicted_seconds);
    if (progress) progress(p);
  };
  Optimization done{optimize(graph, rules, *device, *evaluator, &database, options), {}, {}};
  done.facts = facts_of(done.result.report, input, output).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (with_page) {
    if (!curve.empty())
      curve.emplace_back(std::max(curve.back().first, done.result.report.search_seconds), curve.back().second);
    done.page = report_page({graph, done.result, rules, options, std::move(curve), done.facts}, *device, &database, *evaluator);
  }
  return done;
}

}  // namespace rewright
