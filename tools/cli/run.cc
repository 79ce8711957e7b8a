#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/process_memory.h"
#include "base/trace.h"
#include "graph/file.h"
#include "graph/onnx/import/overridable.h"
#include "runtime/checked_kernels.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/cpu/backend/device.h"
#include "runtime/endable_run.h"
#include "runtime/mixed.h"
#include "runtime/parts.h"
#include "runtime/planned/pipeline_run.h"
#include "runtime/planned/planned_graph.h"
#include "runtime/planned/planned_run.h"
#include "tools/cli/command.h"
#include "tools/cli/processes.h"

namespace rewright::cli {

namespace {

struct RunOptions {
  CommonOptions common;
  std::string model, output_dir, trace, plan_cache, device = "cpu";
  std::vector<std::string> inputs;
  std::string budget, plan;
  MathClass math = MathClass::kReassociates;
  bool profile = false, check_kernels = false;
  KernelChoice kernels = KernelChoice::kEstimated;
};

// A file name for an output. Characters that file names cannot have become "_"; equal names get a number.
std::string file_name(const std::string& tensor, std::size_t number, const std::string& ending,
                      std::map<std::string, int>& used) {
  std::string name;
  for (const char c : tensor) name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' ? c : '_';
  if (name.empty() || name.front() == '.') name = "output_" + std::to_string(number) + name;
  if (used[name]++ > 0) name += "_" + std::to_string(number);
  return name + ending;
}

// The steps' times minus those of `before`.
std::vector<StepProfile> difference(std::vector<StepProfile> steps, const std::vector<StepProfile>& before) {
  for (std::size_t n = 0; n < steps.size() && n < before.size(); ++n) {
    steps[n].seconds -= before[n].seconds;
    steps[n].runs -= before[n].runs;
  }
  return steps;
}

nlohmann::json profile_json(const std::vector<StepProfile>& steps, const Roofline& roofline) {
  nlohmann::json list = nlohmann::json::array();
  for (const StepProfile& s : steps) {
    const double seconds = s.seconds / std::max(1, s.runs);
    const double giga_per_second = seconds > 0 ? 1e-9 / seconds : 0;
    list.push_back({{"node", s.node},
                    {"operators", s.operators},
                    {"ms", seconds * 1e3},
                    {"flops", s.flops},
                    {"bytes", s.bytes},
                    {"gflop_per_s", s.flops * giga_per_second},
                    {"gb_per_s", s.bytes * giga_per_second},
                    {"roofline_share", roofline_share(s, roofline)}});
    if (!s.loops.empty()) list.back()["loops"] = s.loops;
  }
  return list;
}

// The steps of an average run in sequence.
Trace trace_of(const std::vector<StepProfile>& steps, const Roofline& roofline) {
  Trace trace;
  double start = 0;
  for (const StepProfile& s : steps) {
    TraceEvent event{.name = s.operators, .category = "step", .start = start, .seconds = s.seconds / std::max(1, s.runs)};
    const double giga_per_second = event.seconds > 0 ? 1e-9 / event.seconds : 0;
    event.facts = {{"node", s.node},
                   {"gflop_per_s", s.flops * giga_per_second},
                   {"gb_per_s", s.bytes * giga_per_second},
                   {"roofline_share", roofline_share(s, roofline)}};
    trace.add(event);
    start += event.seconds;
  }
  return trace;
}

double cpu_milliseconds() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Passes values to import: axes, pads or shapes may be inputs of the model, and their values determine the graph.
void give_values(ImportOptions& import, const std::string& name, const Datum& datum) {
  constexpr std::int64_t kSmall = 1024;
  if (datum.is_tensor() && datum.tensor().size() <= kSmall) import.input_values[name] = datum.tensor();
}

// The tensors of --input. A .pb file is read with the type that the model declares, so with one the model is read first.
std::map<std::string, Datum> read_inputs(const RunOptions& options, ImportOptions& import) {
  std::map<std::string, Datum> given;
  std::map<std::string, std::string> declared;
  for (const auto& [name, file] : named_files(options.inputs)) {
    if (file.ends_with(".pb"))
      declared.emplace(name, file);
    else
      give_values(import, name, given[name] = read_tensor(file));
  }
  if (declared.empty()) return given;
  const Graph graph = import_onnx(options.model, import);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const std::string& name = graph.value(graph.inputs()[i]).name;
    if (const auto file = declared.find(name); file != declared.end())
      give_values(import, name, given[name] = read_input(graph, i, file->second));
  }
  for (const Declaration& weight : overridable_initializers(graph))
    if (const auto file = declared.find(weight.name); file != declared.end())
      give_values(import, weight.name, given[weight.name] = read_tensor(file->second));
  for (const auto& [name, file] : declared)
    if (!given.contains(name)) throw Error(ErrorCode::kUsage, "the model has no input \"" + name + "\"");
  return given;
}

// The model. Weights that it lists as inputs become inputs if values are given for them.
Graph read_model(const RunOptions& options, const ImportOptions& import, const std::map<std::string, Datum>& given) {
  Graph graph = import_onnx(options.model, import);
  std::set<std::string> names;
  for (const Declaration& weight : overridable_initializers(graph))
    if (given.contains(weight.name)) names.insert(weight.name);
  return names.empty() ? graph : with_inputs(graph, names, import.input_values);
}

std::vector<Tensor> tensors_of(const std::vector<Datum>& data) {
  std::vector<Tensor> tensors;
  for (const Datum& datum : data) tensors.push_back(datum.tensor());
  return tensors;
}

bool is_opaque(const std::shared_ptr<const Node>& node) { return node->op == nullptr; }

// A graph with only the outputs, so that the session alone holds the constants.
Graph outputs_of(const Graph& graph) {
  Graph result;
  std::vector<GraphOutput> outputs(graph.outputs().begin(), graph.outputs().end());
  for (GraphOutput& output : outputs) {
    Value value;
    value.name = output.name;
    value.type = output.type;
    value.shape_known = output.shape_known;
    output.value = result.add_value(std::move(value));
  }
  result.set_outputs(std::move(outputs));
  // Only the model knows which outputs are sequences. It keeps its file in memory.
  if (std::any_of(graph.nodes().begin(), graph.nodes().end(), is_opaque)) result.set_model(graph.model());
  return result;
}

// Throws when the user or the budget ends the run, since a loop may never end. Must outlive the run.
class TimeLimit {
 public:
  explicit TimeLimit(const RunOptions& options)
      : options_(options),
        seconds_(options.budget.empty() ? std::numeric_limits<double>::infinity() : parse_seconds(options.budget)) {}

