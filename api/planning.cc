#include "api/planning.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/define_options.h"
#include "api/training.h"
#include "base/trace.h"
#include "graph/file.h"
#include "plans/machines/machine_file.h"
#include "plans/pipelines/named_schedules.h"
#include "plans/simulation/simulated_trace.h"
#include "report/plan_page.h"
#include "runtime/planned/asynchronous_gain.h"
#include "runtime/planned/network_search.h"
#include "runtime/planned/plan_simulation.h"
#include "runtime/planned/planned_graph.h"

namespace rewright::api {

using plans::Machine, plans::Plan, plans::Simulation;
using runtime::PlannedGraph, runtime::with_batch;

namespace {

const Choices<bool>& purpose_choices() {
  static const Choices<bool> kAll("purpose", {{"training", true}, {"inference", false}});
  return kAll;
}

// The description of --strategy.
std::string of_strategies() {
  std::string planned, pipelined;
  for (const runtime::PlanStrategy& one : runtime::strategies()) planned += (planned.empty() ? "" : ", ") + one.name;
  for (const std::string& one : plans::schedule_names()) pipelined += (pipelined.empty() ? "" : ", ") + one;
  return planned + "; or two of them, between groups and within: data+tensor; or pipeline, or pipeline:NAME with " + pipelined;
}

#define MEMBER(path) \
  [](PlanRequest & r) -> auto& { return r.path; }

const std::vector<PlanOption>& options_of_plans() {
  using namespace define;
  using Request = PlanRequest;
  static const std::string kOfStrategies = of_strategies();
  static const std::vector<PlanOption> kOptions = all_of<PlanOption>({
      option<Request>("machine", text("FILE"), MEMBER(machine), "the machine's file (docs/plans.md)"),
      option<Request>("batch", count<std::int64_t>(), MEMBER(batch), "what the model's open sizes stand for"),
      option<Request>("for", choice(purpose_choices()), MEMBER(for_training), "what is planned: a step of training, or a run"),
      option<Request>("strategy", text("NAME"), MEMBER(search.strategy), kOfStrategies),
      option<Request>("groups", count<std::size_t>(), MEMBER(search.groups),
                      "of processes, in a plan of two levels (0: the machine's nodes)"),
      option<Request>("stages", count<std::size_t>(), MEMBER(search.stages),
                      "processes of a pipeline (0: the machine's devices)"),
      option<Request>("micro-batches", count<std::size_t>(), MEMBER(search.micro_batches),
                      "of a pipeline (0: the most that divide the batch, up to 4 for each process)"),
      option<Request>("cables", count<std::size_t>(), MEMBER(cables),
                      "of each node: finds which nodes they join, together with the plan (0: the machine's network)"),
      option<Request>("found-machine", text("FILE"), MEMBER(found_machine), "the machine with the network that was found"),
      option<Request>("budget", time(), MEMBER(search.seconds), "time for the search"),
      option<Request>("loss", text("NAME"), MEMBER(loss), "what training minimizes"),
      option<Request>("optimizer", text("NAME"), MEMBER(optimizer), "how parameters move: sgd, momentum, adam, ..."),
      option<Request>("trace", text("FILE"), MEMBER(trace), "the simulated step, for Perfetto"),
      option<Request>("report", text("FILE"), MEMBER(report), "a page of who computes what when, to look at"),
  });
  return kOptions;
}

#undef MEMBER

PlannedGraph planned_graph(const Graph& model, const std::string& name, bool for_training, std::optional<std::int64_t> batch,
                           const std::string& loss, const std::string& update) try {
  if (!for_training) return runtime::planned_for_inference(with_batch(model, batch));
  const Graph sized = with_batch(with_procedures_as_graphs(model, name), batch);
  return runtime::planned_for_training(training::make_training_graphs(sized, "", runtime::planned_training(loss, update)));
} catch (const Error& e) {
  throw e.where().empty() ? e.within(name) : e;
}

nlohmann::json facts_of(const runtime::FoundPlan& found, const std::string& output) {
  const Plan& plan = found.plan;
  const plans::PlanPrediction& predicted = *plan.predicted;
  const auto most = [](const std::vector<double>& all) { return all.empty() ? 0 : *std::max_element(all.begin(), all.end()); };
  nlohmann::json facts{{"output", output},
                       {"seconds", predicted.seconds},
                       {"lower_bound", predicted.lower_bound},
                       {"computing_seconds", most(predicted.computing_seconds)},
                       {"exchanging_seconds", most(predicted.exchanging_seconds)},
                       {"peak_bytes", predicted.most_bytes()},
                       {"bytes_sent", predicted.all_sent()},
                       {"processes", plan.all_processes()},
                       {"groups", plan.within ? plan.processes : 1},
                       {"strategy", plan.strategy},
                       {"strategies", found.strategies},
                       {"proved", found.proved},
                       {"rules", found.rules},
                       {"search",
                        {{"seconds", found.search_seconds},
                         {"proof_seconds", found.proof_seconds},
                         {"stop_reason", found.timed_out ? "budget" : "done"}}}};
  if (predicted.bubble) facts["bubble"] = *predicted.bubble;
  if (predicted.seconds_alone) facts["seconds_alone"] = *predicted.seconds_alone;
  if (plan.pipeline) facts["stages"] = plan.pipeline->schedule.stages, facts["micro_batches"] = plan.processes;
  const std::vector<bool>& again = plan.within ? plan.within->again : plan.again;
  facts["recomputed_nodes"] = std::count(again.begin(), again.end(), true);
  if (!found.proved) facts["reason"] = found.reason;
  return facts;
}

// Writes what is asked for of a simulated step.
void show_step(const Plan& plan, const PlannedGraph& planned, const Machine& machine, const PlanRequest& request,
               const std::string& facts) {
  Simulation simulation(machine);
  runtime::simulate_plan(simulation, plan, planned);
  if (!request.trace.empty()) write_file(request.trace, simulated_trace(simulation).text());
  if (request.report.empty()) return;
  std::optional<plans::GroupGraph> group;
  if (plan.within) group = group_of(plan, planned.graph, planned.replaced, 0);
  const Graph& cut_last = group ? group->graph : planned.graph;
  write_file(request.report, plan_page({plan, cut_last, group ? &*group : nullptr, simulation, facts}));
}

}  // namespace

std::span<const PlanOption> plan_options() { return options_of_plans(); }

MadePlan make_plan(const Graph& model, const std::string& name, const PlanRequest& request, const std::string& output) {
  if (request.machine.empty()) throw Error(ErrorCode::kUsage, "a plan needs a machine", {}, "--machine FILE (docs/plans.md)");
  if (request.cables == 0 && !request.found_machine.empty())
    throw Error(ErrorCode::kUsage, "no network is looked for", "--found-machine", "--cables says how many cables a node has");
  Machine machine = plans::read_machine(request.machine);
  if (request.search.strategy.starts_with("pipeline") && !request.report.empty())
    throw Error(ErrorCode::kUnsupported, "there is no page of pipelines yet", "--report",
                "--trace FILE writes the simulated step");
  const auto batch = request.batch > 0 ? std::optional(request.batch) : std::nullopt;
  const PlannedGraph planned = planned_graph(model, name, request.for_training, batch, request.loss, request.optimizer);
  runtime::FoundPlan found;
  std::optional<runtime::FoundNetwork> network;
  try {
    if (request.cables > 0) {
      network = runtime::find_network(planned, machine, request.cables, request.search);
      found = std::move(network->plan);
      machine = Machine(network->machine, machine.shared_profile());
    } else {
      found = runtime::find_plan(planned, machine, request.search);
    }
  } catch (const Error& e) {
    throw e.where().empty() ? e.within(name) : e;
  }
  Plan& plan = found.plan;
  const PlannedGraph divided = divided_by(plan, planned);
  plan.purpose = std::string(request.for_training ? "training" : "inference");
  plan.loss = request.loss, plan.update = request.optimizer, plan.batch = batch;
  MadePlan result;
  result.text = write_plan(plan, divided.graph, divided.replaced);
  nlohmann::json facts = facts_of(found, output);
  if (network) facts["network"] = {{"name", network->name}, {"seconds", network->networks}, {"turns", network->turns}};
  if (const auto gain = runtime::asynchronous_gain(plan, divided, machine))
    facts["asynchronous"] = {{"even", gain->even}, {"straggler", gain->straggler}};
  result.facts = facts.dump();
  if (!request.found_machine.empty()) write_file(request.found_machine, write_machine(machine.description()));
  if (!request.trace.empty() || !request.report.empty()) show_step(plan, divided, machine, request, result.facts);
  result.plan = std::move(plan);
  return result;
}

CheckedPlan check_plan(const Graph& model, const std::string& name, const std::string& file) {
  CheckedPlan result{plans::read_plan(map_file(file).text(), file), {}};
  const Plan& plan = result.plan;
  const PlannedGraph planned =
      divided_by(plan, planned_graph(model, name, plan.purpose == "training", plan.batch, plan.loss, plan.update));
  result.check = plans::check_plan(plan, planned.graph, planned.replaced);
  return result;
}

}  // namespace rewright::api
