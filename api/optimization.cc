#include "api/optimization.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/define_options.h"
#include "api/devices.h"
#include "api/fresh_process.h"
#include "api/given_sizes.h"
#include "api/options.h"
#include "api/rule_files.h"
#include "graph/onnx/import/overridable.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/read_back.h"
#include "optimizer/inputs/sizes.h"
#include "report/report.h"
#include "runtime/cpu/backend/evaluator.h"

namespace rewright::api {

namespace {

#define MEMBER(path) \
  [](Request & r) -> auto& { return r.path; }

const std::vector<OptimizationOption>& options_of_requests() {
  using namespace define;
  using Request = OptimizationRequest;
  static const std::vector<OptimizationOption> kOptions = all_of<OptimizationOption>({
      option<Request>("device", text(device_syntax(DeviceUse::kOptimize)), MEMBER(device),
                      "what it is to be fast on (default: cuda where there is one, else cpu)"),
      option<Request>("search", choice(strategy_choices()), MEMBER(optimize.strategy), "how equivalent graphs are searched"),
      option<Request>("alpha", number(1, 10), MEMBER(optimize.alpha),
                      "the most that an intermediate graph may cost, in costs of the best one"),
      option<Request>("budget", time(), MEMBER(optimize.budget_seconds),
                      "time for all of it: reading, searching, measuring, checking, writing"),
      option<Request>("memory", bytes(), MEMBER(optimize.memory), "memory for the search"),
      list<Request>("rules", "FILE", MEMBER(rules), "rule databases (default: the shipped one)"),
      flag<Request>("unproved", MEMBER(unproved), "also use rules without a proof: the result may compute something else"),
      option<Request>("math", choice(math_choices()), MEMBER(optimize.math), "what may change in floating point"),
      option<Request>(
          "dialect", choice(dialect_choices()), MEMBER(optimize.dialect),
          "the operators of the result: as-given, standard (ONNX's own alone, in the opset that has them), or onnxruntime "
          "(its own as well where they are measured to be faster, with --device onnxruntime)"),
      option<Request>(
          "kernels", choice(kernel_choices()), MEMBER(kernels),
          "how kernels of convolutions are chosen on the CPU: estimated (the same bits everywhere), cached (by earlier "
          "measurements on this machine), measured (by those and new ones) or searched (as measured: the "
          "search for loops of generated code is that of run and bench)"),
      option<Request>("objective", choice(objective_choices()), MEMBER(optimize.objective),
                      "the quantity to minimize: latency, memory (its peak), energy-proxy (bytes moved)"),
      list<Request>("shape", "NAME=SIZES", MEMBER(shapes),
                    "sizes to optimize for, NAME=1x3x224x224; several with weights, NAME=1x3x224x224*3,1x3x640x640; a range, "
                    "NAME=1x8..512",
                    [](Text v) { parse_shapes({v}); }),
      flag<Request>("fix-inputs", MEMBER(fix_inputs),
                    "inputs with a default value (weights that are listed among the inputs) become constants"),
      flag<Request>("for-training", MEMBER(optimize.for_training),
                    "weights are variables: only rules that keep their gradients"),
      option<Request>("check", count<int>(), MEMBER(optimize.check_runs), "random inputs on which both are compared (0: none)"),
      flag<Request>("no-timing", MEMBER(optimize.time_graphs),
                    "choose by predicted cost: operators are timed, whole graphs are not", true),
      flag<Request>("estimate", MEMBER(optimize.measure),
                    "choose by estimates with the same rates on every machine: nothing is timed", true),
      option<Request>("fold-limit", bytes(), MEMBER(optimize.fold.max_bytes),
                      "folded constants larger than this must not grow the file"),
      option<Request>("region-nodes", count<std::size_t>("N", 2), MEMBER(optimize.search.region_nodes),
                      "the most nodes of a region, a part of the graph that is searched by itself"),
      option<Request>("region-graphs", count<std::size_t>(), MEMBER(optimize.search.max_graphs),
                      "graphs to try for a region, in backtracking"),
      option<Request>("patience", count<std::size_t>(), MEMBER(optimize.search.patience),
                      "graphs to try for a region without a gain, in backtracking"),
      option<Request>("e-nodes", count<std::size_t>(), MEMBER(optimize.search.saturation.saturation.nodes),
                      "size of a region's e-graph, in saturation"),
      option<Request>("extraction-nodes", count<std::int64_t>(), MEMBER(optimize.search.saturation.extraction.nodes),
                      "branch-and-bound nodes of the extraction from the e-graph"),
      option<Request>("extraction-iterations", count<std::int64_t>(), MEMBER(optimize.search.saturation.extraction.iterations),
                      "simplex iterations of the extraction"),
      option<Request>("saturation-share", number(0, 1), MEMBER(optimize.search.saturation_share),
                      "saturation's share of the time, with --search auto"),
      option<Request>("seed", count<std::uint64_t>("S"), MEMBER(optimize.seed), "seed of everything random"),
      option<Request>("threads", count<int>(), MEMBER(threads), "threads to use (0: all cores)"),
  });
  return kOptions;
}

#undef MEMBER

// Weights that callers may override become inputs to the search, tried with their defaults.
Graph as_searched(const Graph& graph, bool fix_inputs, std::vector<std::string>& kept) {
  if (fix_inputs) return with_fixed_inputs(graph);
  for (const Declaration& weight : overridable_initializers(graph)) kept.push_back(weight.name);
  return kept.empty() ? graph : with_inputs(graph, {kept.begin(), kept.end()});
}

constexpr std::size_t kReadBack = std::size_t{256} << 20;  // bytes of weights up to which a graph is written to be checked
constexpr std::size_t kShown = std::size_t{16} << 20;      // the same for a graph that shows a fault

constexpr double kComparedOperations = 5e6;  // limit for graphs whose results are compared with the interpreter's

// "OUT.differs.onnx", "OUT.differs.2.onnx", ...
std::string numbered(const std::string& file, std::size_t number) {
  const std::size_t dot = file.rfind('.');
  if (number == 0 || dot == std::string::npos) return file;
  return file.substr(0, dot) + "." + std::to_string(number + 1) + file.substr(dot);
}

// Writes the graphs that show faults, except those that cannot be written or are too large to send to anyone.
void write_faults(std::vector<Fault>& faults, const std::string& file) {
  for (std::size_t i = 0; i < faults.size() && !file.empty(); ++i) {
    if (!faults[i].smallest) continue;
    const Graph& graph = *faults[i].smallest;
    std::size_t bytes = 0;
    for (ValueId id = 0; id < graph.value_count(); ++id) bytes += graph.value(id).constant.byte_count();
    if (bytes > kShown) continue;
    try {
      export_onnx(graph, numbered(file, i), kRewritten);
      faults[i].file = numbered(file, i);
    } catch (const Error&) {  // opaque nodes without their model, or no disk space
    }
  }
}

nlohmann::json facts_of(const std::vector<Fault>& faults) {
  nlohmann::json list = nlohmann::json::array();
  for (const Fault& fault : faults)
    list.push_back({{"kind", name(fault.kind)},
                    {"step", fault.step},
                    {"rules", fault.rules},
                    {"where", fault.where},
                    {"what", to_string(fault)},
                    {"message", message_of(fault)},
                    {"file", fault.file}});
  return list;
}

nlohmann::json facts_of(const std::vector<SizesReport>& sets) {
  nlohmann::json list = nlohmann::json::array();
  for (const SizesReport& set : sets)
    list.push_back({{"sizes", set.at.sizes},
                    {"weight", set.at.weight},
                    {"predicted_ms", {{"before", set.predicted_before * 1e3}, {"after", set.predicted_after * 1e3}}},
                    {"measured_ms", {{"before", set.measured_before * 1e3}, {"after", set.measured_after * 1e3}}},
                    {"speedup", set.speedup}});
  return list;
}

nlohmann::json facts_of(const std::vector<NotStandard>& nodes) {
  nlohmann::json list = nlohmann::json::array();
  for (const NotStandard& node : nodes) list.push_back({{"node", node.node}, {"operator", node.type}, {"reason", node.reason}});
  return list;
}

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
      {"opset", r.opset},
      {"not_standard", facts_of(r.left)},
      {"nodes", {{"before", r.nodes_before}, {"after", r.nodes_after}, {"opaque", opaque}}},
      {"check",
       {{"runs", r.check.runs},
        {"max_abs_error", r.check.max_abs_error},
        {"max_rel_error", r.check.max_rel_error},
        {"ok", r.check.ok},
        {"on", r.check.executor},
        {"reason", r.check.reason},
        {"not_drawn", r.check.not_drawn},
        {"note", r.check.note},
        {"kernels", r.check.kernels},
        {"differs", facts_of(r.check.differs)}}},
      {"peak_bytes", r.peak_bytes}};
}

}  // namespace

