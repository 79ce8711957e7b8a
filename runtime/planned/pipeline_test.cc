#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <set>

#include "base/error.h"
#include "distribution/testing.h"
#include "operators/testing/share.h"
#include "plans/groups/group_graph.h"
#include "plans/pipelines/named_schedules.h"
#include "plans/pipelines/schedule_check.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/planned/pipeline_run.h"
#include "runtime/planned/planned_graph.h"
#include "runtime/planned/planned_step.h"
#include "runtime/testing.h"
#include "runtime/training/steps/trainer.h"
#include "runtime/training/testing.h"

namespace rewright::runtime {
namespace {

using distribution::Communicator;
using plans::Plan;
using testing::ModelBuilder, testing::node, testing::RandomGraph, testing::run_as_processes;
using training::TrainedTensors, training::TrainingCheckpoint, training::TrainingGraphs, training::TrainOptions,
    training::Trainer;

constexpr std::int64_t kBatch = 8, kWidth = 6, kClasses = 4;

double free_of_cost(const Operator&, const Attributes&, plans::OperandTypes, double) { return 0; }

// A plan whose stages begin at random places.
Plan random_pipeline(std::mt19937& random, const PlannedGraph& planned, const std::string& name, std::size_t processes,
                     std::int64_t micro_batches) {
  plans::ChoiceFinder choices(micro_batches, free_of_cost);
  choices.keep_only([&](const plans::NodeChoice& c) { return plans::why_not_alike(c, micro_batches).empty(); });
  plans::PartitionOptions options;
  options.processes = micro_batches, options.replaced = planned.replaced;
  const plans::Partition partition = plans::cut_into_micro_batches(planned.graph, planned.data, micro_batches, choices);
  Plan plan = make_plan(planned.graph, partition, options);
  const bool trains = !planned.replaced.empty();
  if (trains) plan.purpose = "training";
  plans::PipelineSchedule schedule = plans::named_schedule(name, {processes, static_cast<std::size_t>(micro_batches)});
  if (!trains) schedule = for_inference(schedule);
  const plans::GroupGraph group = group_graph(planned.graph, partition, options, 0);
  const plans::MicroBatchRoles roles = roles_of(group, trains);
  const plans::Anchors anchors = anchors_of(group, roles);
  if (anchors.places < schedule.stages) throw Error(ErrorCode::kUsage, "the model is too small");
  std::set<std::size_t> first{0};
  while (first.size() < schedule.stages) first.insert(random() % anchors.places);
  plan.pipeline = std::make_shared<const plans::Pipeline>(
      with_stages(std::move(schedule), group, roles, anchors, {first.begin(), first.end()}));
  return plan;
}

// Layers of random kinds, some of which add what an earlier one gave; the last one may share its weights with the first.
Graph random_model(unsigned seed) {
  std::mt19937 random(seed);
  ModelBuilder m(seed);
  ValueId x = m.graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), kWidth}});
  const bool is_tied = random() % 2 == 0;
  const ValueId shared = m.weights({kWidth, kWidth}, "shared", 0.5);
  x = m.b.add("MatMul", {x, shared});
  std::vector<ValueId> values{x};
  for (int n = 0; n < 9; ++n) {
    const std::string number = std::to_string(n);
    switch (random() % 5) {
      case 0:
        x = m.b.add("Tanh", {m.b.add("Add", {x, m.weights({kWidth}, "bias" + number)})});
        break;
      case 1:
        x = m.b.add("Add", {x, values[random() % values.size()]});
        break;
      case 2:
        x = node(m.graph, "LayerNormalization",
                 {x, m.filled(kWidth, 1, "scale" + number), m.filled(kWidth, 0, "shift" + number)}, {{"axis", Index(1)}})
                .at(0);
        break;
      default:
        x = m.b.add("MatMul", {x, m.weights({kWidth, kWidth}, "w" + number, 0.6)});
    }
    values.push_back(x);
  }
  if (is_tied) x = m.b.add("MatMul", {x, node(m.graph, "Transpose", {shared}, {{"perm", Indices{1, 0}}}).at(0)});
  m.graph.add_output("y", m.b.add("MatMul", {x, m.weights({kWidth, kClasses}, "last", 0.6)}));
  m.graph.tidy();
  return m.graph;
}

