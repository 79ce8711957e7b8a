#include "runtime/cpu/planning/measured_choices.h"

#include <sqlite3.h>

#include <fstream>

#include "base/temporary_folder.h"
#include "runtime/cpu/backend/device.h"
#include "runtime/cpu/kernels/convolution/convolution_choice.h"
#include "runtime/cpu/planning/loop_choices.h"
#include "runtime/cpu/testing/graphs.h"

namespace rewright::cpu {

using cpu::MeasuredChoices;

namespace {

const std::vector<std::string> kWays{"a", "b", "c"};

struct Folder : TemporaryFolder {
  std::string file() const { return (path() / "costs.sqlite").string(); }
};

// The choice, and how often alternatives were timed.
struct Chosen {
  std::size_t way;
  int timed = 0;
};
Chosen choose(const std::string& file, const std::string& device, bool measure, const std::string& problem,
              std::vector<double> seconds, std::size_t estimated = 0) {
  Chosen result{};
  MeasuredChoices choices(file, device, measure);
  result.way = choices.choose(problem, kWays, estimated, [&] {
    ++result.timed;
    return seconds;
  });
  choices.save();
  return result;
}

// A network of convolutions with several possible methods.
Graph network(testing::GraphBuilder& b) {
  ValueId v = b.input(Sizes{1, 32, 20, 20});
  for (const auto& [outputs, window] : {std::pair(32, 3), std::pair(64, 3), std::pair(48, 5)}) {
    const Indices pads{Index(window / 2), Index(window / 2)};
    const std::int64_t channels = b.graph.value(v).type.shape[1].value();
    v = testing::node(b.graph, "Conv", {v, b.constant({outputs, channels, window, window}, -0.1, 0.1)},
                      {{"pads_begin", pads}, {"pads_end", pads}})[0];
    v = testing::node(b.graph, "Relu", {v})[0];
  }
  b.graph.add_output("y", v);
  return b.graph;
}

SessionOptions with_kernels(KernelChoice kernels, const std::string& file) {
  SessionOptions options;
  options.kernels = kernels;
  options.cost_database = file;
  return options;
}

std::vector<CostDatabase::Entry> entries(const std::string& file, const SessionOptions& options) {
  CostDatabase database(file);
  return database.all(cpu_identity(options));
}

}  // namespace

TEST_CASE("a choice is timed once, and kept for its device and problem") {
  const Folder folder;
  const std::string file = folder.file();
  const Chosen first = choose(file, "cpu 1", true, "p", {3, 2, 1});
  CHECK((first.way == 2 && first.timed == 1));
  for (const bool measure : {true, false}) {
    const Chosen again = choose(file, "cpu 1", measure, "p", {1, 2, 3});
    CHECK((again.way == 2 && again.timed == 0));
  }
  const Chosen other_device = choose(file, "cpu 2", false, "p", {1, 2, 3}, 1);
  CHECK((other_device.way == 1 && other_device.timed == 0));
  const Chosen other_problem = choose(file, "cpu 1", true, "q", {1, 2, 3}, 1);
  CHECK((other_problem.way == 0 && other_problem.timed == 1));
}

TEST_CASE("what is not clearly faster than the estimate is not chosen") {
  const Folder folder;
  CHECK(choose(folder.file(), "cpu", true, "p", {1.00, 0.98, 2}, 0).way == 0);
  CHECK(choose(folder.file(), "cpu", true, "q", {1.00, 0.90, 2}, 0).way == 1);
}

TEST_CASE("numbers in the database that are no times are measured again") {
  const Folder folder;
  {
    CostDatabase database(folder.file());
    const CostDatabase::Entry entries[] = {{"p, a", 1.0}, {"p, b", -1.0}, {"p, c", std::nullopt}};
    database.store("cpu", entries);
  }
  CHECK(choose(folder.file(), "cpu", false, "p", {3, 1, 2}).timed == 0);
  const Chosen chosen = choose(folder.file(), "cpu", true, "p", {3, 1, 2});
  CHECK((chosen.way == 1 && chosen.timed == 1));
}

TEST_CASE("a database that is damaged or locked leaves the estimate or what was timed now") {
  const Folder folder;
  std::ofstream(folder.file()) << std::string(5000, 'x');
  CHECK(choose(folder.file(), "cpu", true, "p", {3, 1, 2}).way == 1);  // a new file was begun
  CHECK(choose(folder.file(), "cpu", false, "p", {}).way == 1);

  sqlite3* lock = nullptr;
  REQUIRE(sqlite3_open(folder.file().c_str(), &lock) == SQLITE_OK);
  REQUIRE(sqlite3_exec(lock, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr) == SQLITE_OK);
  {
    CostDatabase database(folder.file(), std::chrono::milliseconds(1));
    CHECK(database.all("cpu").empty());
    const CostDatabase::Entry entry[] = {{"p, a", 1.0}};
    database.store("cpu", entry);
    CHECK(database.find("cpu", "p, a"));  // in memory
  }
  sqlite3_exec(lock, "ROLLBACK", nullptr, nullptr, nullptr);
  sqlite3_close(lock);
  CHECK(choose(folder.file(), "cpu", false, "p", {}).way == 1);  // nothing was lost
}

TEST_CASE("sessions use cached choices, and give the same bits with the same cache") {
  const Folder folder;
  testing::GraphBuilder b(5);
  const Graph graph = network(b);
  const std::vector<Tensor> expected = interpret(graph, b.inputs);
  const auto run = [&](const SessionOptions& options) { return cpu_backend().prepare(graph, options)->run(b.inputs); };
  const std::vector<Tensor> estimated = run({});
  // An empty cache has no effect.
  const SessionOptions cached = with_kernels(KernelChoice::kCached, folder.file());
  CHECK(run(cached) == estimated);
  CHECK(entries(folder.file(), cached).empty());
  const std::vector<Tensor> measured = run(with_kernels(KernelChoice::kMeasured, folder.file()));
  CHECK_FALSE(entries(folder.file(), cached).empty());
  for (int round = 0; round < 3; ++round) {
    CHECK(run(cached) == measured);
    CHECK(run(with_kernels(KernelChoice::kMeasured, folder.file())) == measured);
  }
  // The cache's choices are followed.
  std::vector<CostDatabase::Entry> list = entries(folder.file(), cached);
  CHECK(std::any_of(list.begin(), list.end(), [](const auto& e) { return e.signature.ends_with(", Fourier"); }));
  std::vector<std::vector<Tensor>> results;
  for (const std::string way : {"oneDNN", "direct", "F(2x2)", "F(4x4)", "Fourier"}) {
    for (CostDatabase::Entry& e : list) e.seconds = e.signature.ends_with(", " + way) ? 1e-6 : 1;
    {
      CostDatabase database(folder.file());
      database.store(cpu_identity(cached), list);
    }
    results.push_back(run(cached));
    CHECK(run(cached) == results.back());
    const std::vector<double> e = expected[0].reals(), a = results.back()[0].reals();
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < e.size(); ++i) {
      largest = std::max(largest, std::fabs(e[i]));
      difference = std::max(difference, std::fabs(e[i] - a[i]));
    }
    CHECK(difference < 1e-4 * largest);
  }
  CHECK(results[0] != results[3]);
  CHECK(results[2] != results[3]);
  CHECK(results[0] != results[4]);
  // A session without transforms finds no such entries in the cache.
  SessionOptions exact = cached;
  exact.transformed_convolutions = false;
  SessionOptions plain;
  plain.transformed_convolutions = false;
  CHECK(run(exact) == run(plain));
  // Nor for another number of threads.
  SessionOptions threads = cached;
  threads.threads = 2;
  SessionOptions two;
  two.threads = 2;
  CHECK(run(threads) == run(two));
  CHECK(run({}) == estimated);
}

