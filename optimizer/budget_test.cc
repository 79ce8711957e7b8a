// Budgets, with a clock that only advances by the device's reported times.
#include "optimizer/limits/budget.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "optimizer/inputs/sizes.h"
#include "optimizer/measuring/measuring.h"
#include "optimizer/measuring/time_in_turn.h"
#include "optimizer/optimize.h"
#include "optimizer/testing.h"

namespace rewright::optimizer {

namespace {

using Clock = Budget::Clock;

struct FakeClock {
  Clock::time_point time = Clock::time_point() + std::chrono::hours(1);
  void pass(double seconds) { time += Budget::duration(seconds); }
  Budget::Now now() {
    return [this] { return time; };
  }
};

// Preparing and executing a graph take given times, packing weights too: for each graph, or once in a process. Like the CPU, it
// can be ended only between two steps.
class SlowDevice : public testing::RooflineDevice {
 public:
  SlowDevice(FakeClock& clock, double prepare, double execute) : clock_(clock), prepare_(prepare), execute_(execute) {}

  void end_at(Clock::time_point time) override { end_ = time; }

  std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions& options) override {
    std::vector<std::function<void()>> works;
    for (const Graph& graph : graphs) {
      prepare();
      const double factor = graph.hash() == given ? 1 : gain;
      works.emplace_back([this, factor] { spend(execute_ / factor); });
    }
    TimingOptions by_clock = options;
    by_clock.now = clock_.now();
    return time_in_turn(
        works, [this] { return std::chrono::duration<double>(clock_.time - Clock::time_point()).count(); }, by_clock);
  }
  std::vector<std::vector<std::vector<double>>> time_afresh(std::span<const GraphsInTurn> sets) override {
    ++processes;
    gain = processes < gains.size() + 1 ? gains[processes - 1] : gains.back();
    const bool had = std::exchange(has_packed_, false);
    auto times = RooflineDevice::time_afresh(sets);
    has_packed_ = had;
    return times;
  }
  void keep_weights(bool on) override {
    keeps_ = on;
    has_packed_ = false;
  }
  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override {
    prepare();
    spend(execute_);
    return RooflineDevice::run(graph, inputs);
  }

  std::uint64_t given = 0;
  std::vector<double> gains{1.5};  // of rewritten graphs, in each process
  double gain = 1;
  std::size_t processes = 0;
  double packing = 0;  // seconds

 private:
  void prepare() {
    if (!has_packed_) spend(packing);
    has_packed_ = keeps_;
    spend(prepare_);
  }
  void spend(double seconds) {
    clock_.pass(seconds);
    if (clock_.time > end_) throw Error(ErrorCode::kCancelled, "the time for it is over");
  }

  FakeClock& clock_;
  double prepare_, execute_;
  bool keeps_ = false, has_packed_ = false;
  Clock::time_point end_ = Clock::time_point::max();
};

struct Done {
  OptimizeReport report;
  double seconds;
  std::size_t processes;
};

Done optimized(double budget, double prepare, double execute, std::vector<double> gains = {1.5}, OptimizeOptions options = {},
               double packing = 0) {
  const Graph graph = testing::adapters(2, 16, 4);
  FakeClock clock;
  SlowDevice device(clock, prepare, execute);
  device.given = graph.hash();
  device.gains = std::move(gains);
  device.packing = packing;
  const Clock::time_point start = clock.time;
  options.started = start;
  options.now = clock.now();
  options.budget_seconds = budget;
  options.search.threads = 1;
  const OptimizeResult result = optimize(graph, testing::rules(), device, *make_reference_evaluator(), nullptr, options);
  return {result.report, std::chrono::duration<double>(clock.time - start).count(), device.processes};
}

}  // namespace

TEST_CASE("a budget says what is left of it, and never gives out time that is not") {
  FakeClock clock;
  const Budget budget(clock.time, 10, clock.now());
  clock.pass(4);
  CHECK(budget.left() == Approx(6));
  CHECK(budget.within(2) == clock.time + std::chrono::seconds(2));
  CHECK(budget.within(100) == budget.end());
  CHECK(budget.before_end(1) == budget.end() - std::chrono::seconds(1));
  CHECK(budget.before_end(100) == clock.time);
  CHECK_FALSE(budget.over());
  clock.pass(7);
  CHECK(budget.over());
  CHECK(budget.left() == Approx(-1));
  CHECK(budget.within(5) == budget.end());
  CHECK(Budget(clock.time, -3, clock.now()).over());
  CHECK(Budget(clock.time, 1e300, clock.now()).left() > 1e8);
}