// All weights in a chain.
Graph chain() {
  ModelBuilder m(7);
  ValueId x = m.graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), kWidth}});
  for (int n = 0; n < 8; ++n)
    x = m.b.add("Tanh", {m.b.add("MatMul", {x, m.weights({kWidth, kWidth}, "w" + std::to_string(n), 0.9)})});
  m.graph.add_output("y", m.b.add("MatMul", {x, m.weights({kWidth, kClasses}, "last", 0.9)}));
  m.graph.tidy();
  return m.graph;
}

training::Dataset five_batches() {
  std::mt19937 random(5);
  std::vector<std::int64_t> targets;
  for (int n = 0; n < 5 * kBatch; ++n) targets.push_back(n % kClasses);
  return testing::with_targets(testing::random_tensor(random, DataType::kFloat, {5 * kBatch, kWidth}), targets);
}

struct TrainedBy {
  std::vector<double> losses;
  TrainingCheckpoint checkpoint;
};

struct PipelineCase {
  Graph model;
  std::string schedule = {};  // none: one process without a plan
  std::size_t processes = 1;
  std::int64_t micro_batches = kBatch;
  training::UpdateMethod method = training::UpdateMethod::kAdam;
  unsigned seed = 0;  // of the stages
  std::int64_t most = 100;
  const TrainingCheckpoint* from = nullptr;
};

TrainedBy trained_by(const PipelineCase& run) {
  const training::Dataset data = five_batches();
  std::mutex mutex;
  std::optional<Plan> plan;  // that the first process to come finds
  TrainedBy result;
  run_as_processes(run.processes, [&](Communicator& processes) {
    TrainOptions options;
    options.batch = kBatch, options.epochs = 2;
    options.graph.update.method = run.method;
    options.schedule.rate = 0.02;
    if (!run.schedule.empty())
      options.planned = [&](const TrainingGraphs& graphs, TrainedTensors start) {
        {
          const std::lock_guard lock(mutex);
          std::mt19937 random(run.seed);
          if (!plan)
            plan = random_pipeline(random, planned_for_training(graphs), run.schedule, run.processes, run.micro_batches);
        }
        return make_planned_step(*plan, "a plan", graphs, std::move(start), processes, cpu::cpu_backend(), {});
      };
    Trainer trainer(run.model, data, options, processes, cpu::cpu_backend());
    if (run.from) trainer.resume(*run.from);
    std::stop_source stop;
    std::vector<double> losses;
    trainer.run(stop.get_token(), [&](const training::StepReport& r) {
      losses.push_back(r.loss);
      if (r.step == run.most) stop.request_stop();
    });
    TrainingCheckpoint checkpoint = trainer.checkpoint();
    if (processes.rank() == 0) result = {losses, std::move(checkpoint)};
  });
  return result;
}

void require_losses(const std::vector<double>& losses, const std::vector<double>& expected, double tolerance = 1e-5) {
  REQUIRE(losses.size() == expected.size());
  for (std::size_t n = 0; n < losses.size(); ++n) {
    INFO("step " << n << ": " << losses[n] << ", expected " << expected[n]);
    CHECK(std::fabs(losses[n] - expected[n]) <= tolerance * std::fabs(expected[n]));
  }
}

bool is_asynchronous(const std::string& name) { return name.starts_with("pipedream"); }

// ---- Single steps, without a trainer

struct Batch {
  std::vector<Tensor> shard;     // inputs before the parameters
  std::vector<Tensor> schedule;  // the rate and the step's number
};

Batch batch_of(int step, double scale = 1) {
  std::mt19937 random(static_cast<unsigned>(100 + step));
  Batch batch;
  const Tensor one = Tensor::scalar(DataType::kFloat, 1);
  std::vector<std::int64_t> targets;
  for (int n = 0; n < kBatch; ++n) targets.push_back(random() % kClasses);
  batch.shard = {testing::random_tensor(random, DataType::kFloat, {kBatch, kWidth}, -scale, scale),
                 Tensor::from_integers(DataType::kInt64, {kBatch}, targets), Tensor::scalar(DataType::kFloat, step + 1), one,
                 one};
  batch.schedule = {Tensor::scalar(DataType::kFloat, 0.1), Tensor::scalar(DataType::kFloat, step + 1)};
  return batch;
}

