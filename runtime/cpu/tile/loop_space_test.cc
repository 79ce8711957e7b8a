// Loop programs: their texts, and that each of them computes what the graph's operators define.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "operators/testing/share.h"
#include "runtime/cpu/planning/loop_choices.h"
#include "runtime/cpu/planning/measured_choices.h"
#include "runtime/cpu/testing/graphs.h"
#include "runtime/cpu/tile/arrangement.h"
#include "runtime/endable_run.h"

using namespace rewright;
using cpu::LoopProblem;
using cpu::LoopProgram;
using graph::Checkpoint;
using graph::Graph;
using graph::kNoValue;
using graph::ValueId;
using operators::Operand;
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

// Each tensor computed whole.
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
    if (const auto other = cpu::parse_loops(damaged)) CHECK(to_string(*other) == damaged);
    CHECK_FALSE(cpu::parse_loops(text + " "));
    CHECK_FALSE(cpu::parse_loops(text.substr(0, text.size() - 1) + "("));
  }
  for (const char* text : {"", "v", "v01", "v-1", "v0.e01", "v0 (along, along)", "v0 (along, tile 4)", "v0 (tile 0)",
                           "v0 (tile 65537)", "v0 (tile 99999999999999999999)", "v0 ()", "for 0 of axis 0 { v0; v1 }",
                           "for 04 of axis 0 { v0; v1 }", "for 4 of axis 0 { }", "by estimate"}) {
    CAPTURE(text);
    CHECK_FALSE(cpu::parse_loops(text));
  }
  CHECK(cpu::parse_loops("v0 (tile 65536)"));
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
        at = cpu::each_value_whole(problem);
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
  CHECK(fitting > 0);
  if (testing::instances(25) < 25) return;  // few need not be of all kinds
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
  CHECK(banded > (testing::instances(40) < 40 ? 0 : 10));
}

namespace {

// Written out by hand: two values, of which the second reads the first by other axes than those in which that is computed.
LoopProblem split_values(Builder& b, std::int64_t rows, std::int64_t parts, std::int64_t inner) {
  const Index i = Index::fresh("i"), j = Index::fresh("j"), k = Index::fresh("i"), l = Index::fresh("j");
  const Sizes all{rows, parts * inner}, few{rows, parts};
  const Operand x(0, {DataType::kFloat, to_indices(all)}), shared(1, {DataType::kFloat, to_indices(few)}),
      first(2, {DataType::kFloat, to_indices(all)});
  LoopProblem problem;
  problem.operands = {{DataType::kFloat, all, cpu::kPlain}, {DataType::kFloat, few, cpu::kPlain}};
  problem.values.push_back({x({i, j}) - shared({i, floor_div(j, inner)}), {i, j}, {DataType::kFloat, all, cpu::kPlain}, true});
  problem.values.push_back({real(1) / first({k, l}), {k, l}, {DataType::kFloat, few, cpu::kPlain}, true});
  problem.options.isa = testing::tested_isas()[static_cast<std::size_t>(b.pick(0, std::ssize(testing::tested_isas()) - 1))];
  problem.options.threads = static_cast<int>(b.pick(1, 3));
  return problem;
}

// Does the program compute split_values?
bool computes_split_values(Builder& b, const LoopProblem& problem, const cpu::StagedProgram& program) {
  const Sizes &all = problem.operands[0].sizes, &few = problem.operands[1].sizes;
  const auto random = [&](const Sizes& sizes, double low, double high) {
    Tensor t(DataType::kFloat, sizes);
    for (float& v : t.mutable_data<float>()) v = static_cast<float>(std::uniform_real_distribution<>(low, high)(b.random));
    return t;
  };
  const Tensor x = random(all, 2, 3), shared = random(few, 0, 1);
  Tensor first(DataType::kFloat, all), second(DataType::kFloat, few);
  std::vector<std::byte> scratch(program.scratch_bytes() + 64);
  std::byte* const aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
  const std::vector<const std::byte*> in{x.bytes().data(), shared.bytes().data()};
  const std::vector<std::byte*> out{first.mutable_bytes().data(), second.mutable_bytes().data()};
  for (std::byte& byte : second.mutable_bytes()) byte = std::byte{0};
  for (std::byte& byte : first.mutable_bytes()) byte = std::byte{0};
  program.run(in, out, aligned, cpu::Workers(problem.options.threads));
  bool right = true;
  const std::int64_t inner = all[1] / few[1];
  for (std::int64_t i = 0; i < all[0]; ++i)
    for (std::int64_t j = 0; j < all[1]; ++j) {
      const auto at = [&](const Tensor& t, std::int64_t column) {
        return t.data<float>()[static_cast<std::size_t>(i * t.sizes()[1] + column)];
      };
      const float expected = at(x, j) - at(shared, j / inner);
      right = right && std::abs(at(first, j) - expected) < 1e-6f;
      if (j < few[1]) right = right && std::abs(at(second, j) - 1 / expected) < 1e-5f;
    }
  return right;
}

}  // namespace

