// ONNX's Gradient, which import replaces by the nodes that compute it.
#include <catch2/catch.hpp>

#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"

namespace rewright::graph {

namespace {

Graph imported(const std::string& graph) {
  return import_onnx_bytes(text_bytes(graph, 17, ", \"ai.onnx.preview.training\" : 1"), "test");
}

std::vector<std::vector<double>> results(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<std::vector<double>> all;
  for (const Tensor& t : interpret(graph, inputs)) all.push_back(t.reals());
  return all;
}

Tensor row(const std::vector<double>& values) {
  return Tensor::from_reals(DataType::kFloat, {static_cast<std::int64_t>(values.size())}, values);
}

}  // namespace

TEST_CASE("a gradient is computed by the nodes that it is made of, wherever its node stands in the file") {
  const Graph graph = imported(R"(agraph (float[2] x, float[2] w) => (float[2] dx, float[2] dw) {
    dx, dw = ai.onnx.preview.training.Gradient <xs = ["x", "w"], y = "y"> (x, w)
    p = Mul(x, w)
    y = Mul(p, w)
  })");
  for (const auto& node : graph.nodes()) CHECK(node->op != nullptr);
  CHECK(results(graph, {row({1, 2}), row({3, 4})}) == std::vector<std::vector<double>>{{9, 16}, {6, 16}});
  // The exported model has no Gradient and computes the same.
  const std::string bytes = export_onnx_bytes(graph);
  CHECK(bytes.find("Gradient") == std::string::npos);
  CHECK(results(import_onnx_bytes(bytes, "again"), {row({1, 2}), row({3, 4})}) ==
        std::vector<std::vector<double>>{{9, 16}, {6, 16}});
}

TEST_CASE("a gradient in a value between, and one that is skipped") {
  const Graph graph = imported(R"(agraph (float[2] x, float[2] w) => (float[2] y, float[2] dw, float[2] dh) {
    h = Exp(x)
    y = Mul(h, w)
    dh, dw = ai.onnx.preview.training.Gradient <xs = ["h", "w"], y = "y"> (h, w)
    unused, dv = ai.onnx.preview.training.Gradient <xs = ["h", "w"], y = "y"> (h, w)
  })");
  const auto found = results(graph, {row({0, 0}), row({3, 4})});
  CHECK(found[1] == std::vector<double>{1, 1});
  CHECK(found[2] == std::vector<double>{3, 4});
}

TEST_CASE("gradients of gradients") {
  const Graph graph = imported(R"(agraph (float[2] x) => (float[2] second, float[2] none) {
    square = Mul(x, x)
    y = Mul(square, x)
    first = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (x)
    second = ai.onnx.preview.training.Gradient <xs = ["x"], y = "first"> (x)
    third = ai.onnx.preview.training.Gradient <xs = ["x"], y = "second"> (x)
    none = ai.onnx.preview.training.Gradient <xs = ["x"], y = "third"> (x)
  })");
  CHECK(results(graph, {row({1, 2})}) == std::vector<std::vector<double>>{{6, 12}, {0, 0}});
}

TEST_CASE("a gradient at other values than those of the graph") {
  const Graph graph = imported(R"(agraph (float[2] x, float[2] z, float[2] other) => (float[2] y, float[2] dx) {
    s = Sin(x)
    p = Mul(s, s)
    y = Mul(p, z)
    twice = Add(other, other)
    dx = ai.onnx.preview.training.Gradient <xs = ["s"], zs = ["z"], y = "y"> (twice, z)
  })");
  const auto found = results(graph, {row({0, 0}), row({1, 2}), row({3, 4})});
  CHECK(found[0] == std::vector<double>{0, 0});
  CHECK(found[1] == std::vector<double>{12, 32});
}

TEST_CASE("a Gradient that is not understood stays, and says why") {
  const auto reason = [](const std::string& nodes) {
    const Graph graph = imported("agraph (float[2] x, int64[2] n) => (dx) {" + nodes + "}");
    return graph.nodes().back()->opaque_reason;
  };
  CHECK(reason(R"(
    y = Add(x, x)
    dx = ai.onnx.preview.training.Gradient <xs = ["elsewhere"], y = "y"> (x))") ==
        "\"elsewhere\" is not defined where the node stands");
  CHECK(reason(R"(
    i = Add(n, n)
    dx = ai.onnx.preview.training.Gradient <xs = ["x"], y = "i"> (x))") ==
        "\"i\" is no tensor of real elements with known axes");
  CHECK_THROWS_WITH(reason(R"(
    y = Add(x, x)
    dx, dy = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (x))"),
                    Catch::Contains("has 2 outputs, its xs name 1"));
  CHECK_THROWS_WITH(reason(R"(
    y = Add(x, x)
    dx = ai.onnx.preview.training.Gradient <xs = ["x"], zs = ["x"], y = "y"> (x))"),
                    Catch::Contains("has 1 inputs, its xs and zs name 2"));
}

}  // namespace rewright::graph
