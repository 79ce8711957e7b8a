#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "distribution/testing.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/training/asynchronous/hogwild.h"
#include "runtime/training/asynchronous/letters.h"
#include "runtime/training/asynchronous/line_search.h"
#include "runtime/training/asynchronous/step_list.h"
#include "runtime/training/asynchronous/train.h"
#include "runtime/training/testing.h"

namespace rewright::training {
namespace {

using cpu::cpu_backend;
using testing::run_with_mail;

// x [N, 5] -> 7 -> 3 classes.
Graph model(bool normalized) {
  testing::ModelBuilder m(3);
  const ValueId x = m.graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), 5}});
  ValueId y = m.b.add("Gemm", {x, m.weights({5, 7}, "w1"), m.weights({7}, "b1")});
  y = m.b.add("Tanh", {normalized ? m.normalized(y, 7) : y});
  m.graph.add_output("y", m.b.add("Gemm", {y, m.weights({7, 3}, "w2"), m.weights({3}, "b2")}));
  return std::move(m.graph);
}

// The class is the largest of the first three numbers.
const Dataset& labelled() {
  static const Dataset examples = [] {
    std::mt19937 random(4);
    const Tensor x = testing::random_tensor({96, 5}, random, DataType::kFloat);
    std::vector<std::int64_t> targets;
    for (std::ptrdiff_t n = 0; n < 96; ++n) {
      const float* row = x.data<float>().data() + 5 * n;
      targets.push_back(std::max_element(row, row + 3) - row);
    }
    return testing::with_targets(x, targets);
  }();
  return examples;
}

TrainOptions options() {
  TrainOptions o;
  o.graph.update = {.method = UpdateMethod::kAdam};
  o.schedule.rate = 0.02;
  o.batch = 12, o.epochs = 10;
  return o;
}

// The mean loss over all examples.
double loss_of(AsynchronousRun& run) {
  Replica replica = run.replica(1);
  std::vector<float> gradient(run.layout().size());
  double sum = 0;
  for (std::int64_t step = 0; step < run.steps_per_epoch(); ++step)
    sum += replica.gradient(run.batch(step), run.weights(), gradient);
  return sum / static_cast<double>(run.steps_per_epoch());
}

struct Result {
  double before = 0, after = 0;
  AsynchronousFacts facts;
  std::vector<double> losses;
};

// Processes that are not among `present` do what `absent` says instead of taking part.
Result train(const TrainOptions& o, const AsynchronousOptions& how, std::size_t processes, bool normalized = false,
             std::size_t present = ~std::size_t{0}, const std::function<void(Mail&)>& absent = {}) {
  Result result;
  run_with_mail(processes, [&](Mail mail) {
    if (mail.rank() >= present) return absent(mail);
    AsynchronousRun run(model(normalized), labelled(), o, how, cpu_backend());
    const bool first = mail.rank() == 0;
    if (first) result.before = loss_of(run);
    AsynchronousListener listener;
    if (first) listener.step = [&](const StepReport& r) { result.losses.push_back(r.loss); };
    const AsynchronousFacts facts = train_asynchronously(run, mail, {}, listener);
    if (first) result.after = loss_of(run), result.facts = facts;
  });
  return result;
}

TEST_CASE("workers and servers train in every mode, with any number of servers") {
  for (const Mode mode : {Mode::kDownpour, Mode::kAdamDifferences, Mode::kElastic})
    for (const auto& [servers, processes] : {std::pair{1, 2}, {1, 4}, {2, 4}, {3, 5}})
      for (const bool normalized : {false, true}) {
        const Result r = train(options(), {.mode = mode, .servers = static_cast<std::size_t>(servers)},
                               static_cast<std::size_t>(processes), normalized);
        INFO("mode " << static_cast<int>(mode) << ", " << servers << " servers of " << processes);
        CHECK(r.facts.complete);
        CHECK(r.facts.steps == 80);
        CHECK(r.after < 0.8 * r.before);
        CHECK(r.facts.staleness.updates == 80 * servers);
        CHECK((processes - servers > 1 || r.facts.staleness.most == 0));
        CHECK(r.losses.size() == 80);
      }
}

