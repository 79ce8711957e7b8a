#include <catch2/catch.hpp>

#include "graph/onnx/interface.h"
#include "graph/onnx/onnx.h"
#include "graph/testing.h"

namespace rewright::graph {

namespace {

using testing::import_text;

}  // namespace

TEST_CASE("inputs and outputs are as the model declares them") {
  const Graph graph = import_text(R"(agraph (float16[N, 3, ?] x, seq(int64[2]) s, string t) => (float16[N, 3, ?] y, z) {
    y = Relu(x)
    z = Abs(x)
  })");
  const std::vector<Declaration> inputs = declared_inputs(graph);
  REQUIRE(inputs.size() == 3);
  CHECK(inputs[0].type == "tensor(float16)");
  CHECK(inputs[0].elements == DataType::kHalf);
  REQUIRE(inputs[0].shape);
  REQUIRE(inputs[0].shape->size() == 3);
  CHECK((*inputs[0].shape)[0].name == "N");
  CHECK_FALSE((*inputs[0].shape)[0].number);
  CHECK((*inputs[0].shape)[1].number == 3);
  CHECK((*inputs[0].shape)[2].name.empty());
  CHECK_FALSE((*inputs[0].shape)[2].number);
  CHECK(inputs[1].type == "seq(tensor(int64))");
  CHECK_FALSE(inputs[1].is_tensor);
  CHECK(inputs[2].type == "tensor(string)");
  const std::vector<Declaration> outputs = declared_outputs(graph);
  REQUIRE(outputs.size() == 2);
  CHECK(outputs[0].name == "y");
  CHECK(outputs[0].shape->at(0).name == "N");
}

TEST_CASE("what a graph without a model has is found out from its types") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), Index(4)}});
  graph.add_output("y", x);
  CHECK(declared_inputs(graph).at(0).type == "tensor(float)");
  CHECK(declared_inputs(graph).at(0).shape->at(0).name == "N");
  CHECK(declared_outputs(graph).at(0).shape->at(1).number == 4);
  CHECK(describe_model(graph).metadata.empty());
}

TEST_CASE("a model's description is found") {
  onnx::ModelProto model = text_model("agraph (float[2] x) => (float[2] y) { y = Relu(x) }");
  model.set_producer_name("someone");
  model.set_producer_version("3");
  model.set_domain("there");
  model.set_model_version(7);
  model.set_doc_string("what it is");
  auto* entry = model.add_metadata_props();
  entry->set_key("key");
  entry->set_value("value");
  const ModelDescription found = describe_model(import_onnx_bytes(model.SerializeAsString(), "test"));
  CHECK(found.producer_name == "someone");
  CHECK(found.producer_version == "3");
  CHECK(found.domain == "there");
  CHECK(found.version == 7);
  CHECK(found.description == "what it is");
  CHECK(found.graph_name == "agraph");
  CHECK(found.metadata == std::map<std::string, std::string>{{"key", "value"}});
}

}  // namespace rewright::graph
