#include "optimizer/optimize.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/process_memory.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"
#include "graph/testing.h"
#include "optimizer/certificates/replay.h"
#include "optimizer/devices/device_profile.h"
#include "optimizer/testing.h"

namespace rewright::optimizer {

using testing::add;
using testing::floats;
using testing::weights;

namespace {

OptimizeResult run(const Graph& graph, testing::RooflineDevice& device, const OptimizeOptions& options = {},
                   const std::vector<Rule>& rules = testing::rules()) {
  return optimize(graph, rules, device, *make_reference_evaluator(), nullptr, options);
}

}  // namespace

TEST_CASE("a faster graph comes back, checked, and its certificate gives it again") {
  const Graph graph = testing::adapters(4, 32, 4);
  testing::RooflineDevice device;
  const OptimizeResult result = run(graph, device);
  CHECK(result.report.changed);
  CHECK(result.report.speedup > 1.3);
  CHECK(result.report.nodes_before == 24);
  CHECK(result.report.nodes_after == 8);  // constants are evaluated
  CHECK(result.report.check.ok);
  CHECK(result.report.check.runs == 1);
  CHECK(result.report.check.max_rel_error < 1e-5);
  CHECK(result.report.rules_applied.size() >= 12);
  CHECK(result.report.stop_reason == "done");

  const auto evaluator = make_reference_evaluator();
  const std::string text = to_json(result.certificate);
  const Graph again = replay(graph, parse_certificate(text, "c"), testing::rules(), *evaluator);
  CHECK(again.hash() == result.graph.hash());
  CHECK(to_json(parse_certificate(text, "c")) == text);
}

TEST_CASE("an equation of several tensors becomes products in the best order, and its certificate gives it again") {
  Graph graph;
  const std::vector<ValueId> operands = {graph.add_input("a", floats({32, 32})), graph.add_input("b", floats({32, 32})),
                                         graph.add_input("v", floats({32}))};
  const Operator& einsum = registry().get("Einsum");
  Attributes attributes = einsum.defaults();
  attributes.at(einsum.field("equation").value()) = std::string("ij,jk,k->i");
  graph.add_output("y", graph.add_node(einsum, attributes, operands)[0]);
  testing::RooflineDevice device;
  const OptimizeResult result = run(graph, device);
  CHECK(result.report.changed);
  CHECK(result.report.speedup > 1.5);
  CHECK(result.report.check.ok);
  for (const auto& node : result.graph.nodes()) CHECK(node->op->name() != "Einsum");
  const std::string text = to_json(result.certificate);
  const Graph again = replay(graph, parse_certificate(text, "c"), testing::rules(), *make_reference_evaluator());
  CHECK(again.hash() == result.graph.hash());
  CHECK(to_json(parse_certificate(text, "c")) == text);

  device.rewritten_is_slow = true;
  const OptimizeResult kept = run(graph, device);
  CHECK_FALSE(kept.report.changed);
  CHECK(kept.graph.hash() == graph.hash());
}

TEST_CASE("what nothing asks for is not computed") {
  // Only the first row of the block is used, as in a transformer that classifies by its first token.
  const Graph graph = testing::import_text(R"(
    block (float[512, 16] x, float[16, 64] w, float[64, 16] v, float[16] g) => (float[16] y)
    <int64 first = {0}> {
      h = MatMul(x, w)
      r = Relu(h)
      p = MatMul(r, v)
      s = Add(x, p)
      n = LayerNormalization <axis = -1> (s, g)
      y = Gather <axis = 0> (n, first)
    })");
  testing::RooflineDevice device;
  const OptimizeResult result = run(graph, device, {}, shipped_rules().rules());
  CHECK(result.report.check.ok);
  INFO(to_string(result.graph));
  CHECK(result.report.changed);
  for (const auto& node : result.graph.nodes())
    if (const Indices& shape = result.graph.value(node->outputs[0]).type.shape; shape.size() == 2) CHECK(shape[0] == Index(1));
}

// A difference multiplied out is one of large numbers, which cancel where it is small.
TEST_CASE("by default small differences keep their digits") {
  constexpr std::int64_t kRows = 48, kDepth = 32;
  enum class Program { kDistances, kResidual, kDifferenceOfSquares, kProductOfDifference, kSumOfDifference };
  const Program program = GENERATE(Program::kDistances, Program::kResidual, Program::kDifferenceOfSquares,
                                   Program::kProductOfDifference, Program::kSumOfDifference);
  const bool pairs = program == Program::kDistances, residual = program == Program::kResidual;
  Graph graph;
  const auto sum = [&](ValueId x, const Indices& axes) {
    const Operator& op = registry().get("ReduceSum");
    Attributes attributes = op.defaults();
    attributes.at(op.field("axes").value()) = axes;
    return graph.add_node(op, attributes, {x})[0];
  };
  const ValueId x = graph.add_input("x", pairs ? floats({kRows, 1, kDepth}) : floats({kRows, kRows}));
  const ValueId y = graph.add_input("y", pairs      ? floats({1, kRows, kDepth})
                                         : residual ? floats({kRows, 4})
                                                    : floats({kRows, kRows}));
  const ValueId other = residual ? add(graph, "MatMul", {y, graph.add_input("z", floats({4, kRows}))})[0] : y;
  const ValueId d = add(graph, "Sub", {x, other})[0];
  ValueId result = d;
  if (pairs || residual) result = sum(add(graph, "Mul", {d, d})[0], pairs ? Indices{2} : Indices{0, 1});
  if (program == Program::kDifferenceOfSquares) result = add(graph, "Mul", {d, add(graph, "Add", {x, y})[0]})[0];
  if (program == Program::kProductOfDifference) result = add(graph, "MatMul", {d, graph.add_input("z", floats({kRows, 8}))})[0];
  if (program == Program::kSumOfDifference) result = sum(d, {1});
  graph.add_output("result", result);

  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) inputs.push_back(weights(values(graph.value(id).type.shape), 1));
  std::vector<double> near = inputs[1].reals();
  if (residual) {
    Graph product;
    const ValueId a = product.add_input("a", floats({kRows, 4})), b = product.add_input("b", floats({4, kRows}));
    product.add_output("p", add(product, "MatMul", {a, b})[0]);
    near = interpret(product, std::vector<Tensor>{inputs[1], inputs[2]})[0].reals();
  }
  for (std::size_t i = 0; i < near.size(); ++i) near[i] += 1e-4 * static_cast<double>(1 + i % 3);
  inputs[0] = Tensor::from_reals(DataType::kFloat, inputs[0].sizes(), near);

