#include "runtime/cpu/planning/layout_assignment.h"

#include <catch2/catch.hpp>
#include <random>

#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

namespace rewright::cpu {

using cpu::LayoutStep;

namespace {

// A graph of at most `most` steps, which read earlier steps' values or inputs.
std::pair<std::vector<LayoutStep>, std::vector<double>> random_problem(std::mt19937& random, int most) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::vector<double> changes;
  const auto new_value = [&] {
    changes.push_back(pick(0, 9) == 0 ? 0 : pick(1, 20) * 0.5);
    return static_cast<int>(changes.size()) - 1;
  };
  for (int inputs = pick(1, 3); inputs > 0; --inputs) new_value();
  std::vector<LayoutStep> steps(static_cast<std::size_t>(pick(1, most)));
  for (LayoutStep& step : steps) {
    step.plain = pick(0, 12) * 0.5;
    step.channels_last = pick(0, 12) * 0.5;
    if (const int fixed = pick(0, 5); fixed < 2) (fixed == 0 ? step.plain : step.channels_last) = cpu::kNoSuchKernel;
    for (int reads = pick(0, 3); reads > 0; --reads) step.reads.push_back(pick(0, static_cast<int>(changes.size()) - 1));
    for (int computes = pick(0, 9) == 0 ? 2 : 1; computes > 0; --computes) step.computes.push_back(new_value());
  }
  return {std::move(steps), std::move(changes)};
}

}  // namespace

TEST_CASE("layouts are assigned as well as by trying all") {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    const auto [steps, changes] = random_problem(random, 10);
    double least = cpu::kNoSuchKernel;
    for (unsigned mask = 0; mask < 1U << steps.size(); ++mask) {
      std::vector<bool> assignment(steps.size());
      for (std::size_t s = 0; s < steps.size(); ++s) assignment[s] = (mask >> s & 1) != 0;
      least = std::min(least, cpu::layout_cost(steps, changes, assignment));
    }
    const std::vector<bool> assigned = cpu::assign_layouts(steps, changes);
    REQUIRE(assigned.size() == steps.size());
    CHECK(cpu::layout_cost(steps, changes, assigned) == Approx(least).margin(1e-6));
  }
}

TEST_CASE("layouts of long chains are assigned") {
  constexpr int kSteps = 20000;
  std::vector<LayoutStep> steps;
  for (int s = 0; s < kSteps; ++s) steps.push_back({1, s % 2 == 0 ? 0.5 : 1.2, {s}, {s + 1}});
  steps.front().channels_last = cpu::kNoSuchKernel;
  const std::vector<double> changes(kSteps + 1, 10.0);
  const std::vector<bool> assigned = cpu::assign_layouts(steps, changes);
  CHECK_FALSE(assigned.front());
  CHECK(assigned.back());  // one conversion pays off in the end
}

// A channels-last image exists for a convolution, so a pool before another one should read that; a pool whose result is needed
// row-major should read the row-major image.
TEST_CASE("a pool takes the layout that the whole plan is faster with") {
  using namespace testing;
  for (const bool before_convolution : {true, false}) {
    CAPTURE(before_convolution);
    testing::GraphBuilder b(3);
    const ValueId x = b.input(Sizes{1, 32, 14, 14});
    const Indices ones{Index(1), Index(1)}, threes{Index(3), Index(3)};
    const auto convolution = [&](ValueId v) { return node(b.graph, "Conv", {v, b.constant({16, 32, 1, 1}, -0.2, 0.2)})[0]; };
    ValueId pooled =
        node(b.graph, "AveragePool", {x}, {{"kernel", threes}, {"strides", ones}, {"pads_begin", ones}, {"pads_end", ones}})[0];
    b.graph.add_output("convolved", convolution(x));
    if (before_convolution) pooled = convolution(pooled);
    b.graph.add_output("pooled", pooled);
    SessionOptions options;
    options.profile = true;
    const auto session = cpu_backend().prepare(b.graph, options);
    session->run(b.inputs);
    int changes = 0;
    for (const StepProfile& step : session->profile()) changes += step.operators == "(layout)";
    CHECK(changes == (before_convolution ? 3 : 2));  // of the input, and of channels-last results
    check_graph(b.graph, b.inputs, 1e-4);
  }
}

// Random graphs of operators with and without a choice of layout.
TEST_CASE("networks are the same whatever layouts are assigned") {
  using namespace testing;
  for (unsigned seed = 0; seed < testing::instances(12); ++seed) {
    CAPTURE(seed);
    testing::GraphBuilder b(seed);
    std::vector<ValueId> values{b.input(Sizes{2, 8, 7, 6}), b.input(Sizes{2, 8, 7, 6})};
    const Indices ones{Index(1), Index(1)}, threes{Index(3), Index(3)};
    const auto any = [&] { return values[static_cast<std::size_t>(b.pick(0, static_cast<std::int64_t>(values.size()) - 1))]; };
    for (int n = 0; n < 8; ++n) {
      ValueId v = any();
      switch (b.pick(0, 6)) {
        case 0:
          v = node(b.graph, "Conv", {v, b.constant({8, 8, 3, 3}, -0.2, 0.2)}, {{"pads_begin", ones}, {"pads_end", ones}})[0];
          break;
        case 1:
          v = node(b.graph, "MaxPool", {v},
                   {{"kernel", threes}, {"strides", ones}, {"pads_begin", ones}, {"pads_end", ones}})[0];
          break;
        case 2:
          v = node(b.graph, "Add", {v, any()})[0];
          break;
        case 3:
          v = node(b.graph, "Mul", {v, node(b.graph, "Sigmoid", {b.constant({8, 1, 1})})[0]})[0];
          break;
        case 4:
          v = node(b.graph, "Conv",
                   {node(b.graph, "Concat", {v, any()}, {{"axis", Index(1)}})[0], b.constant({8, 16, 1, 1})})[0];
          break;
        case 5:
          v = node(b.graph, "Softmax", {v}, {{"axis", Index(3)}})[0];
          break;
        default:
          v = node(b.graph, "Relu", {v})[0];
      }
      values.push_back(v);
    }
    b.graph.add_output("y", values.back());
    b.graph.add_output("z", any());
    check_graph(b.graph, b.inputs, 1e-4);
  }
}

}  // namespace rewright::cpu
