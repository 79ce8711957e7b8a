#include "runtime/planned/measure_layouts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "operators/operator.h"
#include "optimizer/inputs/inputs.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/mixed.h"

namespace rewright::runtime {
namespace {

using plans::LayoutFacts;

constexpr double kRate = 1e9;

ValueId given(Graph& graph, const char* name, const std::vector<std::int64_t>& sizes) {
  TensorType type{DataType::kFloat, {}};
  for (const std::int64_t size : sizes) type.shape.emplace_back(size);
  return graph.add_input(name, type);
}

ValueId apply(Graph& graph, const char* name, std::vector<ValueId> operands, std::int64_t group = 1, std::int64_t padding = 1) {
  const Operator& op = registry().get(name);
  Attributes attributes = op.defaults();
  if (op.name() == "Conv") {
    for (const char* pads : {"pads_begin", "pads_end"}) attributes.at(op.field(pads).value()) = Indices{padding, padding};
    attributes.at(op.field("group").value()) = Index(group);
  }
  return graph.add_node(op, std::move(attributes), std::move(operands)).at(0);
}

// Convolutions of `channels` channels, a function between them, a product of the last one's rows, and a mean's exponential.
Graph convolutions(std::int64_t channels) {
  Graph graph;
  const ValueId first = apply(
      graph, "Relu",
      {apply(graph, "Conv", {given(graph, "x", {1, channels, 16, 16}), given(graph, "v", {2 * channels, channels, 3, 3})})});
  const ValueId second = apply(graph, "Conv", {first, given(graph, "w", {channels, 2 * channels, 3, 3})});
  graph.add_output("z", apply(graph, "Exp", {apply(graph, "GlobalAveragePool", {second})}));
  graph.add_output("y", apply(graph, "MatMul", {second, given(graph, "u", {1, channels, 16, 4})}));
  return graph;
}

// Convolutions of at least so many channels compute in a layout of their own, to which and from which steps change values;
// rectifiers keep it, means read it for a plain result. One pixel is there in both. Nothing is computed.
class SomeLayouts final : public Backend {
 public:
  explicit SomeLayouts(std::int64_t least_channels) : least_channels_(least_channels) {}
  // Called before each run.
  std::function<void(const SessionOptions&)> on_run = [](const SessionOptions&) {};
  double counted = 1;                                 // share of the bytes that steps report
  mutable std::vector<std::vector<std::string>> ops;  // of each graph that was prepared
  std::string name() const override { return "some layouts"; }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options) const override {
    REQUIRE(options.profile);
    REQUIRE(options.checkpoint);
    ops.emplace_back();
    for (const auto& node : graph.nodes()) ops.back().push_back(node->op->name());
    std::map<ValueId, std::set<bool>> there;  // by value: in its own layout, and plain
    std::vector<StepProfile> steps;
    const auto need = [&](ValueId v, bool own) {
      if (graph.value(v).type.shape[2].value() == 1) return;
      if (!there.try_emplace(v, std::set<bool>{false}).first->second.insert(own).second) return;
      StepProfile step{graph.value(v).name, "(layout)"};
      step.bytes = 2 * sizeof(float);
      for (const Index& size : graph.value(v).type.shape) step.bytes *= static_cast<double>(size.value());
      steps.push_back(step);
    };
    for (const auto& node : graph.nodes()) {
      const std::string& op = node->op->name();
      const auto is_wide = [&](ValueId v) { return graph.value(v).type.shape[1].value() >= least_channels_; };
      const auto operand = there.find(node->inputs[0]);
      const bool keeps = op == "Relu" && operand != there.end() && operand->second.contains(true);
      for (std::size_t k = 0; k < node->inputs.size() && op != "GlobalAveragePool"; ++k)
        need(node->inputs[k], keeps || (op == "Conv" && k == 0 && is_wide(node->inputs[k])));
      there[node->outputs[0]] = {keeps || (op == "Conv" && is_wide(node->outputs[0]))};
    }
    for (const GraphOutput& o : graph.outputs()) need(o.value, false);
    return std::make_unique<Steps>(std::move(steps), counted, [on = on_run, options] { on(options); });
  }

 private:
  class Steps final : public Session {
   public:
    Steps(std::vector<StepProfile> steps, double counted, std::function<void()> on_run)
        : steps_(std::move(steps)), counted_(counted), on_run_(std::move(on_run)) {}
    std::vector<Tensor> run(std::span<const Tensor>) override {
      on_run_();
      for (StepProfile& step : steps_) step.seconds += step.bytes / kRate * (step.runs++ == 0 ? 100 : 1);
      return {};
    }
    std::vector<StepProfile> profile() const override {
      std::vector<StepProfile> result = steps_;
      for (StepProfile& step : result) step.bytes *= counted_;
      return result;
    }

   private:
    std::vector<StepProfile> steps_;
    double counted_;
    std::function<void()> on_run_;
  };

  const std::int64_t least_channels_;
};

}  // namespace