  testing::RooflineDevice device;
  const OptimizeResult optimized = run(graph, device, {}, shipped_rules().rules());
  const std::vector<double> expected = interpret(graph, inputs)[0].reals(),
                            found = interpret(optimized.graph, inputs)[0].reals();
  double margin = 0;  // of sums of positive and negative terms
  if (program == Program::kProductOfDifference)
    for (const double e : expected) margin = std::max(margin, 0.01 * std::fabs(e));
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == Approx(expected[i]).epsilon(0.01).margin(margin));
}

TEST_CASE("a graph that is measured to be slower is thrown away") {
  const Graph graph = testing::adapters(4, 32, 4);
  testing::RooflineDevice device;
  device.rewritten_is_slow = true;
  const OptimizeResult result = run(graph, device);
  CHECK_FALSE(result.report.changed);
  // Two of its weights are duplicates.
  CHECK(result.report.outcome == "no rewritten graph was significantly faster; what nothing needs is left out");
  CHECK(result.graph.hash() == graph.hash());
  CHECK(result.report.rules_applied.empty());
  const Graph again = replay(graph, result.certificate, testing::rules(), *make_reference_evaluator());
  CHECK(to_string(again) == to_string(result.graph));
}

TEST_CASE("what nothing needs, or is there twice, is left out whatever is gained") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({4, 4}));
  const ValueId a = add(graph, "MatMul", {x, graph.add_constant(weights({4, 4}))})[0];
  const ValueId b = add(graph, "MatMul", {x, graph.add_constant(weights({4, 4}))})[0];
  add(graph, "Exp", {a});  // unread
  graph.add_output("y", add(graph, "Add", {add(graph, "Tanh", {a})[0], add(graph, "Tanh", {b})[0]})[0]);
  testing::RooflineDevice device;
  device.rewritten_is_slow = true;
  const OptimizeResult result = run(graph, device);
  CHECK_FALSE(result.report.changed);
  CHECK(result.report.nodes_before == 6);
  CHECK(result.report.nodes_after == 3);
  const Graph again =
      replay(graph, parse_certificate(to_json(result.certificate), "c"), testing::rules(), *make_reference_evaluator());
  CHECK(to_string(again) == to_string(result.graph));

  Graph nothing_to_leave_out;
  nothing_to_leave_out.add_output("y",
                                  add(nothing_to_leave_out, "Tanh", {nothing_to_leave_out.add_input("x", floats({4}))})[0]);
  CHECK(run(nothing_to_leave_out, device).certificate.steps.empty());
}

