#include "runtime/planned/measure_layouts.h"

#include <catch2/catch.hpp>
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
#include "runtime/cpu/backend/backend.h"

namespace rewright::runtime {
namespace {

using plans::LayoutFacts;

constexpr double kRate = 1e9;

ValueId given(Graph& graph, const char* name, const std::vector<std::int64_t>& sizes) {
  TensorType type{DataType::kFloat, {}};
  for (const std::int64_t size : sizes) type.shape.emplace_back(size);
  return graph.add_input(name, type);
}

ValueId apply(Graph& graph, const char* name, std::vector<ValueId> operands) {
  const Operator& op = registry().get(name);
  Attributes attributes = op.defaults();
  if (op.name() == "Conv")
    for (const char* pads : {"pads_begin", "pads_end"}) attributes.at(op.field(pads).value()) = Indices{1, 1};
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
  std::string name() const override { return "some layouts"; }
  std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options) const override {
    REQUIRE(options.profile);
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
    return std::make_unique<Steps>(std::move(steps));
  }

 private:
  class Steps final : public Session {
   public:
    explicit Steps(std::vector<StepProfile> steps) : steps_(std::move(steps)) {}
    std::vector<Tensor> run(std::span<const Tensor>) override {
      for (StepProfile& step : steps_) step.seconds += step.bytes / kRate * (step.runs++ == 0 ? 100 : 1);
      return {};
    }
    std::vector<StepProfile> profile() const override { return steps_; }

   private:
    std::vector<StepProfile> steps_;
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

TEST_CASE("the CPU's convolutions have a layout of their own, which functions keep and products do not") {
  const std::vector<Graph> graphs{convolutions(32)};
  const std::optional<LayoutFacts> found = measure_layouts(cpu::cpu_backend(), {}, graphs);
  REQUIRE(found);
  CHECK(found->changes("Conv", LayoutFacts::kOperand, 0));
  CHECK(found->changes("Conv", LayoutFacts::kResult, 0));
  CHECK((found->keeps("Relu", 0) || found->reads("Relu", 0)));
  CHECK_FALSE(found->keeps("Exp", 0));  // of one pixel, which shows nothing
  for (const std::set<std::string>* ports : {&found->changed, &found->kept, &found->read})
    for (const std::string& port : *ports) CHECK(port.find("MatMul") == std::string::npos);
  CHECK(found->bytes_per_second > 0);
}

}  // namespace rewright::runtime