TrainingGraphs graphs_for(const Graph& model, std::int64_t batch) {
  return training::make_training_graphs(with_batch(model, batch), "", planned_training("softmax-cross-entropy", "sgd"));
}

TrainedTensors start_of(const Graph& model, const TrainingGraphs& graphs) {
  TrainedTensors start;
  for (const training::TrainedTensor& t : graphs.parameters) start.parameters.push_back(model.value(t.in_model).constant);
  return start;
}

// The losses of steps on these batches by a plan.
std::vector<double> losses_of(const Graph& model, const Plan& plan, std::size_t processes, const std::vector<Batch>& batches,
                              TrainedTensors* end = nullptr) {
  std::vector<double> losses;
  run_as_processes(processes, [&](Communicator& all) {
    const TrainingGraphs graphs = graphs_for(model, kBatch);
    const auto step = make_planned_step(plan, "a plan", graphs, start_of(model, graphs), all, cpu::cpu_backend(), {});
    std::vector<double> mine;
    for (const Batch& batch : batches) mine.push_back(step->advance({batch.shard}, batch.schedule, false));
    TrainedTensors tensors = step->gather();
    if (all.rank() + 1 < all.size()) return;
    losses = mine;
    if (end) *end = std::move(tensors);
  });
  return losses;
}

// Losses by the papers' formulas: one process that keeps all versions of all weights.
std::vector<double> stale_losses(const Graph& model, const Plan& plan, std::size_t processes, std::size_t micro_batches,
                                 const std::vector<Batch>& batches, bool is_2bw) {
  const std::int64_t size = kBatch / static_cast<std::int64_t>(micro_batches);
  const TrainingGraphs graphs = graphs_for(model, size), whole = graphs_for(model, kBatch);
  const PlannedGraph planned = planned_for_training(whole);
  const plans::PipelineProgram program = pipeline_program(plan, planned.graph, planned.replaced, 0);
  std::vector<std::vector<Tensor>> versions;  // by parameter
  std::vector<std::size_t> stages;
  for (const Tensor& t : start_of(model, graphs).parameters) {
    const plans::PipelineInput& input = program.inputs[program.inputs.size() - graphs.parameters.size() + versions.size()];
    stages.push_back(program.values[input.value].stage);
    versions.push_back({t});
  }
  std::vector<double> losses;
  for (std::size_t step = 0; step < batches.size(); ++step) {
    double loss = 0;
    std::vector<std::vector<double>> sums(versions.size());
    for (std::size_t i = 0; i < micro_batches; ++i) {
      const std::size_t all = step * micro_batches + i;
      plans::TensorParts parts;
      for (std::size_t k = 0; k < micro_batches; ++k)
        parts.rows.push_back({static_cast<std::int64_t>(k) * size, static_cast<std::int64_t>(k + 1) * size});
      std::vector<Tensor> inputs = batches[step].shard;
      for (std::size_t k = 0; k < 2; ++k) inputs[k] = part_of(inputs[k], parts, i);
      for (std::size_t w = 0; w < versions.size(); ++w) {
        const std::size_t ahead = processes - stages[w];
        const std::size_t version = is_2bw ? (step == 0 ? 0 : step - 1) : (all < ahead ? 0 : all - ahead + 1);
        inputs.push_back(versions[w].at(version));
      }
      const std::vector<Tensor> results = interpret(graphs.gradients, inputs);
      loss += results[0].reals()[0] / static_cast<double>(micro_batches);
      const bool updates = !is_2bw || i + 1 == micro_batches;
      for (std::size_t w = 0; w < versions.size(); ++w) {
        const std::vector<double> gradient = results[1 + w].reals();
        if (sums[w].empty()) sums[w].assign(gradient.size(), 0);
        for (std::size_t e = 0; e < gradient.size(); ++e) sums[w][e] += gradient[e] / static_cast<double>(micro_batches);
        if (!updates) continue;
        std::vector<double> next = versions[w].back().reals();
        for (std::size_t e = 0; e < next.size(); ++e) next[e] -= 0.1 * sums[w][e];
        sums[w].clear();
        versions[w].push_back(Tensor::from_reals(DataType::kFloat, versions[w][0].sizes(), next));
      }
    }
    losses.push_back(loss);
  }
  return losses;
}

