// Training with weights and states on the device (the test device or a GPU), compared with the CPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <random>

#include "base/temporary_folder.h"
#include "distribution/testing.h"
#include "graph/builder.h"
#include "operators/definitions/random_bits.h"
#include "operators/testing.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/cuda/planning/plan.h"
#include "runtime/cuda/running/session.h"
#include "runtime/cuda/testing/device.h"
#include "runtime/training/steps/trainer.h"
#include "runtime/training/testing.h"

namespace rewright::cuda {
namespace {

using cpu::cpu_backend;
using namespace training;
using testing::random_tensor;
using testing::run_as_processes;

// Builds models for any number of examples.
class LayerBuilder : public testing::ModelBuilder {
 public:
  LayerBuilder() : ModelBuilder(1) {}

  ValueId weight(Sizes sizes, double scale = 0.3) { return weights(std::move(sizes), "w" + std::to_string(count_++), scale); }
  ValueId filled(std::int64_t size, double value) { return ModelBuilder::filled(size, value, "w" + std::to_string(count_++)); }
  ValueId linear(ValueId x, std::int64_t from, std::int64_t to) {
    return b.add("Add", {b.add("MatMul", {x, weight({from, to})}), weight({to})});
  }
  ValueId convolution(ValueId x, std::int64_t from, std::int64_t to) {
    return b.add("Conv", {x, weight({to, from, 3, 3}), weight({to})},
                 {{"pads_begin", Indices{1, 1}}, {"pads_end", Indices{1, 1}}});
  }
  ValueId normalized(ValueId x, std::int64_t channels) {
    return ModelBuilder::normalized(x, channels, std::to_string(count_++));
  }
  ValueId reshaped(ValueId x, Indices shape) { return b.add("Reshape", {x}, {{"shape", std::move(shape)}}); }

