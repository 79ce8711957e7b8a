#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>

#include "base/error.h"
#include "distribution/testing.h"
#include "optimizer/costs/cost_model.h"
#include "plans/execution/testing.h"
#include "plans/machines/machine_file.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/planned/measure_exchanges.h"
#include "runtime/planned/plan_simulation.h"
#include "runtime/planned/planned_graph.h"
#include "runtime/planned/planned_run.h"
#include "runtime/planned/planned_step.h"
#include "runtime/planned/planner.h"
#include "runtime/stream.h"
#include "runtime/testing.h"
#include "runtime/training/steps/trainer.h"
#include "runtime/training/testing.h"

namespace rewright::runtime {
namespace {

using distribution::Communicator;
using plans::ChoiceFinder, plans::LocalProgram, plans::Plan;
using testing::ModelBuilder, testing::node, testing::RandomGraph, testing::run_as_processes;
using training::TrainingCheckpoint, training::TrainingGraphs, training::TrainOptions, training::Trainer;

// All work at 1e9 operations a second, so that it is worth dividing.
double slow(const Operator& op, const Attributes& attributes, plans::OperandTypes types, double) {
  const OperatorTraits traits = operator_traits(op, attributes, types);
  return traits.operations / 1e9 + traits.bytes / 1e9;
}

// Results of the first of the processes that compute together on the CPU; several runs give the same, and so do exchanges
// beside computing and those of the thread that computes. `sent`: bytes that all of them send in a run.
std::vector<Tensor> by_processes(const Plan& plan, const Graph& graph, const std::vector<Tensor>& inputs,
                                 std::atomic<std::uint64_t>* sent = nullptr) {
  std::vector<Tensor> result;
  run_as_processes(static_cast<std::size_t>(plan.processes), [&](Communicator& processes) {
    for (const bool beside : {false, true}) {
      PlannedRun run(plans::local_program(plan, graph, {}, processes.rank()), processes, cpu::cpu_backend(), {}, beside);
      for (int again = 0; again < 2; ++again) {
        std::vector<Tensor> mine;
        for (std::size_t i = 0; i < inputs.size(); ++i)
          mine.push_back(plans::own_part(inputs[i], run.program().inputs[i], run.processes()));
        const std::uint64_t before = processes.bytes_sent();
        const std::vector<Tensor> outputs = run.run(std::move(mine));
        if (again == 1 && beside && sent) *sent += processes.bytes_sent() - before;
        if (processes.rank() != 0) continue;
        if ((again == 1 || beside) && outputs != result) throw Error(ErrorCode::kBadInput, "runs differ");
        result = outputs;
      }
    }
  });
  return result;
}

// Bytes that all processes send in a run, as a simulation says.
double simulated_bytes(const Plan& plan, const Graph& graph) {
  const auto devices = static_cast<std::size_t>(plan.processes);
  const plans::Machine machine(plans::make_cluster(1, devices, {1e9, 1e9}, 1e18, {1e-7, 1e9, "switch"}, {}));
  plans::Simulation simulation(machine);
  PlannedGraph planned;
  planned.graph = graph;
  simulate_plan(simulation, plan, planned);
  return prediction_of(simulation).all_sent();
}

// A layer of a transformer: attention of four heads, then a feed-forward block.
Graph transformer(RandomGraph& g) {
  const std::int64_t width = 16, heads = 4, tokens = 6, batch = 2;
  const auto add = [&](std::string_view op, std::vector<ValueId> in,
                       std::vector<std::pair<std::string, AttributeValue>> attributes = {}) {
    return node(g.graph, op, std::move(in), std::move(attributes)).at(0);
  };
  const auto dense = [&](ValueId x, std::int64_t in, std::int64_t out) {
    return add("Add", {add("MatMul", {x, g.constant({in, out})}), g.constant({out})});
  };
  const auto norm = [&](ValueId x) {
    return add("LayerNormalization", {x, g.constant({width}), g.constant({width})}, {{"axis", Index(2)}});
  };
  const auto split = [&](ValueId x, Indices perm) {
    return add("Transpose", {add("Reshape", {x}, {{"shape", Indices{batch, tokens, heads, width / heads}}})},
               {{"perm", std::move(perm)}});
  };
  const ValueId x = g.input({batch, tokens, width});
  const ValueId q = split(dense(x, width, width), {0, 2, 1, 3}), k = split(dense(x, width, width), {0, 2, 3, 1}),
                v = split(dense(x, width, width), {0, 2, 1, 3});
  const ValueId scores = add("Softmax", {add("MatMul", {q, k})}, {{"axis", Index(3)}});
  const ValueId joined = add("Reshape", {add("Transpose", {add("MatMul", {scores, v})}, {{"perm", Indices{0, 2, 1, 3}}})},
                             {{"shape", Indices{batch, tokens, width}}});
  const ValueId attended = norm(add("Add", {x, dense(joined, width, width)}));
  const ValueId fed = dense(add("Relu", {dense(attended, width, 4 * width)}), 4 * width, width);
  g.graph.add_output("y", norm(add("Add", {attended, fed})));
  g.graph.tidy();
  return g.graph;
}

// Convolutions with pads and strides, and a pool: cut along the height they need halos.
Graph convolutions(RandomGraph& g) {
  ValueId x = g.input({2, 3, 22, 18});
  for (const std::int64_t stride : {1, 2, 1}) {
    const std::int64_t channels = g.graph.value(x).type.shape[1].value();
    x = node(g.graph, "Conv", {x, g.constant({8, channels, 3, 3}), g.constant({8})},
             {{"pads_begin", Indices{1, 1}}, {"pads_end", Indices{1, 1}}, {"strides", Indices{stride, stride}}})
            .at(0);
    x = node(g.graph, "Relu", {x}).at(0);
  }
  x = node(g.graph, "MaxPool", {x},
           {{"kernel", Indices{3, 3}}, {"strides", Indices{1, 1}}, {"pads_begin", Indices{1, 1}}, {"pads_end", Indices{1, 1}}})
          .at(0);
  g.graph.add_output("y", x);
  g.graph.tidy();
  return g.graph;
}

ChoiceFinder& choices_for(std::int64_t processes) {
  static std::map<std::int64_t, ChoiceFinder> all;
  return all.try_emplace(processes, processes, slow).first->second;
}

Plan planned_by(const std::string& strategy, const PlannedGraph& planned, std::int64_t processes, double memory = 1e18) {
  plans::PartitionOptions options;
  options.processes = processes, options.latency = 1e-7, options.seconds_per_byte = 1e-10;
  options.replaced = planned.replaced;
  options.allowed = holdings_of(strategy, planned);
  options.memory = memory;
  const plans::Partition best = plans::partition(planned.graph, choices_for(processes), options);
  if (!best.found) throw Error(ErrorCode::kUnsupported, "there is no plan by " + strategy);
  return make_plan(planned.graph, best, options);
}

// With many nodes computed again before later ones.
Plan again_by(const std::string& strategy, PlannedGraph planned, std::int64_t processes) {
  std::mt19937 random(7);
  std::vector<Recomputation> recomputed;
  for (Recomputation& r : testing::random_recomputations(random, planned.graph, 8))
    if (r.before % 8 < 2) recomputed.push_back(std::move(r));
  RecomputedGraph changed = with_recomputations(planned.graph, recomputed);
  planned.graph = std::move(changed.graph);
  Plan plan = planned_by(strategy, planned, processes);
  plan.recomputed = std::move(recomputed), plan.again = std::move(changed.again);
  plan.sequence = testing::random_sequence(random, planned.graph);
  return plan;
}

// Everything cut along the height of images.
Plan along_height(const Graph& graph, std::int64_t processes) {
  plans::Partition partition;
  const auto is_cut = [](const plans::Holding& h) { return h.kind == plans::Holding::Kind::kCut && h.axis == 2; };
  for (const auto& node : graph.nodes())
    for (const plans::NodeChoice& choice : choices_for(processes).of(graph, *node))
      if (choice.cut && is_cut(choice.gives[0])) partition.nodes.push_back(choice);
  partition.given.resize(graph.value_count());
  const ValueId x = graph.inputs()[0];
  const std::int64_t rows = graph.value(x).type.shape[2].value();
  partition.given[x] = plans::cut_along(2, 1, rows, processes, rows);
  plans::PartitionOptions options;
  options.processes = processes;
  return make_plan(graph, partition, options);
}

std::size_t count(const Plan& plan, plans::Exchange exchange) {
  return static_cast<std::size_t>(
      std::count_if(plan.exchanges.begin(), plan.exchanges.end(), [&](const auto& e) { return e.exchange == exchange; }));
}

// ---- Exchanges beside computing

// Passes messages on, and says when the first ones have come.
class Watched final : public Communicator {
 public:
  explicit Watched(Communicator& over) : over_(over) {}
  std::size_t rank() const override { return over_.rank(); }
  std::size_t size() const override { return over_.size(); }
  bool has_exchanged() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return done_; });
  }

 protected:
  void transfer(std::span<const distribution::Outgoing> sent, std::span<const distribution::Incoming> received) override {
    over_.exchange(sent, received);
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

 private:
  Communicator& over_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

// Interprets a piece, and goes on behind its first output only when an exchange is done.
class Waiting final : public Backend {
 public:
  explicit Waiting(Watched& processes) : processes_(processes) {}
  std::string name() const override { return "waiting"; }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions&) const override {
    return std::make_unique<WaitingSession>(graph, processes_);
  }

 private:
  class WaitingSession final : public Session, public StreamingSession {
   public:
    WaitingSession(Graph graph, Watched& processes) : graph_(std::move(graph)), processes_(processes) {}
    std::vector<Tensor> run(std::span<const Tensor> inputs) override { return interpret(graph_, inputs); }
    bool stream(TensorStream& tensors) override {
      std::vector<Tensor> inputs;
      for (std::size_t i = 0; i < graph_.inputs().size(); ++i) inputs.push_back(tensors.input(i));
      const std::vector<Tensor> results = run(inputs);
      for (std::size_t o = 0; o < results.size(); ++o) {
        std::ranges::copy(results[o].bytes(), tensors.output(o).begin());
        tensors.finished(o);
        if (!processes_.has_exchanged()) throw Error(ErrorCode::kBadInput, "no exchange began in the midst of the piece");
      }
      return true;
    }

   private:
    Graph graph_;
    Watched& processes_;
  };
  Watched& processes_;
};

