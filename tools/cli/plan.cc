#include <algorithm>
#include <chrono>
#include <iomanip>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/trace.h"
#include "graph/file.h"
#include "graph/onnx/onnx.h"
#include "optimizer/costs/cost_model.h"
#include "plans/machines/machine_file.h"
#include "plans/partition/step.h"
#include "plans/plan.h"
#include "plans/simulation/simulated_trace.h"
#include "runtime/planned/planned_graph.h"
#include "tools/cli/command.h"

namespace rewright::cli {

namespace {

using plans::ChoiceFinder, plans::Holding, plans::Machine, plans::NodeChoice, plans::OperandTypes, plans::Partition;
using plans::PartitionOptions, plans::Plan, plans::PlanCheck, plans::PlannedExchange, plans::Simulation;

using runtime::holdings_of, runtime::strategies, runtime::with_batch;
using runtime::planned_for_inference, runtime::planned_for_training, runtime::planned_training, runtime::PlannedGraph;

struct PlanOptions {
  CommonOptions common;
  std::string model, machine, output, purpose = "training", strategy = "auto", budget = "120s", trace, check;
  std::string loss = "softmax-cross-entropy", update = "adam";
  std::optional<std::int64_t> batch;
};

PlannedGraph planned_graph(const std::string& file, const std::string& purpose, std::optional<std::int64_t> batch,
                           const std::string& loss, const std::string& update) try {
  if (purpose == "inference") return planned_for_inference(with_batch(import_onnx(file), batch));
  const Graph model = with_batch(import_onnx(file, {.procedures_as_graphs = true}), batch);
  return planned_for_training(training::make_training_graphs(model, "", planned_training(loss, update)));
} catch (const Error& e) {
  throw e.where().empty() ? e.within(file) : e;
}

struct Planned {
  std::string strategy;
  Partition partition;
  PartitionOptions options;
  double seconds = 0, peak_bytes = 0, bytes_sent = 0;
};

// A plan is made for one machine and one model; each strategy is simulated.
class Planner {
 public:
  Planner(const PlannedGraph& planned, const Machine& machine)
      : planned_(planned),
        machine_(machine),
        choices_(static_cast<std::int64_t>(machine.devices()),
                 [this](const Operator& op, const Attributes& attributes, OperandTypes types) {
                   const OperatorTraits traits = operator_traits(op, attributes, types);
                   return traits.free ? 0.0 : machine_.seconds(traits.operations, traits.bytes);
                 }) {}

  std::optional<Planned> plan(const std::string& strategy, double seconds) {
    Planned result;
    result.strategy = strategy;
    PartitionOptions& options = result.options;
    options.processes = static_cast<std::int64_t>(machine_.devices());
    // A message between neighbours of the whole ring, as the slowest of them.
    for (std::size_t d = 0; d + 1 < machine_.devices(); ++d) {
      const double short_one = machine_.message_seconds(d, d + 1, 0), long_one = machine_.message_seconds(d, d + 1, 1e6);
      options.latency = std::max(options.latency, short_one);
      options.seconds_per_byte = std::max(options.seconds_per_byte, (long_one - short_one) / 1e6);
    }
    options.memory = machine_.memory();
    options.allowed = holdings_of(strategy, planned_);
    options.replaced = planned_.replaced;
    options.seconds = seconds;
    result.partition = partition(planned_.graph, choices_, options);
    if (!result.partition.found) return std::nullopt;
    Simulation simulation(machine_);
    simulate_step(simulation, planned_.graph, result.partition, options);
    simulation.run();
    result.seconds = simulation.seconds();
    const auto peaks = simulation.peak_bytes();
    result.peak_bytes = *std::max_element(peaks.begin(), peaks.end());
    for (const double bytes : totals(simulation).sent_bytes) result.bytes_sent += bytes;
    return result;
  }

  // No plan of these choices takes less: each node at its cheapest, nothing exchanged.
  double lower_bound() {
    double seconds = 0;
    for (const auto& node : planned_.graph.nodes()) {
      double least = std::numeric_limits<double>::infinity();
      for (const NodeChoice& c : choices_.of(planned_.graph, *node)) least = std::min(least, c.seconds);
      seconds += least;
    }
    return seconds;
  }
  std::size_t proofs() const { return choices_.proofs(); }

