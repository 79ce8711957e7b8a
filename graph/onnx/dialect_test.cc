#include "graph/onnx/dialect.h"

#include <set>

#include <catch2/catch.hpp>

#include "graph/onnx/model.h"
#include "graph/testing.h"

namespace rewright::graph {

namespace {

using testing::floats;
using testing::import_text;

const std::string kContrib = ", \"com.microsoft\" : 1";

onnx::ModelProto written(const Graph& graph) {
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(export_onnx_bytes(graph)));  // checked by ONNX's checker
  return model;
}

// The domains that a model imports.
std::set<std::string> domains(const onnx::ModelProto& model) {
  std::set<std::string> result;
  for (const auto& import : model.opset_import()) result.insert(import.domain());
  return result;
}

// Both graphs on the same inputs.
void check_same(const Graph& given, const Graph& standard) {
  std::mt19937 random(1);
  std::vector<Tensor> inputs;
  for (const ValueId id : given.inputs()) inputs.push_back(testing::random_tensor(given.value(id).type, random));
  const Graph again = import_onnx_bytes(export_onnx_bytes(standard), "again");
  const auto expected = interpret(given, inputs), found = interpret(again, inputs);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    for (std::size_t k = 0; k < found[i].reals().size(); ++k)
      CHECK(found[i].reals()[k] == Approx(expected[i].reals()[k]).margin(1e-5));
}

}  // namespace

TEST_CASE("calls of ONNX Runtime's operators are written as ONNX's own, in the opset that these need") {
  const Graph given = import_text(R"(agraph (float[2, 4] x, float[4] b, float[4] s) => (float[2, 4] y, float[2, 4] z) {
    a = com.microsoft.BiasGelu (x, b)
    y = Relu (a)
    m = ReduceMean <axes = [1]> (a)
    c = Sub (a, m)
    z = SimplifiedLayerNormalization (c, s)
  })",
                                  17, {}, kContrib);
  const StandardGraph standard = in_standard_dialect(given);
  CHECK(standard.left.empty());
  CHECK(standard.opset == 23);  // of RMSNormalization
  const onnx::ModelProto model = written(standard.graph);
  CHECK(domains(model) == std::set<std::string>{""});
  std::set<std::string> types;
  for (const auto& node : model.graph().node()) types.insert(node.op_type());
  CHECK(types.contains("Gelu"));
  CHECK(types.contains("RMSNormalization"));
  for (const auto& node : model.graph().node())
    if (node.op_type() == "ReduceMean") CHECK(node.input_size() == 2);  // its axes are an input since opset 18
  check_same(given, standard.graph);
}

TEST_CASE("the opset stays where nothing needs a later one, and nodes of the model keep their bytes") {
  const Graph given = import_text(R"(agraph (float[3, 4] x, float[5, 4] w) => (float[3, 5] y) {
    a = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (x, w)
    y = Relu (a)
  })",
                                  17, {}, kContrib);
  const StandardGraph standard = in_standard_dialect(given);
  CHECK(standard.left.empty());
  CHECK(standard.opset == 17);
  CHECK(domains(written(standard.graph)) == std::set<std::string>{""});
  const auto& last = standard.graph.nodes().back();
  REQUIRE(last->origin);
  CHECK(last->origin->node_proto == given.nodes().back()->origin->node_proto);
  check_same(given, standard.graph);
}

TEST_CASE("domains that nothing uses are not imported, even where nothing is lowered") {
  const Graph given = import_text("agraph (float[3, 4] x) => (float[3, 4] y) { y = Relu (x) }", 17, {}, kContrib);
  CHECK(domains(written(in_standard_dialect(given).graph)) == std::set<std::string>{""});
}

TEST_CASE("functions of the model are written as their bodies") {
  const Graph given = import_text(R"(agraph (float[2, 3] x) => (float[2, 3] y) {
    a = local.twice <by = 2.5> (x)
    y = local.twice <by = 0.5> (a)
  }
  <domain: "local", opset_import: ["" : 17]>
  twice <by> (v) => (w) {
    factor = Constant <value_float: float = @by> ()
    w = Mul(v, factor)
  })",
                                  17, {}, ", \"local\" : 1");
  const StandardGraph standard = in_standard_dialect(given);
  const onnx::ModelProto model = written(standard.graph);
  CHECK(domains(model) == std::set<std::string>{""});
  CHECK(model.functions_size() == 0);
  check_same(given, standard.graph);
}

TEST_CASE("graphs inside of nodes are lowered too") {
  const Graph given = import_text(R"(agraph (float[2, 3] x, bool c) => (float[2, 3] y) {
    y = If (c) <
      then_branch = a () => (float[2, 3] p) { p = com.microsoft.QuickGelu (x) },
      else_branch = b () => (float[2, 3] q) { q = com.microsoft.FastGelu (x) }
    >
  })",
                                  17, {}, kContrib);
  const StandardGraph standard = in_standard_dialect(given);
  CHECK(standard.left.empty());
  CHECK(domains(written(standard.graph)) == std::set<std::string>{""});
  for (const bool condition : {true, false}) {
    const std::vector<Tensor> inputs{floats({2, 3}, {-1, 0.5, 2, 0.1, -0.2, 1}),
                                     Tensor::from_integers(DataType::kBool, {}, std::vector<std::int64_t>{condition})};
    const Graph again = import_onnx_bytes(export_onnx_bytes(standard.graph), "again");
    const auto expected = interpret(given, inputs)[0].reals(), found = interpret(again, inputs)[0].reals();
    for (std::size_t k = 0; k < found.size(); ++k) CHECK(found[k] == Approx(expected[k]).margin(1e-5));
  }
}

TEST_CASE("what has no body, and what a kept node holds back, is left with its reason") {
  const Graph unknown = import_text(R"(agraph (float[2, 3] x) => (float[2, 3] y) {
    a = com.microsoft.Mystery (x)
    b = Relu (x)
    c = com.microsoft.QuickGelu (b)
    y = Add (a, c)
  })",
                                    17, {}, kContrib);
  const StandardGraph standard = in_standard_dialect(unknown);
  REQUIRE(standard.left.size() == 1);
  CHECK(standard.left[0].type == "com.microsoft.Mystery");
  CHECK_FALSE(standard.left[0].reason.empty());
  std::set<std::string> types;
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(export_onnx_bytes(standard.graph, {.check = false})));
  for (const auto& node : model.graph().node()) types.insert(node.op_type());
  CHECK(types.contains("Mystery"));
  CHECK_FALSE(types.contains("QuickGelu"));
  CHECK(domains(model) == std::set<std::string>{"", "com.microsoft"});

  // An LSTM of opset 7 has no attribute layout, so it is not known to be the LSTM of opset 23.
  const Graph held = import_text(
      R"(agraph (float[2, 1, 3] x, float[1, 8, 3] w, float[1, 8, 2] r, float[2, 2] m, float[2] s) => (float y, float z) {
    y = LSTM <hidden_size = 2> (x, w, r)
    a = com.microsoft.FusedMatMul <transA = 1> (m, m)
    z = SimplifiedLayerNormalization (a, s)
  })",
      13, {}, kContrib);
  const StandardGraph partly = in_standard_dialect(held);
  CHECK(partly.opset == 13);
  REQUIRE(partly.left.size() == 1);
  CHECK(partly.left[0].type == "SimplifiedLayerNormalization");
}

}  // namespace rewright::graph