// ---- Training

// A perceptron with a normalization, and a convolution before it.
Graph small_model() {
  ModelBuilder m(3);
  ValueId x = m.graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), 2, 6, 6}});
  x = m.b.add("Conv", {x, m.weights({4, 2, 3, 3}, "filter", 0.3)});
  x = m.b.add("Relu", {m.normalized(x, 4)});
  x = node(m.graph, "Flatten", {x}).at(0);
  x = m.b.add("Relu", {m.b.add("MatMul", {x, m.weights({64, 12}, "first", 0.2)})});
  x = m.b.add("MatMul", {x, m.weights({12, 4}, "second", 0.3)});
  m.graph.add_output("y", m.b.add("Add", {x, m.weights({4}, "bias")}));
  m.graph.tidy();
  return m.graph;
}

// A recurrent network as LSTMs are imported: one product of the inputs of all steps.
Graph recurrent(std::int64_t batch) {
  const std::int64_t steps = 3, width = 32;
  ModelBuilder m(4);
  const ValueId x = m.graph.add_input("x", {DataType::kFloat, {batch, steps, width}});
  const ValueId rows =
      m.b.add("Reshape", {m.b.add("Transpose", {x}, {{"perm", Indices{1, 0, 2}}})}, {{"shape", Indices{steps * batch, width}}});
  const ValueId product = m.b.add("Gemm", {rows, m.weights({width, width}, "of_inputs", 0.2), m.weights({width}, "bias")});
  const ValueId all = m.b.add("Reshape", {product}, {{"shape", Indices{steps, batch, width}}});
  const ValueId between = m.weights({width, width}, "of_states", 0.2);
  ValueId state = kNoValue;
  for (std::int64_t step = 0; step < steps; ++step) {
    ValueId now = m.b.add("Slice", {all}, {{"begin", Indices{step, 0, 0}}, {"length", Indices{1, batch, width}}});
    now = m.b.add("Reshape", {now}, {{"shape", Indices{batch, width}}});
    if (state != kNoValue) now = m.b.add("Add", {now, m.b.add("MatMul", {state, between})});
    state = m.b.add("Tanh", {now});
  }
  m.graph.add_output("y", m.b.add("MatMul", {state, m.weights({width, 4}, "last", 0.3)}));
  m.graph.tidy();
  return m.graph;
}

