#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "expressions/difference.h"
#include "optimizer/optimize.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

struct CompareOptions {
  CommonOptions common;
  std::string first, second, device = "cpu";
  std::vector<std::string> inputs, shapes;
  double rtol = 1e-4, atol = 1e-5;
  int runs = 3;
};

struct OutputReport {
  double absolute = 0, relative = 0;  // relative to the output's largest magnitude
  bool ok = true;
  std::string note;
};

void add_difference(OutputReport& total, const Tensor& a, const Tensor& b, const CompareOptions& options) {
  if (a.type() != b.type() || a.sizes() != b.sizes()) {
    total.ok = false;
    total.note = "type or sizes differ";
    return;
  }
  const Difference d = difference(a, b, options.rtol, options.atol);
  total.ok = total.ok && d.within;
  total.absolute = std::max(total.absolute, d.absolute);
  total.relative = std::max(total.relative, d.relative());
}

std::unique_ptr<Device> device_of(const CompareOptions& options) {
  return options.device == "reference" ? nullptr : make_device(options.device, thread_count(options.common));
}

std::vector<Tensor> run_graph(Device* device, const Graph& graph, std::span<const Tensor> inputs) {
  return device ? device->run(graph, inputs) : interpret(graph, inputs);
}

// Outputs of `graph` in the order of those of `like`.
std::vector<Tensor> in_order(const Graph& graph, std::vector<Tensor> outputs, const Graph& like) {
  std::vector<Tensor> result;
  for (const GraphOutput& wanted : like.outputs())
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (graph.outputs()[i].name == wanted.name) result.push_back(outputs[i]);
  return result;
}

int compare_command(const CompareOptions& options) {
  const Graph a = import_onnx(options.first), b = import_onnx(options.second);
  const std::vector<WeightedSizes> sizes = symbol_sizes(a, parse_shapes(options.shapes));
  std::map<std::string, std::size_t> input_of;  // of the second model
  for (std::size_t i = 0; i < b.inputs().size(); ++i) input_of[b.value(b.inputs()[i]).name] = i;
  const auto require_same = [&](bool same, const std::string& what) {
    if (!same) throw Error(ErrorCode::kBadInput, "the models have different " + what, options.first + ", " + options.second);
  };
  require_same(a.inputs().size() == b.inputs().size(), "inputs");
  for (const ValueId id : a.inputs()) require_same(input_of.count(a.value(id).name) == 1, "inputs");
  require_same(a.outputs().size() == b.outputs().size(), "outputs");
  for (const GraphOutput& o : a.outputs())
    require_same(std::any_of(b.outputs().begin(), b.outputs().end(), [&](const GraphOutput& p) { return p.name == o.name; }),
                 "outputs");
  const std::unique_ptr<Device> device = device_of(options);
  std::vector<OutputReport> differences(a.outputs().size());
  // As many at each of the given sizes.
  const int sets = static_cast<int>(sizes.size()), runs = options.inputs.empty() ? options.runs * sets : 1;
  for (int run = 0; run < runs; ++run) {
    const auto seed = options.common.seed + static_cast<std::uint64_t>(run / sets);
    const std::vector<Tensor> inputs = options.inputs.empty()
                                           ? random_inputs(a, sizes[static_cast<std::size_t>(run % sets)].sizes, seed)
                                           : in_order_of_inputs(a, read_named_tensors(options.inputs));
    std::vector<Tensor> others(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) others[input_of.at(a.value(a.inputs()[i]).name)] = inputs[i];
    const std::vector<Tensor> x = run_graph(device.get(), a, inputs);
    const std::vector<Tensor> y = in_order(b, run_graph(device.get(), b, others), a);
    for (std::size_t i = 0; i < x.size(); ++i) add_difference(differences[i], x[i], y[i], options);
  }
  bool ok = true;
  nlohmann::json outputs = nlohmann::json::array();
  std::ostringstream text;
  text << std::scientific << std::setprecision(2);
  for (std::size_t i = 0; i < differences.size(); ++i) {
    const OutputReport& d = differences[i];
    const std::string& name = a.outputs()[i].name;
    ok = ok && d.ok;
    text << "  " << name << ": " << (d.ok ? "same" : "differs") << ", largest error " << d.absolute << " absolute, "
         << d.relative << " relative" << (d.note.empty() ? "" : " (" + d.note + ")") << "\n";
    nlohmann::json entry = {{"name", name}, {"max_abs_error", d.absolute}, {"max_rel_error", d.relative}, {"ok", d.ok}};
    if (!d.note.empty()) entry["note"] = d.note;
    outputs.push_back(std::move(entry));
  }
  say(options.common, (ok ? "the models agree\n" : "the models differ\n") + text.str());
  write_json(options.common, {{"ok", ok}, {"runs", runs}, {"outputs", outputs}});
  return ok ? kDone : kNo;
}

}  // namespace

CLI::App* add_compare(CLI::App& program, Run& run) {
  const auto options = std::make_shared<CompareOptions>();
  CompareOptions& o = *options;
  CLI::App* command = add_command(program, "compare", "Do two models give the same results on random and given inputs?",
                                  "rewright compare model.onnx faster.onnx --runs 3", o.common);
  command->add_option("first", o.first, "a model")->required()->type_name("A.onnx");
  command->add_option("second", o.second, "another model with the same inputs and outputs")->required()->type_name("B.onnx");
  command->add_option("--rtol", o.rtol, "relative tolerance of an element")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--atol", o.atol, "absolute tolerance of an element")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--runs", o.runs, "random inputs to try")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--input", o.inputs, "a tensor for an input, instead of random ones (repeatable)")
      ->type_name("NAME=FILE(.npy|.pb)");
  command->add_option("--shape", o.shapes, "sizes where the model leaves them open, one set or several (repeatable)")
      ->type_name("NAME=SIZES");
  command->add_option("--device", o.device, device_names(DeviceUse::kRun, "or"))->capture_default_str();
  command->callback([options, &run] { run = [options] { return compare_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
