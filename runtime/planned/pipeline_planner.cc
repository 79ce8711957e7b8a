#include "runtime/planned/pipeline_planner.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "plans/pipelines/named_schedules.h"
#include "plans/pipelines/pipeline_step.h"
#include "plans/pipelines/schedule_check.h"

namespace rewright::runtime {

namespace {

using plans::GroupGraph, plans::Machine, plans::MicroBatchRoles, plans::Partition, plans::PartitionOptions, plans::Pipeline,
    plans::PipelineSchedule, plans::Plan, plans::ScheduleSize, plans::Simulation;

constexpr std::string_view kPrefix = "pipeline:";
constexpr std::size_t kMicroBatchesPerProcess = 4;
// A division may take so much longer in its longest stage where it sends less.
constexpr double kSlacks[] = {0, 0.03, 0.1, 0.3};

std::int64_t samples_of(const PlannedGraph& planned) {
  for (const ValueId v : planned.data)
    if (const TensorType& type = planned.graph.value(v).type; type.rank() > 0) return type.shape[0].value();
  throw Error(ErrorCode::kUsage, "the model has no input with samples to make micro-batches of");
}

// The most that divide the batch and that the schedule can have, up to kMicroBatchesPerProcess; else the fewest.
std::size_t default_micro_batches(const std::string& name, std::size_t processes, std::size_t samples) {
  std::optional<std::size_t> best;
  for (std::size_t m = 1; m <= samples; ++m) {
    if (samples % m != 0 || !plans::why_no_schedule(name, {processes, m}).empty()) continue;
    if (best && m > kMicroBatchesPerProcess * processes) break;
    best = m;
  }
  if (!best)
    throw Error(ErrorCode::kUsage, std::to_string(samples) + " samples cannot be cut into micro-batches for " + name + " on " +
                                       std::to_string(processes) +
                                       " processes: " + plans::why_no_schedule(name, {processes, samples}));
  return *best;
}

// A batch as micro-batches, and what is known of one.
struct MicroBatches {
  Plan plan;
  Partition partition;
  GroupGraph group;
  MicroBatchRoles roles;
  plans::Anchors anchors;
  plans::StageCosts costs;
};

class PipelinePlanner {
 public:
  PipelinePlanner(const PlannedGraph& planned, const Machine& machine, const PlanSearch& search)
      : planned_(planned),
        machine_(machine),
        search_(search),
        processes_(search.stages > 0 ? search.stages : machine.devices()) {
    if (processes_ > machine.devices())
      throw Error(ErrorCode::kUsage,
                  std::to_string(processes_) + " processes of a pipeline need as many devices, and the machine has " +
                      std::to_string(machine.devices()),
                  "--stages");
  }

  FoundPlan run() {
    const auto begin = std::chrono::steady_clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
    const bool all = search_.strategy == "pipeline";
    for (const std::string& name : plans::schedule_names()) {
      if (!all && search_.strategy != std::string(kPrefix) + name) continue;
      if (all && best_ && elapsed() > search_.seconds) {
        result_.timed_out = true;
        break;
      }
      try {
        consider(name, all);
      } catch (const Error& e) {
        if (!all) throw;
        problem_ = e;  // a schedule that there is not for this size
      }
    }
    if (!best_) refuse();
    result_.plan = std::move(*best_);
    result_.search_seconds = elapsed();
    const plans::PlanCheck proof = check_plan(result_.plan, planned_.graph, planned_.replaced);
    result_.proved = proof.proved, result_.reason = proof.reason, result_.rules = proof.rules;
    result_.proof_seconds = elapsed() - result_.search_seconds;
    return std::move(result_);
  }