training::Dataset small_data() {
  std::mt19937 random(5);
  std::vector<std::int64_t> targets;
  for (int n = 0; n < 48; ++n) targets.push_back(n % 4);
  return testing::with_targets(testing::random_tensor(random, DataType::kFloat, {48, 2, 6, 6}), targets);
}

TrainOptions train_options() {
  TrainOptions options;
  options.batch = 8, options.epochs = 2;
  options.graph.update.method = training::UpdateMethod::kAdam;
  options.schedule.rate = 0.01;
  return options;
}

struct Trained {
  std::vector<double> losses;
  TrainingCheckpoint checkpoint;
};

// Up to `most` steps by a plan of the strategy ("": one process, no plan; "again NAME": with values computed again), from a
// checkpoint if there is one.
Trained trained(const std::string& strategy, std::size_t count, std::int64_t most = 100,
                const TrainingCheckpoint* from = nullptr) {
  const training::Dataset data = small_data();
  std::mutex mutex;
  std::optional<Plan> plan;  // that the first process to come finds
  Trained result;
  run_as_processes(count, [&](Communicator& processes) {
    TrainOptions options = train_options();
    if (!strategy.empty())
      options.planned = [&](const TrainingGraphs& graphs, training::TrainedTensors start) {
        {
          const std::lock_guard lock(mutex);
          const auto all = static_cast<std::int64_t>(count);
          const bool again = strategy.starts_with("again ");
          if (!plan)
            plan = again ? again_by(strategy.substr(6), planned_for_training(graphs), all)
                         : planned_by(strategy, planned_for_training(graphs), all);
        }
        return make_planned_step(*plan, "a plan", graphs, std::move(start), processes, cpu::cpu_backend(), {});
      };
    Trainer trainer(small_model(), data, options, processes, cpu::cpu_backend());
    if (from) trainer.resume(*from);
    std::stop_source stop;
    std::vector<double> losses;
    trainer.run(stop.get_token(), [&](const training::StepReport& r) {
      losses.push_back(r.loss);
      if (r.step == most) stop.request_stop();
    });
    TrainingCheckpoint checkpoint = trainer.checkpoint();
    if (processes.rank() == 0) result = {losses, std::move(checkpoint)};
  });
  return result;
}