 private:
  int count_ = 0;
};

constexpr std::int64_t kExamples = 24, kClasses = 3, kHidden = 67;
const Index kRows = Index::symbol("N");

struct Task {
  Graph model;
  Dataset data;
};

Dataset with_random_targets(Tensor x) {
  std::mt19937 random(3);
  std::vector<std::int64_t> targets;
  for (std::int64_t n = 0; n < kExamples; ++n) targets.push_back(static_cast<std::int64_t>(random() % kClasses));
  return testing::with_targets(std::move(x), targets);
}

Dataset real_data(Sizes of_example) {
  std::mt19937 random(2);
  of_example.insert(of_example.begin(), kExamples);
  return with_random_targets(random_tensor(std::move(of_example), random, DataType::kFloat));
}

Task perceptron() {
  LayerBuilder m;
  const ValueId x = m.graph.add_input("x", {DataType::kFloat, {kRows, 5}});
  m.graph.add_output("y", m.linear(m.b.add("Tanh", {m.linear(x, 5, kHidden)}), kHidden, kClasses));
  return {std::move(m.graph), real_data({5})};
}

// For batches of one size: the sum's gradient is read on the way to the first layer's.
Task added_to_examples(std::int64_t rows) {
  LayerBuilder m;
  const ValueId x = m.graph.add_input("x", {DataType::kFloat, {rows, 5}});
  const ValueId h = m.b.add("Tanh", {m.linear(x, 5, kHidden)});
  m.graph.add_output("y", m.linear(m.b.add("Add", {h, m.weight({rows, kHidden})}), kHidden, kClasses));
  return {std::move(m.graph), real_data({5})};
}

Task convolutions() {
  LayerBuilder m;
  ValueId y = m.graph.add_input("x", {DataType::kFloat, {kRows, 2, 6, 6}});
  y = m.b.add("Relu", {m.normalized(m.convolution(y, 2, 4), 4)});
  y = m.b.add("MaxPool", {y}, {{"kernel", Indices{2, 2}}, {"strides", Indices{2, 2}}});
  y = m.b.add("Relu", {m.normalized(m.convolution(y, 4, 6), 6)});
  y = m.b.add("ReduceMean", {y}, {{"axes", Indices{2, 3}}, {"keepdims", false}});
  m.graph.add_output("y", m.linear(y, 6, kClasses));
  return {std::move(m.graph), real_data({2, 6, 6})};
}

// Words, an attention layer with two heads, another layer, and the mean over positions.
Task transformer() {
  constexpr std::int64_t kWords = 11, kTokens = 6, kWidth = 8, kHeads = 2;
  LayerBuilder m;
  NodeBuilder& b = m.b;
  const ValueId x = m.graph.add_input("x", {DataType::kInt64, {kRows, kTokens}});
  const auto normalized = [&](ValueId v) { return b.add("LayerNormalization", {v, m.filled(kWidth, 1), m.filled(kWidth, 0)}); };
  const auto heads = [&](ValueId v, Indices perm) {
    return b.transposed(m.reshaped(v, {kRows, kTokens, kHeads, kWidth / kHeads}), std::move(perm));
  };
  ValueId y =
      b.add("Add", {b.add("Gather", {m.weight({kWords, kWidth}, 1), x}, {{"axis", Index(0)}}), m.weight({kTokens, kWidth})});
  const ValueId q = heads(m.linear(y, kWidth, kWidth), {0, 2, 1, 3}), k = heads(m.linear(y, kWidth, kWidth), {0, 2, 3, 1});
  const ValueId scores = b.add("Mul", {b.add("MatMul", {q, k}), b.scalar(DataType::kFloat, 0.5)});
  const ValueId attended =
      b.add("MatMul", {b.add("Softmax", {scores}, {{"axis", Index(-1)}}), heads(m.linear(y, kWidth, kWidth), {0, 2, 1, 3})});
  const ValueId joined = m.reshaped(b.transposed(attended, {0, 2, 1, 3}), {kRows, kTokens, kWidth});
  y = normalized(b.add("Add", {y, m.linear(joined, kWidth, kWidth)}));
  y = normalized(b.add("Add", {y, m.linear(b.add("Gelu", {m.linear(y, kWidth, 2 * kWidth)}), 2 * kWidth, kWidth)}));
  y = b.add("ReduceMean", {y}, {{"axes", Indices{1}}, {"keepdims", false}});
  m.graph.add_output("y", m.linear(y, kWidth, kClasses));
  std::mt19937 random(2);
  std::vector<std::int64_t> words;
  for (std::int64_t n = 0; n < kExamples * kTokens; ++n) words.push_back(static_cast<std::int64_t>(random() % kWords));
  return {std::move(m.graph), with_random_targets(Tensor::from_integers(DataType::kInt64, {kExamples, kTokens}, words))};
}

TrainOptions options(UpdateMethod method = UpdateMethod::kAdamW) {
  TrainOptions o;
  o.graph.update = {.method = method, .weight_decay = 0.01};
  o.schedule = {RateSchedule::Kind::kCosine, 0.02, 2};
  o.batch = 12, o.epochs = 3, o.seed = 7;
  o.exchange.bucket_bytes = 300;
  return o;
}

const TemporaryFolder& kernels() {
  static const TemporaryFolder folder;
  return folder;
}

std::unique_ptr<Backend> device(const HostDriverOptions& of_host = {}, std::shared_ptr<HostDriverReport> report = nullptr) {
  const bool plain = report == nullptr && of_host.lost_after < 0;
  const std::shared_ptr<Driver> driver = plain ? tested_driver() : make_host_driver(of_host, std::move(report));
  static const auto choices = std::make_shared<Choices>(std::filesystem::path(), "tested");
  return make_backend(driver, {.cache = kernels().path(), .choices = choices});
}

struct Outcome {
  std::vector<double> losses;
  std::uint64_t model = 0;
  Graph trained;
};

Outcome train(const Task& task, const TrainOptions& o, Communicator& processes, const Backend& backend) {
  Outcome outcome;
  Trainer trainer(task.model, task.data, o, processes, backend);
  trainer.run({}, [&](const StepReport& r) { outcome.losses.push_back(r.loss); });
  outcome.trained = trainer.trained();
  outcome.model = outcome.trained.hash();
  return outcome;
}

Outcome train(const Task& task, const TrainOptions& o, const Backend& backend) {
  return train(task, o, *make_local_communicator(), backend);
}

// Makes each process a backend of its own.
using MakeBackend = std::function<std::unique_ptr<Backend>()>;
std::vector<Outcome> train_in(std::size_t count, const Task& task, const TrainOptions& o, const MakeBackend& make) {
  std::vector<Outcome> outcomes(count);
  run_as_processes(count, [&](Communicator& processes) {
    const std::unique_ptr<Backend> own = make ? make() : nullptr;
    outcomes[processes.rank()] = train(task, o, processes, own ? *own : cpu_backend());
  });
  return outcomes;
}

void require_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance = 1e-3) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t n = 0; n < found.size(); ++n) {
    INFO("step " << n + 1);
    CHECK(found[n] == Approx(expected[n]).epsilon(tolerance));
  }
}

