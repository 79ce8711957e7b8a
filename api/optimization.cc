#include "api/optimization.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "api/devices.h"
#include "api/options.h"
#include "api/rule_files.h"
#include "report/report.h"
#include "runtime/cpu/evaluator.h"

namespace rewright {

namespace {

using Kind = OptimizationOption::Kind;

Error not_possible(const std::string& value, const std::string& what) {
  return Error(ErrorCode::kUsage, "\"" + value + "\" is no " + what);
}

template <class T>
T one_of(const std::map<std::string, T>& choices, const std::string& value) {
  const auto found = choices.find(value);
  if (found != choices.end()) return found->second;
  std::string all;
  for (const auto& choice : choices) all += (all.empty() ? "" : ", ") + choice.first;
  throw Error(ErrorCode::kUsage, "\"" + value + "\" is not possible", {}, "possible are " + all);
}

double number(const std::string& value, double least, double most) {
  std::size_t used = 0;
  double result = 0;
  try {
    result = std::stod(value, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != value.size() || !(result >= least && result <= most))
    throw not_possible(value, "number from " + std::to_string(least) + " to " + std::to_string(most));
  return result;
}

template <class Integer>
Integer count(const std::string& value, Integer least = 0) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::size_t used = 0;
  std::int64_t result = -1;
  try {
    result = std::stoll(value, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != value.size() || result < static_cast<std::int64_t>(least) || result > kMost ||
      !std::in_range<Integer>(result))
    throw not_possible(value, "whole number from " + std::to_string(least) + " on");
  return static_cast<Integer>(result);
}

bool truth(const std::string& value) { return one_of<bool>({{"true", true}, {"false", false}}, value); }

using Request = OptimizationRequest;
using Text = const std::string&;

constexpr OptimizationOption kOptions[] = {
    {"device", Kind::kText, "cpu|cuda[:N]|onnxruntime|profile:FILE", "",
     "what it is to be fast on (default: cuda where there is one, else cpu)", [](Request& r, Text v) { r.device = v; }},
    {"search", Kind::kText, "auto|backtrack|saturate", "auto", "how equivalent graphs are searched",
     [](Request& r, Text v) {
       r.optimize.strategy = one_of<Strategy>(
           {{"auto", Strategy::kAuto}, {"backtrack", Strategy::kBacktrack}, {"saturate", Strategy::kSaturate}}, v);
     }},
    {"alpha", Kind::kText, "NUMBER", "1.05", "how much worse than the best a graph on the way may be",
     [](Request& r, Text v) { r.optimize.alpha = number(v, 1, 10); }},
    {"budget", Kind::kText, "TIME", "18s", "time for the search",
     [](Request& r, Text v) { r.optimize.budget_seconds = parse_seconds(v); }},
    {"memory", Kind::kText, "BYTES", "8G", "memory for the search",
     [](Request& r, Text v) { r.optimize.memory = parse_bytes(v); }},
    {"rules", Kind::kList, "FILE", "", "rule databases (default: the shipped one)",
     [](Request& r, Text v) { r.rules.push_back(v); }},
    {"unproved", Kind::kFlag, "", "false", "also use rules without a proof: the result may compute something else",
     [](Request& r, Text v) { r.unproved = truth(v); }},
    {"math", Kind::kText, "exact|reassociate|fast", "reassociate", "what may change in floating point",
     [](Request& r, Text v) { r.optimize.math = math_class(v); }},
    {"kernels", Kind::kText, "estimated|cached|measured", "estimated",
     "how convolutions are chosen on the CPU: estimated (the same bits everywhere), cached (as measured here before) or "
     "measured (what is "
     "missing as well)",
     [](Request& r, Text v) { r.kernels = kernel_choice(v); }},
    {"objective", Kind::kText, "latency|memory|energy-proxy", "latency",
     "what is to be little: latency, memory (its peak), energy-proxy (bytes moved)",
     [](Request& r, Text v) {
       r.optimize.objective = one_of<Objective>(
           {{"latency", Objective::kLatency}, {"memory", Objective::kMemory}, {"energy-proxy", Objective::kEnergy}}, v);
     }},
    {"shape", Kind::kList, "NAME=SIZES", "", "a size to optimize for, NAME=1x3x224x224",
     [](Request& r, Text v) {
       parse_shapes({v});
       r.shapes.push_back(v);
     }},
    {"for-training", Kind::kFlag, "", "false", "weights are variables: only rules that keep their gradients",
     [](Request& r, Text v) { r.optimize.for_training = truth(v); }},
    {"check", Kind::kText, "N", "1", "random inputs on which both are compared (0: none)",
     [](Request& r, Text v) { r.optimize.check_runs = count<int>(v); }},
    {"no-timing", Kind::kFlag, "", "false", "choose by predicted cost: operators are timed, whole graphs are not",
     [](Request& r, Text v) { r.optimize.time_graphs = !truth(v); }},
    {"estimate", Kind::kFlag, "", "false", "choose by estimates with the same rates on every machine: nothing is timed",
     [](Request& r, Text v) { r.optimize.measure = !truth(v); }},
    {"fold-limit", Kind::kText, "BYTES", "1M", "folded constants larger than this must not grow the file",
     [](Request& r, Text v) { r.optimize.fold.max_bytes = parse_bytes(v); }},
    {"region-nodes", Kind::kText, "N", "28", "nodes of the graph that are searched as one",
     [](Request& r, Text v) { r.optimize.search.region_nodes = count<std::size_t>(v, 2); }},
    {"region-graphs", Kind::kText, "N", "4000", "graphs a region is searched for, in backtracking",
     [](Request& r, Text v) { r.optimize.search.max_graphs = count<std::size_t>(v); }},
    {"patience", Kind::kText, "N", "24", "graphs a region is searched for without gain, in backtracking",
     [](Request& r, Text v) { r.optimize.search.patience = count<std::size_t>(v); }},
    {"e-nodes", Kind::kText, "N", "600", "size of a region's e-graph, in saturation",
     [](Request& r, Text v) { r.optimize.search.saturation.saturation.nodes = count<std::size_t>(v); }},
    {"extraction-nodes", Kind::kText, "N", "50", "branch-and-bound nodes of the extraction from it",
     [](Request& r, Text v) { r.optimize.search.saturation.extraction.nodes = count<std::int64_t>(v); }},
    {"extraction-iterations", Kind::kText, "N", "2000", "simplex iterations of the extraction",
     [](Request& r, Text v) { r.optimize.search.saturation.extraction.iterations = count<std::int64_t>(v); }},
    {"saturation-share", Kind::kText, "NUMBER", "0.3", "of the time, in auto",
     [](Request& r, Text v) { r.optimize.search.saturation_share = number(v, 0, 1); }},
    {"seed", Kind::kText, "S", "0", "seed of everything random",
     [](Request& r, Text v) { r.optimize.seed = count<std::uint64_t>(v); }},
    {"threads", Kind::kText, "N", "0", "threads to use (0: all cores)", [](Request& r, Text v) { r.threads = count<int>(v); }},
};

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

std::span<const OptimizationOption> optimization_options() { return kOptions; }

OptimizationRequest::OptimizationRequest() {
  for (const OptimizationOption& option : kOptions)
    if (!option.initial.empty()) option.set(*this, std::string(option.initial));
}

void set_option(OptimizationRequest& request, std::string_view name, const std::string& value) {
  const auto option = std::find_if(std::begin(kOptions), std::end(kOptions), [&](const auto& o) { return o.name == name; });
  if (option == std::end(kOptions)) {
    std::string all;
    for (const OptimizationOption& o : kOptions) all += (all.empty() ? "" : ", ") + std::string(o.name);
    throw Error(ErrorCode::kUsage, "there is no option \"" + std::string(name) + "\"", {}, "there are " + all);
  }
  try {
    option->set(request, value);
  } catch (const Error& error) {
    throw error.within("option " + std::string(name));
  }
}

Optimization run_optimization(const Graph& graph, const OptimizationRequest& request, const std::string& input,
                              const std::string& output, bool with_page, std::stop_token cancel,
                              const std::function<void(const OptimizeProgress&)>& progress) {
  const int threads = usable_threads(request.threads);
  const std::vector<Rule> rules = read_proved_rules(request.rules, request.unproved);
  OptimizeOptions options = request.optimize;
  options.sizes = symbol_sizes(graph, parse_shapes(request.shapes));
  options.cancel = std::move(cancel);
  options.search.threads = threads;
  const std::unique_ptr<Device> device =
      make_device(request.device.empty() ? default_device() : request.device, threads, options.math, request.kernels);
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