TEST_CASE("bands read no other band's elements, also where a value is read by other axes than it is computed in") {
  for (unsigned seed = 0; seed < testing::instances(12); ++seed) {
    CAPTURE(seed);
    Builder b(seed);
    const LoopProblem problem = split_values(b, b.pick(2, 5), b.pick(2, 40), 8 * b.pick(1, 4));
    const auto computed = [&](const LoopProgram* loops) {
      const auto program = cpu::compile_stages(problem.values, problem.operands, problem.options, loops);
      return program ? std::optional(computes_split_values(b, problem, *program)) : std::nullopt;
    };
    const LoopProgram whole = cpu::each_value_whole(problem);
    CHECK(computed(&whole) == true);
    for (const char* band : {"1", "2", "3"})
      for (const char* axis : {"0", "1"}) {
        const auto loops = cpu::parse_loops("for " + std::string(band) + " of axis " + axis + " { v0; v1 }");
        REQUIRE(loops);
        CAPTURE(band, axis);
        // Rows are the same in both; parts of rows are not.
        CHECK(computed(&*loops) == (axis == std::string("0") ? std::optional(true) : std::nullopt));
      }
  }
  Builder b(1);
  const LoopProblem large = split_values(b, 4, 1024, 64);
  if (const auto estimated = cpu::compile_stages(large.values, large.operands, large.options))
    CHECK(computes_split_values(b, large, *estimated));
}

TEST_CASE("sums over windows that reach over the edges are computed in bands") {
  Builder b(1);
  const std::int64_t rows = 6, columns = 60;
  const Sizes sizes{rows, columns};
  const Index i = Index::fresh("i"), j = Index::fresh("j"), k = Index::fresh("i"), l = Index::fresh("j");
  const Operand x(0, {DataType::kFloat, to_indices(sizes)}), first(1, {DataType::kFloat, to_indices(sizes)});
  const Element window = sum("w", 5, [&](const Index& w) {
    const Index at = j + w - 2;
    return choose({less_equal(0, at), less(at, columns)}, x({i, at}), real(0));
  });
  LoopProblem problem;
  problem.operands = {{DataType::kFloat, sizes, cpu::kPlain}};
  problem.values.push_back({window, {i, j}, {DataType::kFloat, sizes, cpu::kPlain}, true});
  problem.values.push_back({x({k, l}) - first({k, l}), {k, l}, {DataType::kFloat, sizes, cpu::kPlain}, true});
  problem.options.isa = testing::tested_isas()[0];
  const auto loops = cpu::parse_loops("for 2 of axis 0 { v0; v1 }");
  REQUIRE(loops);
  const auto program = cpu::compile_stages(problem.values, problem.operands, problem.options, &*loops);
  REQUIRE(program);
  const Tensor in = testing::random_tensor(b.random, DataType::kFloat, sizes);
  Tensor sums(DataType::kFloat, sizes), differences(DataType::kFloat, sizes);
  std::vector<std::byte> scratch(program->scratch_bytes() + 64);
  std::byte* const aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
  const std::vector<const std::byte*> from{in.bytes().data()};
  const std::vector<std::byte*> to{sums.mutable_bytes().data(), differences.mutable_bytes().data()};
  program->run(from, to, aligned, cpu::Workers(1));
  const std::vector<double> given = in.reals(), found = sums.reals(), less_sums = differences.reals();
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      double expected = 0;
      for (std::int64_t at = std::max<std::int64_t>(0, c - 2); at <= std::min(columns - 1, c + 2); ++at)
        expected += given[static_cast<std::size_t>(r * columns + at)];
      const auto n = static_cast<std::size_t>(r * columns + c);
      CHECK(std::fabs(found[n] - expected) < 1e-5);
      CHECK(std::fabs(less_sums[n] - (given[n] - expected)) < 1e-5);
    }
}

