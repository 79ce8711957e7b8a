// Loop programs: their texts, and that each of them computes what the graph's operators define.
#include <algorithm>
#include <random>
#include <set>

#include "operators/testing/share.h"
#include "runtime/cpu/planning/loop_choices.h"
#include "runtime/cpu/planning/measured_choices.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using cpu::LoopProblem;
using cpu::LoopProgram;
using rewright::testing::node;

namespace {

using Builder = rewright::testing::GraphBuilder;

Indices only(std::int64_t axis) { return {Index(axis)}; }

ValueId reduced(Builder& b, const char* op, ValueId x, std::int64_t axis, bool keep) {
  return node(b.graph, op, {x}, {{"axes", only(axis)}, {"keepdims", keep}})[0];
}

// A softmax or normalization along an axis, written out, between elementwise operators; and other shapes that share axes.
ValueId written_out(Builder& b) {
  Sizes sizes;
  for (std::int64_t rank = b.pick(2, 4); rank > 0; --rank) sizes.push_back(b.pick(1, rank == 1 ? 90 : 20));
  ValueId x = b.input(DataType::kFloat, sizes, -2, 2);
  if (b.pick(0, 1)) x = node(b.graph, "Sigmoid", {x})[0];
  const auto rank = static_cast<std::int64_t>(sizes.size());
  const std::int64_t axis = b.pick(0, 3) > 0 ? rank - 1 : b.pick(0, rank - 1);
  ValueId y = kNoValue;
  if (b.pick(0, 1)) {
    const ValueId shifted = node(b.graph, "Sub", {x, reduced(b, "ReduceMax", x, axis, true)})[0];
    const ValueId e = node(b.graph, "Exp", {shifted})[0];
    y = node(b.graph, "Div", {e, reduced(b, "ReduceSum", e, axis, true)})[0];
    if (b.pick(0, 2) == 0) b.graph.add_output("e", e);
  } else {
    const ValueId centred = node(b.graph, "Sub", {x, reduced(b, "ReduceMean", x, axis, true)})[0];
    const ValueId variance = reduced(b, "ReduceMean", node(b.graph, "Mul", {centred, centred})[0], axis, true);
    const ValueId deviation = node(b.graph, "Sqrt", {node(b.graph, "Add", {variance, b.constant({}, 0.01, 0.1)})[0]})[0];
    y = node(b.graph, "Div", {centred, deviation})[0];
    if (b.pick(0, 1)) y = node(b.graph, "Mul", {y, b.constant({sizes.back()}, 0.5, 1.5)})[0];
  }
  if (b.pick(0, 2) == 0) y = node(b.graph, "Add", {y, node(b.graph, "Tanh", {y})[0]})[0];
  if (b.pick(0, 2) == 0) y = reduced(b, "ReduceSum", node(b.graph, "Mul", {y, y})[0], b.pick(0, rank - 1), b.pick(0, 1) != 0);
  return y;
}

std::vector<LoopProblem> problems_of(const Graph& graph, cpu::PlanOptions options) {
  std::vector<LoopProblem> problems;
  options.loop_problems = &problems;
  cpu::make_plan(graph, options);
  return problems;
}

// The graph's results with these loops for a group; nullopt if the plan does not use them: they do not fit.
std::optional<std::vector<Tensor>> run_with(const Graph& graph, std::span<const Tensor> inputs, cpu::PlanOptions options,
                                            const std::string& problem, const LoopProgram& loops) {
  cpu::MeasuredChoices choices({}, "a test", false);
  choices.keep_found(problem, to_string(loops));
  options.choices = &choices;
  cpu::PlanRunner runner(cpu::make_plan(graph, options));
  const auto uses = [&](const cpu::Step& step) { return step.kernel->loops() == to_string(loops); };
  if (std::none_of(runner.plan().steps.begin(), runner.plan().steps.end(), uses)) return std::nullopt;
  return runner.run(inputs);
}

// The same tensors, each computed whole.
LoopProgram without_bands(const LoopProgram& loops) {
  LoopProgram result;
  for (const LoopProgram::Pass& pass : loops.passes)
    for (const LoopProgram::Stored& stored : pass.stored) result.passes.push_back({-1, 0, {stored}});
  return result;
}

bool has_bands(const LoopProgram& loops) {
  return std::any_of(loops.passes.begin(), loops.passes.end(), [](const auto& pass) { return pass.axis >= 0; });
}

}  // namespace

