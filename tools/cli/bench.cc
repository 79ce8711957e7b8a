#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>

#include "optimizer/inputs/inputs.h"
#include "optimizer/inputs/sizes.h"
#include "optimizer/optimize.h"
#include "plans/machines/machine_file.h"
#include "runtime/checked_kernels.h"
#include "runtime/planned/pipeline_run.h"
#include "runtime/planned/planned_graph.h"
#include "runtime/planned/planned_run.h"
#include "runtime/planned/waiting_backend.h"
#include "tools/cli/command.h"
#include "tools/cli/processes.h"

namespace rewright::cli {

namespace {

struct BenchOptions {
  CommonOptions common;
  std::vector<std::string> models, shapes;
  std::string plan, machine;
  std::string device = "cpu", seconds = "5s";
  MathClass math = MathClass::kReassociates;
  KernelChoice kernels = KernelChoice::kEstimated;
  bool check_kernels = false, profile = false;
};

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// All models at one set of sizes.
struct AtSizes {
  WeightedSizes sizes;  // of the first model
  std::vector<Graph> graphs;
};

// The models at the sizes to time them at: the given ones, and fitting ones for the others.
std::vector<AtSizes> read_models(const BenchOptions& options) {
  const GivenShapes shapes = parse_shapes(options.shapes);
  std::vector<AtSizes> sets;
  for (const std::string& file : options.models) {
    const Graph graph = import_onnx(file);
    const std::vector<WeightedSizes> sizes = symbol_sizes(graph, shapes);
    if (sets.empty())
      for (const WeightedSizes& at : sizes) sets.push_back({at, {}});
    for (std::size_t k = 0; k < sets.size(); ++k)
      sets[k].graphs.push_back(with_named_sizes(graph, sizes[std::min(k, sizes.size() - 1)].sizes));
  }
  const auto inputs_of = [](const Graph& graph) {
    std::vector<TensorType> types;
    for (const ValueId id : graph.inputs()) types.push_back(graph.value(id).type);
    return types;
  };
  for (const AtSizes& at : sets)
    for (std::size_t m = 1; m < at.graphs.size(); ++m)
      if (inputs_of(at.graphs[m]) != inputs_of(at.graphs[0]))
        throw Error(ErrorCode::kBadInput, "its inputs are not those of " + options.models[0], options.models[m]);
  return sets;
}

// The models timed in turn, and what is said about it.
nlohmann::json bench_at(const BenchOptions& options, const AtSizes& at, Device& device, const TimingOptions& timing,
                        std::ostringstream& text) {
  const std::vector<Graph>& graphs = at.graphs;
  const std::vector<std::vector<double>> seconds = device.time_graphs(graphs, timing);
  nlohmann::json models = nlohmann::json::array(), ratios = nlohmann::json::array();
  text << "model, " << options.device << ", " << seconds[0].size() << " rounds";
  if (!options.shapes.empty() && !at.sizes.sizes.empty()) text << ", " << to_string(at.sizes.sizes);
  text << "\n";
  for (std::size_t m = 0; m < graphs.size(); ++m) {
    const double median = quantile(seconds[m], 0.5), low = quantile(seconds[m], 0.1), high = quantile(seconds[m], 0.9);
    nlohmann::json facts({{"path", options.models[m]},
                          {"median_ms", median * 1e3},
                          {"p10_ms", low * 1e3},
                          {"p90_ms", high * 1e3},
                          {"p95_ms", quantile(seconds[m], 0.95) * 1e3},
                          {"p99_ms", quantile(seconds[m], 0.99) * 1e3},
                          {"min_ms", quantile(seconds[m], 0) * 1e3},
                          {"max_ms", quantile(seconds[m], 1) * 1e3},
                          {"mean_ms", mean(seconds[m]) * 1e3},
                          {"per_second", 1 / median}});
    if (options.check_kernels) {
      const CheckedRun run =
          device.run_checked(graphs[m], random_inputs(graphs[m], {}, options.common.seed), CheckExtent().seconds);
      for (const std::string& fault : run.faults)
        std::cerr << "rewright: warning: " << options.models[m] << ": " << fault << "\n";
      report_kernels(options.common, options.device, run, facts);
    }
    models.push_back(std::move(facts));
    text << "  " << options.models[m] << "  " << std::setprecision(3) << median * 1e3 << " ms (" << low * 1e3 << " to "
         << high * 1e3 << "), " << std::setprecision(1) << 1 / median << " a second";
    if (m > 0) {  // times of one round are adjacent: their ratios are stable while the machine's speed drifts
      std::vector<double> ratio;
      for (std::size_t r = 0; r < seconds[m].size(); ++r) ratio.push_back(seconds[0][r] / seconds[m][r]);
      const double middle = quantile(ratio, 0.5), least = quantile(ratio, 0.1), most = quantile(ratio, 0.9);
      ratios.push_back({{"path", options.models[m]}, {"median", middle}, {"low", least}, {"high", most}});
      text << std::setprecision(3) << ", " << middle << " times as fast as the first (" << least << " to " << most << ")";
    }
    text << "\n";
  }
  return {{"rounds", seconds[0].size()}, {"models", models}, {"ratios", ratios}};
}

// The model that a plan divides, and a run's inputs: random data, and in training what the model starts with.
struct PlannedBench {
  runtime::PlannedGraph planned;
  std::vector<Tensor> inputs;
};

PlannedBench planned_bench(const plans::Plan& plan, const std::string& file, std::uint64_t seed) {
  const bool trains = plan.purpose == "training";
  const Graph model = runtime::with_batch(import_onnx(file, {.procedures_as_graphs = trains}), plan.batch);
  PlannedBench result;
  if (!trains) {
    result.planned = runtime::planned_for_inference(model);
    result.inputs = random_inputs(result.planned.graph, {}, seed);
    return result;
  }
  const training::TrainingGraphs graphs =
      training::make_training_graphs(model, "", runtime::planned_training(plan.loss, plan.update));
  result.planned = divided_by(plan, runtime::planned_for_training(graphs));
  result.inputs = random_inputs(result.planned.graph, {}, seed);
  // The step's number, its part of the batch, the loss's scale and the rate are 1.
  std::size_t at = result.planned.data.size();
  for (std::size_t n = at - 4; n < at; ++n) result.inputs[n] = Tensor::scalar(DataType::kFloat, 1);
  for (const auto* list : {&graphs.parameters, &graphs.statistics})
    for (const training::TrainedTensor& t : *list) result.inputs[at++] = model.value(t.in_model).constant;
  for (; at < result.inputs.size(); ++at) {
    const Tensor& state = result.inputs[at];
    result.inputs[at] =
        Tensor::from_reals(state.type(), state.sizes(), std::vector<double>(static_cast<std::size_t>(state.size())));
  }
  return result;
}

// Seconds of each round, in which all processes begin and end together.
std::vector<double> time_rounds(const std::function<void()>& run, double seconds, Communicator& processes) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  run();  // prepares
  std::vector<double> rounds;
  const Clock::time_point start = Clock::now();
  do {
    processes.barrier();
    const Clock::time_point begin = Clock::now();
    run();
    processes.barrier();
    rounds.push_back(since(begin));
  } while (!processes.any(processes.rank() == 0 && rounds.size() >= 5 && since(start) > seconds));
  return rounds;
}

// A process's work in a round; without steps: a pipeline's.
struct PreparedRun {
  std::function<void()> run;
  std::function<std::vector<StepProfile>()> profile = [] { return std::vector<StepProfile>(); };
};
PreparedRun prepared_run(const plans::Plan& plan, PlannedBench bench, const BenchOptions& options, const Backend& backend,
                         Communicator& processes) {
  const SessionOptions session{.threads = thread_count(options.common), .profile = options.profile, .kernels = options.kernels};
  runtime::PlannedGraph& planned = bench.planned;
  if (plan.pipeline) {
    plans::PipelineProgram program = pipeline_program(plan, planned.graph, planned.replaced, processes.rank());
    planned = {};
    const auto run = std::make_shared<runtime::PipelineRun>(std::move(program), processes, backend, session);
    for (std::size_t i = 0; i < bench.inputs.size(); ++i)
      if (!run->needs(i)) bench.inputs[i] = {};
    return {[run, inputs = std::move(bench.inputs)] {
      run->begin_anew();
      run->run(inputs);
    }};
  }
  plans::LocalProgram program = local_program(plan, planned.graph, planned.replaced, processes.rank());
  planned = {};
  const auto run = std::make_shared<runtime::PlannedRun>(std::move(program), processes, backend, session);
  for (std::size_t i = 0; i < bench.inputs.size(); ++i)
    bench.inputs[i] = plans::own_part(bench.inputs[i], run->program().inputs[i], run->processes());
  return {[run, inputs = std::move(bench.inputs)] { run->run(inputs); }, [run] { return run->profile(); }};
}

void require_bench_with_plan(const BenchOptions& options) {
  if (options.models.size() > 1) throw Error(ErrorCode::kUsage, "--plan is for one model");
  if (options.check_kernels) throw Error(ErrorCode::kUsage, "--plan excludes --check-kernels");
  if (!options.shapes.empty()) throw Error(ErrorCode::kUsage, "--plan excludes --shape", {}, "the plan says the sizes");
  if (options.device != "cpu" && options.device != "reference")
    throw Error(ErrorCode::kUsage, "--plan excludes --device, other than cpu and reference");
}

int bench_plan(const BenchOptions& options, Communicator& processes) {
  require_bench_with_plan(options);
  const std::string& file = options.models[0];
  const plans::Plan plan = runtime::read_plan_together(processes, options.plan, "");
  PlannedBench bench = planned_bench(plan, file, options.common.seed);
  require_proved(plan, bench.planned, processes, options.plan);
  if (options.profile && plan.pipeline) throw Error(ErrorCode::kUsage, "--profile is for plans without stages", options.plan);
  if (!options.machine.empty() && !plan.pipeline) throw Error(ErrorCode::kUsage, "--as-on is for pipelines", options.plan);
  const Backend& backend = find_backend(options.device, options.math);
  std::optional<plans::Machine> machine;
  std::optional<runtime::WaitingBackend> waiting;
  if (!options.machine.empty()) waiting.emplace(backend, machine.emplace(plans::read_machine(options.machine)));
  const PreparedRun prepared =
      prepared_run(plan, std::move(bench), options, waiting ? static_cast<const Backend&>(*waiting) : backend, processes);
  const std::uint64_t before = processes.bytes_sent();
  const std::vector<double> rounds = time_rounds(prepared.run, parse_seconds(options.seconds), processes);
  double bytes[] = {static_cast<double>(processes.bytes_sent() - before) / static_cast<double>(rounds.size() + 1)};
  processes.sum(std::span<double>(bytes));
  if (processes.rank() != 0) return kDone;
  const double median = quantile(rounds, 0.5), low = quantile(rounds, 0.1), high = quantile(rounds, 0.9);
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << file << " by " << options.plan << ", " << processes.size() << " processes, "
       << rounds.size() << " rounds\n  " << median * 1e3 << " ms (" << low * 1e3 << " to " << high * 1e3 << "), "
       << bytes[0] / 1e6 << " MB sent\n";
  say(options.common, text.str());
  if (options.profile)
    say(options.common, profile_table(prepared.profile(), make_device("cpu", thread_count(options.common))->roofline()));
  nlohmann::json model{{"path", file},         {"median_ms", median * 1e3},           {"p10_ms", low * 1e3},
                       {"p90_ms", high * 1e3}, {"min_ms", quantile(rounds, 0) * 1e3}, {"per_second", 1 / median}};
  write_json(options.common, {{"rounds", rounds.size()},
                              {"models", nlohmann::json::array({std::move(model)})},
                              {"ratios", nlohmann::json::array()},
                              {"device", options.device},
                              {"plan", options.plan},
                              {"processes", processes.size()},
                              {"bytes_sent", bytes[0]}});
  return kDone;
}

int bench_command(const BenchOptions& options) {
  if (options.plan.empty() && options.profile)
    throw Error(ErrorCode::kUsage, "--profile needs a plan", {}, "run --profile is for models");
  if (options.plan.empty() && !options.machine.empty())
    throw Error(ErrorCode::kUsage, "--as-on is about the processes of a plan", {}, "--plan names it");
  if (!options.plan.empty()) return run_in_processes([&](Communicator& processes) { return bench_plan(options, processes); });
  const std::vector<AtSizes> sets = read_models(options);
  Interruption interruption;
  const std::unique_ptr<Device> device =
      make_device(options.device, thread_count(options.common), options.math, options.kernels);
  TimingOptions timing;
  timing.min_seconds = parse_seconds(options.seconds) / static_cast<double>(sets.size());
  timing.max_seconds = std::max(2 * timing.min_seconds, 10.0 / static_cast<double>(sets.size()));
  timing.seed = options.common.seed;
  timing.cancel = interruption.token();
  timing.check_kernels = options.check_kernels;
  std::ostringstream text;
  text << std::fixed;
  nlohmann::json report, list = nlohmann::json::array();
  for (const AtSizes& at : sets) {
    nlohmann::json facts = bench_at(options, at, *device, timing, text);
    if (report.is_null()) report = facts;  // of the first sizes, where there are several
    facts["sizes"] = at.sizes.sizes;
    facts["weight"] = at.sizes.weight;
    list.push_back(std::move(facts));
  }
  report["device"] = options.device;
  report["sets_of_sizes"] = std::move(list);
  say(options.common, text.str());
  write_json(options.common, report);
  return kDone;
}

}  // namespace