void require_same_losses(const std::vector<double>& losses, const std::vector<double>& expected) {
  REQUIRE(losses.size() == expected.size());
  for (std::size_t n = 0; n < losses.size(); ++n) CHECK(std::fabs(losses[n] - expected[n]) <= 1e-5 * std::fabs(expected[n]));
}

}  // namespace

TEST_CASE("planned runs: random plans of a transformer's layer and of convolutions") {
  for (const std::int64_t processes : {2, 4}) {
    ChoiceFinder& choices = choices_for(processes);
    for (unsigned seed = 0; seed < 6; ++seed) {
      RandomGraph g(seed);
      const Graph graph = seed % 2 ? transformer(g) : convolutions(g);
      const Plan plan = testing::random_plan(g.random, graph, choices, processes);
      INFO("seed " << seed << ", " << processes << " processes");
      std::atomic<std::uint64_t> sent = 0;
      testing::require_close(graph, by_processes(plan, graph, g.inputs, &sent), interpret(graph, g.inputs), {});
      CHECK(static_cast<double>(sent) == Approx(simulated_bytes(plan, graph)).epsilon(1e-9));
    }
  }
}

TEST_CASE("planned runs: a transformer's layer as Megatron cuts it") {
  RandomGraph g(1);
  const Graph graph = transformer(g);
  const PlannedGraph planned = planned_for_inference(graph);
  const Plan plan = planned_by("tensor", planned, 2, 10e3);  // less than the weights take
  CHECK(check_plan(plan, graph, {}).proved);
  CHECK(count(plan, plans::Exchange::kAllReduce) + count(plan, plans::Exchange::kReduceScatter) >= 1);
  testing::require_close(graph, by_processes(plan, graph, g.inputs), interpret(graph, g.inputs), {});
}

