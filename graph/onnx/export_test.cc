#include <random>

#include <catch2/catch.hpp>

#include "base/temporary_folder.h"
#include "graph/file.h"
#include "graph/onnx/onnx.h"
#include "graph/testing.h"

namespace rewright::graph {

namespace {

using testing::floats;

const Operator& op(std::string_view name) { return registry().get(name); }

ValueId add(Graph& graph, std::string_view name, std::vector<ValueId> inputs) {
  return graph.add_node(op(name), op(name).defaults(), std::move(inputs)).at(0);
}

onnx::ModelProto exported(const Graph& graph) {
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(export_onnx_bytes(graph)));
  return model;
}

Graph again(const Graph& graph) { return import_onnx_bytes(export_onnx_bytes(graph), "again"); }

// A random graph of elementwise operators and products on [N, 4].
Graph random_graph(std::mt19937& random) {
  Graph graph;
  std::vector<ValueId> values{graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), 4}}),
                              graph.add_input("y", {DataType::kFloat, {Index::symbol("N"), 4}})};
  auto any = [&] { return values[random() % values.size()]; };
  for (int i = 0; i < 12; ++i) {
    static constexpr std::string_view kUnary[] = {"Relu", "Neg", "Exp", "Tanh", "Sigmoid"};
    static constexpr std::string_view kBinary[] = {"Add", "Mul", "Sub", "Max", "Min"};
    switch (random() % 3) {
      case 0:
        values.push_back(add(graph, kUnary[random() % 5], {any()}));
        break;
      case 1:
        values.push_back(add(graph, kBinary[random() % 5], {any(), any()}));
        break;
      default: {
        std::vector<double> weights(16);
        for (double& w : weights) w = static_cast<double>(random() % 7) - 3;
        values.push_back(add(graph, "MatMul", {any(), graph.add_constant(floats({4, 4}, weights))}));
      }
    }
  }
  graph.add_output("first", values.back());
  graph.add_output("second", any());
  graph.tidy();
  return graph;
}

}  // namespace

TEST_CASE("what was not rewritten is written as it was read") {
  onnx::ModelProto model = text_model(
      R"(agraph (float[N, 4] x) => (float[N, 4] y, z) <float[4] w = {1, 2, 3, 4}, float[1] unused = {7}, float[N, 4] a> {
    a = Add(x, w)
    c = Constant <value = float[4] {3, 4, 5, 6}> ()
    b = Mul(a, c)
    dead = Exp(b)
    y = Relu(b)
    s = custom.Strange(y)
    z = custom.Strange(s)
  })",
      17, ", \"custom\" : 3");
  model.set_producer_name("somebody");
  model.set_doc_string("a model");
  auto* metadata = model.add_metadata_props();
  metadata->set_key("author");
  metadata->set_value("me");
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) node.set_doc_string("why: " + node.op_type());
  const Graph graph = import_onnx_bytes(model.SerializeAsString(), "test");
  const onnx::ModelProto result = exported(graph);
  CHECK(result.producer_name() == "somebody");
  CHECK(result.doc_string() == "a model");
  CHECK(result.metadata_props(0).value() == "me");
  CHECK(result.graph().initializer_size() == 2);
  CHECK(result.graph().value_info_size() == model.graph().value_info_size());
  REQUIRE(result.graph().node_size() == model.graph().node_size());
  for (const onnx::NodeProto& node : model.graph().node()) {
    bool found = false;
    for (const onnx::NodeProto& other : result.graph().node())
      found = found || other.SerializeAsString() == node.SerializeAsString();
    CHECK(found);
  }
  CHECK(again(graph).hash() == graph.hash());
  CHECK(export_onnx_bytes(again(graph)) == export_onnx_bytes(graph));
}

TEST_CASE("rewritten parts get readable names, the outputs keep theirs") {
  Graph graph =
      import_onnx_bytes(text_bytes("agraph (float[4] x) => (float[4] y) { a = Exp(x)\n b = Neg(a)\n y = Relu(b) }"), "test");
  const ValueId a = graph.nodes()[0]->outputs[0], y = graph.outputs()[0].value;
  const ValueId t = add(graph, "Tanh", {a});
  graph.replace_uses(y, add(graph, "Sigmoid", {t}));
  graph.tidy();
  const onnx::ModelProto model = exported(graph);
  REQUIRE(model.graph().node_size() == 3);
  CHECK(model.graph().node(0).output(0) == "a");
  CHECK(model.graph().node(1).output(0) == "y/Tanh");
  CHECK(model.graph().node(2).output(0) == "y");
  CHECK(again(graph).hash() == graph.hash());
}

