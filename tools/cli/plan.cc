#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/planning.h"
#include "graph/file.h"
#include "graph/onnx/onnx.h"
#include "tools/cli/command.h"
#include "tools/cli/request_options.h"

namespace rewright::cli {

namespace {

using plans::Plan, plans::PlannedExchange;

struct PlanOptions {
  CommonOptions common;
  PlanRequest request;
  std::string model, output, check;
};

std::map<std::string, int> exchange_counts(const Plan& plan) {
  std::map<std::string, int> counts;
  for (const PlannedExchange& e : plan.exchanges)
    ++counts[std::string(plans::name(e.exchange)) + (plan.within ? " (groups)" : "")];
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
  const auto [plan, result] = api::check_plan(import_onnx(options.model), options.model, options.check);
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
  if (options.request.machine.empty() || options.output.empty())
    throw Error(ErrorCode::kUsage, "a plan needs --machine FILE and -o PLAN, or --check PLAN");
  require_writable(options.output);
  if (!options.request.found_machine.empty()) require_writable(options.request.found_machine);
  PlanRequest request = options.request;
  request.search.seed = static_cast<unsigned>(options.common.seed);
  const MadePlan made = api::make_plan(import_onnx(options.model), options.model, request, options.output);
  const Plan& plan = made.plan;
  write_file(options.output, made.text);
  const nlohmann::json facts = nlohmann::json::parse(made.facts);
  const plans::PlanPrediction& predicted = *plan.predicted;
  const bool proved = facts.at("proved").get<bool>();
  std::ostringstream text;
  text << options.output << ": " << plan.all_processes() << " processes, strategy " << plan.strategy << ", "
       << (proved ? "proved (" + facts.at("rules").dump() + " rules)" : "not proved: " + facts.at("reason").get<std::string>())
       << "\n"
       << "  a step         " << milliseconds(predicted.seconds) << " (lower bound " << milliseconds(predicted.lower_bound)
       << ")\n"
       << "  memory         " << std::setprecision(4) << predicted.most_bytes() / 1e6 << " MB in the fullest process\n"
       << "  sent           " << predicted.all_sent() / 1e6 << " MB\n";
  if (const auto again = facts.at("recomputed_nodes").get<std::size_t>(); again > 0)
    text << "  recomputed     " << again << " nodes\n";
  if (plan.pipeline)
    text << "  pipeline       " << plan.pipeline->schedule.stages << " stages, " << plan.processes << " micro-batches, waiting "
         << *predicted.bubble * 100 << "% of a step\n"
         << "  a step alone   " << milliseconds(predicted.seconds_alone.value_or(predicted.seconds)) << "\n";
  else  // a pipeline's are sums over micro-batches, within a process
    for (const auto& [exchange, count] : exchange_counts(plan))
      text << "  " << std::left << std::setw(15) << exchange << count << "\n";
  if (const auto network = facts.find("network"); network != facts.end()) {
    text << "  network        " << network->at("name").get<std::string>() << "\n";
    for (const auto& [name, seconds] : network->at("seconds").items())
      text << "  on " << std::left << std::setw(11) << name << " " << milliseconds(seconds.get<double>()) << "\n";
  }
  for (const auto& [strategy, seconds] : facts.at("strategies").items())
    text << "  as " << std::left << std::setw(11) << strategy << " " << milliseconds(seconds.get<double>()) << "\n";
  if (const auto gain = facts.find("asynchronous"); gain != facts.end())
    text << "  asynchronous   at most " << std::setprecision(3) << gain->at("even").get<double>() << " times as many steps, "
         << gain->at("straggler").get<double>() << " where one process is half as fast; stale gradients cost some of that\n";
  say(options.common, text.str());
  write_json(options.common, facts);
  return proved ? kDone : kNo;
}

}  // namespace

CLI::App* add_plan(CLI::App& program, Run& run) {
  const auto options = std::make_shared<PlanOptions>();
  PlanOptions& o = *options;
  CLI::App* command = add_command(program, "plan", "Divide a model's work among the processes of a machine, each cut proved",
                                  "rewright plan model.onnx --machine cluster.json --batch 256 -o model.plan", o.common);
  command->add_option("MODEL", o.model, "the model")->required();
  command->add_option("-o,--output", o.output, "the plan that is written")->type_name("PLAN");
  add_options(*command, o.request, plan_options());
  command->add_option("--check", o.check, "proves that this plan computes what the model computes")->type_name("PLAN");
  command->callback([options, &run] { run = [options] { return options->check.empty() ? make(*options) : check(*options); }; });
  return command;
}

}  // namespace rewright::cli
