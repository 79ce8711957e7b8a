#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "graph/file.h"
#include "runtime/cpu/device.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

struct Options {
  CommonOptions common;
  std::string model, output_dir, trace, plan_cache, device = "cpu";
  std::vector<std::string> inputs;
  std::string math = "reassociate";
  bool profile = false;
};

// A file name for a tensor: what cannot stand in a name becomes "_"; equal names get a number.
std::string file_name(const std::string& tensor, std::size_t number, std::map<std::string, int>& used) {
  std::string name;
  for (const char c : tensor) name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' ? c : '_';
  if (name.empty() || name.front() == '.') name = "output_" + std::to_string(number) + name;
  if (used[name]++ > 0) name += "_" + std::to_string(number);
  return name + ".npy";
}

// What was measured from `before` on.
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
  }
  return list;
}

// Chrome's trace format: the steps of an average run, one after the other, in microseconds.
nlohmann::json trace_json(const std::vector<StepProfile>& steps, const Roofline& roofline) {
  nlohmann::json events = nlohmann::json::array();
  double start = 0;
  for (const StepProfile& s : steps) {
    const double microseconds = s.seconds * 1e6 / std::max(1, s.runs);
    const double per_second = microseconds > 0 ? 1e-3 / microseconds : 0;
    events.push_back({{"name", s.operators},
                      {"cat", "step"},
                      {"ph", "X"},
                      {"ts", start},
                      {"dur", microseconds},
                      {"pid", 1},
                      {"tid", 1},
                      {"args",
                       {{"node", s.node},
                        {"gflop_per_s", s.flops * per_second},
                        {"gb_per_s", s.bytes * per_second},
                        {"roofline_share", roofline_share(s, roofline)}}}});
    start += microseconds;
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

double cpu_milliseconds() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The memory of this process in bytes: what it has ("VmRSS:"), or the most it had ("VmHWM:"; getrusage would count that of the
// process that started it).
std::size_t memory_of_process(const std::string& which) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(which)) return std::stoull(line.substr(which.size())) * 1024;
  return 0;
}

int run_command(const Options& options) {
  const std::map<std::string, Tensor> given = read_named_tensors(options.inputs);
  ImportOptions import;  // axes, pads or shapes may be inputs of the model: their values say what it computes
  for (const auto& [name, tensor] : given)
    if (tensor.size() <= 1024) import.input_values[name] = tensor;
  const std::size_t resident = memory_of_process("VmRSS:");
  const double start = cpu_milliseconds();
  const Graph graph = import_onnx(options.model, import);
  const double loaded = cpu_milliseconds();
  const std::vector<Tensor> inputs = in_order_of_inputs(graph, given);
  const int threads = thread_count(options.common);
  const bool profile = options.profile || !options.trace.empty();
  std::vector<Tensor> outputs;
  nlohmann::json report = {{"model", options.model}, {"device", options.device}};
  if (options.device == "onnxruntime") {
    if (profile) throw Error(ErrorCode::kUsage, "--profile and --trace are for --device cpu");
    outputs = make_device(options.device, threads)->run(graph, inputs);
  } else {
    const auto is_opaque = [](const auto& node) { return node->op == nullptr; };
    std::string device = options.device;
    if (device == "cpu" && std::any_of(graph.nodes().begin(), graph.nodes().end(), is_opaque)) {
      device = "reference";
      std::cerr << "rewright: warning: " << options.model
                << ": it holds nodes that only the interpreter executes (see rewright show --unsupported), and is run by it\n";
    }
    const std::unique_ptr<Session> session = find_backend(device).prepare(
        graph, {.threads = threads, .profile = profile, .winograd = options.math != "exact", .plan_cache = options.plan_cache});
    const double prepared = cpu_milliseconds();
    outputs = session->run(inputs);
    report["cpu_ms"] = {{"load", loaded - start}, {"prepare", prepared - loaded}, {"run", cpu_milliseconds() - prepared}};
    report["resident_bytes"] = memory_of_process("VmHWM:") - resident;
    for (const std::string& warning : session->warnings()) std::cerr << "rewright: warning: " << warning << "\n";
    if (profile) {
      constexpr int kRuns = 10;  // beside the first one, which also prepares
      const std::vector<StepProfile> first = session->profile();
      for (int i = 0; i < kRuns; ++i) session->run(inputs);
      const std::vector<StepProfile> steps = difference(session->profile(), first);
      const Roofline roofline = make_cpu_device(threads)->roofline();
      if (options.profile) say(options.common, profile_table(steps, roofline));
      report["profile"] = profile_json(steps, roofline);
      report["roofline"] = {{"flop_per_s", roofline.operations_per_second}, {"bytes_per_s", roofline.bytes_per_second}};
      if (!options.trace.empty()) {
        constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
        write_file(options.trace, trace_json(steps, roofline).dump(-1, ' ', false, kReplace) + "\n");
      }
      report["peak_bytes"] = session->peak_bytes();
    }
  }
  nlohmann::json written = nlohmann::json::array();
  std::error_code error;
  std::filesystem::create_directories(options.output_dir, error);
  if (error) throw Error(ErrorCode::kMissing, error.message(), options.output_dir);
  std::map<std::string, int> used;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = graph.outputs()[i].name;
    const std::filesystem::path file = std::filesystem::path(options.output_dir) / file_name(name, i, used);
    write_npy(outputs[i], file);
    say(options.common, name + " -> " + file.string() + "\n");
    written.push_back(
        {{"name", name}, {"file", file.string()}, {"type", rewright::name(outputs[i].type())}, {"shape", outputs[i].sizes()}});
  }
  report["outputs"] = std::move(written);
  write_json(options.common, report);
  return kDone;
}

}  // namespace

CLI::App* add_run(CLI::App& program, Run& run) {
  const auto options = std::make_shared<Options>();
  Options& o = *options;
  CLI::App* command = add_command(program, "run", "Execute a model on tensors from files",
                                  "rewright run model.onnx --input x=x.npy --output-dir results", o.common);
  command->add_option("model", o.model, "the model")->required()->type_name("MODEL.onnx");
  command->add_option("--input", o.inputs, "a tensor for an input (repeatable)")->type_name("NAME=FILE(.npy|.pb)");
  command->add_option("--output-dir", o.output_dir, "folder for the results, a .npy file each")->required()->type_name("DIR");
  command->add_option("--device", o.device, "cpu, onnxruntime or reference")->capture_default_str();
  command
      ->add_option("--plan-cache", o.plan_cache,
                   "keep packed weights and folded constants here, to start faster the next time (device cpu)")
      ->type_name("FILE");
  command->add_option("--math", o.math, "exact: no convolutions by Winograd's method, which rounds more")
      ->check(CLI::IsMember({"exact", "reassociate", "fast"}))
      ->capture_default_str();
  command->add_flag("--profile", o.profile, "print time, FLOPs and bytes of each operator");
  command->add_option("--trace", o.trace, "write the operators' times in Chrome's trace format")->type_name("FILE.json");
  command->callback([options, &run] { run = [options] { return run_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