TEST_CASE("one worker with one server takes the steps of one process") {
  TrainOptions o = options();
  for (const UpdateMethod method : {UpdateMethod::kAdam, UpdateMethod::kLamb}) {
    o.graph.update.method = method;
    const auto alone = make_local_communicator();
    Trainer trainer(model(true), labelled(), o, *alone, cpu_backend());
    std::vector<double> losses;
    trainer.run({}, [&](const StepReport& r) { losses.push_back(r.loss); });
    for (const std::size_t servers : {1, 2}) {
      const Result r = train(o, {.mode = Mode::kDownpour, .servers = servers}, servers + 1, true);
      REQUIRE(r.losses.size() == losses.size());
      for (std::size_t n = 0; n < r.losses.size(); ++n) CHECK(r.losses[n] == Approx(losses[n]).epsilon(1e-3));
    }
  }
}

TEST_CASE("rare reads and rare messages, with a bound of staleness") {
  for (const Mode mode : {Mode::kDownpour, Mode::kAdamDifferences, Mode::kElastic})
    for (const auto& [fetch, push] : {std::pair{1, 1}, {3, 1}, {1, 3}, {3, 3}, {2, 5}})
      for (const std::int64_t bound : {0, 1, 3}) {
        INFO("mode " << static_cast<int>(mode) << ", fetch " << fetch << ", push " << push << ", bound " << bound);
        const Result r =
            train(options(), {.mode = mode, .servers = 2, .max_staleness = bound, .fetch = fetch, .push = push}, 5);
        CHECK(r.facts.complete);
        CHECK(r.facts.steps == 80);
        CHECK(r.facts.staleness.most <= bound);
        CHECK(r.after < r.before);
      }
}

TEST_CASE("threads on the same weights") {
  for (const int threads : {1, 3})
    for (const std::optional<std::int64_t> bound : {std::optional<std::int64_t>(), std::optional<std::int64_t>(0)}) {
      TrainOptions o = options();
      o.threads = threads;
      AsynchronousRun run(model(true), labelled(), o, {.mode = Mode::kHogwild, .max_staleness = bound}, cpu_backend());
      const double before = loss_of(run);
      const AsynchronousFacts facts = run_hogwild(run, {}, {});
      CHECK(facts.complete);
      CHECK(facts.staleness.updates == 80);
      CHECK((!bound && threads > 1 || facts.staleness.most == 0));
      CHECK(loss_of(run) < 0.8 * before);
      CHECK(facts.written > 0.9);
    }
}

// Rows of a table by number, and their sum as logits.
TEST_CASE("updates of few rows of a table write few elements") {
  testing::ModelBuilder m(5);
  const ValueId x = m.graph.add_input("x", {DataType::kInt64, {Index::symbol("N"), 2}});
  const ValueId rows = m.b.add("Gather", {m.weights({100, 3}, "table"), x});
  m.graph.add_output("y", m.b.add("ReduceSum", {rows}, {{"axes", std::vector<Index>{1}}, {"keepdims", false}}));
  std::mt19937 random(6);
  std::vector<std::int64_t> numbers, targets;
  for (int n = 0; n < 64; ++n) {
    numbers.push_back(random() % 100), numbers.push_back(random() % 100);
    targets.push_back(numbers.back() % 3);
  }
  const Dataset words = testing::with_targets(Tensor::from_integers(DataType::kInt64, {64, 2}, numbers), targets);
  TrainOptions o = options();
  o.graph.update.method = UpdateMethod::kSgd, o.schedule.rate = 0.5, o.batch = 4, o.threads = 2;
  AsynchronousRun run(std::move(m.graph), words, o, {.mode = Mode::kHogwild}, cpu_backend());
  const double before = loss_of(run);
  const AsynchronousFacts facts = run_hogwild(run, {}, {});
  CHECK(facts.written <= 0.08);  // at most 8 rows of 100
  CHECK(facts.written > 0.01);
  CHECK(loss_of(run) < 0.8 * before);
}

TEST_CASE("L-BFGS over shards and workers") {
  TrainOptions o = options();
  o.epochs = 40;
  std::vector<double> after;
  for (const auto& [servers, processes] : {std::pair{1, 2}, {1, 4}, {3, 5}}) {
    const Result r = train(o, {.mode = Mode::kSandblaster, .servers = static_cast<std::size_t>(servers)},
                           static_cast<std::size_t>(processes));
    CHECK(r.facts.complete);
    CHECK(r.after < 0.1 * r.before);
    CHECK(r.losses.size() <= 40);
    CHECK(r.after <= *std::ranges::min_element(r.losses) * 1.001);
    after.push_back(r.after);
  }
}