TEST_CASE("an output that is an input or another output gets an Identity node, a constant is written under its name") {
  Graph graph = import_onnx_bytes(text_bytes("agraph (float[2] x) => (float[2] a, float[2] b, float[2] c, float[2] d) "
                                             "{ a = Exp(x)\n b = Neg(x)\n c = Relu(x)\n d = Sqrt(x) }"),
                                  "test");
  std::vector<ValueId> values;
  for (const GraphOutput& output : graph.outputs()) values.push_back(output.value);
  graph.replace_uses(values[1], values[0]);
  graph.replace_uses(values[2], graph.inputs()[0]);
  graph.set_constant(values[3], floats({2}, {1, 2}));
  graph.tidy();
  const onnx::ModelProto model = exported(graph);
  REQUIRE(model.graph().output_size() == 4);
  CHECK(model.graph().output(3).name() == "d");
  int identities = 0;
  for (const onnx::NodeProto& node : model.graph().node()) identities += node.op_type() == "Identity";
  CHECK(identities == 2);
  const Tensor input[] = {floats({2}, {4, 5})};
  const auto results = interpret(again(graph), input);
  CHECK(results[2].reals() == std::vector<double>{4, 5});
  CHECK(results[3].reals() == std::vector<double>{1, 2});
  CHECK(results[0] == results[1]);
}

TEST_CASE("sizes that are not known are computed in the written model") {
  Graph graph = import_onnx_bytes(text_bytes(R"(agraph (float[N, 3, H] x) => (y) <int64[1] minus = {-1}, int64[1] zero = {0}> {
    shape = Shape(x)
    n = Gather <axis = 0> (shape, zero)
    wanted = Concat <axis = 0> (n, minus)
    y = Reshape(x, wanted)
  })"),
                                  "test");
  const Node reshape = *graph.nodes().back();
  graph.replace_uses(graph.outputs()[0].value, graph.add_node(*reshape.op, reshape.attributes, reshape.inputs)[0]);
  const Index odd = floor_div(Index::symbol("N") * Index::symbol("H") + 1, 2);
  const ValueId filled = graph.add_node(
      op("Fill"),
      [&] {
        Attributes attributes = op("Fill").defaults();
        attributes[*op("Fill").field("shape")] = Indices{odd, min(Index::symbol("N"), Index(2)), Index::symbol("H") * 3 + 1};
        return attributes;
      }(),
      {})[0];
  graph.add_output("filled", filled);
  graph.tidy();
  const Graph read = again(graph);
  const Tensor input[] = {floats({1, 3, 2}, {1, 2, 3, 4, 5, 6})};
  const auto results = interpret(read, input);
  CHECK(results[0].sizes() == Sizes{1, 6});
  CHECK(results[1].sizes() == Sizes{1, 1, 7});
  CHECK(read.hash() == graph.hash());
}

TEST_CASE("what subgraphs capture is renamed with its value") {
  Graph graph = import_onnx_bytes(text_bytes(R"(agraph (bool c, float[2] x) => (float[2] y) {
    w = Relu(x)
    y = If (c) <then_branch = t () => (float[2] a) { a = Neg(w) }, else_branch = e () => (float[2] b) { b = Add(w, x) }>
  })"),
                                  "test");
  Value renamed = graph.value(graph.nodes()[0]->outputs[0]);
  const ValueId replacement = add(graph, "Tanh", {graph.inputs()[1]});
  graph.replace_uses(graph.nodes()[0]->outputs[0], replacement);
  Value named = graph.value(replacement);
  named.name = "other";
  graph.set_value(replacement, named);
  graph.tidy();
  const onnx::ModelProto model = exported(graph);
  CHECK(model.graph().node(0).output(0) == "other");
  CHECK(model.graph().node(1).attribute(0).g().node(0).input(0) == "other");
  CHECK(model.graph().node(1).attribute(1).g().node(0).input(1) == "x");
}

TEST_CASE("initializers of old models are inputs too") {
  onnx::ModelProto model = text_model("agraph (float[2] x, float[2] w) => (float[2] y) { a = Neg(w)\n y = Add(x, a) }", 9);
  model.set_ir_version(3);
  onnx::TensorProto& weight = *model.mutable_graph()->add_initializer();
  weight.set_name("w");
  weight.add_dims(2);
  weight.set_data_type(onnx::TensorProto::FLOAT);
  weight.add_float_data(1);
  weight.add_float_data(2);
  Graph graph = import_onnx_bytes(model.SerializeAsString(), "test");
  CHECK(graph.inputs().size() == 1);
  CHECK(exported(graph).graph().input_size() == 2);
  graph.set_constant(graph.nodes()[0]->outputs[0], floats({2}, {-1, -2}));
  graph.tidy();
  const onnx::ModelProto folded = exported(graph);
  REQUIRE(folded.graph().initializer_size() == 1);
  REQUIRE(folded.graph().input_size() == 2);
  CHECK(folded.graph().input(1).name() == folded.graph().initializer(0).name());
}

TEST_CASE("big weights are written beside the model") {
  const TemporaryFolder folder;
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), 64}});
  std::vector<double> values(64 * 64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 13);
  graph.add_output("y", add(graph, "MatMul", {x, graph.add_constant(floats({64, 64}, values), "w")}));
  ExportOptions options;
  options.external_data_above = 1000;
  export_onnx(graph, folder / "m.onnx", options);
  CHECK(std::filesystem::file_size(folder / "m.onnx.data") == 64 * 64 * 4);
  CHECK(std::filesystem::file_size(folder / "m.onnx") < 1000);
  const Graph read = import_onnx(folder / "m.onnx");
  CHECK(read.hash() == graph.hash());
  export_onnx(read, folder / "whole.onnx");
  CHECK(import_onnx(folder / "whole.onnx").hash() == graph.hash());
  export_onnx(read, folder / "m.onnx", options);
  CHECK(import_onnx(folder / "m.onnx").hash() == graph.hash());
}