// Like NCCL, for devices whose memory this process can access.
class SumsInMemory final : public DeviceSums {
 public:
  explicit SumsInMemory(Communicator& processes) : processes_(processes) {}
  void start(std::byte* values, std::size_t bytes, DataType type, void*) override {
    all_reduce(processes_, {AllReduceStrategy::kRing}, {values, bytes}, type);
    ++started;
  }
  void finish(void*) override { ++finished; }
  int started = 0, finished = 0;

 private:
  Communicator& processes_;
};

}  // namespace

TEST_CASE("training on a device goes as on the CPU") {
  int number = 0;
  for (const Task& task : {perceptron(), convolutions(), transformer()}) {
    INFO("model " << number++);
    const Outcome expected = train(task, options(), cpu_backend());
    require_close(train(task, options(), *device()).losses, expected.losses);
    CHECK(expected.losses.back() < expected.losses.front());
  }
}

TEST_CASE("every optimizer, clipped or not, changes weights where they are", "[long]") {
  const Task task = perceptron();
  for (const UpdateMethod method : {UpdateMethod::kSgd, UpdateMethod::kMomentum, UpdateMethod::kNesterov,
                                    UpdateMethod::kAdagrad, UpdateMethod::kAdam, UpdateMethod::kLars, UpdateMethod::kLamb})
    for (const bool clipped : {false, method == UpdateMethod::kMomentum}) {
      TrainOptions o = options(method);
      o.graph.clip_norm = clipped ? 0.1 : 0;
      INFO(static_cast<int>(method) << (clipped ? ", clipped" : ""));
      require_close(train(task, o, *device()).losses, train(task, o, cpu_backend()).losses);
    }
}

TEST_CASE("weights and states cross to the host only when they are asked for", "[host]") {
  const auto report = std::make_shared<HostDriverReport>();
  const std::unique_ptr<Backend> backend = device({}, report);
  const Task task = perceptron();
  const auto processes = make_local_communicator();
  Trainer trainer(task.model, task.data, options(), *processes, *backend);
  std::vector<std::size_t> copied;  // by step
  std::size_t before = report->through_host;
  trainer.run({}, [&](const StepReport&) {
    copied.push_back(report->through_host - before);
    before = report->through_host;
  });
  std::size_t weights = 0;
  for (const auto& [name, tensor] : trainer.checkpoint().tensors) weights += tensor.byte_count();
  CHECK(report->through_host - before == weights);
  // A batch of 12 examples of 5 numbers, their targets and some scalars, each in 256 bytes; the loss, and whether it is finite.
  for (const std::size_t bytes : copied) CHECK(bytes < 2500);
  CHECK(weights > 7000);
}

TEST_CASE("updates are computed in the memory of what they replace") {
  const Task task = perceptron();
  const Graph sized = with_sizes(task.model, bind_sizes(task.model, std::vector<Tensor>{task.data.like_rows("x", 12)}));
  for (const UpdateMethod method : {UpdateMethod::kMomentum, UpdateMethod::kAdam}) {
    TrainingGraphOptions training;
    training.update.method = method;
    const Graph step = make_training_graphs(sized, "", training).step;
    const std::size_t changed = step.outputs().size() - 2, given = step.inputs().size() - changed;
    Places places;
    for (std::size_t i = 0; i < step.inputs().size(); ++i)
      places.inputs.push_back(i < given ? -1 : static_cast<int>(i - given));
    places.outputs.push_back(-1);
    for (std::size_t o = 0; o < changed; ++o) places.outputs.push_back(static_cast<int>(o));
    places.outputs.push_back(-1);
    CHECK(make_plan(step, {.places = places}).moves.empty());
  }
}