TEST_CASE("what a guard protects is never stored") {
  const Index i = Index::fresh("i"), j = Index::fresh("j"), k = Index::fresh("k");
  const Sizes inside{7, 40}, padded{9, 40};
  const Operand x(0, {DataType::kFloat, to_indices(inside)});
  const Element divided = x({i - 1, j}) / sum("k", 40, [&](const Index& n) { return x({i - 1, n}) * x({i - 1, n}); });
  const Element y = real(1) / (real(3) + choose({less_equal(1, i), less(i, 8)}, divided, real(0)));
  const LoopProblem problem{{{y, {i, j}, {DataType::kFloat, padded, cpu::kPlain}, true}},
                            {{DataType::kFloat, inside, cpu::kPlain}},
                            {testing::tested_isas()[0]}};
  const cpu::Numbering numbers(y);
  std::set<int> outside_of_guards;
  for (int n = 0; n < 40; ++n) {
    const LoopProgram loops{{{-1, 0, {{0, n, {}}}}, {-1, 0, {{0, LoopProgram::kWhole, {}}}}}};
    const auto tensors = cpu::tensors_of(problem.values, problem.operands, loops);
    if (!tensors || tensors->tensors.size() < 2) continue;
    outside_of_guards.insert(n);
    for (const cpu::GroupTensor& t : tensors->tensors)  // all rows are computed, of which the first and last are not inside
      CHECK((t.element->kind == ElementNode::Kind::kChoose || t.element->kind == ElementNode::Kind::kDivide ||
             t.element->kind == ElementNode::Kind::kAdd || t.stored.expression == LoopProgram::kWhole));
    CHECK(n > numbers.of(divided));
  }
  CHECK(outside_of_guards.contains(numbers.of(y)));
}

TEST_CASE("texts with any numbers of sub-expressions compute what the operators define, or are refused") {
  int accepted = 0, refused = 0;
  for (unsigned seed = 0; seed < testing::instances(30); ++seed) {
    CAPTURE(seed);
    Builder b(seed);
    ValueId y = written_out(b);
    const std::size_t rank = b.graph.value(y).type.shape.size();
    y = node(b.graph, "Pad", {y}, {{"pads_begin", b.list(rank, 0, 2)}, {"pads_end", b.list(rank, 0, 2)}})[0];
    b.graph.add_output("y", node(b.graph, "Sigmoid", {y})[0]);
    const std::vector<Tensor> expected = interpret(b.graph, b.inputs);
    cpu::PlanOptions options;
    options.isa = testing::tested_isas()[seed % testing::tested_isas().size()];
    for (const LoopProblem& problem : problems_of(b.graph, options))
      for (int round = 0; round < 6; ++round) {
        LoopProgram loops = cpu::each_value_whole(problem);
        const auto value = static_cast<int>(b.pick(0, std::ssize(problem.values) - 1));
        const LoopProgram::Stored stored{value, static_cast<int>(b.pick(0, 15)), {}};
        loops.passes.insert(loops.passes.begin() + value, {-1, 0, {stored}});
        CAPTURE(to_string(loops));
        const auto actual = run_with(b.graph, b.inputs, options, problem.name(), loops);
        ++(actual ? accepted : refused);
        if (actual) testing::require_close(b.graph, *actual, expected, {5e-5});
      }
  }
  CHECK(accepted > 5);
  CHECK(refused > 5);
}

