#include "graph/onnx/release.h"

#include <catch2/catch.hpp>
#include <memory>

#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"

namespace rewright::graph {
namespace {

TEST_CASE("a graph without its weights' elements is written as one that has them, once it is given others") {
  const Graph graph = import_onnx_bytes(text_bytes(R"(
    g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] kept = {3, 4}> {
      c = Constant <value = float[2] {5, 6}> ()
      a = local.Scaled(x, w)
      b = Mul(a, c)
      y = Add(b, kept)
    }
    <domain: "local", opset_import: ["" : 17]> Scaled (p, q) => (r) { r = Mul(p, q) })",
                                                   17, ", \"local\" : 1"),
                                        "model");
  std::vector<ValueId> released;
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (graph.is_constant(v) && graph.value(v).name != "kept") released.push_back(v);
  REQUIRE(released.size() == 2);
  Graph lean = graph, whole = graph;
  release_constants(lean, released);
  for (const ValueId v : released) {
    CHECK(!lean.is_constant(v));
    CHECK(lean.value(v).name == graph.value(v).name);
    CHECK(lean.value(v).type == graph.value(v).type);
    CHECK(graph.is_constant(v));
  }
  for (Graph* g : {&lean, &whole})
    for (const ValueId v : released) g->set_constant(v, Tensor::from_reals(DataType::kFloat, {2}, std::vector<double>{7, 8}));
  CHECK(export_onnx_bytes(lean) == export_onnx_bytes(whole));
  CHECK(import_onnx_bytes(export_onnx_bytes(lean), "again").hash() == whole.hash());
}

TEST_CASE("what a graph forgets is let go") {
  const auto memory = std::make_shared<const std::vector<float>>(4, 1.0f);
  Graph graph;
  const Tensor tensor(DataType::kFloat, {4}, memory, reinterpret_cast<const std::byte*>(memory->data()));
  const ValueId w = graph.add_constant(tensor, "w");
  CHECK(memory.use_count() == 3);
  release_constants(graph, {&w, 1});
  CHECK(memory.use_count() == 2);
}

}  // namespace
}  // namespace rewright::graph