TEST_CASE("a tensor that is needed later, or elsewhere, is replaced at the end") {
  // y = a + b replaces a, z = a^T replaces b: each needs the tensor that the other replaces.
  Graph graph;
  NodeBuilder b(graph);
  const TensorType type{DataType::kFloat, {9, 9}};
  const ValueId x = graph.add_input("x", type), y = graph.add_input("y", type);
  graph.add_output("sum", b.add("Add", {x, y}));
  graph.add_output("turned", b.transposed(x, {1, 0}));
  std::mt19937 random(1);
  const Tensor first = random_tensor({9, 9}, random, DataType::kFloat),
               second = random_tensor({9, 9}, random, DataType::kFloat);
  const std::unique_ptr<Backend> backend = device();
  const auto& resident = dynamic_cast<const ResidentBackend&>(*backend);
  const MemoryOfDevice& memory = resident.memory();
  const DeviceTensor in_a = memory.allocate(DataType::kFloat, {9, 9}), in_b = memory.allocate(DataType::kFloat, {9, 9});
  const auto session = resident.prepare_resident(graph, {}, {{in_a, in_b}, {in_a, in_b}});
  memory.copy_in(in_a, first), memory.copy_in(in_b, second);
  std::vector<Tensor> expected{first, second};
  for (int step = 0; step < 3; ++step) {
    const std::vector<Tensor> outputs = session->run(std::vector<Tensor>(2));
    CHECK((!outputs.at(0) && !outputs.at(1)));
    expected = interpret(graph, expected);
    CHECK(memory.copy_out(in_a) == expected[0]);
    CHECK(memory.copy_out(in_b) == expected[1]);
  }
  CHECK_THROWS_AS(resident.prepare_resident(graph, {}, {{memory.allocate(DataType::kFloat, {9, 8}), in_b}, {in_a, in_b}}),
                  Error);
}

TEST_CASE("a run that was stopped goes on with the same bits") {
  const TemporaryFolder folder;
  for (const Task& task : {perceptron(), convolutions()})
    for (const std::int64_t accumulate : {1, 2}) {
      TrainOptions o = options();
      o.accumulate = accumulate;
      const auto processes = make_local_communicator();
      const std::unique_ptr<Backend> backend = device();
      const Outcome whole = train(task, o, *backend);
      Trainer first(task.model, task.data, o, *processes, *backend), second(task.model, task.data, o, *processes, *backend);
      std::stop_source stop;
      first.run(stop.get_token(), [&](const StepReport& r) {
        if (r.step == 3) stop.request_stop();
      });
      write_checkpoint(first.checkpoint(), folder.path() / "c");
      second.resume(read_checkpoint(folder.path() / "c"));
      std::vector<double> losses;
      second.run({}, [&](const StepReport& r) { losses.push_back(r.loss); });
      CHECK(std::equal(losses.begin(), losses.end(), whole.losses.begin() + 3));
      CHECK(second.trained().hash() == whole.model);
      CHECK(first.trained().hash() != whole.model);
    }
}

TEST_CASE("a checkpoint of the CPU is gone on from on a device") {
  const Task task = convolutions();
  const auto processes = make_local_communicator();
  const std::unique_ptr<Backend> backend = device();
  Trainer whole(task.model, task.data, options(), *processes, cpu_backend()),
      half(task.model, task.data, options(), *processes, cpu_backend());
  Trainer on_device(task.model, task.data, options(), *processes, *backend);
  std::vector<double> expected, losses;
  whole.run({}, [&](const StepReport& r) { expected.push_back(r.loss); });
  std::stop_source stop;
  half.run(stop.get_token(), [&](const StepReport& r) {
    losses.push_back(r.loss);
    if (r.step == 3) stop.request_stop();
  });
  on_device.resume(half.checkpoint());
  on_device.run({}, [&](const StepReport& r) { losses.push_back(r.loss); });
  require_close(losses, expected);
}