TEST_CASE("a graph whose results differ is thrown away") {
  const Graph graph = testing::adapters(4, 32, 4);
  testing::RooflineDevice device;
  const OptimizeResult result = run(graph, device, {}, testing::rules(R"(
rule wrong: "drops the adapter"
  x[M, K], const a[K, N], y
  MatMul(x, a) + y => MatMul(x, a)
  reassociates
)"));
  CHECK_FALSE(result.report.changed);
  CHECK_FALSE(result.report.check.ok);
  CHECK(result.graph.hash() == graph.hash());
}

TEST_CASE("a search that is ended early gives its best so far, whole, checked, and with its certificate") {
  const Graph graph = testing::adapters(10, 16, 4);
  const std::size_t whole = [&] {
    testing::RooflineDevice device;
    return run(graph, device).report.rules_applied.size();
  }();
  for (const Strategy strategy : {Strategy::kBacktrack, Strategy::kSaturate, Strategy::kAuto}) {
    for (const std::string reason : {"cancelled", "memory", "time"}) {
      INFO(name(strategy) << ", " << reason);
      OptimizeOptions options;
      options.strategy = strategy;
      std::stop_source stop;
      options.cancel = stop.get_token();
      if (reason == "time") options.budget_seconds = 2;
      if (reason == "memory") options.memory = resident_bytes() + (std::size_t{256} << 20);
      std::vector<char> filled;
      bool ended = false;
      const auto start = std::chrono::steady_clock::now();
      // The search ends by time; everything after it has unlimited time.
      if (reason == "time") options.started = start, options.now = [start] { return start; };
      options.progress = [&](const OptimizeProgress& progress) {
        if (ended || progress.stage != "searching" || progress.predicted_gain < 1.001) return;
        ended = true;
        if (reason == "cancelled") stop.request_stop();
        if (reason == "memory") filled.assign(std::size_t{512} << 20, 1);
        if (reason == "time") std::this_thread::sleep_until(start + std::chrono::milliseconds(2100));
      };
      testing::RooflineDevice device;
      const OptimizeResult result = run(graph, device, options);
      CHECK(ended);
      CHECK(result.report.stop_reason == reason);
      CHECK(result.report.changed);
      CHECK(result.report.predicted_after < result.report.predicted_before);
      CHECK(result.report.check.ok);
      CHECK(result.report.check.runs == 1);
      CHECK(result.report.rules_applied.size() <= whole);
      const Certificate read = parse_certificate(to_json(result.certificate), "certificate");
      CHECK(replay(graph, read, testing::rules(), *make_reference_evaluator()).hash() == result.graph.hash());
    }
  }
}

TEST_CASE("where the last bits of the inputs decide, they decide about rounding, too") {
  Graph graph = testing::adapters(4, 32, 4);
  const ValueId steep =
      add(graph, "Mul", {graph.outputs()[0].value, graph.add_constant(Tensor::scalar(DataType::kFloat, 1e5))})[0];
  graph.set_outputs({});
  graph.add_output("y", add(graph, "Sin", {steep})[0]);
  testing::RooflineDevice device;
  const OptimizeResult result = run(graph, device);
  CHECK(result.report.check.max_rel_error > tolerated_relative_error(DataType::kFloat));
  CHECK(result.report.check.ok);
  CHECK(result.report.changed);
}

TEST_CASE("what is fast may take memory and move bytes: the objective decides") {
  // (x A) B with a narrow A: merged, it has one large weight in place of two small ones.
  const auto chain = [](std::int64_t rank) {
    Graph graph;
    const ValueId x = graph.add_input("x", floats({8, 256}));
    const ValueId a = graph.add_constant(weights({256, rank})), b = graph.add_constant(weights({rank, 256}, 2));
    graph.add_output("y", add(graph, "MatMul", {add(graph, "MatMul", {x, a})[0], b})[0]);
    return graph;
  };
  const auto optimized = [](const Graph& graph, Objective objective) {
    const auto device =
        make_profile_device({"d", {1e13, 1e12, 1e-5}, {}}, "profile:d", std::make_unique<testing::RooflineDevice>());
    OptimizeOptions options;
    options.objective = objective;
    const OptimizeResult result = optimize(graph, testing::rules(), *device, *make_reference_evaluator(), nullptr, options);
    CHECK(result.report.objective == name(objective));
    CHECK(result.report.check.ok);
    // The front goes from the fastest graph to the smallest.
    const std::vector<FrontPoint>& front = result.report.front;
    CHECK_FALSE(front.empty());
    for (std::size_t i = 1; i < front.size(); ++i) {
      CHECK(front[i - 1].quantities.seconds < front[i].quantities.seconds);
      CHECK(front[i - 1].quantities.peak_bytes > front[i].quantities.peak_bytes);
    }
    return result.report;
  };
  const OptimizeReport fast = optimized(chain(4), Objective::kLatency);
  CHECK(fast.nodes_after == 1);
  CHECK(fast.quantities_after.seconds < fast.quantities_before.seconds);
  CHECK(fast.quantities_after.peak_bytes > fast.quantities_before.peak_bytes);
  REQUIRE(fast.front.size() == 2);
  CHECK(fast.front[0].quantities.peak_bytes == fast.quantities_after.peak_bytes);
  CHECK(fast.front[1].quantities.seconds == fast.quantities_before.seconds);
  for (const Objective objective : {Objective::kMemory, Objective::kEnergy}) {
    CHECK_FALSE(optimized(chain(4), objective).changed);
    const OptimizeReport small = optimized(chain(250), objective);
    CHECK(small.changed);
    CHECK(small.nodes_after == 1);
    CHECK(small.quantities_after.peak_bytes < small.quantities_before.peak_bytes);
    CHECK(small.quantities_after.moved_bytes < small.quantities_before.moved_bytes);
    CHECK(small.outcome == "chosen by predicted " + small.objective);
  }
  // Graphs are timed where possible and the times reported, but they do not decide.
  testing::RooflineDevice slow;
  slow.rewritten_is_slow = true;
  OptimizeOptions options;
  options.objective = Objective::kMemory;
  const OptimizeResult timed = run(chain(250), slow, options);
  CHECK(timed.report.changed);
  CHECK(timed.report.measured_after > timed.report.measured_before);
}

TEST_CASE("nothing to gain: the input's graph") {
  Graph graph;
  graph.add_output("y", add(graph, "Relu", {graph.add_input("x", floats({2, 2}))})[0]);
  testing::RooflineDevice device;
  const OptimizeResult result = run(graph, device);
  CHECK_FALSE(result.report.changed);
  CHECK(result.report.outcome == "no rewrite was predicted to gain");
}

TEST_CASE("in training weights are not folded") {
  Graph graph;
  const ValueId a = graph.add_constant(weights({3, 3})), b = graph.add_constant(weights({3, 3}, 2));
  graph.add_output("y", add(graph, "MatMul", {graph.add_input("x", floats({2, 3})), add(graph, "Add", {a, b})[0]})[0]);
  testing::RooflineDevice device;
  OptimizeOptions options;
  options.for_training = true;
  CHECK(run(graph, device, options).graph.hash() == graph.hash());
  options.for_training = false;
  CHECK(run(graph, device, options).certificate.steps.size() <= 1);
}

TEST_CASE("folding is exact, keeps to its limit, and shares what is shared") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({1000}));
  const ValueId small = graph.add_constant(weights({1000}));
  const ValueId twice = add(graph, "Add", {small, small})[0];
  graph.add_output("y", add(graph, "Add", {x, twice})[0]);
  const Operator& expand = registry().get("Expand");
  Attributes shape = expand.defaults();
  shape[*expand.field("shape")] = Indices{2000, 1000};
  const ValueId large = graph.add_node(expand, shape, {twice})[0];
  graph.add_output("z", add(graph, "Add", {x, large})[0]);
  FoldOptions options;
  CHECK(foldable(graph, options) == std::vector<ValueId>{twice});
  options.max_bytes = 10000000;
  CHECK(foldable(graph, options).size() == 2);
  const auto evaluator = make_reference_evaluator();
  const ValueId one[] = {twice};
  const Graph folded = fold(graph, one, *evaluator);
  CHECK(folded.is_constant(twice));
  CHECK(folded.value(twice).constant.reals()[3] == 2 * graph.value(small).constant.reals()[3]);
  const ValueId input[] = {x};
  CHECK_THROWS_WITH(fold(graph, input, *evaluator), Catch::Contains("not computed from constants"));
}

