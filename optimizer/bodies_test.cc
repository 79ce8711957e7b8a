// Graphs inside nodes, optimized and replayed.
#include <catch2/catch.hpp>

#include "graph/onnx/body.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"
#include "optimizer/certificates/replay.h"
#include "optimizer/optimize.h"
#include "optimizer/testing.h"

namespace rewright::optimizer {

namespace {

constexpr const char* kNested = R"(agraph (int64 m, bool which, float[4, 8] x) => (float[4, 8] y)
  <float[8, 2] a = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
   float[2, 8] b = {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12, 13, -14, 15, -16}> {
    yes = Constant <value = bool {1}> ()
    y = Loop (m, yes, x) <body = inner (int64 i, bool c, float[4, 8] v) => (bool go, float[4, 8] next) {
      go = Identity(c)
      next = If (which) <
        then_branch = t () => (float[4, 8] p) { low = MatMul(v, a)
          high = MatMul(low, b)
          p = Tanh(high) },
        else_branch = e () => (float[4, 8] q) { r = Relu(v)
          rr = Relu(r)
          q = Relu(rr) }>
    }>
  })";

OptimizeResult run(const Graph& graph, const OptimizeOptions& options) {
  testing::RooflineDevice device;
  return optimize(graph, testing::rules(), device, *make_reference_evaluator(), nullptr, options);
}

Graph body_at(const Graph& graph, std::size_t position, const std::string& attribute) {
  return body_of(graph, *graph.nodes()[position], attribute, outer_names(graph));
}

}  // namespace

TEST_CASE("bodies in bodies are rewritten, and the certificate says in which") {
  const Graph graph = import_onnx_bytes(text_bytes(kNested), "test");
  OptimizeOptions options;
  options.time_graphs = false;
  const OptimizeResult result = run(graph, options);
  CHECK(result.report.changed);
  CHECK(result.report.check.ok);
  CHECK(result.report.rules_applied.size() >= 3);

  REQUIRE(result.graph.nodes().size() == 1);
  const Graph loop = body_at(result.graph, 0, "body");
  std::size_t branch = 0;
  while (bodies_of(*loop.nodes()[branch]).empty()) ++branch;
  CHECK(body_at(loop, branch, "then_branch").nodes().size() == 2);  // one product; its weights were multiplied in advance
  CHECK(body_at(loop, branch, "else_branch").nodes().size() == 1);

  REQUIRE(result.certificate.steps.size() == 1);
  REQUIRE(result.certificate.steps[0].bodies.size() == 1);
  const BodySteps& outer = result.certificate.steps[0].bodies[0];
  CHECK(outer.attribute == "body");
  REQUIRE(outer.steps.at(0).bodies.size() == 2);
  CHECK(outer.steps[0].bodies[0].attribute == "then_branch");
  CHECK(outer.steps[0].bodies[1].attribute == "else_branch");

  const std::string text = to_json(result.certificate);
  const Certificate read = parse_certificate(text, "certificate");
  CHECK(to_json(read) == text);
  const Graph again = replay(graph, read, testing::rules(), *make_reference_evaluator());
  CHECK(again.hash() == result.graph.hash());
  CHECK(export_onnx_bytes(again) == export_onnx_bytes(result.graph));
}

TEST_CASE("a gain in a body that is not measured is none") {
  const Graph graph = import_onnx_bytes(text_bytes(kNested), "test");
  const OptimizeResult result = run(graph, {});  // the device's times do not count the work of loops
  CHECK_FALSE(result.report.changed);
  CHECK(export_onnx_bytes(result.graph) == export_onnx_bytes(graph));
}

TEST_CASE("certificates whose bodies are not there, or are nested beyond reason, are refused") {
  const Graph graph = import_onnx_bytes(text_bytes(kNested), "test");
  OptimizeOptions options;
  options.time_graphs = false;
  const Certificate certificate = run(graph, options).certificate;
  const auto replayed = [&](const Certificate& c) { return replay(graph, c, testing::rules(), *make_reference_evaluator()); };
  Certificate other = certificate;
  other.steps[0].bodies[0].attribute = "tail";
  CHECK_THROWS_AS(replayed(other), Error);
  other = certificate;
  other.steps[0].bodies[0].result = 100000;
  CHECK_THROWS_WITH(replayed(other), Catch::Contains("there is no node with the body"));
  other = certificate;
  other.steps[0].bodies[0].steps.pop_back();
  CHECK_THROWS_AS(replayed(other), Error);
  for (int depth = 0; depth < 200; ++depth) {
    CertificateStep outer;
    outer.kind = CertificateStep::Kind::kBodies;
    outer.bodies.push_back({0, "body", "", other.steps});
    other.steps = {outer};
  }
  CHECK_THROWS_WITH(parse_certificate(to_json(other), "certificate"), Catch::Contains("nested too deep"));
}

}  // namespace rewright::optimizer
