#include <catch2/catch.hpp>
#include <random>

#include "graph/graph.h"
#include "graph/onnx/onnx.h"
#include "graph/testing.h"

namespace rewright::graph {

namespace {

using testing::floats;
using testing::import_text;
using testing::int64s;

Tensor truth(bool value) { return Tensor::from_integers(DataType::kBool, {}, std::vector<std::int64_t>{value}); }

}  // namespace

TEST_CASE("branches see what they capture") {
  const Graph graph = import_text(R"(agraph (bool c, float[2] x, float[2] z) => (float[2] y) {
    w = Relu(z)
    y = If (c) <then_branch = t () => (float[2] a) { a = Neg(x) }, else_branch = e () => (float[2] b) { b = Add(w, x) }>
  })");
  const Tensor x = floats({2}, {1, 2}), z = floats({2}, {-5, 7});
  CHECK(interpret(graph, std::vector{truth(true), x, z})[0].reals() == std::vector<double>{-1, -2});
  CHECK(interpret(graph, std::vector{truth(false), x, z})[0].reals() == std::vector<double>{1, 9});
}

TEST_CASE("loops carry values, stack others, and end where the condition says") {
  const Graph graph = import_text(R"(agraph (int64 m, float s) => (float total, float[K] all) {
    yes = Constant <value = bool {1}> ()
    total, all = Loop (m, yes, s) <body = b (int64 i, bool c, float v) => (bool go, float next, float out) {
      step = Cast <to = 1> (i)
      next = Add(v, step)
      out = Mul(next, s)
      limit = Constant <value = float {100}> ()
      go = Less(next, limit)
    }>
  })");
  const auto few = interpret(graph, std::vector{int64s({}, {4}), floats({}, {2})});
  CHECK(few[0].reals() == std::vector<double>{8});
  CHECK(few[1].reals() == std::vector<double>{4, 6, 10, 16});
  const auto many = interpret(graph, std::vector{int64s({}, {1000}), floats({}, {0})});
  CHECK(many[0].reals() == std::vector<double>{105});  // 0 + 1 + ... + 14
  CHECK(many[1].sizes() == Sizes{15});
}

TEST_CASE("a loop that never ends is ended by its checkpoint") {
  const Graph graph = import_text(R"(agraph (float s) => (float total) {
    yes = Constant <value = bool {1}> ()
    total = Loop ("", yes, s) <body = b (int64 i, bool c, float v) => (bool go, float next) {
      next = Identity(v)
      go = Identity(c)
    }>
  })");
  int steps = 0;
  const std::vector<Datum> inputs{floats({}, {1})};
  CHECK_THROWS_WITH(execute(graph, inputs,
                            [&] {
                              if (++steps > 200) throw Error(ErrorCode::kUsage, "enough");
                            }),
                    Catch::Contains("enough"));
}

TEST_CASE("sizes that only elements tell are known behind them") {
  const Graph graph = import_text(R"(agraph (float[N] x) => (float[K] y, int64[1] n) {
    zero = Constant <value = float {0}> ()
    positive = Greater(x, zero)
    chosen = Compress <axis = 0> (x, positive)
    y = Neg(chosen)
    n = Shape(chosen)
  })");
  const auto results = interpret(graph, std::vector{floats({5}, {1, -2, 3, 0, 5})});
  CHECK(results[0].reals() == std::vector<double>{-1, -3, -5});
  CHECK(results[1].integers() == std::vector<std::int64_t>{3});
}

TEST_CASE("sequences go through a model") {
  const Graph graph = import_text(R"(agraph (float[4, 2] x) => (float[4, 2] y, int64 n) {
    parts = SplitToSequence <axis = 0> (x)
    n = SequenceLength(parts)
    last = Constant <value = int64 {-1}> ()
    part = SequenceAt(parts, last)
    longer = SequenceInsert(parts, part)
    shorter = SequenceErase(longer, last)
    y = ConcatFromSequence <axis = 0> (shorter)
  })");
  std::mt19937 random(1);
  std::vector<double> values(8);
  for (double& v : values) v = static_cast<double>(random() % 100);
  const auto results = interpret(graph, std::vector{floats({4, 2}, values)});
  CHECK(results[0].reals() == values);
  CHECK(results[1].integers() == std::vector<std::int64_t>{4});
}

