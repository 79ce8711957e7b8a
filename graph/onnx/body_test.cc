#include "graph/onnx/body.h"

#include <catch2/catch.hpp>

#include "graph/onnx/onnx.h"
#include "graph/testing.h"

namespace rewright::graph {

namespace {

using testing::floats;
using testing::import_text;
using testing::int64s;

// The position of the only node with a graph inside.
std::size_t position_of_body(const Graph& graph) {
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    if (!bodies_of(*graph.nodes()[n]).empty()) return n;
  FAIL("there is no node with a graph inside");
  return 0;
}

Graph body_in(const Graph& graph, const std::string& attribute) {
  return body_of(graph, *graph.nodes()[position_of_body(graph)], attribute, outer_names(graph));
}

std::string type_of_input(const Graph& graph, std::size_t i) {
  const Value& value = graph.value(graph.inputs()[i]);
  return value.shape_known ? to_string(value.type) : "unknown";
}

// Replaces every Neg of a body by the operator `op`.
Graph with_negs_replaced(const Graph& graph, const std::string& attribute, const std::string& op) {
  const std::size_t at = position_of_body(graph);
  Graph body = body_in(graph, attribute);
  for (const auto& node : std::vector(body.nodes().begin(), body.nodes().end()))
    if (node->op != nullptr && node->op->name() == "Neg")
      body.replace_uses(node->outputs[0], body.add_node(registry().get(op), {}, {node->inputs[0]}).at(0));
  body.tidy();
  return with_nodes(graph, {{at, with_body(*graph.nodes()[at], attribute, body)}});
}

constexpr const char* kLoop = R"(agraph (int64 m, float[N, 3] x, float[3] b) => (float[N, 3] y, float[K, N, 3] all)
  <float[3] w = {1, 2, 3}> {
    yes = Constant <value = bool {1}> ()
    y, all = Loop (m, yes, x) <body = inner (int64 i, bool c, float[N, 3] v) => (bool go, float[N, 3] next, float[N, 3] out)
      <float[3] own = {1, 1, 1}> {
        go = Identity(c)
        a = Add(v, w)
        s = Add(a, own)
        next = Neg(s)
        out = Mul(next, b)
      }>
  })";

}  // namespace

TEST_CASE("a body is a graph with its own inputs, what it captures, and constants from outside") {
  const Graph graph = import_text(kLoop);
  const Graph body = body_in(graph, "body");
  REQUIRE(body.inputs().size() == 4);
  CHECK(type_of_input(body, 0) == "int64[]");
  CHECK(type_of_input(body, 1) == "bool[]");
  CHECK(type_of_input(body, 2) == "float[N, 3]");
  CHECK(body.value(body.inputs()[3]).name == "b");
  bool captured = false;
  for (ValueId id = 0; id < body.value_count(); ++id)
    captured = captured || (body.value(id).name == "w" && body.is_constant(id));
  CHECK(captured);
}

TEST_CASE("a rewritten body is written back, with new values under new names, and captures what it still reads") {
  const Graph graph = import_text(kLoop);
  const Graph changed = with_negs_replaced(graph, "body", "Relu");
  const std::string bytes = export_onnx_bytes(changed);  // passes ONNX's checker
  const Graph again = import_onnx_bytes(bytes, "again");
  CHECK(again.hash() == changed.hash());
  const std::vector<Tensor> inputs{int64s({}, {2}), floats({1, 3}, {-5, 0, 5}), floats({3}, {1, 2, 3})};
  const auto results = interpret(again, inputs);
  CHECK(results[0].reals() == std::vector<double>{2, 6, 13});
  CHECK(results[1].reals() == std::vector<double>{0, 6, 27, 2, 12, 39});

  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(bytes));
  REQUIRE(model.graph().initializer_size() == 1);  // the captured weight is outside, once
  const onnx::GraphProto& body = model.graph().node(model.graph().node_size() - 1).attribute(0).g();
  REQUIRE(body.initializer_size() == 1);
  CHECK(body.initializer(0).name() == "own");
  CHECK(body.input(2).name() == "v");
  CHECK(body.output(1).name() == "next");
}

TEST_CASE("bodies that were not rewritten are written as they were read") {
  const Graph graph = import_text(kLoop);
  onnx::ModelProto before = text_model(kLoop), after;
  REQUIRE(after.ParseFromString(export_onnx_bytes(graph)));
  CHECK(after.graph().node(after.graph().node_size() - 1).SerializeAsString() ==
        before.graph().node(before.graph().node_size() - 1).SerializeAsString());
}