TEST_CASE("loop programs are read as they are printed, and nothing else") {
  std::mt19937 random(1);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 500; ++round) {
    LoopProgram loops;
    for (std::int64_t passes = pick(1, 4); passes > 0; --passes) {
      LoopProgram::Pass pass;
      if (pick(0, 1)) pass.axis = static_cast<int>(pick(0, 5)), pass.band = pick(1, 100);
      for (std::int64_t count = pass.axis < 0 ? 1 : pick(1, 4); count > 0; --count) {
        LoopProgram::Stored stored{static_cast<int>(pick(0, 9)), static_cast<int>(pick(-1, 30)), {}};
        if (pick(0, 1)) stored.loops.tile = pick(1, 9000);
        stored.loops.rows = static_cast<cpu::TileLoops::Rows>(pick(0, 2));
        stored.loops.reduce = static_cast<cpu::TileLoops::Reduce>(pick(0, 2));
        pass.stored.push_back(stored);
      }
      loops.passes.push_back(std::move(pass));
    }
    const std::string text = to_string(loops);
    CAPTURE(text);
    const auto read = cpu::parse_loops(text);
    REQUIRE(read);
    CHECK(*read == loops);
    std::string damaged = text;
    damaged[static_cast<std::size_t>(pick(0, std::ssize(text) - 1))] = "x;{}( 9v"[pick(0, 7)];
    if (const auto other = cpu::parse_loops(damaged)) CHECK(cpu::parse_loops(to_string(*other)) == other);
    CHECK_FALSE(cpu::parse_loops(text + " "));
    CHECK_FALSE(cpu::parse_loops(text.substr(0, text.size() - 1) + "("));
  }
}

TEST_CASE("all neighbours of loop programs compute what the operators define") {
  std::set<std::string> kinds;
  int fitting = 0;
  for (unsigned seed = 0; seed < testing::instances(25); ++seed) {
    CAPTURE(seed);
    Builder b(seed);
    b.graph.add_output("y", written_out(b));
    const std::vector<Tensor> expected = interpret(b.graph, b.inputs);
    cpu::PlanOptions options;
    options.isa = testing::tested_isas()[seed % testing::tested_isas().size()];
    options.threads = static_cast<int>(b.pick(1, 3));
    options.piece_nanoseconds = 0;
    for (const LoopProblem& problem : problems_of(b.graph, options)) {
      LoopProgram at;
      if (const auto estimated = cpu::compile_stages(problem.values, problem.operands, problem.options))
        at = estimated->loops();
      else
        for (std::size_t v = 0; v < problem.values.size(); ++v) at.passes.push_back({-1, 0, {{static_cast<int>(v), -1, {}}}});
      for (int step = 0; step < 3; ++step) {
        std::vector<LoopProgram> fit;
        std::vector<LoopProgram> all = cpu::neighbours(problem, at);
        std::shuffle(all.begin(), all.end(), std::mt19937(seed));
        for (std::size_t n = 0; n < all.size() && n < 40; ++n) {
          CAPTURE(to_string(at), to_string(all[n]));
          const auto actual = run_with(b.graph, b.inputs, options, problem.name(), all[n]);
          if (!actual) continue;
          testing::require_close(b.graph, *actual, expected, {5e-5});
          fit.push_back(all[n]);
          ++fitting;
          if (has_bands(all[n])) kinds.insert("bands");
          for (const auto& pass : all[n].passes)
            for (const auto& stored : pass.stored) {
              if (stored.expression >= 0) kinds.insert("stage");
              if (stored.loops.rows != cpu::TileLoops::Rows::kEstimated) kinds.insert("rows");
              if (stored.loops.reduce != cpu::TileLoops::Reduce::kEstimated) kinds.insert("reduce");
              if (stored.loops.tile != 0) kinds.insert("tile");
            }
          std::set<int> values;
          for (const auto& pass : all[n].passes)
            for (const auto& stored : pass.stored) values.insert(stored.value);
          if (values.size() < problem.values.size()) kinds.insert("inlined");
        }
        if (fit.empty()) break;
        at = fit[static_cast<std::size_t>(b.pick(0, std::ssize(fit) - 1))];
      }
    }
  }
  CHECK(fitting > 200);
  CHECK(kinds == std::set<std::string>{"bands", "inlined", "reduce", "rows", "stage", "tile"});
}