TEST_CASE("functions of a model and of ONNX are executed and written back as they were") {
  const std::string text = R"(agraph (float[2, 3] x, int64[2] t) => (float y) {
    a = local.twice <by = 2.5> (x)
    y = NegativeLogLikelihoodLoss <reduction = "sum"> (a, t)
  }
  <domain: "local", opset_import: ["" : 17]>
  twice <by> (v) => (w) {
    unused = Neg(v)
    factor = Constant <value_float: float = @by> ()
    w = Mul(v, factor)
  })";
  const Graph graph = import_onnx_bytes(text_bytes(text, 17, ", \"local\" : 1"), "test");
  for (const auto& node : graph.nodes()) CHECK(node->op != nullptr);
  const auto result = interpret(graph, std::vector{floats({2, 3}, {1, 2, 3, 4, 5, 6}), int64s({2}, {2, 0})});
  CHECK(result[0].reals()[0] == Approx(-2.5 * (3 + 4)));

  Graph tidied = graph;
  tidied.tidy();
  onnx::ModelProto written;
  REQUIRE(written.ParseFromString(export_onnx_bytes(tidied)));
  REQUIRE(written.graph().node_size() == 2);
  CHECK(written.graph().node(0).op_type() == "twice");
  CHECK(written.graph().node(1).op_type() == "NegativeLogLikelihoodLoss");

  // After a change inside a call, its body is written instead of the call.
  Graph changed = graph;
  const ValueId product = changed.nodes()[0]->outputs[0];
  const ValueId replaced = changed.add_node(registry().get("Relu"), {}, {product}).at(0);
  std::vector<std::shared_ptr<const Node>> nodes(changed.nodes().begin(), changed.nodes().end());
  changed.drop_nodes_from(0);
  for (const auto& node : nodes) {
    Node copy = *node;
    if (copy.op->name() != "Relu" && copy.op->name() != "Mul") {
      for (ValueId& id : copy.inputs) id = id == product ? replaced : id;
      copy.expansion_member = node->expansion_member;
    }
    changed.add_raw(std::move(copy));
  }
  changed.tidy();
  REQUIRE(written.ParseFromString(export_onnx_bytes(changed)));
  const Graph again = import_onnx_bytes(written.SerializeAsString(), "again");
  CHECK(interpret(again, std::vector{floats({2, 3}, {-1, 2, 3, 4, 5, 6}), int64s({2}, {0, 0})})[0].reals()[0] == Approx(-10));
}

TEST_CASE("functions that double their size are not expanded beyond a limit") {
  std::string text = "agraph (float[2] x) => (float[2] y) { y = local.f0(x) }\n";
  for (int i = 0; i < 40; ++i) {
    const std::string next = i == 39 ? "Neg" : "local.f" + std::to_string(i + 1);
    text += "<domain: \"local\", opset_import: [\"\" : 17, \"local\" : 1]>\nf" + std::to_string(i) +
            " (v) => (w) { a = " + next + "(v) w = " + next + "(a) }\n";
  }
  const Graph graph = import_onnx_bytes(text_bytes(text, 17, ", \"local\" : 1"), "test");
  REQUIRE(graph.nodes().size() == 1);
  CHECK_THAT(graph.nodes()[0]->opaque_reason, Catch::Contains("too big"));
}

TEST_CASE("tensors without elements have the results that mathematics gives them") {
  const Graph graph = import_text(R"(agraph (float[N, 3] x, float[4, M] z) => (a, b, c, d, e, f)
    <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[4] bias = {1, 2, 3, 4}, int64[1] first = {0}> {
    a = MatMul(x, w)
    b = ReduceSum(x, first)
    sum = ReduceSum(z)
    c = Identity(sum)
    d = Softmax <axis = 1> (x)
    e = Concat <axis = 0> (x, x)
    t = Transpose(z)
    product = MatMul(z, t)
    f = Add(product, bias)
  })");
  const auto results = interpret(graph, std::vector{floats({0, 3}, {}), floats({4, 0}, {})});
  CHECK(results[0].sizes() == Sizes{0, 2});
  CHECK(results[1].reals() == std::vector<double>{0, 0, 0});
  CHECK(results[2].reals() == std::vector<double>{0});
  CHECK(results[3].sizes() == Sizes{0, 3});
  CHECK(results[4].sizes() == Sizes{0, 3});
  CHECK(results[5].reals() == std::vector<double>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
}

TEST_CASE("parts without elements are left out of a concatenation, unless they do not fit") {
  const Graph graph = import_text(
      "agraph (float[2, 3] x) => (float[2, 3] y) <float[0, 3] none = {}> "
      "{ y = Concat <axis = 0> (none, x, none) }");
  REQUIRE(graph.nodes().size() == 1);
  CHECK(graph.nodes()[0]->inputs.size() == 1);
  CHECK_THROWS_AS(import_text("agraph (float[2, 3] x) => (y) <float[0, 4] none = {}> { y = Concat <axis = 0> (x, none) }"),
                  Error);
}

}  // namespace rewright::graph