TEST_CASE("loops are searched once, kept, and used by sessions with cached choices") {
  const Folder folder;
  testing::GraphBuilder b(6);
  const ValueId x = b.input(DataType::kFloat, {48, 700}, -3, 3);
  const auto reduced = [&](const char* op, ValueId of) {
    return testing::node(b.graph, op, {of}, {{"axes", Indices{1}}, {"keepdims", true}})[0];
  };
  const ValueId e = testing::node(b.graph, "Exp", {testing::node(b.graph, "Sub", {x, reduced("ReduceMax", x)})[0]})[0];
  b.graph.add_output("y", testing::node(b.graph, "Div", {e, reduced("ReduceSum", e)})[0]);
  const std::vector<Tensor> expected = interpret(b.graph, b.inputs);
  const auto run = [&](const SessionOptions& options) {
    std::vector<Tensor> results = cpu_backend().prepare(b.graph, options)->run(b.inputs);
    testing::require_close(b.graph, results, expected, {2e-5});
    return results;
  };
  const std::vector<Tensor> searched = run(with_kernels(KernelChoice::kSearched, folder.file()));
  for (const KernelChoice kernels : {KernelChoice::kCached, KernelChoice::kMeasured, KernelChoice::kSearched})
    CHECK(run(with_kernels(kernels, folder.file())) == searched);
  // Kept texts are followed; those that are no programs for the group leave the estimate.
  const SessionOptions cached = with_kernels(KernelChoice::kCached, folder.file());
  std::vector<cpu::LoopProblem> problems;
  cpu::PlanOptions options;
  options.isa = cpu::usable_isa(cached.max_isa);
  options.loop_problems = &problems;
  cpu::make_plan(b.graph, options);
  REQUIRE_FALSE(problems.empty());
  const auto loops = [&] {
    SessionOptions profiled = cached;
    profiled.profile = true;
    const auto session = cpu_backend().prepare(b.graph, profiled);
    session->run(b.inputs);
    std::vector<std::string> texts;
    for (const StepProfile& step : session->profile()) texts.push_back(step.loops);
    return texts;
  };
  const std::string text = "v0 (tile 512); for 4 of axis 0 { v1; v2; v3 }";
  for (const std::string& kept : {text, std::string("v0; v9"), std::string("?")}) {
    {
      MeasuredChoices choices(folder.file(), cpu_identity(cached), false);
      for (const cpu::LoopProblem& problem : problems) {
        REQUIRE(choices.found(problem.name()));
        choices.keep_found(problem.name(), kept);
      }
    }
    CHECK((loops() == std::vector{text}) == (kept == text));
    run(cached);
  }
}

TEST_CASE("close convolutions hold the estimate's choice") {
  std::mt19937 random(7);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    cpu::ImageShape s;
    s.group = pick(0, 3) == 0 ? pick(1, 4) : 1;
    s.channels = s.group * pick(1, 128);
    s.outputs = s.group * pick(1, 128);
    s.kernel[0] = s.kernel[1] = pick(0, 3) * 2 + 1;
    s.strides[0] = s.strides[1] = pick(1, 2);
    s.height = s.width = pick(7, 60);
    s.out_height = s.out_width = (s.height - s.kernel[0]) / s.strides[0] + 1;
    for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
      for (const bool transformed : {false, true}) {
        const auto close = cpu::close_convolutions(s, isa, transformed);
        const auto has = [&](cpu::ConvolutionMethod m) { return std::find(close.begin(), close.end(), m) != close.end(); };
        CHECK(has(cpu::fastest_convolution(s, isa, transformed)));
        CHECK(has(cpu::ConvolutionMethod::kLibrary));
        using enum cpu::ConvolutionMethod;
        if (!transformed) CHECK_FALSE((has(kWinograd2) || has(kWinograd4) || has(kFourier)));
      }
  }
}

}  // namespace rewright::cpu
