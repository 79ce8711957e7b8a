#include "optimizer/checking/check.h"

#include <catch2/catch.hpp>
#include <set>

#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"
#include "optimizer/optimize.h"
#include "optimizer/testing.h"

namespace rewright::optimizer {

using testing::add;
using testing::floats;
using testing::weights;
namespace {

using Verdict = ResultComparison::Verdict;

Graph square(const char* then) {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({3, 4}));
  graph.add_output("y", add(graph, then, {add(graph, "Mul", {x, x})[0]})[0]);
  return graph;
}

CheckExecutor failing(const char* name, int* calls = nullptr) {
  return {name, [=](const Graph&, std::span<const Tensor>) -> std::vector<Tensor> {
            if (calls != nullptr) ++*calls;
            throw Error(ErrorCode::kUnsupported, "does not know it");
          }};
}

// Executes nothing, or only accepts some inputs.
class PickyDevice : public testing::RooflineDevice {
 public:
  std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions& options) override {
    if (!executes) throw Error(ErrorCode::kUnsupported, "does not know it");
    for (const Graph& graph : graphs) interpret(graph, options.inputs);
    return RooflineDevice::time_graphs(graphs, options);
  }
  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override {
    if (!executes) throw Error(ErrorCode::kUnsupported, "does not know it");
    return RooflineDevice::run(graph, inputs);
  }
  bool executes = true;
};

OptimizeResult optimized_on(const Graph& graph, Device& device, const OptimizeOptions& options = {}) {
  return optimize(graph, testing::rules(), device, *make_reference_evaluator(), nullptr, options);
}

Graph foreign_part() {
  return import_onnx_bytes(text_bytes(R"(agraph (float[4, 8] x) => (float[4, 8] y)
    { a = Relu(x)
      b = Relu(a)
      y = other.Unknown(b) })",
                                      17, ", \"other\" : 1"),
                           "test");
}

}  // namespace

TEST_CASE("graphs are compared by what executes them first") {
  int calls = 0;
  ResultCheck check(square("Exp"), {failing("none", &calls), reference_executor()}, 1, 3);
  const ResultComparison same = check.compare(square("Exp"));
  CHECK(same.verdict == Verdict::kSame);
  CHECK(same.runs == 3);
  CHECK(same.executor == "reference");
  CHECK(same.max_abs_error == 0);
  CHECK(calls == 1 + 1);  // the usual reals, then positive ones
  CHECK(check.compare(square("Tanh")).verdict == Verdict::kDiffers);
  CHECK(check.compare(square("Exp")).verdict == Verdict::kSame);

  ResultCheck none(square("Exp"), {failing("none"), reference_executor(/*most_operations=*/1)}, 1, 1);
  const ResultComparison found = none.compare(square("Exp"));
  CHECK(found.verdict == Verdict::kNotRun);
  CHECK(found.runs == 0);
  CHECK(found.note == "none: does not know it; reference: it is too large for the reference interpreter");
  CHECK(found.not_drawn.empty());
}

TEST_CASE("where no inputs are accepted, those are named of which the model says nothing") {
  const Graph graph =
      import_onnx_bytes(text_bytes(R"(agraph (int64[2] ids, int64[2] shape, float[8, 4] table) => (float[n, m] y)
    { rows = Gather(table, ids)
      y = Expand(rows, shape) })",
                                   17),
                        "test");
  ResultCheck check(graph, {failing("none")}, 1, 1);
  CHECK(check.compare(graph).not_drawn == std::vector<std::string>{"shape"});
}

TEST_CASE("a model that accepts some integers and not others is given several") {
  Graph graph;
  const ValueId table = graph.add_constant(weights({4, 3}));
  const ValueId ids = graph.add_input("ids", {DataType::kInt64, {8}});
  graph.add_output("y", add(graph, "Gather", {table, ids})[0]);
  int refused = 0;
  const CheckExecutor picky{"picky", [&](const Graph& g, std::span<const Tensor> inputs) {
                              const std::vector<std::int64_t> drawn = inputs[0].integers();
                              if (std::set(drawn.begin(), drawn.end()).size() < 4) {
                                ++refused;
                                throw Error(ErrorCode::kBadInput, "one of four gets nothing");
                              }
                              return interpret(g, inputs);
                            }};
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    ResultCheck check(graph, {picky}, seed, 1);
    CHECK(check.compare(graph).verdict == Verdict::kSame);
  }
  CHECK(refused > 0);
}