TEST_CASE("a line search brackets, and does not end on a rise") {
  int calls = 0;
  const auto quartic = [&](double t) {
    ++calls;
    return OnLine{std::pow(t - 3, 4), 4 * std::pow(t - 3, 3)};
  };
  for (const double first : {1e-3, 1.0, 50.0}) {
    const double step = search_line(quartic(0), first, quartic);
    CHECK(step > 0);
    CHECK(quartic(step).value < quartic(0).value);
    CHECK(quartic(step).slope >= 0.9 * quartic(0).slope);
  }
  CHECK(calls < 60);
  CHECK(search_line({0, -1}, 1, [](double) { return OnLine{1, 1}; }) == 0);
}

// A worker that takes a step and then ends, or never sends anything again.
void ask_for_a_step(Mail& mail, bool sandblaster) {
  if (!sandblaster) mail.send(0, kNextStep, {0});
  while (true) {
    const Letter letter = *mail.receive(-1);
    if (letter.kind == (sandblaster ? kPart : kNextStep)) return;
    if (letter.kind == kEnd || (letter.kind == Mail::kLost && letter.from == 0)) return;
  }
}

TEST_CASE("a worker that ends, or stops working, does not stop the others") {
  for (const Mode mode : {Mode::kDownpour, Mode::kAdamDifferences, Mode::kElastic, Mode::kSandblaster})
    for (const bool ends : {true, false}) {
      const bool sandblaster = mode == Mode::kSandblaster;
      TrainOptions o = options();
      if (sandblaster) o.epochs = 12;
      const auto absent = [&](Mail& mail) {
        ask_for_a_step(mail, sandblaster);
        while (!ends && !mail.is_lost(0)) mail.receive(-1);
      };
      const Result r = train(o, {.mode = mode, .servers = 1}, 4, false, 3, absent);
      INFO("mode " << static_cast<int>(mode) << (ends ? ", ends" : ", stops"));
      CHECK(r.facts.complete);
      CHECK((sandblaster || r.facts.steps == 80));
      CHECK(r.facts.workers == 3);
      CHECK(r.facts.workers_lost == (ends ? 1 : 0));
      CHECK(r.facts.steps_again >= 1);
      CHECK(r.after < 0.8 * r.before);
    }
}

TEST_CASE("without workers, or without a server, a run ends with a line") {
  CHECK_THROWS_WITH(train(options(), {.mode = Mode::kDownpour, .servers = 1}, 2, false, 1, [](Mail&) {}),
                    "all workers have ended");
  CHECK_THROWS_WITH(train(options(), {.mode = Mode::kDownpour, .servers = 2}, 2, false, 1, [](Mail&) {}),
                    Catch::Contains("process 1 of 2, a server, has ended"));
}

TEST_CASE("what a worker fails with ends the run") {
  TrainOptions o = options();
  o.graph.update.method = UpdateMethod::kSgd, o.schedule.rate = 1e300;
  for (const bool skip : {false, true}) {
    o.skip_bad_steps = skip;
    if (skip)
      CHECK(train(o, {.mode = Mode::kDownpour, .servers = 1}, 3).facts.steps == 80);
    else
      CHECK_THROWS_WITH(train(o, {.mode = Mode::kDownpour, .servers = 1}, 3), Catch::Contains("not finite"));
  }
}

TEST_CASE("steps of lost workers are given again, and count once") {
  StepList list(3);
  CHECK(list.next(1) == 0);
  CHECK(list.next(2) == 1);
  list.lose(1);
  CHECK(list.next(2) == 0);
  CHECK(list.next(2) == 2);
  CHECK_FALSE(list.next(3));
  CHECK_FALSE(list.late(3, 1e6));
  CHECK(list.late(3, 0) == 0);
  const std::vector<std::int64_t> zero{0}, rest{1, 2};
  CHECK(list.finish(zero));
  CHECK_FALSE(list.finish(zero));
  CHECK_FALSE(list.complete());
  CHECK(list.finish(rest));
  CHECK(list.complete());
  CHECK(list.again() == 2);
}

}  // namespace
}  // namespace rewright::training