TEST_CASE("groups have one name if only their variables differ") {
  const auto name = [](bool inner, bool zero_outside) {
    const Index i = Index::fresh("i");
    const Operand x(0, {DataType::kFloat, {Index(6), Index(6)}});
    Element e = sum("k", 6, [&](const Index& outer) {
      return sum("k", 6, [&](const Index& n) { return x({i, inner ? n : outer}); });
    });
    if (zero_outside)
      e = rewrite(e,
                  [](const ElementNode& read) -> Element {
                    ElementNode other = read;
                    other.zero_outside = true;
                    return std::make_shared<const ElementNode>(std::move(other));
                  },
                  {});
    const cpu::TileOperand operand{DataType::kFloat, {6, 6}, cpu::kPlain};
    return LoopProblem{{{e, {i}, {DataType::kFloat, {6}, cpu::kPlain}, true}}, {operand}, {}}.name();
  };
  std::set<std::string> names;
  for (const bool inner : {false, true})
    for (const bool zero_outside : {false, true}) {
      CHECK(name(inner, zero_outside) == name(inner, zero_outside));
      names.insert(name(inner, zero_outside));
    }
  CHECK(names.size() == 4);
}

namespace {

std::vector<LoopProblem> softmax_problems() {
  Builder b(3);
  const ValueId x = b.input(DataType::kFloat, {64, 200}, -3, 3);
  const ValueId e = node(b.graph, "Exp", {node(b.graph, "Sub", {x, reduced(b, "ReduceMax", x, 1, true)})[0]})[0];
  b.graph.add_output("y", node(b.graph, "Div", {e, reduced(b, "ReduceSum", e, 1, true)})[0]);
  cpu::PlanOptions options;
  options.isa = testing::tested_isas()[0];
  return problems_of(b.graph, options);
}

}  // namespace

TEST_CASE("a search finds a program that fits, and drops those that cannot be faster at the rates") {
  const double infinite = std::numeric_limits<double>::infinity();
  const cpu::LoopRates measured = cpu::measure_loop_rates(testing::tested_isas()[0]), fast{infinite, infinite, infinite},
                       slow{1e-9, 1e-9, 1e-9};
  CHECK((measured.operations > 0 && measured.cache_bytes > 0 && measured.memory_bytes > 0));
  const std::vector<LoopProblem> problems = softmax_problems();
  REQUIRE_FALSE(problems.empty());
  for (const LoopProblem& problem : problems) {
    for (const cpu::LoopRates& rates : {measured, fast}) {
      const auto found = cpu::search_loops(problem, rates, 0.2);
      REQUIRE(found);
      CAPTURE(to_string(found->loops));
      CHECK(found->measured >= 1);
      CHECK(found->pruned <= (rates.operations == infinite ? 0 : found->considered));
      CHECK(cpu::compile_stages(problem.values, problem.operands, problem.options, &found->loops));
    }
    const auto found = cpu::search_loops(problem, slow, 60);  // ends at once
    REQUIRE(found);
    CHECK(found->considered > 0);
    CHECK(found->pruned == found->considered);
    CHECK(found->measured == 1);
    CHECK(found->is_start);
    CHECK(cpu::search_loops(problem, measured, 0)->measured == 1);
  }
}

TEST_CASE("the least cost of a group that reads a row counts that row") {
  const Index i = Index::fresh("i");
  const Operand x(0, {DataType::kFloat, {Index(1000), Index(50)}});
  const cpu::TileOperand operand{DataType::kFloat, {1000, 50}, cpu::kPlain};
  const LoopProblem problem{{{x({Index(7), i}), {i}, {DataType::kFloat, {50}, cpu::kPlain}, true}}, {operand}, {}};
  const auto cost = cpu::cost_of(problem, cpu::each_value_whole(problem), {1, 1, 1});
  REQUIRE(cost);
  CHECK(cost->least == 2 * 50 * sizeof(float));  // at a byte a nanosecond
}

TEST_CASE("searches end when a checkpoint throws") {
  for (const int calls : {0, 1, 7}) {
    int left = calls;
    const Checkpoint checkpoint = [&] {
      if (left-- == 0) throw Error(ErrorCode::kCancelled, "ended");
    };
    const runtime::EndableRun endable(checkpoint);
    CHECK_THROWS_AS(cpu::search_loops(softmax_problems()[0], cpu::LoopRates{1e9, 1e9, 1e9}, 60), Error);
    CHECK(left == -1);
  }
}
