#include "runtime/training/steps/trainer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>

#include "base/temporary_folder.h"
#include "graph/builder.h"
#include "graph/file.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"
#include "operators/testing.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/reference/backend.h"
#include "runtime/resident.h"
#include "runtime/training/graphs/mixed_precision.h"

namespace rewright::training {
namespace {

using cpu::cpu_backend;
using testing::random_tensor;

// x [N, 3] -> 6 -> tanh -> 2 classes.
Graph model() {
  std::mt19937 random(1);
  Graph g;
  const ValueId x = g.add_input("x", {DataType::kFloat, {Index::symbol("N"), 3}});
  NodeBuilder b(g);
  const auto weights = [&](Sizes sizes, const char* name) {
    return g.add_constant(random_tensor(std::move(sizes), random, DataType::kFloat), name);
  };
  const ValueId inner = b.add("Tanh", {b.add("Gemm", {x, weights({3, 6}, "w1"), weights({6}, "b1")})});
  g.add_output("y", b.add("Gemm", {inner, weights({6, 2}, "w2"), weights({2}, "b2")}));
  return g;
}

// Target: is the product of the first two numbers positive?
Dataset data(std::int64_t size = 48) {
  std::mt19937 random(2);
  const Tensor x = random_tensor({size, 3}, random, DataType::kFloat);
  std::vector<std::int64_t> targets;
  for (std::int64_t n = 0; n < size; ++n)
    targets.push_back(x.reals()[static_cast<std::size_t>(3 * n)] * x.reals()[static_cast<std::size_t>(3 * n + 1)] > 0);
  return Dataset({{"x", x}, {"targets", Tensor::from_integers(DataType::kInt64, {size}, targets)}});
}

TrainOptions options(std::int64_t shards) {
  TrainOptions o;
  o.graph.update = {.method = UpdateMethod::kAdam};
  o.schedule = {RateSchedule::Kind::kCosine, 0.05, 3};
  o.batch = 16, o.epochs = 4, o.shards = shards, o.seed = 7;
  return o;
}

struct Run {
  Graph graph = model();
  Dataset examples = data();
  std::unique_ptr<Communicator> processes = make_local_communicator();
  Trainer trainer;
  std::vector<double> losses;
  std::stop_source stop;
  explicit Run(const TrainOptions& o) : trainer(graph, examples, o, *processes, reference_backend()) {}
  Run(const TrainOptions& o, Graph g, const Backend& backend)
      : graph(std::move(g)), trainer(graph, examples, o, *processes, backend) {}
  bool go(int steps = 1 << 20) {
    return trainer.run(stop.get_token(), [&](const StepReport& r) {
      losses.push_back(r.loss);
      if (--steps == 0) stop.request_stop();
    });
  }
};

TEST_CASE("training lowers the loss, in one graph or in shards") {
  Run alone(options(1)), four(options(4));
  CHECK(alone.go());
  CHECK(four.go());
  REQUIRE(alone.losses.size() == 12);
  CHECK(alone.losses.back() < 0.8 * alone.losses.front());
  for (std::size_t n = 0; n < 12; ++n) CHECK(alone.losses[n] == Approx(four.losses[n]).epsilon(1e-5));
}

// Layers whose biases, scales and statistics start with equal numbers.
Graph with_equal_starts() {
  std::mt19937 random(5);
  Graph g;
  NodeBuilder b(g);
  ValueId y = g.add_input("x", {DataType::kFloat, {Index::symbol("N"), 3}});
  for (const std::string layer : {"1", "2"}) {
    const auto filled = [&](double value, const std::string& name) {
      return g.add_constant(Tensor::from_reals(DataType::kFloat, {6}, std::vector<double>(6, value)), name + layer);
    };
    const ValueId w = g.add_constant(random_tensor({layer == "1" ? 3 : 6, 6}, random, DataType::kFloat), "w" + layer);
    y = b.add("Gemm", {y, w, filled(0, "b")});
    y = b.add("BatchNormalization", {y, filled(1, "scale"), filled(0, "shift"), filled(0, "mean"), filled(1, "variance")});
    y = b.add("Tanh", {y});
  }
  g.add_output("y", y);
  return g;
}

TEST_CASE("weights and statistics that start as equal numbers are trained apart") {
  const Graph graph = with_equal_starts();
  const Dataset examples = data();
  const auto alone = make_local_communicator();
  for (const std::int64_t shards : {1, 2}) {
    TrainOptions o = options(shards);
    o.graph.update = {.method = UpdateMethod::kMomentum};
    Trainer trainer(graph, examples, o, *alone, reference_backend());
    CHECK(trainer.graphs().parameters.size() == 8);
    CHECK(trainer.graphs().statistics.size() == 4);
    trainer.run({}, {});
    const Graph trained = trainer.trained();
    std::map<std::string, Tensor> now;
    for (ValueId v = 0; v < graph.value_count(); ++v)
      if (graph.is_constant(v)) now[graph.value(v).name] = trained.value(v).constant;
    for (const std::string name : {"scale", "shift", "mean", "variance"}) {
      CHECK(now.at(name + "1") != now.at(name + "2"));
      const double start = name == "scale" || name == "variance";
      for (const char* layer : {"1", "2"})
        for (const double v : now.at(name + layer).reals()) CHECK(v != start);
    }
  }
}

TEST_CASE("nothing is kept of the weights that training starts from") {
  const Dataset examples = data();
  const auto alone = make_local_communicator();
  for (const std::int64_t shards : {1, 2}) {
    const auto memory = std::make_shared<const std::vector<float>>(6, 0.5f);
    Graph graph;
    NodeBuilder b(graph);
    const ValueId x = graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), 3}});
    const auto* bytes = reinterpret_cast<const std::byte*>(memory->data());
    const ValueId w = graph.add_constant(Tensor(DataType::kFloat, {3, 2}, memory, bytes), "w");
    graph.add_output("y", b.add("MatMul", {x, w}));
    Trainer trainer(std::move(graph), examples, options(shards), *alone, reference_backend());
    CHECK(memory.use_count() == 1);
    CHECK(trainer.run({}, {}));
    CHECK(trainer.trained().value(w).constant.reals() != std::vector<double>(6, 0.5));
  }
}