std::span<const OptimizationOption> optimization_options() { return options_of_requests(); }

Optimization run_optimization(const Graph& model, const OptimizationRequest& request, const std::string& input,
                              const std::string& output, bool with_page, std::stop_token cancel,
                              const std::function<void(const OptimizeProgress&)>& progress) {
  OptimizeOptions options = request.optimize;
  if (!options.started) options.started = Budget::Clock::now();
  const Budget budget(*options.started, options.budget_seconds);
  const int threads = usable_threads(request.threads);
  std::vector<std::string> kept_inputs;
  const Graph graph = as_searched(model, request.fix_inputs, kept_inputs);
  std::vector<Rule> rules = read_proved_rules(request.rules, request.unproved);
  rules.insert(rules.end(), request.more_rules.begin(), request.more_rules.end());
  if (!request.more_rules.empty()) rules = RuleSet(std::move(rules)).rules();  // names are unique
  const std::vector<WeightedSizes> given = given_sizes(graph, parse_shapes(request.shapes));
  options.cancel = std::move(cancel);
  options.search.threads = threads;
  const std::string name = request.device.empty() ? default_device() : request.device;
  std::unique_ptr<Device> device = make_device(name, threads, options.math, request.kernels);
  if (name == "cpu" && !request.program.empty())
    device = make_fresh_device({request.program, name, threads, options.math, request.kernels}, std::move(device));
  std::vector<std::vector<NamedSizes>> choices;  // for each set of given sizes
  for (const WeightedSizes& at : given) choices.push_back(fitting_sizes(graph, at.sizes));
  const bool has_choice = std::any_of(choices.begin(), choices.end(), [](const auto& sets) { return sets.size() > 1; });
  TimingOptions trial;
  trial.seed = options.seed, trial.cancel = options.cancel;
  device->end_at(budget.within(budget.left() / 4));
  const bool is_run = options.measure && (options.time_graphs || options.check_runs > 0);
  // By a profile, sizes are tried where the result is checked: on the CPU.
  const std::unique_ptr<Device> tried = is_run && has_choice && !device->measures()
                                            ? make_device("cpu", threads, options.math, KernelChoice::kEstimated)
                                            : nullptr;
  options.sizes = given;
  for (std::size_t k = 0; k < given.size(); ++k)
    options.sizes[k].sizes = is_run ? executable_sizes(graph, choices[k], tried ? *tried : *device, trial) : choices[k].front();
  if (is_run && request.shapes.empty())
    if (auto rows = with_more_rows(graph, given[0].sizes, options.sizes[0].sizes, tried ? *tried : *device, trial))
      options.sizes.push_back({*std::move(rows)});
  if (request.price) device = make_priced_device(request.price, std::move(device));
  // The CPU checks models that the device cannot execute.
  const std::unique_ptr<Device> second =
      name == "onnxruntime" || gpu_number(name) ? make_device("cpu", threads, options.math, KernelChoice::kEstimated) : nullptr;
  options.second_device = second.get();
  options.reference_check = small_reference_check(kComparedOperations, budget.end());
  options.written = [](const Graph& found) { return read_back(found, kReadBack).value_or(found); };
  const std::unique_ptr<Evaluator> evaluator = cpu::make_cpu_evaluator(threads, [&budget] {
    if (budget.over()) throw Error(ErrorCode::kCancelled, "the time for it is over");
  });
  CostDatabase database(CostDatabase::default_file());
  std::vector<std::pair<double, double>> curve;
  const auto start = std::chrono::steady_clock::now();
  options.progress = [&](const OptimizeProgress& p) {
    if (p.predicted_seconds > 0 && (curve.empty() || p.predicted_seconds < curve.back().second))
      curve.emplace_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), p.predicted_seconds);
    if (progress) progress(p);
  };
  Optimization done{optimize(graph, rules, *device, *evaluator, &database, options), {}, {}};
  write_faults(done.result.report.check.differs, request.differs);
  nlohmann::json facts = facts_of(done.result.report, input, output);
  facts["sizes"] = options.sizes.front().sizes;                    // at which it was measured and checked, ...
  facts["sets_of_sizes"] = facts_of(done.result.report.at);        // ... all of them
  facts["chosen_sizes"] = open_sizes(graph, given.front().sizes);  // those that neither the model nor the caller says
  facts["kept_inputs"] = kept_inputs;
  done.kept_inputs = std::move(kept_inputs);
  done.facts = facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (with_page) {
    if (!curve.empty())
      curve.emplace_back(std::max(curve.back().first, done.result.report.search_seconds), curve.back().second);
    done.page = report_page({graph, done.result, rules, options, std::move(curve), done.facts}, *device, &database,
                            *cpu::make_cpu_evaluator(threads));
  }
  return done;
}

}  // namespace rewright::api
