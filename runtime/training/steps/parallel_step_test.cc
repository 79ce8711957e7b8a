#include "runtime/training/steps/parallel_step.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <random>
#include <set>

#include "distribution/testing.h"
#include "operators/testing/share.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/reference/backend.h"
#include "runtime/training/memory/parameter_layout.h"
#include "runtime/training/steps/trainer.h"
#include "runtime/training/testing.h"

namespace rewright::training {
namespace {

using cpu::cpu_backend;
using testing::ModelBuilder;
using testing::random_tensor;
using testing::run_as_processes;

// Four layers with a batch normalization. Sizes are odd, so that partitions end inside parameters.
Graph model() {
  ModelBuilder m(1);
  ValueId y = m.graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), 5}});
  const std::vector<std::int64_t> widths{5, 17, 13, 11, 3};
  for (std::size_t n = 0; n + 1 < widths.size(); ++n) {
    const std::string number = std::to_string(n);
    y = m.b.add("Gemm", {y, m.weights({widths[n], widths[n + 1]}, "w" + number), m.weights({widths[n + 1]}, "b" + number)});
    if (n == 1) y = m.normalized(y, 13);
    if (n < 3) y = m.b.add("Tanh", {y});
  }
  m.graph.add_output("y", y);
  return std::move(m.graph);
}

Dataset data() {
  std::mt19937 random(2);
  const Tensor x = random_tensor({48, 5}, random, DataType::kFloat);
  std::vector<std::int64_t> targets;
  for (std::size_t n = 0; n < 48; ++n) targets.push_back(x.reals()[5 * n] > 0 ? 2 : x.reals()[5 * n + 1] > 0);
  return testing::with_targets(x, targets);
}

TrainOptions options(std::int64_t shards) {
  TrainOptions o;
  o.graph.update = {.method = UpdateMethod::kAdamW, .weight_decay = 0.01};
  o.schedule = {RateSchedule::Kind::kCosine, 0.05, 2};
  o.batch = 24, o.epochs = 3, o.shards = shards, o.seed = 7;
  o.exchange.bucket_bytes = 700;
  return o;
}

struct Outcome {
  std::uint64_t model = 0, checkpoint = 0;
  std::vector<double> losses;
  std::vector<TrainingMemory> memory;  // by process
};

std::uint64_t hash_of(const TrainingCheckpoint& checkpoint) {
  std::uint64_t hash = 0;
  for (const auto& [name, tensor] : checkpoint.tensors) hash = hash * 31 + tensor.content_hash();
  return hash;
}

Outcome train(const TrainOptions& o, std::size_t count, const Backend& backend = cpu_backend()) {
  Outcome outcome;
  outcome.memory.resize(count);
  const Graph graph = model();
  const Dataset examples = data();
  std::mutex mutex;
  run_as_processes(count, [&](Communicator& processes) {
    Trainer trainer(graph, examples, o, processes, backend);
    std::vector<double> losses;
    trainer.run({}, [&](const StepReport& r) { losses.push_back(r.loss); });
    const std::uint64_t trained = trainer.trained().hash(), checkpoint = hash_of(trainer.checkpoint());
    const std::lock_guard lock(mutex);
    if (trainer.memory()) outcome.memory[processes.rank()] = *trainer.memory();
    if (processes.rank() != 0 && outcome.model == 0) outcome.model = trained, outcome.checkpoint = checkpoint;
    CHECK((outcome.model == 0 || outcome.model == trained));
    CHECK((outcome.checkpoint == 0 || outcome.checkpoint == checkpoint));
    outcome.model = trained, outcome.checkpoint = checkpoint;
    outcome.losses = losses;
  });
  return outcome;
}

TEST_CASE("added in order, training gives the same bits however it is spread") {
  std::size_t combination = 0;
  for (const UpdateMethod method :
       {UpdateMethod::kMomentum, UpdateMethod::kAdagrad, UpdateMethod::kAdamW, UpdateMethod::kLars, UpdateMethod::kLamb}) {
    TrainOptions o = options(12);
    o.graph.update.method = method;
    const Outcome one = train(o, 1);
    for (const std::size_t count : {1, 2, 3, 6})
      for (const int zero : {0, 1, 2, 3})
        for (const std::size_t bucket_bytes : {std::size_t{0}, std::size_t{1}, std::size_t{700}}) {
          if (testing::kSanitized && combination++ % 13 != 0) continue;
          o.exchange.zero = zero, o.exchange.bucket_bytes = bucket_bytes;
          INFO(count << " processes, zero " << zero << ", buckets of " << bucket_bytes);
          const Outcome many = train(o, count);
          CHECK(many.losses == one.losses);
          CHECK(many.model == one.model);
          CHECK(many.checkpoint == one.checkpoint);
        }
  }
}