 private:
  void consider(const std::string& name, bool one_of_all) {
    ScheduleSize size{processes_, search_.micro_batches};
    const auto samples = static_cast<std::size_t>(samples_of(planned_));
    if (size.micro_batches > 0 && samples % size.micro_batches != 0)
      throw Error(ErrorCode::kUsage,
                  std::to_string(samples) + " samples are no " + std::to_string(size.micro_batches) + " equal micro-batches",
                  "--micro-batches");
    const std::string why = size.micro_batches > 0 ? plans::why_no_schedule(name, size) : "";
    if (!why.empty()) throw Error(ErrorCode::kUsage, why, "--strategy");
    if (size.micro_batches == 0) size.micro_batches = default_micro_batches(name, processes_, samples);
    PipelineSchedule schedule = named_schedule(name, size);
    const bool is_asynchronous = !why_asynchronous(schedule).empty();
    if (is_asynchronous && one_of_all) return;
    if (is_asynchronous && !is_step(planned_))
      throw Error(ErrorCode::kUsage, name + " is about updates of weights, and inference has none", "--strategy");
    if (!is_step(planned_)) schedule = for_inference(std::move(schedule));
    const MicroBatches& batches = micro_batches(size.micro_batches);
    if (batches.anchors.places < schedule.stages)
      throw Error(ErrorCode::kUsage,
                  std::to_string(schedule.stages) + " stages are wanted, and the model has " +
                      std::to_string(batches.anchors.places) + " nodes to divide",
                  "--stages");
    for (const auto& first : divisions(batches, schedule)) simulate(batches, schedule, name, first);
  }

  const MicroBatches& micro_batches(std::size_t count) {
    auto& known = known_[count];
    if (known) return *known;
    known = std::make_unique<MicroBatches>();
    MicroBatches& b = *known;
    const auto parts = static_cast<std::int64_t>(count);
    plans::ChoiceFinder choices(parts, device_seconds(machine_, is_step(planned_)), cuts_);
    choices.keep_only([parts](const plans::NodeChoice& c) { return plans::why_not_alike(c, parts).empty(); });
    PartitionOptions options;
    options.processes = parts, options.replaced = planned_.replaced;
    b.partition = plans::cut_into_micro_batches(planned_.graph, planned_.data, parts, choices);
    b.plan = make_plan(planned_.graph, b.partition, options);
    b.group = group_graph(planned_.graph, b.partition, options, 0);
    b.roles = roles_of(b.group, is_step(planned_));
    b.anchors = anchors_of(b.group, b.roles);
    b.costs = place_costs(machine_, b.group, b.roles, b.anchors, device_seconds(machine_, is_step(planned_)));
    return b;
  }

  // Divisions worth simulating: by dynamic programming, with some slack, and as if there were more memory, since it only
  // estimates memory. The simulation decides.
  std::vector<std::vector<std::size_t>> divisions(const MicroBatches& batches, const PipelineSchedule& schedule) const {
    plans::StageCosts costs = batches.costs;
    costs.memory.resize(schedule.stages), costs.held.resize(schedule.stages);
    std::vector<double> shares(schedule.stages, 1);
    for (const auto& list : schedule.processes) {
      std::vector<std::size_t> held(schedule.stages, 0);
      PipelineSchedule one = schedule;
      std::size_t stages = 0;
      for (std::uint32_t s = 0; s < schedule.stages; ++s) {
        one.processes = {list};
        std::erase_if(one.processes[0], [&](const plans::PipelineAction& a) { return a.stage != s; });
        if (one.processes[0].empty()) continue;
        ++stages;
        costs.held[s] = std::max(costs.held[s], static_cast<double>(most_activations(one)[0]));
        held[s] = 1;
      }
      for (std::size_t s = 0; s < schedule.stages; ++s)
        if (held[s] > 0) shares[s] = std::max(shares[s], static_cast<double>(stages));
    }
    std::vector<std::vector<std::size_t>> result;
    for (const double factor : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
      for (std::size_t s = 0; s < schedule.stages; ++s) costs.memory[s] = factor * machine_.memory() / shares[s];
      for (const double slack : kSlacks) {
        auto first = divide_into_stages(costs, schedule.stages, slack);
        if (!first.empty() && std::find(result.begin(), result.end(), first) == result.end())
          result.push_back(std::move(first));
      }
    }
    return result;
  }