 private:
  const PlannedGraph& planned_;
  const Machine& machine_;
  ChoiceFinder choices_;
};

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
    text << "proved: " << plan.processes << " processes compute what " << options.model << " computes (" << result.rules
         << " rules)\n";
  else
    text << "not proved: " << result.reason << "\n";
  say(options.common, text.str());
  write_json(options.common, {{"plan", options.check},
                              {"proved", result.proved},
                              {"reason", result.reason},
                              {"rules", result.rules},
                              {"processes", plan.processes}});
  return result.proved ? kDone : kNo;
}

int make(const PlanOptions& options) {
  if (options.machine.empty() || options.output.empty())
    throw Error(ErrorCode::kUsage, "a plan needs --machine FILE and -o PLAN, or --check PLAN");
  if (std::find(strategies().begin(), strategies().end(), options.strategy) == strategies().end())
    throw Error(ErrorCode::kUsage, "there is no strategy \"" + options.strategy + "\"", "--strategy",
                "it is one of auto, data, zero, tensor, hybrid, spatial");
  require_writable(options.output);
  const Machine machine = plans::read_machine(options.machine);
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  const double budget = parse_seconds(options.budget);
  const PlannedGraph planned = planned_graph(options.model, options.purpose, options.batch, options.loss, options.update);
  Planner planner(planned, machine);
  const std::vector<std::string> wanted = options.strategy == "auto" ? strategies() : std::vector{options.strategy};
  std::optional<Planned> best;
  nlohmann::json tried = nlohmann::json::object();
  bool timed_out = false;
  double least_memory = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const double left = budget - elapsed();
    if (best && left < 0.1 * budget) {
      timed_out = true;
      break;
    }
    auto candidate = planner.plan(wanted[k], std::max(1.0, left / static_cast<double>(wanted.size() - k)));
    if (!candidate) continue;
    least_memory = std::min(least_memory, candidate->peak_bytes);
    if (candidate->peak_bytes > machine.memory()) continue;
    if (wanted[k] != "auto") tried[wanted[k]] = candidate->seconds;
    timed_out |= !candidate->partition.proved_best;
    if (!best || candidate->seconds < best->seconds) best = std::move(candidate);
  }
  if (!best) {
    std::ostringstream what;
    what << "no plan was found that fits into " << std::setprecision(3) << machine.memory() / 1e9 << " GB a device";
    if (least_memory < std::numeric_limits<double>::infinity()) what << "; the least needs " << least_memory / 1e9 << " GB";
    throw Error(ErrorCode::kMissing, what.str(), options.model);
  }
  Plan plan = make_plan(planned.graph, best->partition, best->options);
  plan.purpose = options.purpose, plan.loss = options.loss, plan.update = options.update, plan.batch = options.batch;
  plan.strategy = best->strategy;
  const PlanCheck proof = check_plan(plan, planned.graph, planned.replaced);
  if (!proof.proved)
    throw Error(ErrorCode::kUnsupported, "the plan was not proved, and is not written: " + proof.reason, options.model);
  write_file(options.output, write_plan(plan, planned.graph));
  if (!options.trace.empty()) {
    Simulation simulation(machine);
    simulate_step(simulation, planned.graph, best->partition, best->options);
    simulation.run();
    write_file(options.trace, simulated_trace(simulation).text());
  }
  const double bound = planner.lower_bound();
  std::map<std::string, int> exchanges;
  for (const PlannedExchange& e : plan.exchanges) ++exchanges[std::string(plans::name(e.exchange))];
  std::ostringstream text;
  text << options.output << ": " << plan.processes << " processes, strategy " << best->strategy << ", proved (" << proof.rules
       << " rules)\n"
       << "  a step         " << milliseconds(best->seconds) << " (lower bound " << milliseconds(bound) << ")\n"
       << "  memory         " << std::setprecision(4) << best->peak_bytes / 1e6 << " MB in the fullest process\n"
       << "  sent           " << best->bytes_sent / 1e6 << " MB\n";
  for (const auto& [exchange, count] : exchanges) text << "  " << std::left << std::setw(15) << exchange << count << "\n";
  for (const auto& [strategy, seconds] : tried.items())
    text << "  as " << std::left << std::setw(12) << strategy << milliseconds(seconds.get<double>()) << "\n";
  say(options.common, text.str());
  write_json(options.common, {{"output", options.output},
                              {"seconds", best->seconds},
                              {"lower_bound", bound},
                              {"peak_bytes", best->peak_bytes},
                              {"bytes_sent", best->bytes_sent},
                              {"processes", plan.processes},
                              {"strategy", best->strategy},
                              {"strategies", tried},
                              {"proved", proof.proved},
                              {"search", {{"seconds", elapsed()}, {"stop_reason", timed_out ? "budget" : "done"}}}});
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
  command->add_option("--strategy", o.strategy, "auto, data, zero, tensor, hybrid or spatial")->capture_default_str();
  command->add_option("--budget", o.budget, "time for the search")->capture_default_str();
  command->add_option("--loss", o.loss, "what training minimizes")->capture_default_str();
  command->add_option("--optimizer", o.update, "how parameters move: sgd, momentum, adam, ...")->capture_default_str();
  command->add_option("--trace", o.trace, "the simulated step, for Perfetto")->type_name("FILE");
  command->add_option("--check", o.check, "proves that this plan computes what the model computes")->type_name("PLAN");
  command->callback([options, &run] { run = [options] { return options->check.empty() ? make(*options) : check(*options); }; });
  return command;
}

}  // namespace rewright::cli