TEST_CASE("what a loop carries has a size in its body only if that stays the same") {
  const auto types = [](const std::string& next, const std::string& declared) {
    const Graph graph = import_text(
        "agraph (int64 m, float[2, 3] x) => (y) { yes = Constant <value = bool {1}> ()\n"
        "y = Loop (m, yes, x) <body = b (int64 i, bool c, float" +
        declared + " v) => (bool go, float" + declared + " next) { go = Identity(c)\n next = " + next + " }> }");
    return type_of_input(body_in(graph, "body"), 2);
  };
  CHECK(types("Neg(v)", "") == "float[2, 3]");
  CHECK(types("Neg(v)", "[2, 3]") == "float[2, 3]");
  CHECK(types("Concat <axis = 0> (v, v)", "") == "float[y.body.v_0, 3]");
  CHECK(types("Concat <axis = 0> (v, v)", "[2, 3]") == "float[y.body.v_0, 3]");
  CHECK(types("Transpose(v)", "") == "float[y.body.v_0, y.body.v_1]");
  CHECK(types("Flatten <axis = 0> (v)", "[?, ?]") == "float[y.body.v_0, y.body.v_1]");
  CHECK(types("ReduceSum <keepdims = 0> (v)", "") == "unknown");
  CHECK(types("Concat <axis = 0> (v, x)", "") == "float[y.body.v_0, 3]");
}

TEST_CASE("the entries that Scan gives to its body have no scanned axis") {
  const Graph graph = import_text(R"(agraph (float[4] s, float[T, 5, 4] x, float[5, T] z) => (last, all) {
    last, all = Scan <num_scan_inputs = 2, scan_input_axes = [0, -1],
      body = b (float[4] v, e, f) => (next, out) { m = ReduceMean <axes = [0], keepdims = 0> (e)
        next = Add(v, m)
        out = Add(f, f) }> (s, x, z)
  })");
  const Graph body = body_in(graph, "body");
  CHECK(type_of_input(body, 0) == "float[4]");
  CHECK(type_of_input(body, 1) == "float[5, 4]");
  CHECK(type_of_input(body, 2) == "float[5]");
}

TEST_CASE("a name that means one value outside and another one inside keeps both meanings") {
  const Graph graph = import_text(R"(agraph (bool c, float[2] x, float[2] t) => (float[2] y, float[2] u) {
    u = Exp(t)
    y = If (c) <
      then_branch = a () => (float[2] p) { t = Add(x, x)
        n = Neg(t)
        p = Add(n, u) },
      else_branch = b () => (float[2] q) { q = Neg(t) }>
  })");
  const std::vector<Tensor> yes{Tensor::from_integers(DataType::kBool, {}, std::vector<std::int64_t>{1}), floats({2}, {1, -1}),
                                floats({2}, {0, 0})};
  const std::vector<Tensor> no{Tensor::from_integers(DataType::kBool, {}, std::vector<std::int64_t>{0}), floats({2}, {1, -1}),
                               floats({2}, {3, -3})};
  CHECK(interpret(graph, yes)[0].reals() == std::vector<double>{-1, 3});
  const Graph one = with_negs_replaced(graph, "then_branch", "Relu");
  const Graph both = with_negs_replaced(one, "else_branch", "Relu");
  ExportOptions unchecked;  // ONNX forbids shadowed names
  unchecked.check = false;
  for (const Graph& changed : {both, import_onnx_bytes(export_onnx_bytes(both, unchecked), "again")}) {
    CHECK(interpret(changed, yes)[0].reals() == std::vector<double>{3, 1});
    CHECK(interpret(changed, no)[0].reals() == std::vector<double>{3, 0});
  }
}

TEST_CASE("a result of a body that became constant has a type for ONNX's inference") {
  const Graph graph = import_text(R"(agraph (bool c, float[2] x) => (float[2] y) {
    z = If (c) <then_branch = t () => (p) { p = Neg(x) }, else_branch = e () => (q) { q = Exp(x) }>
    y = Relu(z)
  })");
  Graph body = body_in(graph, "then_branch");
  body.set_constant(body.outputs()[0].value, floats({2}, {1, 2}));
  body.tidy();
  const Graph changed = with_nodes(graph, {{0, with_body(*graph.nodes()[0], "then_branch", body)}});
  CHECK_NOTHROW(export_onnx_bytes(changed));
}

TEST_CASE("a body that captures what does not exist is refused") {
  CHECK_THROWS_WITH(import_text(R"(agraph (bool c, float[2] x) => (float[2] y) {
    y = If (c) <then_branch = a () => (float[2] p) {
      p = If (c) <then_branch = i () => (float[2] r) { r = Add(x, nowhere) }, else_branch = j () => (float[2] s) { s = Neg(x) }>
    }, else_branch = b () => (float[2] q) { q = Neg(x) }>
  })"),
                    Catch::Contains("its input \"nowhere\" is not defined"));
}

}  // namespace rewright::graph
