#include "runtime/training/graphs/shared_statistics.h"

#include <catch2/catch.hpp>
#include <mutex>
#include <random>
#include <set>

#include "distribution/testing.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/reference/backend.h"
#include "runtime/training/steps/trainer.h"
#include "runtime/training/testing.h"

namespace rewright::training {
namespace {

using cpu::cpu_backend;
using testing::ModelBuilder;
using testing::random_tensor;
using testing::run_as_processes;

// Two parallel normalized convolutions, and a normalized layer after their sum.
Graph model() {
  ModelBuilder m(1);
  NodeBuilder& b = m.b;
  const ValueId x = m.graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), 2, 4, 4}});
  const auto branch = [&](const std::string& name) {
    return m.normalized(b.add("Conv", {x, m.weights({3, 2, 3, 3}, "w" + name)}), 3, name);
  };
  const ValueId sum = b.add("Tanh", {b.add("Add", {branch("1"), branch("2")})});
  const ValueId flat = b.add("ReduceMean", {sum}, {{"axes", Indices{2, 3}}, {"keepdims", false}});
  const ValueId y = b.add("Tanh", {m.normalized(b.add("Gemm", {flat, m.weights({3, 5}, "w3")}), 5, "3")});
  m.graph.add_output("y", b.add("Gemm", {y, m.weights({5, 2}, "w4"), m.weights({2}, "b4")}));
  return std::move(m.graph);
}

Dataset data() {
  std::mt19937 random(2);
  const Tensor x = random_tensor({48, 2, 4, 4}, random, DataType::kFloat);
  std::vector<std::int64_t> targets;
  for (std::size_t n = 0; n < 48; ++n) targets.push_back(x.reals()[32 * n] > 0);
  return testing::with_targets(x, targets);
}

TrainOptions options(std::int64_t shards) {
  TrainOptions o;
  o.graph.update = {.method = UpdateMethod::kMomentum};
  o.schedule = {RateSchedule::Kind::kCosine, 0.1, 2};
  o.batch = 24, o.epochs = 3, o.shards = shards, o.seed = 7;
  o.whole_batch_statistics = true;
  o.exchange.bucket_bytes = 200;
  return o;
}

struct Outcome {
  std::uint64_t model = 0;
  std::vector<double> losses;
  std::vector<double> trained;  // weights and statistics, concatenated
};

Outcome train(const TrainOptions& o, std::size_t count, const Backend& backend = cpu_backend()) {
  Outcome outcome;
  const Graph graph = model();
  const Dataset examples = data();
  std::mutex mutex;
  run_as_processes(count, [&](Communicator& processes) {
    Trainer trainer(graph, examples, o, processes, backend);
    std::vector<double> losses;
    trainer.run({}, [&](const StepReport& r) { losses.push_back(r.loss); });
    const Graph trained = trainer.trained();
    const std::lock_guard lock(mutex);
    CHECK((outcome.model == 0 || outcome.model == trained.hash()));
    outcome = {trained.hash(), losses, {}};
    for (const auto* list : {&trainer.graphs().parameters, &trainer.graphs().statistics})
      for (const TrainedTensor& t : *list) {
        const std::vector<double> values = trained.value(t.in_model).constant.reals();
        outcome.trained.insert(outcome.trained.end(), values.begin(), values.end());
      }
  });
  return outcome;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t n = 0; n < a.size(); ++n) largest = std::max(largest, std::abs(a[n] - b[n]));
  return largest;
}

TEST_CASE("with the statistics of the whole batch, any number of processes trains as one does") {
  TrainOptions own = options(1);
  own.whole_batch_statistics = false;
  const Outcome one = train(own, 1);
  own.shards = 4;
  CHECK(largest_difference(train(own, 1).losses, one.losses) > 1e-3);  // statistics of shards give other results
  const auto check = [&](const TrainOptions& o, std::size_t count, const Backend& backend = cpu_backend()) {
    const Outcome many = train(o, count, backend);
    CHECK(largest_difference(many.losses, one.losses) < 1e-5);
    CHECK(largest_difference(many.trained, one.trained) < 1e-5);
  };
  for (const std::size_t count : {1, 2, 3, 4, 8}) {
    INFO(count << " processes");
    check(options(0), count);
    for (const int zero : {1, 2, 3}) {
      TrainOptions o = options(0);
      o.exchange.zero = zero;
      check(o, count);
    }
  }
  TrainOptions accumulated = options(0);
  accumulated.accumulate = 3;
  check(accumulated, 2);
  TrainOptions ring = options(0);
  ring.exchange.all_reduce = all_reduce_from_name("ring");
  check(ring, 3, reference_backend());
}