TEST_CASE("gradients are clipped by the length of all of them, however they are spread") {
  TrainOptions o = options(4);
  const Outcome free = train(o, 1);
  o.graph.clip_norm = 0.05;
  const Outcome one = train(o, 1);
  CHECK(one.model != free.model);
  for (const std::size_t count : {1, 2, 4})
    for (const int zero : {0, 1, 2, 3}) {
      o.exchange.zero = zero;
      INFO(count << " processes, zero " << zero);
      CHECK(train(o, count).model == one.model);
    }
  o.graph.clip_norm = 1e9;
  CHECK(train(o, 2).model == free.model);
  // With SGD and rate 1 the parameters move by that norm, however gradients are summed.
  for (const int zero : {0, 1, 2, 3}) {
    TrainOptions steps = options(0);
    steps.graph.update = {.method = UpdateMethod::kSgd};
    steps.schedule = {RateSchedule::Kind::kConstant, 1, 0};
    steps.graph.clip_norm = 0.01, steps.batch = 48, steps.epochs = 1, steps.exchange.zero = zero;
    const Graph graph = model();
    const Dataset examples = data();
    run_as_processes(3, [&](Communicator& processes) {
      Trainer trainer(graph, examples, steps, processes, cpu_backend());
      trainer.run({}, {});
      const Graph trained = trainer.trained();
      double moved = 0;
      for (const TrainedTensor& p : trainer.graphs().parameters) {
        const std::vector<double> before = graph.value(p.in_model).constant.reals();
        const std::vector<double> after = trained.value(p.in_model).constant.reals();
        for (std::size_t n = 0; n < before.size(); ++n) moved += (after[n] - before[n]) * (after[n] - before[n]);
      }
      CHECK(std::sqrt(moved) == Approx(0.01).epsilon(1e-4));
    });
  }
}

TEST_CASE("weights of 16 bits that are rounded at random are the same for any number of processes") {
  std::size_t combination = 0;
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16}) {
    TrainOptions o = options(4);
    o.graph.weights = type;
    const Outcome nearest = train(o, 1);
    o.graph.stochastic = true;
    const Outcome one = train(o, 1);
    CHECK(one.model != nearest.model);
    for (const std::size_t count : {1, 2, 4})
      for (const int zero : {0, 1, 2, 3}) {
        if (testing::kSanitized && combination++ % 5 != 0) continue;
        o.exchange.zero = zero;
        INFO(count << " processes, zero " << zero);
        const Outcome many = train(o, count);
        CHECK(many.model == one.model);
        CHECK(many.checkpoint == one.checkpoint);
      }
    o.seed = 8;
    CHECK(train(o, 1).model != one.model);
  }
}

TEST_CASE("gradients of 16 bits are the same for any number of processes as well") {
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16}) {
    TrainOptions o = options(4);
    o.exchange.gradients = type;
    const Outcome one = train(o, 1), two = train(o, 2);
    o.exchange.zero = 2;
    const Outcome four = train(o, 4);
    CHECK(two.model == one.model);
    CHECK(four.model == one.model);
    const Outcome wide = train(options(4), 1);
    CHECK(wide.model != one.model);
    for (std::size_t n = 0; n < wide.losses.size(); ++n) CHECK(one.losses[n] == Approx(wide.losses[n]).epsilon(0.05));
  }
}

