// Planted bugs are found, named, shown and left out; everything else is kept.
#include "optimizer/checking/fault.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "optimizer/certificates/replay.h"
#include "optimizer/optimize.h"
#include "optimizer/testing.h"

namespace rewright::optimizer {

using testing::add;
using testing::floats;
using testing::weights;

namespace {

const std::string kWrong = std::string(testing::kRules) + R"(
rule wrong: "forgets the second half"
  x
  Exp(Neg(x)) => Exp(x)
  exact
)";

// Layers that rules make faster; in the middle is one that a wrong rule changes.
Graph with_negated() {
  Graph graph;
  ValueId x = graph.add_input("x", floats({4, 32}));
  for (int layer = 0; layer < 3; ++layer) {
    const ValueId w = graph.add_constant(weights({32, 32}, layer)), a = graph.add_constant(weights({32, 4}, layer + 1)),
                  b = graph.add_constant(weights({4, 32}, layer + 2));
    const ValueId low = add(graph, "MatMul", {add(graph, "MatMul", {x, a})[0], b})[0];
    x = add(graph, "Tanh", {add(graph, "Add", {add(graph, "MatMul", {x, w})[0], low})[0]})[0];
    if (layer == 1) x = add(graph, "Exp", {add(graph, "Neg", {x})[0]})[0];
  }
  graph.add_output("y", x);
  return graph;
}

OptimizeResult optimized_with(const Graph& graph, const std::vector<Rule>& rules, Evaluator& evaluator,
                              OptimizeOptions options) {
  testing::RooflineDevice device;
  return optimize(graph, rules, device, evaluator, nullptr, options);
}

void check_right(const Graph& before, const Graph& after) {
  ResultCheck check(before, {reference_executor()}, 7, 2);
  CHECK(check.compare(after).verdict == ResultComparison::Verdict::kSame);
}

bool has(const Graph& graph, const char* op) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& n) { return n->op && n->op->name() == op; });
}

// Evaluates correctly, except that results of one element are off by one.
class WrongEvaluator : public Evaluator {
 public:
  std::vector<Tensor> evaluate(const Graph& graph, bool in_double) override {
    std::vector<Tensor> tensors = right_->evaluate(graph, in_double);
    for (Tensor& tensor : tensors)
      if (tensor.size() == 1 && is_real(tensor.type()))
        tensor = Tensor::from_reals(tensor.type(), tensor.sizes(), std::vector{tensor.reals()[0] + 1});
    return tensors;
  }

 private:
  std::unique_ptr<Evaluator> right_ = make_reference_evaluator();
};

}  // namespace

TEST_CASE("a wrong rule is named and left out, and the rest is kept") {
  const Graph graph = with_negated();
  std::vector<Rule> rules = parse_algebra(kWrong, "test.rules");
  const auto evaluator = make_reference_evaluator();
  constexpr std::array kAll{Strategy::kBacktrack, Strategy::kSaturate, Strategy::kAuto, Strategy::kAuto};
  for (std::size_t i = 0; i < kAll.size(); ++i) {
    const Strategy strategy = kAll[i];
    rules.back().later = i == kAll.size() - 1;
    INFO(name(strategy) << (rules.back().later ? ", the wrong rule later" : ""));
    OptimizeOptions options;
    options.strategy = strategy;
    const OptimizeResult result = optimized_with(graph, rules, *evaluator, options);
    REQUIRE(result.report.check.differs.size() == 1);
    const Fault& fault = result.report.check.differs[0];
    CHECK(fault.kind == Fault::Kind::kRule);
    CHECK(fault.rules == std::vector<std::string>{"wrong"});
    CHECK(fault.step > 0);
    REQUIRE(fault.smallest);
    CHECK(fault.smallest->nodes().size() == 2);  // Exp(Neg(x)), and nothing else
    // The other rewrites are kept, and checked.
    CHECK(result.report.changed);
    CHECK(result.report.check.ok);
    CHECK(result.report.check.runs == 1);
    CHECK(has(result.graph, "Neg"));
    CHECK(result.graph.nodes().size() <= graph.nodes().size() - 6);
    CHECK_THAT(result.report.outcome, Catch::Contains("the rule wrong"));
    check_right(graph, result.graph);
    const Graph again = replay(graph, parse_certificate(to_json(result.certificate), "c"), rules, *evaluator);
    CHECK(again.hash() == result.graph.hash());
    // The graph in the report shows the fault.
    const OptimizeResult shown = optimized_with(*fault.smallest, rules, *evaluator, options);
    REQUIRE(shown.report.check.differs.size() == 1);
    CHECK(shown.report.check.differs[0].rules == fault.rules);
    CHECK_FALSE(shown.report.check.ok);
    CHECK_FALSE(shown.report.changed);
  }
}

