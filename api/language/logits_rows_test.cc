#include "api/language/logits_rows.h"

#include <catch2/catch.hpp>
#include <random>

#include "graph/onnx/calls.h"
#include "graph/testing.h"

namespace rewright::api {

namespace {

// A model that ends as language models do: weights, perhaps a bias, perhaps a soft cap, behind something that mixes places.
Graph model(std::mt19937& random, bool adds_itself = false, bool mixes_behind = false) {
  const Index batch = Index::symbol("b"), length = Index::symbol("s");
  Graph g;
  const ValueId x = g.add_input("x", {DataType::kFloat, {batch, length, 5}});
  const auto constant = [&](Sizes sizes) {
    const Indices shape(sizes.begin(), sizes.end());
    return g.add_constant(testing::random_tensor({DataType::kFloat, shape}, random));
  };
  const auto add = [&](const char* name, std::vector<ValueId> inputs, Attributes attributes = {}) {
    return g.add_node(registry().get(name), std::move(attributes), std::move(inputs)).at(0);
  };
  ValueId v = add("Mul", {x, add("Tanh", {x})});
  // One of both mixes places.
  const auto softmax = [&] { return add("Softmax", {v}, {Index(1 + static_cast<std::int64_t>(random() % 2)), false}); };
  if (random() % 2) v = softmax();
  v = add("MatMul", {v, constant({5, 7})});
  if (mixes_behind && random() % 2) v = softmax();
  if (random() % 2) v = add("Add", {v, constant({7})});
  if (random() % 2) v = add("Mul", {constant({1}), add("Tanh", {add("Div", {v, constant({1})})})});
  if (adds_itself) v = add("Add", {v, v});
  g.add_output("logits", v);
  return g;
}

Graph with_logits_of(Graph graph) { return with_selected_logits(std::move(graph), "logits"); }

}  // namespace

TEST_CASE("selected logits are those of all places at these places") {
  std::mt19937 random(1);
  for (int i = 0; i < 80; ++i) {
    const auto batch = static_cast<std::int64_t>(1 + random() % 3), length = static_cast<std::int64_t>(1 + random() % 4);
    const Graph whole = model(random, random() % 3 == 0, true), selected = with_logits_of(whole);
    REQUIRE(selected.inputs().size() == 2);
    const Tensor x = testing::random_tensor({DataType::kFloat, {batch, length, 5}}, random);
    std::vector<std::int64_t> rows;
    for (std::int64_t b = 0; b < batch; ++b) rows.push_back(static_cast<std::int64_t>(random() % length));
    const std::vector<Tensor> all = interpret(whole, std::vector{x});
    const std::vector<Tensor> some =
        interpret(selected, std::vector{x, Tensor::from_integers(DataType::kInt64, {batch, 1, 1}, rows)});
    REQUIRE(some[0].sizes() == Sizes{batch, 1, 7});
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t t = 0; t < 7; ++t)
        CHECK(some[0].data<float>()[b * 7 + t] == Approx(all[0].data<float>()[(b * length + rows[b]) * 7 + t]));
  }
}

TEST_CASE("the product with weights is computed for the selected places only") {
  std::mt19937 random(2);
  for (int i = 0; i < 20; ++i) {
    const Graph selected = with_logits_of(model(random));
    for (const std::shared_ptr<const Node>& node : selected.nodes())
      if (node->op->name() == "MatMul") CHECK(selected.value(node->outputs[0]).type.shape[1] == Index(1));
  }
}

TEST_CASE("calls of functions stay whole") {
  // A product that is computed for the selected places, behind a call in whose middle a softmax mixes places.
  const Graph selected = with_logits_of(testing::import_text(R"(agraph (float[b, s, 16] x) => (float[b, s, 3] logits)
      <uint8[3, 1, 8] q = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24},
       float[3, 1] scales = {0.5, 1, 2}> {
        v = local.mixed (x)
        logits = com.microsoft.MatMulNBits <K: int = 16, N: int = 3, bits: int = 4, block_size: int = 16> (v, q, scales)
      }
      <domain: "local", opset_import: ["" : 17]> mixed (p) => (r) {
        t = Tanh (p)
        m = Softmax <axis: int = 1> (t)
        r = Tanh (m)
      })",
                                                             17, {}, ", \"local\" : 1, \"com.microsoft\" : 1"));
  CHECK(intact_expansions(selected).size() == 2);
  const ValueId logits = selected.outputs()[0].value;
  CHECK(selected.value(logits).type.shape[1] == Index(1));
  std::int64_t calls = 0;
  with_whole_calls(selected, [&](const WholeCall& call) {
    const bool is_last = call.outputs[0] == logits;
    calls += is_last && selected.value(call.inputs[0]).type.shape[1] == Index(1) ? 1 : 0;
    return std::optional<Node>();
  });
  CHECK(calls == 1);
}

TEST_CASE("a model without logits of three axes is refused") {
  Graph g;
  const ValueId x = g.add_input("x", {DataType::kFloat, {2, 3}});
  g.add_output("logits", x);
  CHECK_THROWS_WITH(with_selected_logits(g, "logits"), Catch::Contains("three axes"));
  CHECK_THROWS_WITH(with_selected_logits(g, "y"), Catch::Contains("no output \"y\""));
}

}  // namespace rewright::api
