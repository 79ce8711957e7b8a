#include <catch2/catch.hpp>

#include <onnx/onnx_pb.h>

#include "graph/onnx/import/overridable.h"
#include "graph/onnx/model.h"
#include "graph/onnx/onnx.h"

namespace rewright::graph {

namespace {

void declare(onnx::ValueInfoProto* info, const std::string& name) {
  info->set_name(name);
  info->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  info->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(2);
}

onnx::ModelProto model_of(const std::string& operation) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("small");
  declare(graph.add_input(), "x");
  declare(graph.add_output(), "y");
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(operation);
  node.add_input("x");
  node.add_input("w");
  node.add_output("y");
  return model;
}

Tensor floats(const std::vector<double>& values) {
  return Tensor::from_reals(DataType::kFloat, {static_cast<std::int64_t>(values.size())}, values);
}

std::vector<double> run(const Graph& graph, const std::vector<Tensor>& inputs) { return interpret(graph, inputs)[0].reals(); }

// x + w, where w is a weight and also an input.
onnx::ModelProto with_default() {
  onnx::ModelProto model = model_of("Add");
  declare(model.mutable_graph()->add_input(), "w");
  *model.mutable_graph()->add_initializer() = to_tensor_proto(floats({10, 20}), "w");
  return model;
}

}  // namespace

TEST_CASE("a weight that is listed among the inputs is a constant that can be made an input") {
  const Graph graph = import_onnx_bytes(serialize(with_default()), "m");
  CHECK(graph.inputs().size() == 1);
  const auto overridable = overridable_initializers(graph);
  REQUIRE(overridable.size() == 1);
  CHECK(overridable[0].name == "w");
  CHECK(run(graph, {floats({1, 2})}) == std::vector<double>{11, 22});

  const Graph open = with_inputs(graph, {"w"});
  REQUIRE(open.inputs().size() == 2);
  CHECK(overridable_initializers(open).empty());
  REQUIRE(default_of(open, open.inputs()[1]) != nullptr);
  CHECK(*default_of(open, open.inputs()[1]) == floats({10, 20}));
  CHECK(default_of(open, open.inputs()[0]) == nullptr);
  CHECK(run(open, {floats({1, 2}), floats({3, 4})}) == std::vector<double>{4, 6});

  // Export and import restore the default as a constant.
  const Graph again = with_defaults(open);
  CHECK(again.inputs().size() == 1);
  CHECK(overridable_initializers(again).size() == 1);
  CHECK(run(again, {floats({1, 2})}) == std::vector<double>{11, 22});

  const Graph fixed = import_onnx_bytes(export_onnx_bytes(with_fixed_inputs(graph)), "fixed");
  CHECK(overridable_initializers(fixed).empty());
  CHECK(run(fixed, {floats({1, 2})}) == std::vector<double>{11, 22});
}

TEST_CASE("before version 4 of ONNX's files weights are inputs that nobody overrides") {
  onnx::ModelProto model = with_default();
  model.set_ir_version(3);
  const Graph graph = import_onnx_bytes(serialize(model), "m");
  CHECK(overridable_initializers(graph).empty());
  CHECK(with_inputs(graph, {"w"}).inputs().size() == 1);
}

TEST_CASE("sparse weights are read, and written as they were") {
  for (const bool coordinates : {false, true}) {
    onnx::ModelProto model = model_of("Mul");
    onnx::SparseTensorProto& sparse = *model.mutable_graph()->add_sparse_initializer();
    *sparse.mutable_values() = to_tensor_proto(floats({5}), "w");
    const Sizes sizes = coordinates ? Sizes{1, 1} : Sizes{1};
    *sparse.mutable_indices() =
        to_tensor_proto(Tensor::from_integers(DataType::kInt64, sizes, std::vector<std::int64_t>{1}), "w_indices");
    sparse.add_dims(2);
    const Graph graph = import_onnx_bytes(serialize(model), "m");
    CHECK(run(graph, {floats({1, 2})}) == std::vector<double>{0, 10});
    onnx::ModelProto written;
    REQUIRE(written.ParseFromString(export_onnx_bytes(graph)));
    CHECK(written.graph().initializer_size() == 0);
    REQUIRE(written.graph().sparse_initializer_size() == 1);
    CHECK(serialize(written.graph().sparse_initializer(0)) == serialize(sparse));
    CHECK(run(import_onnx_bytes(serialize(written), "again"), {floats({1, 2})}) == std::vector<double>{0, 10});
  }
}

}  // namespace rewright::graph
