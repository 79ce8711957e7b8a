#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/cpu/device.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

struct Options {
  CommonOptions common;
  std::string model, output_dir, device = "cpu";
  std::vector<std::string> inputs;
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

int run_command(const Options& options) {
  const std::map<std::string, Tensor> given = read_named_tensors(options.inputs);
  ImportOptions import;  // axes, pads or shapes may be inputs of the model: their values say what it computes
  for (const auto& [name, tensor] : given)
    if (tensor.size() <= 1024) import.input_values[name] = tensor;
  const Graph graph = import_onnx(options.model, import);
  const std::vector<Tensor> inputs = in_order_of_inputs(graph, given);
  const int threads = thread_count(options.common);
  std::vector<Tensor> outputs;
  nlohmann::json report = {{"model", options.model}, {"device", options.device}};
  if (options.device == "onnxruntime") {
    if (options.profile) throw Error(ErrorCode::kUsage, "--profile is for --device cpu");
    outputs = make_device(options.device, threads)->run(graph, inputs);
  } else {
    const std::unique_ptr<Session> session =
        find_backend(options.device).prepare(graph, {.threads = threads, .profile = options.profile});
    outputs = session->run(inputs);
    if (options.profile) {
      constexpr int kRuns = 10;  // the first run also prepares
      for (int i = 1; i < kRuns; ++i) session->run(inputs);
      const std::vector<StepProfile> steps = session->profile();
      say(options.common, profile_table(steps, make_cpu_device(threads)->roofline()));
      nlohmann::json list = nlohmann::json::array();
      for (const StepProfile& s : steps)
        list.push_back({{"node", s.node},
                        {"operators", s.operators},
                        {"ms", s.seconds * 1e3 / std::max(1, s.runs)},
                        {"flops", s.flops},
                        {"bytes", s.bytes}});
      report["profile"] = std::move(list);
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
  command->add_flag("--profile", o.profile, "print time, FLOPs and bytes of each operator");
  command->callback([options, &run] { run = [options] { return run_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