TEST_CASE("whatever executing a model takes, the budget holds, and a gain is found where there is time to measure it") {
  for (const double budget : {2.0, 10.0, 60.0}) {
    for (const double execute : {1e-4, 0.01, 0.1, 0.3, 1.0, 4.0, 30.0}) {
      for (const double prepare : {0.001, 0.1, 1.0, 8.0}) {
        INFO(budget << " s, " << prepare << " s to prepare, " << execute << " s to execute");
        const Done done = optimized(budget, prepare, execute);
        // A preparation or a step may be running when the time ends.
        CHECK(done.seconds <= budget + std::max(0.2 * budget, 2.0) + prepare + execute);
        if (done.report.changed) {
          CHECK(done.processes == 2);
          CHECK(done.report.check.runs == 1);
          CHECK(done.report.speedup == Approx(1.5));
        } else if (done.report.outcome.starts_with("the given graph: ")) {
          CHECK(done.report.outcome.find("time") != std::string::npos);
        } else {
          CHECK(done.report.stop_reason == "time");  // almost no time was left for the search
        }
        // Two processes with two graphs each, and the check of both.
        if (4 * (prepare + 5 * execute) + 2 * (prepare + 2 * execute) + 4 < 0.5 * budget) CHECK(done.report.changed);
      }
    }
  }
}

TEST_CASE("weights are packed once in a process for all sizes, and time is planned so") {
  OptimizeOptions sizes;
  sizes.sizes = {{{}, 1}, {{}, 64}};
  for (const double packing : {0.0, 0.5, 2.0, 3.0}) {
    INFO(packing << " s to pack");
    const Done done = optimized(18, 0.05, 0.02, {1.5}, sizes, packing);
    CHECK(done.report.changed);
    CHECK(done.seconds <= 18);
  }
  CHECK_FALSE(optimized(18, 0.05, 0.02, {1.5}, sizes, 8).report.changed);
  CHECK_FALSE(optimized(18, 0.05, 0.02, {1.5}, {}, 3).report.changed);  // one set of sizes: for each graph
}

TEST_CASE("what takes too long to be measured says which budget would do, and that one does") {
  const Done slow = optimized(10, 0.5, 1);
  CHECK_FALSE(slow.report.changed);
  CHECK(slow.processes == 0);
  CHECK(slow.seconds < 10);
  CHECK(slow.report.stop_reason == "time");
  const std::string& outcome = slow.report.outcome;
  const std::string before = "give a budget of ";
  const std::size_t at = outcome.find(before);
  REQUIRE(at != std::string::npos);
  const double advised = std::stod(outcome.substr(at + before.size()));
  CHECK(advised < 120);
  CHECK(optimized(advised, 0.5, 1).report.changed);
}

TEST_CASE("a gain that the next process does not have is not kept") {
  const Done none = optimized(30, 0.01, 0.01, {1.07, 0.96});
  CHECK_FALSE(none.report.changed);
  CHECK(none.processes == 2);
  CHECK(none.report.outcome.starts_with("no rewritten graph was significantly faster"));
  CHECK(none.report.speedup == 1);
  const Done less = optimized(30, 0.01, 0.01, {1.5, 1.3});
  CHECK(less.report.changed);
  CHECK(less.report.speedup == Approx(1.3));
  // A graph that is slower in the first process is not measured again.
  CHECK(optimized(30, 0.01, 0.01, {0.9}).processes == 1);
}

TEST_CASE("rounds end before the time does, but for the first") {
  FakeClock clock;
  const auto rounds = [&](double each, double most) {
    TimingOptions options;
    options.warmup = 0;
    options.min_seconds = options.max_seconds = most;
    options.now = clock.now();
    const std::function<void()> work = [&] { clock.pass(each); };
    const Clock::time_point start = clock.time;
    const auto seconds = time_in_turn(
        {&work, 1}, [&] { return 0.0; }, options);
    CHECK((clock.time - start <= Budget::duration(most) || seconds[0].size() == 1));
    return seconds[0].size();
  };
  CHECK(rounds(0.3, 1) == 3);
  CHECK(rounds(1.0, 0) == 1);
  CHECK(rounds(5.0, 1) == 1);
}

TEST_CASE("of operators that a device has no time for nothing is noted, and they are asked for again") {
  struct Ends : testing::RooflineDevice {
    std::size_t most = 1;
    std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) override {
      auto times = RooflineDevice::time_nodes(samples);
      times.resize(std::min(times.size(), std::exchange(most, 0)));
      return times;
    }
  } device;
  const Graph graph = testing::adapters(1, 16, 4);
  CostModel model(&device, nullptr, {});
  const MatchedGraph facts(graph, false);
  const MatchedGraph* const one = &facts;
  CHECK_FALSE(model.prepare({&one, 1}));
  CHECK(model.measured() == 1);
  device.most = 100;
  model.prepare({&one, 1});
  CHECK(model.measured() == model.operators().size());
  CHECK(model.measured() > 1);
}

}  // namespace rewright::optimizer