  void check() const {
    if (interruption_.token().stop_requested()) throw Error(ErrorCode::kCancelled, "was interrupted", options_.model);
    if (std::chrono::duration<double>(Clock::now() - begin_).count() > seconds_)
      throw Error(ErrorCode::kCancelled, "takes longer than its budget of " + options_.budget, options_.model);
  }

 private:
  using Clock = std::chrono::steady_clock;
  const RunOptions& options_;
  double seconds_;
  Interruption interruption_;
  Clock::time_point begin_ = Clock::now();
};

bool is_profiled(const RunOptions& options) { return options.profile || !options.trace.empty(); }

std::vector<Datum> run_in_onnxruntime(const RunOptions& options, const Graph& graph, const std::vector<Datum>& inputs) {
  if (is_profiled(options)) throw Error(ErrorCode::kUsage, "--profile and --trace are for --device cpu");
  if (options.check_kernels) throw Error(ErrorCode::kUsage, "--check-kernels is for --device cpu and cuda");
  const std::vector<Tensor> results =
      make_device(options.device, thread_count(options.common), options.math)->run(graph, tensors_of(inputs));
  return {results.begin(), results.end()};
}

std::unique_ptr<Session> prepare(const RunOptions& options, Graph graph, const TimeLimit& limit) {
  SessionOptions session_options{.threads = thread_count(options.common),
                                 .profile = is_profiled(options),
                                 .transformed_convolutions = options.math != MathClass::kExact,
                                 .kernels = options.kernels,
                                 .plan_cache = options.plan_cache,
                                 .checkpoint = [&limit] { limit.check(); }};
  if (options.check_kernels) session_options.check_kernels.emplace();
  if (options.device == "cpu" && is_compiled(graph)) return cpu::prepare_on_cpu(std::move(graph), session_options);
  return prepare_session(find_backend(options.device, options.math), graph, session_options);
}

// Runs the session again several times, and reports the times of its steps.
void profile(const RunOptions& options, Session& session, const std::vector<Datum>& inputs, nlohmann::json& report) {
  constexpr int kRuns = 10;  // after the first one, which also prepares
  const std::vector<StepProfile> first = session.profile();
  for (int i = 0; i < kRuns; ++i) session.execute(inputs);
  const std::vector<StepProfile> steps = difference(session.profile(), first);
  const std::string device = options.device == "reference" ? "cpu" : options.device;
  const Roofline roofline = make_device(device, thread_count(options.common), options.math)->roofline();
  if (options.profile) say(options.common, profile_table(steps, roofline));
  report["profile"] = profile_json(steps, roofline);
  report["roofline"] = {{"flop_per_s", roofline.operations_per_second},
                        {"bytes_per_s", roofline.bytes_per_second},
                        {"share", roofline_share(steps, roofline)}};
  if (!options.trace.empty()) write_file(options.trace, trace_of(steps, roofline).text());
  report["peak_bytes"] = session.peak_bytes();
}

// Writes a file for each output, and returns its entry of the report.
nlohmann::json write_outputs(const RunOptions& options, const Graph& outline, const std::vector<Datum>& outputs) {
  nlohmann::json written = nlohmann::json::array();
  std::error_code error;
  std::filesystem::create_directories(options.output_dir, error);
  if (error) throw Error(ErrorCode::kMissing, error.message(), options.output_dir);
  std::map<std::string, int> used;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = outline.outputs()[i].name;
    const bool is_tensor = outputs[i].is_tensor();
    const DataType type = is_tensor ? outputs[i].tensor().type() : DataType::kUndefined;
    const bool is_array = is_npy_type(type) && type != DataType::kString;  // in NumPy all have the length of the longest
    const std::filesystem::path file =
        std::filesystem::path(options.output_dir) / file_name(name, i, is_array ? ".npy" : ".pb", used);
    if (is_array)
      write_npy(outputs[i].tensor(), file);
    else
      write_output(outline, i, outputs[i], file);
    say(options.common, name + " -> " + file.string() + "\n");
    nlohmann::json entry = {{"name", name}, {"file", file.string()}};
    if (is_tensor) {
      entry["type"] = rewright::name(outputs[i].tensor().type());
      entry["shape"] = outputs[i].tensor().sizes();
    } else {
      entry["type"] = outputs[i].is_sequence() ? "sequence" : outputs[i].is_map() ? "map" : "nothing";
    }
    written.push_back(std::move(entry));
  }
  return written;
}