TEST_CASE("constants inside of calls that are written as they stand are not folded") {
  const std::string bytes = text_bytes(R"(agraph (float[2, 16] x) => (float[2, 3] y, float[3, 1] z)
    <uint8[3, 1, 8] q = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24},
     float[3, 1] s = {0.5, 1, 2}> {
      y = com.microsoft.MatMulNBits <K: int = 16, N: int = 3, bits: int = 4, block_size: int = 16> (x, q, s)
      m = ReduceMax <keepdims = 0> (x)
      r = Add(s, s)
      z = Mul(m, r)
    })",
                                       17, ", \"com.microsoft\" : 1");
  const Graph graph = import_onnx_bytes(bytes, "test");
  const std::vector<ValueId> folded = foldable(graph, {});
  REQUIRE(folded.size() == 1);
  CHECK(graph.value(folded[0]).name == "r");
}

TEST_CASE("what folding only moves stays as it is, bit by bit") {
  Graph graph;
  Tensor numbers(DataType::kFloat, {3, 2});
  // NaNs with payloads (the interpreter quiets signalling ones), an infinity, -0, a subnormal number, one.
  const std::uint32_t bits[] = {0xffc12345, 0x7fc54321, 0xff800000, 0x80000000, 0x00000001, 0x3f800000};
  std::memcpy(numbers.mutable_bytes().data(), bits, sizeof bits);
  const ValueId w = graph.add_constant(numbers);
  const Operator& transpose = registry().get("Transpose");
  Attributes turn = transpose.defaults();
  turn[*transpose.field("perm")] = Indices{1, 0};
  const ValueId turned = graph.add_node(transpose, turn, {w})[0];
  const ValueId doubled = add(graph, "Add", {w, w})[0];
  graph.add_output("y", add(graph, "MatMul", {graph.add_input("x", floats({4, 2})), turned})[0]);
  graph.add_output("z", add(graph, "Add", {graph.add_input("v", floats({3, 2})), doubled})[0]);
  const ValueId both[] = {turned, doubled};
  const Graph folded = fold(graph, both, *make_reference_evaluator());
  const auto moved = folded.value(turned).constant.data<std::uint32_t>();
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < 2; ++k) CHECK(moved[k * 3 + i] == bits[2 * i + k]);
  CHECK(folded.value(doubled).constant.reals()[5] == 2);
  CHECK(std::isnan(folded.value(doubled).constant.reals()[0]));
}

