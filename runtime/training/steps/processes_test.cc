// Training in processes started by mpirun; other tests use threads instead of processes.
#include <catch2/catch.hpp>
#include <random>

#include "distribution/testing.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/training/steps/trainer.h"
#include "runtime/training/testing.h"

namespace rewright::training {
namespace {

using cpu::cpu_backend;

Graph model() {
  testing::ModelBuilder m(3);
  const ValueId x = m.graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), 5}});
  const ValueId inner = m.b.add("Gemm", {x, m.weights({5, 7}, "w1"), m.weights({7}, "b1")});
  const ValueId y = m.b.add("Tanh", {m.normalized(inner, 7)});
  m.graph.add_output("y", m.b.add("Gemm", {y, m.weights({7, 3}, "w2"), m.weights({3}, "b2")}));
  return std::move(m.graph);
}

Dataset data() {
  std::mt19937 random(4);
  std::vector<std::int64_t> targets;
  for (int n = 0; n < 48; ++n) targets.push_back(random() % 3);
  return testing::with_targets(testing::random_tensor({48, 5}, random, DataType::kFloat), targets);
}

// The hash of the trained model.
std::uint64_t train(const TrainOptions& options, Communicator& processes) {
  const Dataset examples = data();
  Trainer trainer(model(), examples, options, processes, cpu_backend());
  CHECK(trainer.run({}, {}));
  return trainer.trained().hash();
}

TEST_CASE("the processes that mpirun started train to the bits of one process", "[distribution]") {
  Communicator& processes = testing::started_processes();
  TrainOptions o;
  o.graph.update = {.method = UpdateMethod::kAdam};
  o.batch = 48, o.epochs = 3, o.shards = 24, o.check_every = 1;
  o.exchange.bucket_bytes = 100;
  if (24 % processes.size() != 0) return;  // cannot be divided evenly
  const auto alone = make_local_communicator();
  for (const bool whole : {false, true}) {
    o.whole_batch_statistics = whole;
    o.exchange.zero = 0;
    const std::uint64_t one = train(o, *alone);
    for (const int zero : {0, 1, 2, 3}) {
      o.exchange.zero = zero;
      INFO(processes.size() << " processes, zero " << zero << (whole ? ", statistics of the whole batch" : ""));
      CHECK(train(o, processes) == one);
    }
  }
}

TEST_CASE("what fails in one of the processes that mpirun started leaves no other waiting", "[distribution]") {
  Communicator& processes = testing::started_processes();
  TrainOptions o;
  o.batch = 48, o.epochs = 1, o.seed = processes.rank() == processes.size() - 1 ? 1 : 0;
  if (processes.size() > 1 && 48 % processes.size() == 0)
    CHECK_THROWS_WITH(train(o, processes), Catch::Contains("another seed"));
}

}  // namespace
}  // namespace rewright::training