void require_executable_with_plan(const RunOptions& options) {
  const auto refuse = [](bool given, const char* option) {
    if (given) throw Error(ErrorCode::kUsage, std::string("--plan excludes ") + option);
  };
  refuse(is_profiled(options), "--profile and --trace");
  refuse(options.check_kernels, "--check-kernels");
  refuse(!options.plan_cache.empty(), "--plan-cache");
  refuse(options.device != "cpu" && options.device != "reference", "--device, other than cpu and reference");
}

// The inputs, in the first process; empty tensors in the others.
std::vector<Tensor> planned_inputs(const RunOptions& options, const Graph& graph, Communicator& all) {
  std::vector<Tensor> given(graph.inputs().size());
  if (all.rank() != 0) return given;
  ImportOptions import;
  given = tensors_of(in_order_of_inputs(graph, read_inputs(options, import)));
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    if (given[i].type() != value.type.type || to_indices(given[i].sizes()) != value.type.shape)
      throw Error(ErrorCode::kBadInput, "the plan is for " + to_string(value.type), "input \"" + value.name + "\"");
  }
  return given;
}

// The inputs that the first process reads, as the plan says that they are held.
std::vector<Tensor> own_inputs(const RunOptions& options, const Graph& graph, const plans::LocalProgram& program,
                               Communicator& all) {
  plans::PlanProcesses processes(all, program.groups);
  const std::vector<Tensor> given = planned_inputs(options, graph, all);
  std::vector<Tensor> mine;
  for (std::size_t i = 0; i < given.size(); ++i) mine.push_back(plans::scatter(given[i], program.inputs[i], processes));
  return mine;
}

int run_with_plan(const RunOptions& options, Communicator& processes) {
  require_executable_with_plan(options);
  const TimeLimit limit(options);
  const plans::Plan plan = runtime::read_plan_together(processes, options.plan, "inference");
  const std::size_t resident = resident_bytes();
  runtime::PlannedGraph planned =
      divided_by(plan, runtime::planned_for_inference(runtime::with_batch(import_onnx(options.model), plan.batch)));
  require_proved(plan, planned, processes, options.plan);
  const Graph outline = outputs_of(planned.graph);
  const SessionOptions session{.threads = thread_count(options.common),
                               .transformed_convolutions = options.math != MathClass::kExact,
                               .kernels = options.kernels,
                               .checkpoint = [&limit] { limit.check(); }};
  const Backend& backend = find_backend(options.device, options.math);
  std::vector<Tensor> outputs;
  if (plan.pipeline) {
    plans::PipelineProgram program = pipeline_program(plan, planned.graph, planned.replaced, processes.rank());
    std::vector<Tensor> inputs = planned_inputs(options, planned.graph, processes);
    planned = {};
    runtime::PipelineRun run(std::move(program), processes, backend, session);
    outputs = run.gather_in_first(run.run(run.scatter(std::move(inputs))).back());
  } else {
    plans::LocalProgram program = local_program(plan, planned.graph, planned.replaced, processes.rank());
    std::vector<Tensor> inputs = own_inputs(options, planned.graph, program, processes);
    planned = {};
    runtime::PlannedRun run(std::move(program), processes, backend, session);
    outputs = run.run(std::move(inputs));
  }
  const std::uint64_t sent = processes.bytes_sent();
  if (processes.rank() != 0) return kDone;
  nlohmann::json report = {{"model", options.model},
                           {"device", options.device},
                           {"plan", options.plan},
                           {"processes", processes.size()},
                           {"resident_bytes", peak_resident_bytes() - resident},
                           {"bytes_sent", sent}};
  report["outputs"] = write_outputs(options, outline, {outputs.begin(), outputs.end()});
  write_json(options.common, report);
  return kDone;
}