TEST_CASE("a rule is used only where the model's opset has the operators of its target") {
  for (const int opset : {16, 17}) {
    const Graph graph = import_onnx_bytes(text_bytes(R"(agraph (float[2, 4] x) => (float[2, 4] y)
      <float e = {1e-5}, float[4] s = {1, 2, 3, 4}, float[4] b = {1, 1, 2, 2}> {
        m = ReduceMean <axes = [-1]> (x)
        d = Sub(x, m)
        q = Mul(d, d)
        v = ReduceMean <axes = [-1]> (q)
        ve = Add(v, e)
        r = Sqrt(ve)
        n = Div(d, r)
        sc = Mul(n, s)
        y = Add(sc, b)
      })",
                                                     opset),
                                          "test");
    testing::RooflineDevice device;
    const OptimizeResult result = run(graph, device, {}, shipped_rules().rules());
    const auto nodes = result.graph.nodes();
    const bool fused =
        std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return node->op->name() == "LayerNormalization"; });
    CHECK(fused == (opset >= 17));
  }
}

TEST_CASE("a weight that is read elsewhere as well is not written a second time") {
  for (const bool tied : {false, true}) {
    Graph graph;
    const ValueId x = graph.add_input("x", floats({4, 64}));
    const ValueId w = graph.add_constant(weights({64, 64}));
    const Operator& transpose = registry().get("Transpose");
    Attributes turn = transpose.defaults();
    turn[*transpose.field("perm")] = Indices{1, 0};
    const ValueId turned = graph.add_node(transpose, turn, {w})[0];
    ValueId y = add(graph, "MatMul", {x, turned})[0];
    if (tied) y = add(graph, "MatMul", {y, w})[0];
    graph.add_output("y", y);
    FoldOptions options;
    options.max_bytes = 100;
    CHECK(foldable(graph, options) == (tied ? std::vector<ValueId>{} : std::vector<ValueId>{turned}));
  }
}

