#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graph/file.h"
#include "optimizer/optimize.h"
#include "rules/io.h"
#include "runtime/cpu/evaluator.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

struct Options {
  CommonOptions common;
  std::string input, output, device, search = "auto", math = "reassociate", objective = "latency", certificate, report,
                                     budget = "18s", memory = "8G";
  std::string fold_limit = "1M";
  std::vector<std::string> rules, shapes;
  double alpha = 1.05;
  KernelChoice kernels = KernelChoice::kEstimated;
  bool for_training = false, unproved = false, no_timing = false, estimate = false;
  int check = 1;
  std::size_t region_nodes = SearchOptions{}.region_nodes, region_graphs = SearchOptions{}.max_graphs;
  std::size_t patience = SearchOptions{}.patience, e_nodes = SaturationOptions{}.nodes;
  std::int64_t extraction_nodes = ExtractionOptions{}.nodes, extraction_iterations = ExtractionOptions{}.iterations;
  double saturation_share = SearchOptions{}.saturation_share;
};

nlohmann::json report_json(const Options& options, const OptimizeReport& r) {
  nlohmann::json rules = nlohmann::json::array(), opaque = nlohmann::json::array();
  for (const AppliedRule& rule : r.rules_applied) rules.push_back({{"rule", rule.rule}, {"where", rule.where}});
  nlohmann::json pareto = nlohmann::json::array();
  for (const FrontPoint& point : r.front)
    pareto.push_back({{"latency_ms", point.quantities.seconds * 1e3},
                      {"peak_bytes", std::llround(point.quantities.peak_bytes)},
                      {"rewrites", point.rewrites}});
  for (const OpaqueNode& node : r.opaque) opaque.push_back({{"node", node.node}, {"reason", node.reason}});
  return {
      {"input", options.input},
      {"output", options.output},
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

std::string summary(const Options& options, const OptimizeReport& r) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3);
  out << options.input << " -> " << options.output << "  (" << r.device << ")\n";
  out << "  nodes      " << r.nodes_before << " -> " << r.nodes_after;
  if (!r.opaque.empty()) out << ", " << r.opaque.size() << " kept as they are (see rewright show --unsupported)";
  out << "\n  predicted  " << r.predicted_before * 1e3 << " -> " << r.predicted_after * 1e3 << " ms\n";
  if (r.objective == "memory")
    out << "  peak       " << r.quantities_before.peak_bytes * 1e-6 << " -> " << r.quantities_after.peak_bytes * 1e-6
        << " MB\n";
  if (r.objective == "energy-proxy")
    out << "  moved      " << r.quantities_before.moved_bytes * 1e-6 << " -> " << r.quantities_after.moved_bytes * 1e-6
        << " MB\n";
  if (r.measured_before > 0)
    out << "  measured   " << r.measured_before * 1e3 << " -> " << r.measured_after * 1e3 << " ms, " << std::setprecision(2)
        << r.speedup << " times as fast\n";
  out << "  search     " << r.rules_applied.size() << " rewrites, " << r.graphs_explored << " graphs, " << r.e_nodes
      << " e-nodes, " << std::setprecision(1) << r.search_seconds << " s, stopped: " << r.stop_reason << "\n";
  if (r.check.runs > 0)
    out << "  check      " << r.check.runs << " random " << (r.check.runs == 1 ? "input" : "inputs") << ", largest error "
        << std::scientific << std::setprecision(1) << r.check.max_abs_error << " absolute, " << r.check.max_rel_error
        << " relative\n";
  out << "  " << r.outcome << "\n";
  return out.str();
}