TEST_CASE("planned runs: of a recurrent network that is cut by samples only weights are exchanged") {
  const Graph model = recurrent(64);
  for (const bool by_sample : {true, false}) {
    training::TrainingGraphOptions options = planned_training("softmax-cross-entropy", "sgd");
    CHECK(options.rows_by_sample);
    options.rows_by_sample = by_sample;
    const PlannedGraph planned = planned_for_training(training::make_training_graphs(model, "", options));
    const Plan plan = planned_by("data", planned, 2);
    CHECK(check_plan(plan, planned.graph, planned.replaced).proved);
    CHECK(!plan.exchanges.empty());
    // Results for all samples are larger than each weight.
    const bool only_weights = std::all_of(plan.exchanges.begin(), plan.exchanges.end(), [&](const plans::PlannedExchange& e) {
      return bytes_of(planned.graph.value(e.value).type) <= 32 * 32 * sizeof(float);
    });
    CHECK(only_weights == by_sample);
  }
}

TEST_CASE("planned runs: convolutions cut along the image exchange halos") {
  RandomGraph g(2);
  const Graph graph = convolutions(g);
  for (const std::int64_t processes : {2, 4}) {
    const Plan plan = along_height(graph, processes);
    CHECK(check_plan(plan, graph, {}).proved);
    CHECK(count(plan, plans::Exchange::kHalo) >= 2);
    testing::require_close(graph, by_processes(plan, graph, g.inputs), interpret(graph, g.inputs), {});
  }
}

TEST_CASE("planned runs: all processes measure the same times of exchanges, of the bytes that are sent") {
  for (const std::size_t count : {2, 3}) {
    std::mutex mutex;
    std::vector<std::vector<plans::MessageTime>> all;
    run_as_processes(count, [&](Communicator& processes) {
      const std::uint64_t before = processes.bytes_sent();
      const auto times = measure_exchanges(processes, cpu::cpu_backend(), {.threads = 1}, {.most_bytes = 5000, .seconds = 0});
      if (processes.bytes_sent() == before) throw Error(ErrorCode::kBadInput, "nothing was sent");
      const std::lock_guard lock(mutex);
      all.push_back(times);
    });
    REQUIRE(all.size() == count);
    for (const auto& times : all) {
      REQUIRE(times.size() == 3);  // of tensors of 1024, 4096 and 5000 bytes
      for (std::size_t n = 0; n < 3; ++n) {
        CHECK(times[n].seconds > 0);
        CHECK(times[n].seconds == all[0][n].seconds);
        const std::size_t whole = n == 0 ? 1024 : n == 1 ? 4096 : 5000;
        CHECK(times[n].bytes == static_cast<double>(whole / 4 / count * 4 * (count - 1)));
      }
    }
  }
}