  void simulate(const MicroBatches& batches, const PipelineSchedule& schedule, const std::string& name,
                const std::vector<std::size_t>& first) {
    auto pipeline = std::make_shared<Pipeline>(with_stages(schedule, batches.group, batches.roles, batches.anchors, first));
    Simulation simulation(machine_);
    const plans::PipelineTimes times =
        simulate_pipeline(simulation, *pipeline, batches.group, batches.roles, device_seconds(machine_, is_step(planned_)));
    const auto peaks = simulation.peak_bytes();
    const double peak = *std::max_element(peaks.begin(), peaks.end());
    least_memory_ = std::min(least_memory_, peak);
    if (peak > machine_.memory()) return;
    const std::string strategy = std::string(kPrefix) + name;
    const double alone = seconds_alone(*pipeline, batches, times), seconds = search_.alone ? alone : times.seconds;
    double& known = result_.strategies.try_emplace(strategy, seconds).first->second;
    known = std::min(known, seconds);
    if (best_ && seconds >= best_seconds_) return;
    best_seconds_ = seconds;
    Plan plan = batches.plan;
    plan.purpose = is_step(planned_) ? "training" : "inference";
    plan.strategy = strategy;
    plan.predicted = predicted(simulation, times, batches);
    plan.predicted->seconds_alone = alone;
    plan.pipeline = std::move(pipeline);
    best_ = std::move(plan);
  }

  double seconds_alone(const Pipeline& pipeline, const MicroBatches& batches, const plans::PipelineTimes& known) const {
    if (known.steps == 1) return known.seconds;
    Simulation alone(machine_);
    return simulate_pipeline(alone, pipeline, batches.group, batches.roles, device_seconds(machine_, is_step(planned_)), true)
        .seconds;
  }

  plans::PlanPrediction predicted(Simulation& simulation, const plans::PipelineTimes& times,
                                  const MicroBatches& batches) const {
    plans::PlanPrediction result;
    result.seconds = times.seconds, result.bubble = times.bubble;
    const auto peaks = simulation.peak_bytes();
    const plans::StepTotals totals = plans::totals(simulation);
    const double steps = static_cast<double>(times.steps);
    double busy = 0;
    for (std::size_t p = 0; p < processes_; ++p) {
      result.peak_bytes.push_back(peaks[p]);
      result.bytes_sent.push_back(totals.sent_bytes[p] / steps);
      result.computing_seconds.push_back(totals.computing_seconds[p] / steps);
      result.exchanging_seconds.push_back(totals.exchanging_seconds[p] / steps);
      busy += result.computing_seconds.back();
    }
    // No process is done before its even share is.
    result.lower_bound = std::min(busy / static_cast<double>(processes_), result.seconds);
    for (const plans::NodeChoice& c : batches.partition.nodes)
      result.node_seconds.push_back(c.seconds * (c.cut ? static_cast<double>(batches.plan.processes) : 1));
    return result;
  }

  [[noreturn]] void refuse() const {
    if (least_memory_ == std::numeric_limits<double>::infinity()) {
      if (problem_) throw *problem_;
      const std::string name = search_.strategy.substr(std::min(search_.strategy.size(), kPrefix.size()));
      throw Error(ErrorCode::kUsage, plans::why_no_schedule(name, {1, 1}), "--strategy");
    }
    std::ostringstream what;
    what.precision(3);
    what << "no pipeline was found that fits into " << machine_.memory() / 1e9 << " GB a device; the least needs "
         << least_memory_ / 1e9 << " GB";
    throw Error(ErrorCode::kMissing, what.str());
  }

  const PlannedGraph& planned_;
  const Machine& machine_;
  const PlanSearch& search_;
  const std::size_t processes_;
  std::shared_ptr<plans::CutFinder> cuts_ = std::make_shared<plans::CutFinder>();
  std::map<std::size_t, std::unique_ptr<MicroBatches>> known_;  // by their number
  FoundPlan result_;
  std::optional<Plan> best_;
  double best_seconds_ = 0;
  std::optional<Error> problem_;
  double least_memory_ = std::numeric_limits<double>::infinity();
};

}  // namespace

bool is_pipeline(const std::string& strategy) { return strategy == "pipeline" || strategy.starts_with(kPrefix); }

FoundPlan find_pipeline(const PlannedGraph& planned, const Machine& machine, const PlanSearch& search) {
  return PipelinePlanner(planned, machine, search).run();
}

void simulate_pipeline_plan(Simulation& simulation, const Plan& plan, const PlannedGraph& planned) {
  const GroupGraph group = group_of(plan, planned.graph, planned.replaced, 0);
  const MicroBatchRoles roles = roles_of(group, plan.purpose == "training");
  simulate_pipeline(simulation, *plan.pipeline, group, roles, device_seconds(simulation.machine(), is_step(planned)));
}

}  // namespace rewright::runtime