int optimize_command(const Options& options) {
  const std::map<std::string, Strategy> kStrategies = {
      {"auto", Strategy::kAuto}, {"backtrack", Strategy::kBacktrack}, {"saturate", Strategy::kSaturate}};
  const std::map<std::string, Objective> kObjectives = {
      {"latency", Objective::kLatency}, {"memory", Objective::kMemory}, {"energy-proxy", Objective::kEnergy}};
  const int threads = thread_count(options.common);
  const std::vector<Rule> rules = read_proved_rules(options.rules, options.unproved);
  OptimizeOptions o;
  o.math = math_class(options.math);
  o.for_training = options.for_training;
  o.strategy = kStrategies.at(options.search);
  o.objective = kObjectives.at(options.objective);
  o.alpha = options.alpha;
  o.budget_seconds = parse_seconds(options.budget);
  o.memory = parse_bytes(options.memory);
  o.search.region_nodes = options.region_nodes;
  o.search.max_graphs = options.region_graphs;
  o.search.patience = options.patience;
  o.search.saturation.saturation.nodes = options.e_nodes;
  o.search.saturation.extraction.nodes = options.extraction_nodes;
  o.search.saturation.extraction.iterations = options.extraction_iterations;
  o.search.saturation_share = options.saturation_share;
  o.check_runs = options.check;
  o.time_graphs = !options.no_timing;
  o.measure = !options.estimate;
  o.seed = options.common.seed;
  o.fold.max_bytes = parse_bytes(options.fold_limit);
  require_writable(options.output);
  if (!options.certificate.empty()) require_writable(options.certificate);
  const Graph graph = import_onnx(options.input);
  o.sizes = symbol_sizes(graph, parse_shapes(options.shapes));
  Interruption interruption;
  o.cancel = interruption.token();
  const std::unique_ptr<Device> device =
      make_device(options.device.empty() ? default_device() : options.device, threads, o.math, options.kernels);
  const std::unique_ptr<Evaluator> evaluator = make_cpu_evaluator(threads);
  const std::unique_ptr<CostDatabase> database = std::make_unique<CostDatabase>(CostDatabase::default_file());
  OptimizeResult result;
  {
    Progress progress(options.common);
    o.progress = [&](const OptimizeProgress& p) {
      std::ostringstream note;
      if (p.predicted_gain > 1.001) note << "predicted gain " << std::fixed << std::setprecision(2) << p.predicted_gain;
      progress.update(p.stage, p.fraction, note.str());
    };
    result = optimize(graph, rules, *device, *evaluator, database.get(), o);
  }
  export_onnx(result.graph, options.output, {.unused_weights = false});
  if (!options.certificate.empty()) write_file(options.certificate, to_json(result.certificate));
  say(options.common, summary(options, result.report));
  write_json(options.common, report_json(options, result.report));
  return kDone;
}

}  // namespace

CLI::App* add_optimize(CLI::App& program, Run& run) {
  const auto options = std::make_shared<Options>();
  Options& o = *options;
  CLI::App* command = add_command(program, "optimize", "Find the fastest equivalent graph and write it",
                                  "rewright optimize model.onnx -o faster.onnx --device onnxruntime", o.common);
  command->add_option("input", o.input, "the model")->required()->type_name("IN.onnx");
  command->add_option("-o,--output", o.output, "where the result is written")->required()->type_name("OUT.onnx");
  command->add_option(
      "--device", o.device,
      "what it is to be fast on: cpu, cuda, onnxruntime or profile:FILE (default: cuda where there is one, else cpu)");
  command->add_option("--search", o.search, "auto, backtrack or saturate")
      ->check(CLI::IsMember({"auto", "backtrack", "saturate"}))
      ->capture_default_str();
  command->add_option("--alpha", o.alpha, "how much worse than the best a graph on the way may be")
      ->check(CLI::Range(1.0, 10.0))
      ->capture_default_str();
  command->add_option("--budget", o.budget, "time for the search")->capture_default_str();
  command->add_option("--memory", o.memory, "memory for the search")->capture_default_str();
  command->add_option("--region-nodes", o.region_nodes, "nodes of the graph that are searched as one")
      ->check(CLI::Range(std::size_t{2}, std::size_t{1} << 20))
      ->capture_default_str();
  command->add_option("--region-graphs", o.region_graphs, "graphs a region is searched for, in backtracking")
      ->capture_default_str();
  command->add_option("--patience", o.patience, "graphs a region is searched for without gain, in backtracking")
      ->capture_default_str();
  command->add_option("--e-nodes", o.e_nodes, "size of a region's e-graph, in saturation")->capture_default_str();
  command->add_option("--extraction-nodes", o.extraction_nodes, "branch-and-bound nodes of the extraction from it")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--extraction-iterations", o.extraction_iterations, "simplex iterations of the extraction")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--saturation-share", o.saturation_share, "of the time, in auto")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--rules", o.rules, "rule databases (default: the shipped one)")->type_name("FILE");
  command->add_flag("--unproved", o.unproved, "also use rules without a proof: the result may compute something else");
  add_math(command, o.math, "what may change in floating point: exact, reassociate, fast");
  add_kernels_option(*command, o.kernels);
  command
      ->add_option("--objective", o.objective, "what is to be little: latency, memory (its peak), energy-proxy (bytes moved)")
      ->check(CLI::IsMember({"latency", "memory", "energy-proxy"}))
      ->capture_default_str();
  command->add_option("--shape", o.shapes, "a size to optimize for, NAME=1x3x224x224 (repeatable)")->type_name("NAME=SIZES");
  command->add_flag("--for-training", o.for_training, "weights are variables: only rules that keep their gradients");
  command->add_option("--check", o.check, "random inputs on which both are compared (0: none)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--no-timing", o.no_timing, "choose by predicted cost: operators are timed, whole graphs are not");
  command->add_flag("--estimate", o.estimate, "choose by estimates with the same rates on every machine: nothing is timed");
  command->add_option("--fold-limit", o.fold_limit, "folded constants larger than this must not grow the file")
      ->capture_default_str();
  command->add_option("--certificate", o.certificate, "write every rewrite applied, to be replayed")->type_name("FILE");
  command->callback([options, &run] { run = [options] { return optimize_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