TEST_CASE("each strategy trains as one process does, up to rounding") {
  const Update sgd{.method = UpdateMethod::kMomentum};  // Adam amplifies the noise in gradients that are 0
  for (const std::size_t count : {2, 3, 4, 8}) {
    // Batch normalizations use their shard's statistics: as many shards as processes.
    TrainOptions in_shards = options(static_cast<std::int64_t>(count));
    in_shards.graph.update = sgd;
    const Outcome one = train(in_shards, 1);
    TrainOptions o = options(0);
    o.graph.update = sgd;
    const auto check = [&] {
      const Outcome many = train(o, count);
      REQUIRE(many.losses.size() == one.losses.size());
      for (std::size_t n = 0; n < one.losses.size(); ++n) CHECK(many.losses[n] == Approx(one.losses[n]).epsilon(1e-5));
    };
    for (const std::string_view name : all_reduce_names()) {
      INFO(count << " processes, " << name);
      o.exchange.all_reduce = all_reduce_from_name(name);
      check();
    }
    o.exchange.all_reduce = {};
    for (const int zero : {1, 2, 3}) {
      INFO(count << " processes, zero " << zero);
      o.exchange.zero = zero;
      check();
    }
  }
}

TEST_CASE("the memory of a process is what ZeRO's stages say") {
  TrainOptions o = options(0);
  constexpr std::size_t kStates = 2;  // of AdamW
  std::size_t all = 0, largest = 0;   // bytes of parameters
  {
    const Graph graph = model();
    const Dataset examples = data();
    const auto alone = make_local_communicator();
    TrainOptions one = o;
    one.shards = 2;
    const Trainer trainer(graph, examples, one, *alone, cpu_backend());
    for (const TrainedTensor& p : trainer.graphs().parameters) {
      const std::size_t bytes = graph.value(p.in_model).constant.byte_count();
      all += bytes, largest = std::max(largest, bytes);
    }
  }
  const std::size_t padding = 64 * 10, bucket = o.exchange.bucket_bytes + largest + 64;
  for (const std::size_t count : {2, 3, 4, 8})
    for (const int zero : {0, 1, 2, 3}) {
      o.exchange.zero = zero;
      INFO(count << " processes, zero " << zero);
      std::size_t states = 0, parameters = 0, gradients = 0;  // of all processes
      for (const TrainingMemory& m : train(o, count).memory) {
        CHECK(m.states <= kStates * (all / (zero >= 1 ? count : 1) + padding));
        // In stage 3, the current and the next step's gathered parameters come on top.
        CHECK(m.parameters <= all / (zero == 3 ? count : 1) + padding + (zero == 3 ? 2 : 0) * largest);
        // From stage 2 on, buckets being computed or sent.
        CHECK(m.gradients <= all / (zero >= 2 ? count : 1) + padding + (zero >= 2 ? 5 : 0) * bucket);
        states += m.states, parameters += m.parameters, gradients += m.gradients;
      }
      CHECK(states == kStates * all * (zero >= 1 ? 1 : count));
      CHECK(parameters >= all * (zero == 3 ? 1 : count));
      CHECK(gradients >= all * (zero >= 2 ? 1 : count));
    }
}

TEST_CASE("a run goes on with other numbers of processes and other stages") {
  const Graph graph = model();
  const Dataset examples = data();
  TrainOptions o = options(12);
  const Outcome whole = train(o, 1);
  TrainingCheckpoint saved;
  const auto part = [&](std::size_t count, int zero, int steps) {
    std::mutex mutex;
    o.exchange.zero = zero;
    run_as_processes(count, [&](Communicator& processes) {
      Trainer trainer(graph, examples, o, processes, cpu_backend());
      std::unique_lock lock(mutex);
      const TrainingCheckpoint from = saved;
      lock.unlock();
      if (!from.facts.empty()) trainer.resume(from);
      std::stop_source stop;
      trainer.run(stop.get_token(), [&, left = steps](const StepReport&) mutable {
        if (--left == 0) stop.request_stop();
      });
      const TrainingCheckpoint now = trainer.checkpoint();
      processes.barrier();
      if (processes.rank() == 0) saved = now;
    });
  };
  part(3, 0, 1), part(2, 3, 1), part(1, 0, 1), part(4, 1, 1), part(6, 2, 100);
  CHECK(hash_of(saved) == whole.checkpoint);
}