TEST_CASE("a model that cannot be written leaves the old one") {
  const TemporaryFolder folder;
  write_file(folder / "m.onnx", "old");
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index(2)}});
  Attributes fill = op("Fill").defaults();
  fill[*op("Fill").field("shape")] = Indices{Index::symbol("Q")};
  graph.add_output("y", add(graph, "Relu", {x}));
  graph.add_output("z", graph.add_node(op("Fill"), fill, {})[0]);
  CHECK_THROWS_WITH(export_onnx(graph, folder / "m.onnx"), Catch::Contains("the size Q is no size of an input"));
  CHECK(map_file(folder / "m.onnx").text() == "old");
}

TEST_CASE("given sizes are declared in what is written") {
  ImportOptions options;
  options.input_sizes["x"] = {2, 5};
  const std::string bytes =
      text_bytes("agraph (float[N, M] x) => (float[N, M] y) <float[N, M] a> { a = Exp(x)\n y = Relu(a) }");
  const onnx::ModelProto model = exported(import_onnx_bytes(bytes, "test", options));
  for (const onnx::ValueInfoProto& info : {model.graph().input(0), model.graph().output(0), model.graph().value_info(0)})
    CHECK(info.type().tensor_type().shape().dim(1).dim_value() == 5);
}

TEST_CASE("sizes set after the import are declared in what is written") {
  const Graph graph = import_onnx_bytes(text_bytes("agraph (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }"), "test");
  CHECK(exported(graph).graph().input(0).type().tensor_type().shape().dim(0).dim_param() == "N");
  const onnx::ModelProto model = exported(with_sizes(graph, [](const Atom&) { return Index(3); }));
  for (const onnx::ValueInfoProto& info : {model.graph().input(0), model.graph().output(0)})
    CHECK(info.type().tensor_type().shape().dim(0).dim_value() == 3);
}

TEST_CASE("an operator that the model's opset does not have cannot be written") {
  Graph graph = import_onnx_bytes(text_bytes("agraph (float[4] x) => (float[4] y) { y = Exp(x) }", 13), "test");
  graph.replace_uses(graph.outputs()[0].value, add(graph, "Gelu", {graph.inputs()[0]}));
  graph.tidy();
  CHECK_THROWS_WITH(export_onnx_bytes(graph), Catch::Contains("Gelu cannot be written in opset 13"));
}

TEST_CASE("positions of maxima within planes are written as ONNX's positions and a remainder") {
  Graph graph = import_onnx_bytes(
      text_bytes(
          "agraph (float[2, 3, 4, 4] x) => (int64[2, 3, 2, 2] y) { h, y = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x) }"),
      "test");
  const Operator& pool = registry().get("MaxPool");
  Attributes attributes = graph.nodes()[0]->attributes;
  attributes.at(*pool.field("storage_order")) = Index(2);
  const ValueId within = graph.add_node(pool, attributes, {graph.inputs()[0]}).at(1);
  graph.replace_uses(graph.outputs()[0].value, within);
  graph.tidy();
  const Graph written = import_onnx_bytes(export_onnx_bytes(graph), "written");
  std::vector<double> values(96);
  for (std::size_t n = 0; n < values.size(); ++n) values[n] = static_cast<double>(n * 37 % 23);
  const std::vector<Tensor> x{Tensor::from_reals(DataType::kFloat, {2, 3, 4, 4}, values)};
  CHECK(interpret(written, x).at(0) == interpret(graph, x).at(0));
  CHECK(written.nodes().size() == 2);
}

TEST_CASE("one node as a model of its own") {
  const Graph graph = import_onnx_bytes(
      text_bytes("agraph (float[3, 4] x) => (y) <float[4, 2] w = {1,2,3,4,5,6,7,8}> { a = Relu(x)\n y = MatMul(a, w) }"),
      "test");
  const Graph weighted = import_onnx_bytes(export_node_bytes(graph, *graph.nodes()[1], true), "node");
  CHECK(weighted.inputs().size() == 1);
  CHECK(to_string(weighted.outputs()[0].type) == "float[3, 2]");
  CHECK(import_onnx_bytes(export_node_bytes(graph, *graph.nodes()[1], false), "node").inputs().size() == 2);
}

TEST_CASE("random graphs: import after export is the identity") {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const Graph graph = random_graph(random);
    const ValueId second = graph.outputs()[1].value;
    if (graph.is_input(second) || second == graph.outputs()[0].value) continue;  // exported with an Identity
    const Graph once = again(graph);
    CHECK(once.hash() == graph.hash());
    CHECK(export_onnx_bytes(once) == export_onnx_bytes(again(once)));
  }
}

}  // namespace rewright::graph