// Every schedule with a number of processes, which takes turns with the seeds.
std::vector<std::pair<std::string, std::size_t>> schedules_by_turns(unsigned seed) {
  constexpr std::size_t kProcesses[] = {4, 2, 1};
  std::vector<std::pair<std::string, std::size_t>> result;
  for (const std::string& name : plans::schedule_names()) result.emplace_back(name, kProcesses[(seed + result.size()) % 3]);
  return result;
}

}  // namespace

TEST_CASE("pipelines: random models by all synchronous schedules have the losses of one process", "[long]") {
  for (unsigned seed = 0; seed < (testing::kSanitized ? 2u : 4u); ++seed) {
    const Graph model = random_model(seed);
    const auto method = seed % 2 ? training::UpdateMethod::kMomentum : training::UpdateMethod::kAdam;
    const TrainedBy one = trained_by({.model = model, .method = method});
    REQUIRE(one.losses.size() == 10);
    for (const auto& [name, processes] : schedules_by_turns(seed)) {
      if (is_asynchronous(name) || !plans::why_no_schedule(name, {processes, kBatch}).empty()) continue;
      const std::int64_t micro_batches = name == "interleaved" || name == "zb-v" || seed % 3 == 0 ? kBatch : kBatch / 2;
      INFO(name << " on " << processes << ", seed " << seed);
      const TrainedBy many = trained_by({.model = model,
                                         .schedule = name,
                                         .processes = processes,
                                         .micro_batches = micro_batches,
                                         .method = method,
                                         .seed = seed});
      require_losses(many.losses, one.losses);
    }
  }
}

TEST_CASE("pipelines: schedules that add up alike have the same bits on any number of processes") {
  const Graph model = chain();
  const TrainedBy one = trained_by({.model = model, .schedule = "1f1b", .processes = 1});
  for (const std::size_t processes : {2, 4})
    for (const char* name : {"gpipe", "1f1b", "interleaved"}) {
      INFO(name << " on " << processes);
      CHECK((trained_by({.model = model, .schedule = name, .processes = processes, .seed = 3}).losses == one.losses));
    }
}

TEST_CASE("pipelines: other schedules, plans and numbers of processes go on from a checkpoint") {
  const Graph model = random_model(1);
  const TrainedBy whole = trained_by({.model = model});
  const TrainedBy first = trained_by({.model = model, .schedule = "1f1b", .processes = 2, .most = 3});
  REQUIRE(first.losses.size() == 3);
  const TrainedBy second =
      trained_by({.model = model, .schedule = "zb-h1", .processes = 4, .most = 5, .from = &first.checkpoint});
  const TrainedBy third =
      trained_by({.model = model, .schedule = "chimera", .processes = 4, .most = 7, .from = &second.checkpoint});
  const TrainedBy fourth = trained_by({.model = model, .from = &third.checkpoint});
  std::vector<double> all;
  for (const TrainedBy* part : {&first, &second, &third, &fourth})
    all.insert(all.end(), part->losses.begin(), part->losses.end());
  require_losses(all, whole.losses);
}

TEST_CASE("pipelines: stale weights are those of the schedule, over any number of steps") {
  const Graph model = chain();
  std::vector<Batch> batches;
  for (int step = 0; step < 5; ++step) batches.push_back(batch_of(step));  // more let roundings grow
  const PlannedGraph planned = planned_for_training(graphs_for(model, kBatch));
  for (const char* name : {"pipedream", "pipedream-2bw", "1f1b"})
    for (const std::size_t processes : {2, 4}) {
      std::mt19937 random(1);
      const Plan plan = random_pipeline(random, planned, name, processes, 4);
      const plans::PlanCheck check = check_plan(plan, planned.graph, planned.replaced);
      INFO(name << " on " << processes << ": " << check.reason);
      REQUIRE(check.only_stale == is_asynchronous(name));
      const bool is_2bw = std::string(name) == "pipedream-2bw";
      const std::vector<double> found = losses_of(model, plan, processes, batches);
      if (is_asynchronous(name)) {
        require_losses(found, stale_losses(model, plan, processes, 4, batches, is_2bw), 1e-4);
      } else {
        // The judge tells stale weights from fresh ones.
        CHECK(std::fabs(found.back() - stale_losses(model, plan, processes, 4, batches, true).back()) > 1e-3 * found.back());
      }
    }
}

