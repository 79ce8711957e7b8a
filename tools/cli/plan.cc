#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/trace.h"
#include "graph/file.h"
#include "graph/onnx/onnx.h"
#include "plans/machines/machine_file.h"
#include "plans/plan.h"
#include "plans/simulation/simulated_trace.h"
#include "runtime/planned/planner.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

using plans::Machine, plans::Plan, plans::PlanCheck, plans::PlannedExchange, plans::Simulation;
using runtime::find_plan, runtime::FoundPlan, runtime::simulate_plan, runtime::with_batch;
using runtime::planned_for_inference, runtime::planned_for_training, runtime::planned_training, runtime::PlannedGraph;

struct PlanOptions {
  CommonOptions common;
  std::string model, machine, output, purpose = "training", strategy = "auto", budget = "120s", trace, check;
  std::string loss = "softmax-cross-entropy", update = "adam";
  std::optional<std::int64_t> batch;
  std::size_t groups = 0;
};

PlannedGraph planned_graph(const std::string& file, const std::string& purpose, std::optional<std::int64_t> batch,
                           const std::string& loss, const std::string& update) try {
  if (purpose == "inference") return planned_for_inference(with_batch(import_onnx(file), batch));
  const Graph model = with_batch(import_onnx(file, {.procedures_as_graphs = true}), batch);
  return planned_for_training(training::make_training_graphs(model, "", planned_training(loss, update)));
} catch (const Error& e) {
  throw e.where().empty() ? e.within(file) : e;
}

std::map<std::string, int> exchange_counts(const Plan& plan) {
  std::map<std::string, int> counts;
  for (const PlannedExchange& e : plan.exchanges) ++counts[std::string(plans::name(e.exchange)) + (plan.within ? " (groups)" : "")];
  if (plan.within)
    for (const PlannedExchange& e : plan.within->exchanges) ++counts[std::string(plans::name(e.exchange))];
  return counts;
}

std::string milliseconds(double seconds) {
  std::ostringstream text;
  text << std::setprecision(4) << seconds * 1e3 << " ms";
  return text.str();
}

int check(const PlanOptions& options) {
  const Plan plan = plans::read_plan(map_file(options.check).text(), options.check);
  const PlannedGraph planned = planned_graph(options.model, plan.purpose, plan.batch, plan.loss, plan.update);
  const PlanCheck result = check_plan(plan, planned.graph, planned.replaced);
  std::ostringstream text;
  text << options.check << ": ";
  if (result.proved)
    text << "proved: " << plan.all_processes() << " processes compute what " << options.model << " computes (" << result.rules
         << " rules)\n";
  else
    text << "not proved: " << result.reason << "\n";
  say(options.common, text.str());
  write_json(options.common, {{"plan", options.check},
                              {"proved", result.proved},
                              {"reason", result.reason},
                              {"rules", result.rules},
                              {"processes", plan.all_processes()}});
  return result.proved ? kDone : kNo;
}

int make(const PlanOptions& options) {
  if (options.machine.empty() || options.output.empty())
    throw Error(ErrorCode::kUsage, "a plan needs --machine FILE and -o PLAN, or --check PLAN");
  require_writable(options.output);
  const Machine machine = plans::read_machine(options.machine);
  const PlannedGraph planned = planned_graph(options.model, options.purpose, options.batch, options.loss, options.update);
  FoundPlan found;
  try {
    found = find_plan(planned, machine, {options.strategy, options.groups, parse_seconds(options.budget)});
  } catch (const Error& e) {
    throw e.where().empty() ? e.within(options.model) : e;
  }
  Plan& plan = found.plan;
  plan.purpose = options.purpose, plan.loss = options.loss, plan.update = options.update, plan.batch = options.batch;
  write_file(options.output, write_plan(plan, planned.graph, planned.replaced));
  if (!options.trace.empty()) {
    Simulation simulation(machine);
    simulate_plan(simulation, plan, planned);
    write_file(options.trace, simulated_trace(simulation).text());
  }
  const plans::PlanPrediction& predicted = *plan.predicted;
  std::ostringstream text;
  text << options.output << ": " << plan.all_processes() << " processes, strategy " << plan.strategy << ", proved (" << found.rules
       << " rules)\n"
       << "  a step         " << milliseconds(predicted.seconds) << " (lower bound " << milliseconds(predicted.lower_bound) << ")\n"
       << "  memory         " << std::setprecision(4) << predicted.most_bytes() / 1e6 << " MB in the fullest process\n"
       << "  sent           " << predicted.all_sent() / 1e6 << " MB\n";
  for (const auto& [exchange, count] : exchange_counts(plan)) text << "  " << std::left << std::setw(15) << exchange << count << "\n";
  for (const auto& [strategy, seconds] : found.strategies)
    text << "  as " << std::left << std::setw(12) << strategy << milliseconds(seconds) << "\n";
  say(options.common, text.str());
  write_json(options.common, {{"output", options.output},
                              {"seconds", predicted.seconds},
                              {"lower_bound", predicted.lower_bound},
                              {"peak_bytes", predicted.most_bytes()},
                              {"bytes_sent", predicted.all_sent()},
                              {"processes", plan.all_processes()},
                              {"groups", plan.within ? plan.processes : 1},
                              {"strategy", plan.strategy},
                              {"strategies", found.strategies},
                              {"proved", true},
                              {"search",
                               {{"seconds", found.search_seconds},
                                {"proof_seconds", found.proof_seconds},
                                {"stop_reason", found.timed_out ? "budget" : "done"}}}});
  return kDone;
}

}  // namespace

CLI::App* add_plan(CLI::App& program, Run& run) {
  const auto options = std::make_shared<PlanOptions>();
  PlanOptions& o = *options;
  CLI::App* command = add_command(program, "plan", "Divide a model's work among the processes of a machine, each cut proved",
                                  "rewright plan model.onnx --machine cluster.json --batch 256 -o model.plan", o.common);
  command->add_option("MODEL", o.model, "the model")->required();
  command->add_option("--machine", o.machine, "the machine's file (docs/plans.md)")->type_name("FILE");
  command->add_option("-o,--output", o.output, "the plan that is written")->type_name("PLAN");
  command->add_option("--batch", o.batch, "what the model's open sizes stand for")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--for", o.purpose, "training or inference")
      ->check(CLI::IsMember({"training", "inference"}))
      ->capture_default_str();
  command->add_option("--strategy", o.strategy, "auto, data, zero, tensor, hybrid or spatial; or two of them, between groups and within: data+tensor")
      ->capture_default_str();
  command->add_option("--groups", o.groups, "of processes, of a plan of two levels (default: the machine's nodes)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 16));
  command->add_option("--budget", o.budget, "time for the search")->capture_default_str();
  command->add_option("--loss", o.loss, "what training minimizes")->capture_default_str();
  command->add_option("--optimizer", o.update, "how parameters move: sgd, momentum, adam, ...")->capture_default_str();
  command->add_option("--trace", o.trace, "the simulated step, for Perfetto")->type_name("FILE");
  command->add_option("--check", o.check, "proves that this plan computes what the model computes")->type_name("PLAN");
  command->callback([options, &run] { run = [options] { return options->check.empty() ? make(*options) : check(*options); }; });
  return command;
}

}  // namespace rewright::cli