TEST_CASE("what was asked for stays as it was while training goes on") {
  for (const std::int64_t shards : {1, 2}) {
    Run run(options(shards));
    CHECK(!run.go(2));
    const ValueId w1 = run.trainer.graphs().parameters[0].in_model;
    const Tensor trained = run.trainer.trained().value(w1).constant, saved = run.trainer.checkpoint().tensors.at("w1");
    const std::vector<double> before = trained.reals();
    CHECK(saved.reals() == before);
    run.stop = {};
    CHECK(run.go());
    CHECK(trained.reals() == before);
    CHECK(saved.reals() == before);
    CHECK(run.trainer.trained().value(w1).constant.reals() != before);
  }
}

// Branches chosen by data, and a number of columns that depends on data.
Graph model_with_branches() {
  ImportOptions as_graphs;
  as_graphs.procedures_as_graphs = true;
  std::mt19937 random(4);
  onnx::ModelProto model = text_model(R"(agraph (float[N, 3] x) => (float[N, 2] y)
      <float zero = {0}, float[3, 6] w1, float[6, 2] w2, float[6, 2] w3, float[3, 2] w4> {
    h = MatMul (x, w1)
    m = ReduceMean <keepdims = 0> (h)
    go = Greater (m, zero)
    p = If (go) <
      then_branch = a () => (float[N, 2] t) { th = Tanh (h) t = MatMul (th, w2) },
      else_branch = b () => (float[N, 2] e) { s = Sigmoid (h) e = MatMul (s, w3) }>
    largest = ReduceMax <axes = [0], keepdims = 0> (x)
    keep = Greater (largest, zero)
    columns = Compress <axis = 1> (x, keep)
    rows = Compress <axis = 0> (w4, keep)
    q = MatMul (columns, rows)
    y = Add (p, q)
  })");
  model.mutable_graph()->clear_value_info();
  const std::pair<const char*, Sizes> weights[] = {{"w1", {3, 6}}, {"w2", {6, 2}}, {"w3", {6, 2}}, {"w4", {3, 2}}};
  for (const auto& [name, sizes] : weights) {
    onnx::TensorProto& weight = *model.mutable_graph()->add_initializer();
    weight.set_name(name);
    weight.set_data_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t size : sizes) weight.add_dims(size);
    for (const double v : random_tensor(sizes, random).reals()) weight.add_float_data(static_cast<float>(v));
  }
  return import_onnx_bytes(model.SerializeAsString(), "test", as_graphs);
}