TEST_CASE("with the statistics of the whole batch, added in order, the bits are the same however it is spread") {
  TrainOptions o = options(12);
  const Outcome one = train(o, 1);
  for (const std::size_t count : {2, 3, 4, 6})
    for (const int zero : {0, 2, 3}) {
      o.exchange.zero = zero;
      INFO(count << " processes, zero " << zero);
      const Outcome many = train(o, count);
      CHECK(many.losses == one.losses);
      CHECK(many.model == one.model);
    }
}

TEST_CASE("what is not finite is found where it arises, and not in a sum; what needs a step in one graph is refused") {
  const Graph graph = model();
  const Dataset examples = data();
  TrainOptions o = options(4);
  o.schedule = {RateSchedule::Kind::kConstant, 1e30, 0};
  CHECK_THROWS_WITH(run_as_processes(2,
                                     [&](Communicator& processes) {
                                       Trainer trainer(graph, examples, o, processes, cpu_backend());
                                       trainer.run({}, {});
                                     }),
                    Catch::Contains("is not finite") && !Catch::Contains("training.sum"));
  o = options(4);
  o.memory.bytes = 1 << 20;
  CHECK_THROWS_WITH(train(o, 2), Catch::Contains("memory budget"));
  o = options(4);
  o.rewrite = [](const Graph& g) { return g; };
  CHECK_THROWS_WITH(train(o, 2), Catch::Contains("rewritten"));
}

TEST_CASE("a mean over examples is made of what shards add to it, other means are not") {
  Graph g;
  std::vector<SharedSum> sums;
  SharingBuilder b(g, 4, sums);
  const ValueId x = g.add_input("x", {DataType::kFloat, {6, 3}});
  const ValueId inside = b.add("ReduceMean", {x}, {{"axes", Indices{1}}});
  CHECK(sums.empty());
  const ValueId mean = b.add("ReduceMean", {inside}, {{"axes", Indices{0, 1}}});
  REQUIRE(sums.size() == 1);
  CHECK(sums[0].sum == mean);
  CHECK(g.value(mean).type == g.value(sums[0].share).type);
  g.add_output("share", sums[0].share);
  const Tensor values = testing::tensor({6, 3}, std::vector<double>(18, 8), DataType::kFloat);
  CHECK(interpret(g, std::vector{values})[0].reals()[0] == 2);
}

TEST_CASE("shares come before what reads their sums") {
  Graph g;
  NodeBuilder b(g);
  const ValueId x = g.add_input("x", {DataType::kFloat, {3}});
  std::vector<SharedSum> sums;
  for (int n = 0; n < 3; ++n) sums.push_back({kNoValue, add_sum(g, {DataType::kFloat, {3}})});
  // In reverse order: each share needs the following sum.
  const ValueId last = b.add("Neg", {sums[0].sum});
  for (std::size_t n = 0; n + 1 < 3; ++n) sums[n].share = b.add("Exp", {sums[n + 1].sum});
  sums[2].share = b.add("Tanh", {x});
  order_by_sums(g, sums);
  std::set<ValueId> computed, readable{x};
  for (const auto& node : g.nodes()) {
    for (const SharedSum& s : sums)
      if (computed.contains(s.share)) readable.insert(s.sum);
    for (const ValueId v : node->inputs) CHECK((readable.contains(v) || computed.contains(v)));
    computed.insert(node->outputs.begin(), node->outputs.end());
  }
  CHECK(g.nodes().back()->outputs[0] == last);
  sums[2].share = b.add("Exp", {last});
  CHECK_THROWS_AS(order_by_sums(g, sums), Error);
}

}  // namespace
}  // namespace rewright::training