TEST_CASE("layouts are found in steps that change values to them") {
  std::vector<Graph> graphs;
  for (const std::int64_t channels : {4, 8, 16}) graphs.push_back(convolutions(channels));
  const LayoutFacts expected{
      {"operand 0 of Conv", "result 0 of Conv"}, {"operand 0 of Relu"}, {"operand 0 of GlobalAveragePool"}, 0, kRate};
  for (const std::size_t least : {4, 8, 16, 32}) {
    CAPTURE(least);
    const std::optional<LayoutFacts> found = measure_layouts(SomeLayouts(static_cast<std::int64_t>(least)), {}, graphs);
    REQUIRE(found);
    CHECK(found->changed == expected.changed);
    CHECK(found->kept == expected.kept);
    // Among images of at most 16 channels, the means' operands.
    CHECK(found->read == (least <= 16 ? expected.read : std::set<std::string>()));
    CHECK(found->least_channels == least);
    CHECK(found->bytes_per_second == Approx(kRate));  // without the first runs
  }
  CHECK_FALSE(measure_layouts(SomeLayouts(64), {}, graphs));
  CHECK_FALSE(measure_layouts(SomeLayouts(1), {}, {}));
}

TEST_CASE("measuring layouts ends when it is cancelled") {
  std::stop_source source;
  source.request_stop();
  const std::vector<Graph> graphs{convolutions(8)};
  CHECK_THROWS_AS(measure_layouts(SomeLayouts(1), {}, graphs, source.get_token()), Error);
}

TEST_CASE("measuring layouts ends between runs and at checkpoints of a run") {
  const std::vector<Graph> graphs{convolutions(8)};
  for (const bool at_checkpoint : {false, true}) {
    CAPTURE(at_checkpoint);
    std::stop_source source;
    int begun = 0, done = 0;
    SomeLayouts backend(1);
    backend.on_run = [&](const SessionOptions& options) {
      if (++begun == 2) source.request_stop();
      if (at_checkpoint) options.checkpoint();
      ++done;
    };
    try {
      measure_layouts(backend, {}, graphs, source.get_token());
      FAIL("it goes on");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kCancelled);
    }
    CHECK(begun == 2);
    CHECK(done == (at_checkpoint ? 1 : 2));
  }
  // The caller's own checkpoint is called, too.
  const SessionOptions ended{.checkpoint = [] { throw Error(ErrorCode::kCancelled, "ended"); }};
  CHECK_THROWS_WITH(measure_layouts(SomeLayouts(1), ended, graphs), "ended");
}

TEST_CASE("nodes whose runs are given up show no layouts") {
  const std::vector<Graph> graphs{convolutions(8)};
  SomeLayouts backend(1);
  backend.on_run = [](const SessionOptions&) { throw Error(ErrorCode::kUnsupported, "was given up"); };
  CHECK_FALSE(measure_layouts(backend, {}, graphs));
}

TEST_CASE("layouts that a machine file cannot say are not found") {
  const std::vector<Graph> some{convolutions(8)};
  SomeLayouts backend(1);
  for (const double counted : {0.0, 1e-18}) {
    backend.counted = counted;
    CHECK_FALSE(measure_layouts(backend, {}, some));
  }
  // So many channels.
  for (const std::int64_t channels : {65536, 65537}) {
    std::vector<Graph> graphs(1);
    const ValueId x = given(graphs[0], "x", {1, channels, 2, 2}), w = given(graphs[0], "w", {channels, 1, 3, 3});
    graphs[0].add_output("y", apply(graphs[0], "Conv", {x, w}, channels));
    CHECK(measure_layouts(SomeLayouts(1), {}, graphs).has_value() == (channels == 65536));
  }
}

TEST_CASE("layouts are looked for by attributes, and of operators alone apart from those behind others") {
  std::vector<Graph> graphs(1);
  Graph& graph = graphs[0];
  const ValueId x = given(graph, "x", {1, 2, 8, 8}), w = given(graph, "w", {2, 2, 3, 3});
  const ValueId same = apply(graph, "Conv", {x, w}), again = apply(graph, "Conv", {same, w});
  graph.add_output("smaller", apply(graph, "Conv", {again, w}, 1, 0));
  // Of four values of two channels, and of three whose last one, number 2, is a convolution's result.
  graph.add_output("four", apply(graph, "Sum", {x, x, x, x}));
  graph.add_output("three", apply(graph, "Sum", {x, x, same}));
  SomeLayouts backend(1);
  REQUIRE(measure_layouts(backend, {}, graphs));
  const auto count = [&](const std::vector<std::string>& ops) { return std::ranges::count(backend.ops, ops); };
  CHECK(count({"Conv"}) == 2);
  CHECK(count({"Sum"}) == 2);
  CHECK(count({"Conv", "Sum"}) == 1);
}

TEST_CASE("the CPU's convolutions have a layout of their own, which functions keep and products do not") {
  const std::vector<Graph> graphs{convolutions(32)};
  const std::optional<LayoutFacts> found = measure_layouts(cpu::cpu_backend(), {}, graphs);
  // Some instruction sets have no such kernels.
  const std::unique_ptr<Session> session = prepare_session(cpu::cpu_backend(), graphs[0], {.profile = true});
  session->run(optimizer::random_inputs(graphs[0], {}, 0));
  const bool changes =
      std::ranges::any_of(session->profile(), [](const StepProfile& step) { return step.operators == "(layout)"; });
  REQUIRE(found.has_value() == changes);
  if (!found) return;
  CHECK(found->changes("Conv", LayoutFacts::kOperand, 0));
  CHECK(found->changes("Conv", LayoutFacts::kResult, 0));
  CHECK((found->keeps("Relu", 0) || found->reads("Relu", 0)));
  CHECK_FALSE(found->keeps("Exp", 0));  // of one pixel, which shows nothing
  for (const std::set<std::string>* ports : {&found->changed, &found->kept, &found->read})
    for (const std::string& port : *ports) CHECK(port.find("MatMul") == std::string::npos);
  CHECK(found->bytes_per_second > 0);
}

}  // namespace rewright::runtime