TEST_CASE("planned runs: an exchange begins when its value is there, beside the rest of the piece") {
  RandomGraph g(5);
  const ValueId x = g.input({4, 8}), w = g.input({8, 4});
  g.graph.add_output("product", node(g.graph, "MatMul", {x, w}).at(0));
  g.graph.add_output("other", node(g.graph, "Tanh", {x}).at(0));
  g.graph.tidy();
  plans::Partition partition;
  for (const auto& each : g.graph.nodes()) {
    plans::NodeChoice chosen = plans::whole_choice(*each);
    for (const plans::NodeChoice& choice : choices_for(2).of(g.graph, *each))
      if (each->op->name() == "MatMul" && choice.gives[0].kind == plans::Holding::Kind::kPartial) chosen = choice;
    partition.nodes.push_back(chosen);
  }
  partition.given.resize(g.graph.value_count());
  plans::PartitionOptions options;
  options.processes = 2;
  const Plan plan = make_plan(g.graph, partition, options);
  REQUIRE(count(plan, plans::Exchange::kAllReduce) == 1);
  run_as_processes(2, [&](Communicator& processes) {
    Watched watched(processes);
    PlannedRun run(plans::local_program(plan, g.graph, {}, processes.rank()), watched, Waiting(watched), {}, true);
    if (run.program().pieces.size() != 1) throw Error(ErrorCode::kBadInput, "the program has several pieces");
    if (run.run(g.inputs).size() != 2) throw Error(ErrorCode::kBadInput, "an output is missing");
  });
}

TEST_CASE("planned training: by every strategy the losses are those of one process", "[long]") {
  const Trained one = trained("", 1);
  REQUIRE(one.losses.size() == 12);
  require_same_losses(trained("data", 1).losses, one.losses);
  for (const std::string strategy : {"data", "zero", "tensor", "hybrid"})
    for (const std::size_t processes : {2, 4}) {
      INFO(strategy << " on " << processes);
      require_same_losses(trained(strategy, processes).losses, one.losses);
    }
}

TEST_CASE("planned training: with values computed again the losses are those of one process") {
  const Trained one = trained("", 1);
  for (const std::string strategy : {"again data", "again tensor"}) {
    INFO(strategy);
    require_same_losses(trained(strategy, 2).losses, one.losses);
  }
}

TEST_CASE("planned training: another plan and another number of processes go on from a checkpoint") {
  const Trained whole = trained("", 1);
  const Trained first = trained("tensor", 2, 5);
  REQUIRE(first.losses.size() == 5);
  const Trained second = trained("zero", 4, 9, &first.checkpoint);
  const Trained third = trained("", 1, 100, &second.checkpoint);
  std::vector<double> all = first.losses;
  all.insert(all.end(), second.losses.begin(), second.losses.end());
  all.insert(all.end(), third.losses.begin(), third.losses.end());
  require_same_losses(all, whole.losses);
}

TEST_CASE("planned training: what is not proved is refused by all processes") {
  RandomGraph g(4);
  const PlannedGraph planned = planned_for_inference(transformer(g));
  Plan plan = planned_by("tensor", planned, 2, 10e3);
  REQUIRE(!plan.exchanges.empty());
  plan.exchanges.pop_back();
  run_as_processes(2, [&](Communicator& processes) {
    try {
      require_proved(plan, planned, processes, "a plan");
    } catch (const Error& e) {
      if (std::string(e.what()).find("is not executed") != std::string::npos) return;
    }
    throw Error(ErrorCode::kBadInput, "it was not refused");
  });
}

}  // namespace rewright::runtime