TEST_CASE("bands change no bits, and a program's text makes the same program again") {
  int banded = 0;
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    Builder b(seed);
    const Sizes sizes{b.pick(1, 4), b.pick(20, 150), b.pick(60, 300)};
    const ValueId x = b.input(DataType::kFloat, sizes, -3, 3);
    const std::int64_t axis = b.pick(1, 2);
    const ValueId e = node(b.graph, "Exp", {node(b.graph, "Sub", {x, reduced(b, "ReduceMax", x, axis, true)})[0]})[0];
    b.graph.add_output("y", node(b.graph, "Div", {e, reduced(b, "ReduceSum", e, axis, true)})[0]);
    cpu::PlanOptions options;
    options.isa = testing::tested_isas()[seed % testing::tested_isas().size()];
    options.threads = static_cast<int>(b.pick(1, 2));
    cpu::PlanRunner estimated(cpu::make_plan(b.graph, options));
    const std::vector<Tensor> expected = estimated.run(b.inputs);
    testing::require_close(b.graph, expected, interpret(b.graph, b.inputs), {2e-5});
    for (const LoopProblem& problem : problems_of(b.graph, options)) {
      const auto program = cpu::compile_stages(problem.values, problem.operands, problem.options);
      if (!program || problem.values.size() < 2) continue;
      REQUIRE(cpu::parse_loops(to_string(program->loops())) == program->loops());
      const auto again = run_with(b.graph, b.inputs, options, problem.name(), program->loops());
      REQUIRE(again);
      CHECK(*again == expected);
      const auto whole = run_with(b.graph, b.inputs, options, problem.name(), without_bands(program->loops()));
      REQUIRE(whole);
      CHECK(*whole == expected);
      banded += has_bands(program->loops());
    }
  }
  CHECK(banded > 10);
}

TEST_CASE("a search finds a program that is not slower when it was timed, and costs bound what is measured") {
  Builder b(3);
  const ValueId x = b.input(DataType::kFloat, {64, 200}, -3, 3);
  const ValueId e = node(b.graph, "Exp", {node(b.graph, "Sub", {x, reduced(b, "ReduceMax", x, 1, true)})[0]})[0];
  b.graph.add_output("y", node(b.graph, "Div", {e, reduced(b, "ReduceSum", e, 1, true)})[0]);
  cpu::PlanOptions options;
  options.isa = testing::tested_isas()[0];
  const cpu::LoopRates rates = cpu::measure_loop_rates(options.isa);
  CHECK((rates.operations > 0 && rates.cache_bytes > 0 && rates.memory_bytes > 0));
  for (const LoopProblem& problem : problems_of(b.graph, options)) {
    const auto found = cpu::search_loops(problem, rates, 0.2);
    REQUIRE(found);
    CAPTURE(to_string(found->loops));
    CHECK(found->seconds <= found->estimated_seconds * 1.5);  // timed again in each round
    CHECK(found->measured >= 1);
    CHECK(found->pruned <= found->considered);
    const auto cost = cpu::cost_of(problem, found->loops, rates);
    REQUIRE(cost);
    CHECK(cost->least > 0);
    CHECK(cpu::compile_stages(problem.values, problem.operands, problem.options, &found->loops));
  }
}