TEST_CASE("several processes add up gradients in the memory of devices, as soon as nothing reads them", "[host]") {
  for (const std::int64_t accumulate : {1, 2})
    for (const Task& task : {convolutions(), added_to_examples(6 / accumulate)}) {
      INFO("parts " << accumulate);
      TrainOptions o = options();
      o.accumulate = accumulate, o.check_every = 2;
      const Outcome expected = train_in(2, task, o, {}).at(0);
      std::vector<Outcome> found(2);
      std::vector<int> started(2), finished(2);
      run_as_processes(2, [&](Communicator& processes) {
        const std::size_t rank = processes.rank();
        SumsInMemory sums(processes);
        TrainOptions own = o;
        own.device_sums = &sums;
        const std::unique_ptr<Backend> backend = device({}, std::make_shared<HostDriverReport>());
        found[rank] = train(task, own, processes, *backend);
        started[rank] = sums.started, finished[rank] = sums.finished;
      });
      for (const std::size_t rank : {0, 1}) {
        require_close(found[rank].losses, expected.losses);
        CHECK(finished[rank] == 6);
        CHECK(started[rank] >= 3 * finished[rank]);  // in buckets
      }
      CHECK(found[0].model == found[1].model);
    }
}

TEST_CASE("several processes add up gradients in the memory of hosts") {
  const Task task = convolutions();
  for (const std::int64_t accumulate : {1, 2}) {
    INFO("parts " << accumulate);
    TrainOptions o = options();
    o.accumulate = accumulate, o.check_every = 2;
    const Outcome expected = train_in(2, task, o, {}).at(0);
    const std::vector<Outcome> found = train_in(2, task, o, [] { return device(); });
    for (const Outcome& of_process : found) require_close(of_process.losses, expected.losses);
    CHECK(found[0].model == found[1].model);
  }
}

TEST_CASE("shards that are added in order give the same bits on any number of devices") {
  const Task task = perceptron();
  TrainOptions o = options();
  o.shards = 4;
  const Outcome one = train(task, o, *device());
  require_close(one.losses, train(task, o, cpu_backend()).losses);
  for (const std::size_t count : {2, 4})
    for (const Outcome& found : train_in(count, task, o, [] { return device(); })) {
      CHECK(found.losses == one.losses);
      CHECK(found.model == one.model);
    }
}

TEST_CASE("parts of what training keeps, and short gradients, go through the host's memory") {
  const Task task = perceptron();
  for (const bool in_parts : {true, false}) {
    TrainOptions o = options();
    if (in_parts)
      o.exchange.zero = 2;
    else
      o.exchange.gradients = DataType::kBfloat16;
    const Outcome expected = train_in(2, task, o, {}).at(0);
    for (const Outcome& found : train_in(2, task, o, [] { return device(); }))
      require_close(found.losses, expected.losses, 5e-3);
  }
}

TEST_CASE("products of 16 bits, and weights that are kept in 16 bits", "[long]") {
  const Task task = convolutions();
  for (const DataType type : {DataType::kBfloat16, DataType::kHalf})
    for (const bool of_weights : {false, true}) {
      TrainOptions o = options(UpdateMethod::kMomentum);
      (of_weights ? o.graph.weights : o.graph.precision) = type;
      o.graph.stochastic = of_weights;
      INFO(name(type) << (of_weights ? " weights" : " products"));
      const Outcome found = train(task, o, *device()), expected = train(task, o, cpu_backend());
      require_close(found.losses, expected.losses, type == DataType::kHalf ? 0.01 : 0.05);
    }
}