TEST_CASE("training through branches and sizes that are only known while a step is executed") {
  for (const std::int64_t shards : {1, 2}) {
    Run reference(options(shards), model_with_branches(), reference_backend());
    Run cpu(options(shards), model_with_branches(), cpu_backend());
    CHECK(reference.go());
    CHECK(cpu.go());
    REQUIRE(cpu.losses.size() == 12);
    CHECK(cpu.losses.back() < 0.8 * cpu.losses.front());
    for (std::size_t n = 0; n < 12; ++n) CHECK(cpu.losses[n] == Approx(reference.losses[n]).epsilon(1e-4));
    CHECK(cpu.trainer.graphs().parameters.size() == 4);
    // The written model still has its branches.
    const std::string written = export_onnx_bytes(cpu.trainer.trained());
    for (const char* type : {"If", "Compress"}) CHECK(written.find(type) != std::string::npos);
  }
}

// A backend that could keep tensors of graphs with known sizes.
class KeepingBackend : public Backend, public ResidentBackend {
 public:
  explicit KeepingBackend(const Backend& computing) : computing_(computing) {}
  std::string name() const override { return computing_.name(); }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options) const override {
    return computing_.prepare(graph, options);
  }
  const MemoryOfDevice& memory() const override { throw Error(ErrorCode::kUnsupported, "tensors are kept"); }
  std::unique_ptr<Session> prepare_resident(const Graph&, const SessionOptions&, const Residence&) const override {
    throw Error(ErrorCode::kUnsupported, "tensors are kept");
  }
  void* stream() const override { return nullptr; }

 private:
  const Backend& computing_;
};

TEST_CASE("a budget of memory means the same step on a device that cannot keep the tensors of branches") {
  TrainOptions o = options(1);
  const KeepingBackend device(cpu_backend());
  CHECK_THROWS_WITH(Run(o, model(), device), "tensors are kept");
  o.memory.bytes = 1 << 20;
  Run cpu(o, model_with_branches(), cpu_backend()), on_device(o, model_with_branches(), device);
  CHECK(on_device.trainer.graphs().step.hash() == cpu.trainer.graphs().step.hash());
  o.memory.bytes = 0;
  const Run guarded(o, model_with_branches(), device);
  CHECK(guarded.trainer.graphs().step.hash() != cpu.trainer.graphs().step.hash());
  CHECK(on_device.go());
  CHECK(cpu.go());
  CHECK(on_device.losses == cpu.losses);
}

TEST_CASE("a run that was stopped goes on as if it had not been") {
  const TemporaryFolder folder;
  for (const std::int64_t shards : {1, 2}) {
    Run whole(options(shards)), first(options(shards)), second(options(shards));
    whole.go();
    CHECK(!first.go(5));
    write_checkpoint(first.trainer.checkpoint(), folder.path() / "c");
    second.trainer.resume(read_checkpoint(folder.path() / "c"));
    CHECK(second.trainer.steps_done() == 5);
    CHECK(second.go());
    CHECK(std::equal(second.losses.begin(), second.losses.end(), whole.losses.begin() + 5));
    CHECK(second.trainer.trained().hash() == whole.trainer.trained().hash());
    CHECK(first.trainer.trained().hash() != whole.trainer.trained().hash());
  }
}