TEST_CASE("pipelines: a step that is not finite changes nothing") {
  const Graph model = chain();
  const PlannedGraph planned = planned_for_training(graphs_for(model, kBatch));
  for (const char* name : {"1f1b", "chimera", "zb-v", "pipedream", "pipedream-2bw"}) {
    std::mt19937 random(2);
    const Plan plan = random_pipeline(random, planned, name, 2, 4);
    Batch bad = batch_of(9);
    std::vector<double> broken(kBatch * kWidth, 1);
    broken[17] = NAN;
    bad.shard[0] = Tensor::from_reals(DataType::kFloat, {kBatch, kWidth}, broken);
    INFO(name);
    TrainedTensors with, without;
    std::vector<double> losses = losses_of(model, plan, 2, {batch_of(0), batch_of(1), bad, batch_of(2), batch_of(3)}, &with);
    REQUIRE(std::isnan(losses.at(2)));
    losses.erase(losses.begin() + 2);
    CHECK((losses == losses_of(model, plan, 2, {batch_of(0), batch_of(1), batch_of(2), batch_of(3)}, &without)));
    CHECK((with.parameters == without.parameters));
  }
}

TEST_CASE("pipelines: inference of random graphs by all schedules", "[long]") {
  for (unsigned seed = 0; seed < 8; ++seed) {
    RandomGraph g(seed);
    ValueId x = g.input({8, 5}), scale = g.input({5});
    std::vector<ValueId> values{x};
    for (int n = 0; n < 10; ++n) {
      const ValueId other = values[g.random() % values.size()];
      switch (g.pick(0, 3)) {
        case 0:
          x = node(g.graph, "MatMul", {x, g.constant({5, 5})}).at(0);
          break;
        case 1:
          x = node(g.graph, "Mul", {x, scale}).at(0);
          break;
        case 2:
          x = node(g.graph, "Add", {x, other}).at(0);
          break;
        default:
          x = node(g.graph, "Tanh", {x}).at(0);
      }
      values.push_back(x);
    }
    g.graph.add_output("y", node(g.graph, "Softmax", {x}, {{"axis", Index(1)}}).at(0));
    g.graph.add_output("z", values[5]);
    g.graph.add_output("sum", node(g.graph, "ReduceSum", {values[3]}, {{"axes", Indices{0}}}).at(0));
    g.graph.tidy();
    const PlannedGraph planned = planned_for_inference(g.graph);
    for (const auto& [name, processes] : schedules_by_turns(seed)) {
      if (is_asynchronous(name) || !plans::why_no_schedule(name, {processes, 4}).empty()) continue;
      Plan plan;
      try {
        plan = random_pipeline(g.random, planned, name, processes, 4);
      } catch (const Error& e) {
        if (e.code() != ErrorCode::kUsage) throw;
        continue;  // too few nodes for so many stages
      }
      INFO(name << " on " << processes << ", seed " << seed);
      REQUIRE(check_plan(plan, planned.graph, {}).proved);
      std::vector<Tensor> result;
      run_as_processes(processes, [&](Communicator& all) {
        PipelineRun run(pipeline_program(plan, planned.graph, {}, all.rank()), all, cpu::cpu_backend(), {});
        for (int again = 0; again < 2; ++again) {
          std::vector<Tensor> inputs(g.inputs.size());
          if (all.rank() == 0) inputs = g.inputs;
          const std::vector<Tensor> outputs = run.gather_in_first(run.run(run.scatter(std::move(inputs))).back());
          if (all.rank() == 0) result = outputs;
        }
      });
      testing::require_close(g.graph, result, interpret(g.graph, g.inputs), {});
    }
  }
}

}  // namespace rewright::runtime