TEST_CASE("random bits, and what they round and drop, are those of the CPU") {
  std::mt19937 random(5);
  std::vector<double> special{0.0,    -0.0,  1,      -1,   3e38,   -3.4e38, 65519,    65520,
                              -70000, 1e-45, -3e-40, 6e-8, 2.9e-8, 6.1e-5,  INFINITY, -INFINITY};
  std::uniform_real_distribution<double> exponent(-140, 128), sign(-1, 1);
  while (special.size() < 200) special.push_back(std::copysign(std::exp2(exponent(random)), sign(random)));
  for (double& v : special) v = static_cast<float>(v);
  const auto count = static_cast<std::int64_t>(special.size());
  Graph graph;
  NodeBuilder b(graph);
  const TensorType scalar{DataType::kInt64, {}};
  const ValueId x = graph.add_input("x", {DataType::kFloat, {count}});
  RandomSource source{11, graph.add_input("step", scalar), graph.add_input("part", scalar)};
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16})
    graph.add_output("rounded to " + std::string(name(type)), add_stochastic_round(b, x, type, source, 5));
  for (const ValueId v : add_dropout(b, x, 0.3, source)) graph.add_output("dropped" + std::to_string(v), v);
  const auto session = device()->prepare(graph, {});
  const auto on_cpu = cpu_backend().prepare(graph, {});
  for (std::int64_t step = 1; step < 4; ++step) {
    const std::vector<Tensor> inputs{Tensor::from_reals(DataType::kFloat, {count}, special),
                                     Tensor::scalar(DataType::kInt64, static_cast<double>(step)),
                                     Tensor::scalar(DataType::kInt64, 2)};
    const std::vector<Tensor> expected = interpret(graph, inputs);
    CHECK(session->run(inputs) == expected);
    CHECK(on_cpu->run(inputs) == expected);
  }
}

TEST_CASE("a step that is not finite changes nothing on the device") {
  Task task = perceptron();
  std::mt19937 random(4);
  Tensor x = random_tensor({kExamples, 5}, random, DataType::kFloat);
  x.mutable_data<float>()[7] = 1e30F;
  task.data = with_random_targets(x);
  for (const std::int64_t accumulate : {1, 2}) {
    TrainOptions o = options();
    o.graph.loss = Loss::kSoftmaxCrossEntropy;
    o.batch = kExamples, o.epochs = 2, o.skip_bad_steps = true, o.accumulate = accumulate;
    Graph model = task.model;
    for (ValueId v = 0; v < model.value_count(); ++v)  // without tanh, which would bound it
      if (model.value(v).name == "w2")
        model.set_constant(
            v, Tensor::from_reals(DataType::kFloat, {kHidden, kClasses}, std::vector<double>(kHidden * kClasses, 3e38)));
    const auto processes = make_local_communicator();
    const std::unique_ptr<Backend> backend = device();
    Trainer trainer(model, task.data, o, *processes, *backend);
    int skipped = 0;
    trainer.run({}, [&](const StepReport& r) { skipped += r.skipped; });
    CHECK(skipped == 2);
    CHECK(trainer.trained().hash() == model.hash());
  }
}

TEST_CASE("steps are profiled, and weights stay as they are") {
  const Task task = perceptron();
  TrainOptions o = options();
  o.profile = true;
  for (const std::int64_t accumulate : {1, 2}) {
    o.accumulate = accumulate;
    const auto processes = make_local_communicator();
    const std::unique_ptr<Backend> backend = device();
    Trainer trainer(task.model, task.data, o, *processes, *backend);
    trainer.run({}, {});
    const std::uint64_t before = trainer.trained().hash();
    const std::vector<StepProfile> profile = trainer.profile();
    CHECK(profile.size() > 5);
    CHECK(trainer.trained().hash() == before);
    CHECK(trainer.peak_bytes() > 0);
  }
}

TEST_CASE("a device that is lost or too small ends training with one line, and gives its memory back", "[host]") {
  const Task task = perceptron();
  for (const long after : {5L, 40L, 100L, 130L}) {
    const auto report = std::make_shared<HostDriverReport>();
    HostDriverOptions of_host;
    of_host.lost_after = after;
    CHECK_THROWS_WITH(train(task, options(), *device(of_host, report)), Catch::Contains("the device is lost"));
    CHECK(report->allocated == 0);
  }
  for (const std::size_t memory : {100U, 3000U, 9000U}) {
    const auto report = std::make_shared<HostDriverReport>();
    HostDriverOptions of_host;
    of_host.memory = memory;
    CHECK_THROWS_WITH(train(task, options(), *device(of_host, report)), Catch::Contains("out of memory"));
    CHECK(report->allocated == 0);
  }
}

}  // namespace rewright::cuda