TEST_CASE("a weight that changes in one process is noticed") {
  const Graph graph = model();
  const Dataset examples = data();
  for (const int zero : {0, 2}) {
    TrainOptions o = options(0);
    o.check_every = 2, o.exchange.zero = zero;
    const auto run = [&](bool broken) {
      run_as_processes(3, [&](Communicator& processes) {
        Trainer trainer(graph, examples, o, processes, cpu_backend());
        TrainingCheckpoint start = trainer.checkpoint();
        if (broken && processes.rank() == 1) {
          std::vector<double> values = start.tensors.at("w1").reals();
          values[20] += 1e-3;
          start.tensors["w1"] = Tensor::from_reals(DataType::kFloat, start.tensors.at("w1").sizes(), values);
        }
        trainer.resume(start);
        trainer.run({}, {});
      });
    };
    CHECK_NOTHROW(run(false));
    if (zero == 0)
      CHECK_THROWS_WITH(run(true), Catch::Contains("process 1 holds another 'w1'"));
    else  // it owns the value, or gets it from its owner
      CHECK_NOTHROW(run(true));
  }
}

TEST_CASE("processes that were started differently say so") {
  const Graph graph = model();
  const Dataset examples = data();
  const auto start = [&](const std::function<void(TrainOptions&, Graph&)>& change) {
    run_as_processes(3, [&](Communicator& processes) {
      TrainOptions o = options(0);
      Graph mine = graph;
      if (processes.rank() == 2) change(o, mine);
      Trainer(mine, examples, o, processes, reference_backend());
    });
  };
  CHECK_NOTHROW(start([](TrainOptions&, Graph&) {}));
  CHECK_THROWS_WITH(start([](TrainOptions& o, Graph&) { o.seed = 8; }),
                    Catch::Contains("process 2 was started with another seed than process 0: 8, not 7"));
  CHECK_THROWS_WITH(start([](TrainOptions& o, Graph&) { o.exchange.zero = 1; }), Catch::Contains("exchange"));
  CHECK_THROWS_WITH(start([](TrainOptions& o, Graph&) { o.graph.update.method = UpdateMethod::kSgd; }),
                    Catch::Contains("model"));
  CHECK_THROWS_WITH(start([](TrainOptions&, Graph& g) {
                      for (ValueId v = 0; v < 50; ++v)
                        if (g.is_constant(v) && g.value(v).name == "b0")
                          return g.set_constant(v, Tensor::from_reals(DataType::kFloat, {17}, std::vector<double>(17, 3)));
                    }),
                    Catch::Contains("weights"));
}

TEST_CASE("options that do not go together are refused") {
  const auto refuse = [&](const std::function<void(TrainOptions&)>& change) {
    TrainOptions o = options(0);
    o.exchange.zero = 1;
    change(o);
    CHECK_THROWS_AS(train(o, 2), Error);
  };
  refuse([](TrainOptions& o) { o.exchange.all_reduce = all_reduce_from_name("tree"); });
}

TEST_CASE("the parts of processes make up every bucket") {
  std::mt19937 random(9);
  for (int round = 0; round < 200; ++round) {
    std::vector<ParameterKind> kinds;
    std::vector<std::size_t> order;
    for (std::size_t n = 0; n < 1 + random() % 8; ++n) {
      const Sizes sizes =
          random() % 2 ? Sizes{static_cast<std::int64_t>(random() % 90)} : Sizes{3, static_cast<std::int64_t>(random() % 50)};
      kinds.push_back({random() % 4 ? DataType::kFloat : DataType::kDouble, sizes});
      order.push_back(n);
    }
    std::shuffle(order.begin(), order.end(), random);
    const std::size_t processes = 1 + random() % 7;
    const bool cut = random() % 2;
    const ParameterLayout layout(kinds, order, {random() % 800, processes, cut});
    std::vector<std::size_t> covered(kinds.size());
    std::size_t bytes = 0;
    for (std::size_t p = 0; p < processes; ++p) {
      bytes += layout.part_bytes(p);
      for (const Piece& piece : layout.pieces(p)) {
        covered[piece.parameter] += piece.count;
        CHECK(static_cast<std::size_t>(element_count(piece.sizes)) == piece.count);
        if (!cut) CHECK(piece.sizes == kinds[piece.parameter].sizes);
        CHECK(std::min<std::size_t>(2, piece.sizes.size()) == kinds[piece.parameter].sizes.size());
        const Bounds bounds = layout.bounds_of(piece.parameter);
        CHECK(bounds[p + 1] - bounds[p] == piece.count);
      }
    }
    CHECK(bytes == layout.bytes());
    for (std::size_t n = 0; n < kinds.size(); ++n) CHECK(covered[n] == static_cast<std::size_t>(element_count(kinds[n].sizes)));
  }
}

}  // namespace
}  // namespace rewright::training