TEST_CASE("a checkpoint of another run, or a damaged one, is refused") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "c";
  Run run(options(1));
  write_checkpoint(run.trainer.checkpoint(), file);
  TrainOptions other = options(1);
  other.seed = 8;
  CHECK_THROWS_AS(Run(other).trainer.resume(read_checkpoint(file)), Error);
  other = options(1);
  other.graph.update.method = UpdateMethod::kSgd;
  CHECK_THROWS_AS(Run(other).trainer.resume(read_checkpoint(file)), Error);
  const std::string bytes(map_file(file).text());
  for (std::size_t length = 0; length < bytes.size(); length += 7) {
    write_file(file, bytes.substr(0, length));
    CHECK_THROWS_AS(read_checkpoint(file), Error);
  }
  std::mt19937 random(3);
  for (int n = 0; n < 300; ++n) {
    std::string damaged = bytes;
    damaged[random() % 400] = static_cast<char>(random());
    write_file(file, damaged);
    try {
      run.trainer.resume(read_checkpoint(file));
    } catch (const Error&) {
      continue;  // refused, or the change had no effect
    }
  }
}

TEST_CASE("what is not finite ends training, or is left out, and changes nothing") {
  std::mt19937 random(4);
  Tensor x = random_tensor({16, 3}, random, DataType::kFloat);
  x.mutable_data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  const Dataset bad({{"x", x}, {"targets", Tensor::from_integers(DataType::kInt64, {16}, std::vector<std::int64_t>(16, 1))}});
  const Graph graph = model();
  const auto processes = make_local_communicator();
  for (const bool skip : {false, true}) {
    TrainOptions o = options(1);
    o.epochs = 1, o.skip_bad_steps = skip;
    Trainer trainer(graph, bad, o, *processes, reference_backend());
    int skipped = 0;
    const auto run = [&] { return trainer.run({}, [&](const StepReport& r) { skipped += r.skipped; }); };
    if (skip)
      CHECK((run() && skipped == 1));
    else
      CHECK_THROWS_WITH(run(), "x: example 1: holds a number that is not finite");
    CHECK(trainer.trained().hash() == graph.hash());
  }
}

TEST_CASE("a step that is not finite names the node where that began") {
  // log(x @ w): of a negative number, in the second example.
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), 2}});
  NodeBuilder b(graph);
  const ValueId w = graph.add_constant(testing::tensor({2, 2}, {1, 0, 0, 1}, DataType::kFloat), "w");
  const ValueId product = b.add("MatMul", {x, w});
  graph.add_output("y", b.add("Mul", {b.add("Log", {product}), product}));
  const Dataset examples({{"x", testing::tensor({2, 2}, {1, 2, 3, -1}, DataType::kFloat)},
                          {"targets", testing::tensor({2, 2}, {1, 1, 1, 1}, DataType::kFloat)}});
  const auto processes = make_local_communicator();
  for (const std::int64_t shards : {1, 2}) {
    TrainOptions o;
    o.graph.loss = Loss::kMeanSquared;
    o.batch = 2, o.epochs = 1, o.shards = shards;
    Trainer trainer(graph, examples, o, *processes, reference_backend());
    CHECK_THROWS_WITH(trainer.run({}, {}), Catch::Contains("step 1") && Catch::Contains("Log"));
    Graph broken = graph;
    broken.set_constant(w, testing::tensor({2, 2}, {1, 0, std::numeric_limits<double>::infinity(), 1}, DataType::kFloat));
    Trainer second(broken, examples, o, *processes, reference_backend());
    CHECK_THROWS_WITH(second.run({}, {}), Catch::Contains("first in \"w\""));
  }
}

TEST_CASE("parts that are accumulated are a batch") {
  Run alone(options(1));
  TrainOptions o = options(0);
  o.accumulate = 4;
  Run four(o), shards(options(4));
  CHECK(alone.go());
  CHECK(four.go());
  CHECK(shards.go());
  CHECK(four.losses == shards.losses);
  for (std::size_t n = 0; n < alone.losses.size(); ++n) CHECK(alone.losses[n] == Approx(four.losses[n]).epsilon(1e-5));
}