TEST_CASE("a constant that was folded wrongly is named and stays unfolded") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({8, 16}));
  const ValueId scale = graph.add_constant(weights({}, 3)), w = graph.add_constant(weights({16, 16})),
                v = graph.add_constant(weights({16, 16}, 2));
  const ValueId twice = add(graph, "Exp", {scale})[0];                            // folded to a wrong value
  const ValueId both = add(graph, "Tanh", {add(graph, "MatMul", {w, v})[0]})[0];  // folded to the right value
  graph.add_output("y", add(graph, "Mul", {add(graph, "MatMul", {x, both})[0], twice})[0]);
  WrongEvaluator evaluator;
  OptimizeOptions options;
  options.time_graphs = false;  // constants cost nothing here
  const OptimizeResult result = optimized_with(graph, {}, evaluator, options);
  REQUIRE(result.report.check.differs.size() == 1);
  const Fault& fault = result.report.check.differs[0];
  CHECK(fault.kind == Fault::Kind::kFolding);
  CHECK(fault.folded == twice);
  REQUIRE(fault.smallest);
  CHECK(fault.smallest->inputs().empty());
  CHECK(fault.smallest->nodes().size() == 1);
  CHECK(result.graph.is_constant(both) == result.report.changed);
  CHECK(has(result.graph, "Exp"));
  check_right(graph, result.graph);
}

TEST_CASE("a graph that is written as another one is noticed") {
  const Graph graph = with_negated();
  const auto evaluator = make_reference_evaluator();
  // Simulates a wrong export: drops the last node where one product is left in a layer.
  OptimizeOptions options;
  options.written = [](const Graph& found) {
    Graph back = found;
    if (!has(found, "Add")) back.set_outputs({{"y", found.nodes().back()->inputs[0], found.outputs()[0].type}});
    return back;
  };
  const OptimizeResult result = optimized_with(graph, testing::rules(), *evaluator, options);
  REQUIRE(!result.report.check.differs.empty());
  CHECK(result.report.check.differs[0].kind == Fault::Kind::kExport);
  check_right(graph, options.written(result.graph));
}

TEST_CASE("what has no written form is left out, and is no fault") {
  const Graph graph = with_negated();
  const auto evaluator = make_reference_evaluator();
  OptimizeOptions options;
  options.written = [](const Graph& found) {
    if (!has(found, "Add")) throw Error(ErrorCode::kUnsupported, "the sum cannot be left out in opset 13");
    return found;
  };
  const OptimizeResult result = optimized_with(graph, testing::rules(), *evaluator, options);
  REQUIRE(!result.report.check.differs.empty());
  const std::string message = message_of(result.report.check.differs[0]);
  CHECK(message.find("is not possible (the sum cannot be left out in opset 13): it was left out") != std::string::npos);
  CHECK(message.find("fault") == std::string::npos);
  check_right(graph, result.graph);
}

TEST_CASE("bisecting is deterministic") {
  const Graph graph = with_negated();
  const std::vector<Rule> rules = parse_algebra(kWrong, "test.rules");
  const auto evaluator = make_reference_evaluator();
  const auto text = [&] {
    const OptimizeResult result = optimized_with(graph, rules, *evaluator, {});
    return to_string(result.report.check.differs.at(0)) + to_string(*result.report.check.differs[0].smallest) +
           to_json(result.certificate);
  };
  CHECK(text() == text());
}

}  // namespace rewright::optimizer