int run_command(const RunOptions& options) {
  if (!options.plan.empty())
    return run_in_processes([&](Communicator& processes) { return run_with_plan(options, processes); });
  const TimeLimit limit(options);
  ImportOptions import;
  const std::map<std::string, Datum> given = read_inputs(options, import);
  const std::size_t resident = resident_bytes();
  const double start = cpu_milliseconds();
  Graph graph = read_model(options, import, given);
  const double loaded = cpu_milliseconds();
  const std::vector<Datum> inputs = in_order_of_inputs(graph, given);
  const Graph outline = outputs_of(graph);
  std::vector<Datum> outputs;
  nlohmann::json report = {{"model", options.model}, {"device", options.device}};
  if (options.device == "onnxruntime") {
    outputs = run_in_onnxruntime(options, graph, inputs);
  } else {
    const std::unique_ptr<Session> session = prepare(options, std::move(graph), limit);
    const double prepared = cpu_milliseconds();
    const Checkpoint checkpoint = [&limit] { limit.check(); };
    const EndableRun run(checkpoint);
    outputs = session->execute(inputs);
    report["cpu_ms"] = {{"load", loaded - start}, {"prepare", prepared - loaded}, {"run", cpu_milliseconds() - prepared}};
    report["resident_bytes"] = peak_resident_bytes() - resident;
    for (const std::string& warning : session->warnings()) std::cerr << "rewright: warning: " << warning << "\n";
    if (options.check_kernels) {
      const CheckedKernels counts = checked_kernels(*session);
      report_kernels(options.common, options.device, {{}, session->warnings(), counts.steps, counts.checked, counts.elements},
                     report);
    }
    if (is_profiled(options)) profile(options, *session, inputs, report);
  }
  report["outputs"] = write_outputs(options, outline, outputs);
  write_json(options.common, report);
  return kDone;
}

}  // namespace

CLI::App* add_run(CLI::App& program, Run& run) {
  const auto options = std::make_shared<RunOptions>();
  RunOptions& o = *options;
  CLI::App* command = add_command(program, "run", "Execute a model on tensors from files",
                                  "rewright run model.onnx --input x=x.npy --output-dir results", o.common);
  command->add_option("model", o.model, "the model")->required()->type_name("MODEL.onnx");
  command->add_option("--input", o.inputs, "a value for an input (repeatable)")->type_name("NAME=FILE(.npy|.pb)");
  command
      ->add_option("--output-dir", o.output_dir, "folder for the results: a .npy file each, or .pb for types that NumPy lacks")
      ->required()
      ->type_name("DIR");
  command->add_option("--device", o.device, device_names(DeviceUse::kRun, "or"))->capture_default_str();
  command
      ->add_option("--plan", o.plan,
                   "how the processes that mpirun started share the work (rewright plan --for inference); it is proved first")
      ->type_name("PLAN");
  command->add_option("--budget", o.budget, "time after which a run is ended (a loop may never end)");
  command
      ->add_option("--plan-cache", o.plan_cache,
                   "keep packed weights and folded constants here, to start faster the next time (device cpu)")
      ->type_name("FILE");
  add_choice(
      *command, "--math", o.math, math_choices(),
      "exact: no convolutions by Winograd's or Fourier's transforms, which round more; fast: GPUs may round factors to TF32");
  add_kernels_option(*command, o.kernels);
  add_check_kernels(*command, o.check_kernels);
  command->add_flag("--profile", o.profile, "print time, FLOPs and bytes of each operator");
  command->add_option("--trace", o.trace, "write the operators' times in Chrome's trace format")->type_name("FILE.json");
  command->callback([options, &run] { run = [options] { return run_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