TEST_CASE("short products train as well, and a loss scale finds its size") {
  Run whole(options(1));
  CHECK(whole.go());
  for (const DataType type : {DataType::kBfloat16, DataType::kHalf})
    for (const std::int64_t shards : {1, 2}) {
      TrainOptions o = options(shards);
      o.graph.precision = type;
      Run run(o);
      CHECK(run.go());
      CHECK(run.losses.back() < 0.8 * run.losses.front());
      for (std::size_t n = 0; n < whole.losses.size(); ++n) {
        if (std::isnan(run.losses[n])) continue;  // gradients overflowed at this scale
        CHECK(run.losses[n] == Approx(whole.losses[n]).epsilon(0.1));
        CHECK(run.losses[n] != whole.losses[n]);
      }
    }
  LossScale scale;
  CHECK(scale.update(false));
  CHECK(scale.scale == 32768);
  for (int n = 0; n < LossScale::kGrowAfter; ++n) CHECK(!scale.update(true));
  CHECK(scale.scale == 65536);
  while (scale.scale > 1) CHECK(scale.update(false));
  CHECK(!scale.update(false));
}

TEST_CASE("data that does not fit is refused") {
  const Graph graph = model();
  const auto processes = make_local_communicator();
  const auto train = [&](std::map<std::string, Tensor> columns, std::int64_t batch) {
    TrainOptions o = options(1);
    o.batch = batch;
    const Dataset dataset(std::move(columns));
    Trainer(graph, dataset, o, *processes, reference_backend());
  };
  std::mt19937 random(5);
  const auto reals = [&](Sizes sizes) { return random_tensor(std::move(sizes), random, DataType::kFloat); };
  const auto classes = [](std::int64_t n) {
    return Tensor::from_integers(DataType::kInt64, {n}, std::vector<std::int64_t>(static_cast<std::size_t>(n), 0));
  };
  CHECK_NOTHROW(train({{"x", reals({8, 3})}, {"targets", classes(8)}}, 4));
  CHECK_THROWS_WITH(train({{"x", reals({8, 3})}, {"targets", classes(7)}}, 4), Catch::Contains("examples"));
  CHECK_THROWS_WITH(train({{"x", reals({8, 4})}, {"targets", classes(8)}}, 4), Catch::Contains("4"));
  CHECK_THROWS_WITH(train({{"x", reals({8, 3})}, {"targets", reals({8})}}, 4), Catch::Contains("int64"));
  const Tensor third = Tensor::from_integers(DataType::kInt64, {4}, std::vector<std::int64_t>{0, 1, 2, 0});
  CHECK_THROWS_WITH(train({{"x", reals({4, 3})}, {"targets", third}}, 4), Catch::Contains("example 2: the target is class 2"));
  CHECK_THROWS_WITH(train({{"x", reals({8, 3})}, {"targets", classes(8)}}, 9), Catch::Contains("fewer than a batch"));
}

TEST_CASE("the order of examples is a permutation of its own for each pass") {
  const std::vector<std::int64_t> a = shuffled(100, 1, 0), b = shuffled(100, 1, 1), again = shuffled(100, 1, 0);
  CHECK(a == again);
  CHECK(a != b);
  std::vector<std::int64_t> sorted = a;
  std::sort(sorted.begin(), sorted.end());
  for (std::int64_t n = 0; n < 100; ++n) CHECK(sorted[static_cast<std::size_t>(n)] == n);
}

TEST_CASE("rates rise, and fall as the schedule says") {
  const RateSchedule cosine{RateSchedule::Kind::kCosine, 2, 4};
  CHECK(cosine.at(0, 104) == Approx(0.5));
  CHECK(cosine.at(3, 104) == Approx(2));
  CHECK(cosine.at(54, 104) == Approx(1));
  CHECK(cosine.at(103, 104) < 0.01);
  const RateSchedule steps{RateSchedule::Kind::kStep, 1, 0};
  CHECK(steps.at(0, 9) == Approx(1));
  CHECK(steps.at(3, 9) == Approx(0.1));
  CHECK(steps.at(8, 9) == Approx(0.01));
}

}  // namespace
}  // namespace rewright::training
