#include <catch2/catch.hpp>

#include <random>

#include "graph/onnx/import/specialize.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"

namespace rewright::graph {

namespace {

Tensor counted(const Sizes& sizes) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(sizes); ++i) values.push_back(static_cast<double>(i % 17) - 3);
  return Tensor::from_reals(DataType::kFloat, sizes, values);
}

// Sizes with distinct names, and values computed from them after broadcasting.
constexpr const char* kModels[] = {
    "agraph (float[a, b] x, float[c, d] y) => (float[m, n] z) { z = Add(x, y) }",
    "agraph (float[a, b] x, float[c, d] y) => (int64[2] z) { s = Mul(x, y)\n z = Shape(s) }",
    "agraph (float[a, b] x, float[c, d] y) => (float[m] z) <int64[1] all = {-1}> { s = Sub(x, y)\n z = Reshape(s, all) }",
    ("agraph (float[a, b] x, float[c, d] y) => (float[m, n] z) { s = Add(x, y)\n t = Shape(s)\n u = Expand(y, t)\n z = Mul(u, "
     "s) }"),
    "agraph (float[a, b] x, float[c, d] y) => (float[m, n] z) { s = Shape(y)\n z = Expand(x, s) }",
    "agraph (float[a, b] x, float[c, d] y) => (float[m, n] z) { s = Shape(y)\n e = Expand(x, s)\n z = Add(e, x) }",
    "agraph (float[a, b] x, float[c, d] y) => (float[m, n] z) { g = Greater(x, y)\n z = Where(g, x, y) }",
};

}  // namespace

TEST_CASE("sizes of different names that turn out to be broadcast") {
  std::mt19937 random(5);
  std::uniform_int_distribution<int> either(0, 1);
  for (const char* text : kModels) {
    INFO(text);
    const std::string bytes = text_bytes(text);
    const Graph open = import_onnx_bytes(bytes, "test");
    const OpenGraph prepared(open);
    for (int round = 0; round < 12; ++round) {
      const auto sizes = [&] { return Sizes{either(random) ? 3 : 1, either(random) ? 4 : 1}; };
      const Tensor inputs[] = {counted(sizes()), counted(sizes())};
      ImportOptions known;
      known.input_sizes = {{"x", inputs[0].sizes()}, {"y", inputs[1].sizes()}};
      const Tensor expected = interpret(import_onnx_bytes(bytes, "test", known), inputs).at(0);
      const Graph graph = specialized(open, inputs);
      CHECK(to_string(specialized(prepared, inputs)) == to_string(graph));
      CHECK(values(graph.outputs()[0].type.shape) == expected.sizes());
      const Tensor found = interpret(graph, inputs).at(0);
      CHECK(found.sizes() == expected.sizes());
      CHECK(found.reals() == expected.reals());
    }
  }
}

TEST_CASE("sizes that no name explains are an error") {
  const Graph open = import_onnx_bytes(text_bytes(kModels[0]), "test");
  const Tensor inputs[] = {counted({3, 1}), counted({1, 4})};
  CHECK_THROWS_WITH(with_sizes(open, bind_sizes(open, inputs)), Catch::Contains("not float[3, 1]"));
  const Tensor unfit[] = {counted({3, 2}), counted({3, 4})};
  CHECK_THROWS_WITH(specialized(open, unfit), Catch::Contains("cannot be broadcast"));
}

}  // namespace rewright::graph
