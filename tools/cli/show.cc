#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graph/print.h"
#include "optimizer/optimize.h"
#include "rules/io.h"
#include "runtime/cpu/backend/device.h"
#include "runtime/mixed.h"
#include "tools/cli/command.h"
#include "tools/cli/show_plan.h"

namespace rewright::cli {

namespace {

struct ShowOptions {
  CommonOptions common;
  std::string file, device = "cpu";
  std::vector<std::string> shapes;
  bool unsupported = false, time = false;
};

// The totals of one operator type in a graph.
struct Total {
  int count = 0;
  Index operations, bytes;  // expressions over the model's sizes
};

Index byte_count(const TensorType& type) { return Index(byte_size(type.type)) * product(type.shape); }

std::map<std::string, Total> totals(const Graph& graph) {
  std::map<std::string, Total> result;
  for (const auto& node : graph.nodes()) {
    Total& total = result[node->op ? node->op->name() : "(kept as it is)"];
    ++total.count;
    if (!node->op) continue;
    const Definition d = node->op->define(node->attributes, Inputs::of(graph.operand_types(*node)));
    for (const Output& o : d.outputs()) {
      if (o.element) total.operations += operation_count(o.element) * product(o.type.shape);
      total.bytes += byte_count(o.type);
    }
    for (const ValueId id : node->inputs)
      if (id != kNoValue) total.bytes += byte_count(graph.value(id).type);
  }
  return result;
}

nlohmann::json number_or_text(const Index& index) {
  if (const auto c = index.constant()) return *c;
  return index.to_string();
}

constexpr std::size_t kLongestFormula = 40;
constexpr const char* kOpen = "open";

// For table columns. Sums over sizes that the model computes from elements would fill pages.
std::string human(const Index& index) {
  const auto c = index.constant();
  if (!c) {
    std::string formula = index.to_string();
    return formula.size() > kLongestFormula ? kOpen : formula;
  }
  double v = static_cast<double>(*c);
  const char* units[] = {"", "k", "M", "G", "T"};
  int unit = 0;
  while (v >= 1000 && unit < 4) v /= 1000, ++unit;
  std::ostringstream out;
  out << std::setprecision(unit == 0 ? 4 : 3) << v << units[unit];
  return out.str();
}

nlohmann::json tensor_json(const std::string& name, const TensorType& type) {
  nlohmann::json shape = nlohmann::json::array();
  for (const Index& s : type.shape) shape.push_back(number_or_text(s));
  return {{"name", name}, {"type", rewright::name(type.type)}, {"shape", shape}};
}

int show_unsupported(const ShowOptions& options, const Graph& graph) {
  const std::unique_ptr<Device> device = make_device(options.device, thread_count(options.common));
  nlohmann::json list = nlohmann::json::array();
  bool executable = true;
  for (const auto& node : graph.nodes()) {
    const bool runs = device->supports(graph, *node);
    executable = executable && runs;
    if (node->op && runs) continue;
    const std::string reason = node->op ? "no kernel for it on " + options.device : node->opaque_reason;
    const bool interpreted = node->op || objection_to_execution(graph, *node).empty();
    say(options.common, node_name(graph, *node) + ": " + reason +
                            (runs          ? " (kept as it is, executed)"
                             : interpreted ? " (on " + options.device + " not executable, by the interpreter it is)"
                                           : " (not executable on " + options.device + ")") +
                            "\n");
    list.push_back({{"node", node_name(graph, *node)},
                    {"reason", reason},
                    {"rewritten", node->op != nullptr},
                    {"executable", runs},
                    {"interpreted", interpreted}});
  }
  if (list.empty()) say(options.common, "everything is understood and can be executed on " + options.device + "\n");
  write_json(options.common,
             {{"model", options.file}, {"device", options.device}, {"executable", executable}, {"nodes", list}});
  return executable ? kDone : kNo;
}

int show_model(const ShowOptions& options) {
  const Graph model = import_onnx(options.file);
  Graph graph = model;
  const std::map<std::string, std::int64_t> sizes = one_set_of_sizes(graph, parse_shapes(options.shapes));
  if (!sizes.empty())
    graph = with_sizes(graph, [&](const Atom& atom) -> std::optional<Index> {
      const auto at = atom.kind == Atom::Kind::kSymbol ? sizes.find(atom.name) : sizes.end();
      return at == sizes.end() ? std::nullopt : std::optional<Index>(at->second);
    });
  if (options.unsupported) return show_unsupported(options, graph);
  std::ostringstream text;
  nlohmann::json inputs = nlohmann::json::array(), outputs = nlohmann::json::array(), operators = nlohmann::json::array();
  text << options.file << "\n";
  // Shows sizes as the model declares them, and the values assumed for open ones below.
  for (const ValueId id : model.inputs()) {
    text << "  input   " << model.value(id).name << "  " << to_string(model.value(id).type) << "\n";
    inputs.push_back(tensor_json(model.value(id).name, model.value(id).type));
  }
  for (const GraphOutput& o : model.outputs()) {
    text << "  output  " << o.name << "  " << (o.shape_known ? to_string(o.type) : "of unknown shape") << "\n";
    outputs.push_back(tensor_json(o.name, o.type));
  }
  for (const auto& [name, size] : sizes) text << (name == sizes.begin()->first ? "  with    " : ", ") << name << " = " << size;
  if (!sizes.empty()) text << "\n";
  std::int64_t parameters = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.is_constant(id)) parameters += graph.value(id).constant.size();
  text << "  " << graph.nodes().size() << " nodes, " << human(parameters) << " numbers in constants\n\n";
  Index operations, bytes;
  text << "  " << std::left << std::setw(24) << "operator" << std::right << std::setw(8) << "nodes" << std::setw(14) << "FLOPs"
       << std::setw(14) << "bytes"
       << "\n";
  for (const auto& [name, total] : totals(graph)) {
    text << "  " << std::left << std::setw(24) << name << std::right << std::setw(8) << total.count << std::setw(14)
         << human(total.operations) << std::setw(14) << human(total.bytes) << "\n";
    operators.push_back({{"operator", name},
                         {"nodes", total.count},
                         {"flops", number_or_text(total.operations)},
                         {"bytes", number_or_text(total.bytes)}});
    operations += total.operations;
    bytes += total.bytes;
  }
  text << "  " << std::left << std::setw(24) << "all" << std::right << std::setw(8) << graph.nodes().size() << std::setw(14)
       << human(operations) << std::setw(14) << human(bytes) << "\n";
  if (human(operations) == kOpen || human(bytes) == kOpen)
    text << "  " << kOpen << ": depends on sizes that are only known while the model runs; --json gives the formula\n";
  nlohmann::json report = {{"model", options.file},
                           {"inputs", inputs},
                           {"outputs", outputs},
                           {"sizes", sizes},
                           {"nodes", graph.nodes().size()},
                           {"parameters", parameters},
                           {"operators", operators},
                           {"flops", number_or_text(operations)},
                           {"bytes", number_or_text(bytes)}};
  if (options.time) {
    const int threads = thread_count(options.common);
    const std::unique_ptr<Session> session = prepare_session(find_backend("cpu"), graph, {.threads = threads, .profile = true});
    const std::vector<Tensor> tensors = random_inputs(graph, sizes, options.common.seed);
    for (int i = 0; i < 5; ++i) session->run(tensors);
    const std::vector<StepProfile> steps = session->profile();
    text << "\n" << profile_table(steps, cpu::make_cpu_device(threads)->roofline());
    nlohmann::json list = nlohmann::json::array();
    for (const StepProfile& s : steps)
      list.push_back({{"node", s.node}, {"operators", s.operators}, {"ms", s.seconds * 1e3 / std::max(1, s.runs)}});
    report["time"] = std::move(list);
  }
  say(options.common, text.str());
  write_json(options.common, report);
  return kDone;
}

int show_command(const ShowOptions& options) {
  if (options.file.ends_with(".onnx")) return show_model(options);
  if (is_plan(options.file)) return show_plan(options.file, options.common);
  nlohmann::json list = nlohmann::json::array();
  for (const Rule& rule : read_rules(options.file)) {
    say(options.common, to_algebra(rule) + "\n");
    list.push_back({{"name", rule.name}, {"algebra", to_algebra(rule)}});
  }
  write_json(options.common, {{"rules", list}});
  return kDone;
}

}  // namespace

CLI::App* add_show(CLI::App& program, Run& run) {
  const auto options = std::make_shared<ShowOptions>();
  ShowOptions& o = *options;
  CLI::App* command =
      add_command(program, "show", "What is in a model, a plan or a rule file", "rewright show model.onnx", o.common);
  command->add_option("file", o.file, "a model, a plan, or rules")->required()->type_name("MODEL.onnx|PLAN|RULES");
  command->add_option("--shape", o.shapes, "a size where the model leaves it open (repeatable)")->type_name("NAME=SIZES");
  command->add_flag("--time", o.time, "run the model on this CPU and show the time of each operator");
  command->add_flag("--unsupported", o.unsupported,
                    "only what cannot be rewritten or executed, and why (exit 1 if not executable)");
  command->add_option("--device", o.device, "with --unsupported: executed by " + device_names(DeviceUse::kMeasure, "or"))
      ->capture_default_str();
  command->callback([options, &run] { run = [options] { return show_command(*options); }; });
  return command;
}

}  // namespace rewright::cli