TEST_CASE("a wrong kernel on both sides is seen by the reference") {
  const auto adds_one = [](const Graph& graph, std::span<const Tensor> inputs, const char* wrong) {
    std::vector<Tensor> outputs = interpret(graph, inputs);
    const bool has =
        std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& n) { return n->op->name() == wrong; });
    std::vector<double> elements = outputs[0].reals();
    for (double& element : elements) element += has ? 1 : 0;
    return std::vector<Tensor>{Tensor::from_reals(DataType::kFloat, outputs[0].sizes(), elements)};
  };
  const CheckExecutor device{
      "device", [&](const Graph& graph, std::span<const Tensor> inputs) { return adds_one(graph, inputs, "Mul"); }};
  ResultCheck alone(square("Exp"), {device}, 1, 1);
  CHECK(alone.compare(square("Exp")).verdict == Verdict::kSame);
  // Not caused by the rewriting: it is only reported.
  ResultCheck both(square("Exp"), {device}, 1, 1, small_reference_check());
  const ResultComparison found = both.compare(square("Exp"));
  CHECK(found.verdict == Verdict::kSame);
  CHECK_THAT(found.note, Catch::Contains("on device, for the given model as well"));
}

TEST_CASE("results that are drawn at random are not compared") {
  const Graph graph = import_onnx_bytes(text_bytes(R"(agraph (float[64] x) => (float[64] y, float[64] z)
    { r = RandomNormalLike(x)
      y = Add(r, x)
      z = Exp(x) })",
                                                   17),
                                        "test");
  ResultCheck check(graph, {reference_executor()}, 1, 1);
  CHECK(check.compare(graph).verdict == Verdict::kSame);
  Graph drawn = graph;
  drawn.set_outputs({graph.outputs()[0]});
  ResultCheck nothing(drawn, {reference_executor()}, 1, 1);
  CHECK(nothing.compare(drawn).verdict == Verdict::kNotRun);
}

TEST_CASE("where the device cannot execute the model, something else checks what was found") {
  const Graph graph = testing::adapters(2, 32, 4);
  PickyDevice device;
  device.executes = false;
  testing::RooflineDevice second;
  OptimizeOptions options;
  for (Device* other : {static_cast<Device*>(&second), static_cast<Device*>(nullptr)}) {
    options.second_device = other;
    const OptimizeResult result = optimized_on(graph, device, options);
    CHECK(result.report.changed);
    CHECK(result.report.check.runs == 1);
    CHECK(result.report.check.executor == (other != nullptr ? "roofline" : "reference"));
    CHECK_THAT(result.report.outcome, Catch::Contains("cannot be executed on roofline: does not know it"));
  }
}

TEST_CASE("what nothing can execute comes back as it was, unless no check is wanted") {
  const Graph graph = foreign_part();
  testing::RooflineDevice device;
  OptimizeOptions options;
  const OptimizeResult checked = optimized_on(graph, device, options);
  CHECK_FALSE(checked.report.changed);
  CHECK(checked.graph.hash() == graph.hash());
  CHECK(checked.certificate.steps.empty());
  CHECK(checked.report.check.runs == 0);
  CHECK_THAT(checked.report.check.reason, Catch::Contains("Unknown"));
  CHECK_THAT(checked.report.outcome, Catch::Contains("the given graph") && Catch::Contains("could not be checked"));
  options.check_runs = 0;
  const OptimizeResult unchecked = optimized_on(graph, device, options);
  CHECK(unchecked.report.changed);
  CHECK(unchecked.graph.nodes().size() == 2);
  CHECK(unchecked.report.check.reason == "it was not asked for");
}

TEST_CASE("inputs that a model does not accept are drawn anew") {
  // The second table has one row, and Expand's shape must not be 0 for a tensor of two rows.
  const Graph graph = import_onnx_bytes(text_bytes(R"(agraph (int64[4] kind, int64[2] shape, float[4, 8] x) => (float[n, m] y)
    <float[1, 8] table = {1, 2, 3, 4, 5, 6, 7, 8}> {
      row = Gather(table, kind)
      sum = Add(row, x)
      a = Relu(sum)
      b = Relu(a)
      y = Expand(b, shape) })",
                                                   17),
                                        "test");
  PickyDevice device;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    OptimizeOptions options;
    options.seed = seed;
    const OptimizeResult result = optimized_on(graph, device, options);
    CHECK(result.report.changed);
    CHECK(result.report.check.runs == 1);
    CHECK(result.report.check.executor == "roofline");
  }
}

}  // namespace rewright::optimizer