TEST_CASE("a chain of constants is rounded once") {
  Graph graph;
  const ValueId a = graph.add_constant(Tensor::scalar(DataType::kFloat, 1)),
                b = graph.add_constant(Tensor::scalar(DataType::kFloat, 3e-8));
  ValueId sum = a;
  for (int i = 0; i < 4; ++i) sum = add(graph, "Add", {sum, b})[0];
  graph.add_output("y", add(graph, "Mul", {graph.add_input("x", floats({2})), sum})[0]);
  const ValueId one[] = {sum};
  const Graph folded = fold(graph, one, *make_reference_evaluator());
  CHECK(folded.value(sum).constant.reals()[0] > 1);  // in float every sum would have been 1
}

TEST_CASE("certificates that do not fit are refused") {
  const Graph graph = testing::adapters(2, 32, 4);
  testing::RooflineDevice device;
  const OptimizeResult result = run(graph, device);
  REQUIRE(result.report.changed);
  const auto evaluator = make_reference_evaluator();
  CHECK_THROWS_WITH(replay(testing::adapters(3, 32, 4), result.certificate, testing::rules(), *evaluator),
                    Catch::Contains("for another model"));
  std::vector<Rule> fewer = testing::rules();
  fewer.erase(fewer.begin() + 1);
  CHECK_THROWS_WITH(replay(graph, result.certificate, fewer, *evaluator), Catch::Contains("is not in the rules"));
  Certificate broken = result.certificate;
  for (CertificateStep& step : broken.steps)
    if (!step.rewrites.empty()) step.rewrites[0].where[0] = 1000000;
  CHECK_THROWS_WITH(replay(graph, broken, testing::rules(), *evaluator), Catch::Contains("does not fit"));
  broken = result.certificate;
  for (CertificateStep& step : broken.steps)
    if (!step.region.empty()) step.region.back() = 1000000;
  CHECK_THROWS_WITH(replay(graph, broken, testing::rules(), *evaluator), Catch::Contains("not in the graph"));
  CHECK_THROWS_WITH(parse_certificate("{}", "c.json"), Catch::Contains("c.json"));
  CHECK_THROWS_WITH(parse_certificate("nonsense", "c.json"), Catch::Contains("not a certificate"));
}

}  // namespace rewright::optimizer