CLI::App* add_bench(CLI::App& program, Run& run) {
  const auto options = std::make_shared<BenchOptions>();
  BenchOptions& o = *options;
  CLI::App* command = add_command(program, "bench", "Latency and throughput of models, in turn, as ratios with their spread",
                                  "rewright bench model.onnx faster.onnx --device onnxruntime --threads 1", o.common);
  command->add_option("models", o.models, "one model or several with the same inputs")->required()->type_name("MODEL.onnx");
  command->add_option("--device", o.device, device_names(DeviceUse::kMeasure, "or"))->capture_default_str();
  command
      ->add_option("--shape", o.shapes,
                   "sizes where the models leave them open, NAME=1x3x224x224, or several: NAME=1x8,1x64 (repeatable)")
      ->type_name("NAME=SIZES");
  command->add_option("--plan", o.plan, "time a run, or a step of training, of the processes that mpirun started by this plan")
      ->type_name("PLAN");
  command
      ->add_option("--as-on", o.machine,
                   "with --plan of a pipeline: each task takes at least the time that a device of this machine needs, so that "
                   "processes which share cores are timed as if they did not")
      ->type_name("FILE.json");
  command->add_flag("--profile", o.profile,
                    "with --plan: print the time of each step of the first process, and of its exchanges with the waiting");
  add_choice(*command, "--math", o.math, math_choices(), "what the device may change in floating point, as in optimize");
  add_kernels_option(*command, o.kernels);
  add_check_kernels(*command, o.check_kernels);
  command->add_option("--seconds", o.seconds, "how long to measure")->capture_default_str();
  command->callback([options, &run] { run = [options] { return bench_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
