#include <catch2/catch.hpp>

#include "base/temporary_folder.h"
#include "graph/file.h"
#include "graph/onnx/onnx.h"
#include "graph/testing.h"

namespace rewright::graph {

namespace {

using testing::import_text;

const Node& node(const Graph& graph, std::size_t i) { return *graph.nodes()[i]; }

}  // namespace

TEST_CASE("names, order and types come from the model") {
  const Graph graph = import_text(R"(agraph (float[N, 3] x, float[3] b) => (float[N, 3] sum, float[N, 3] y) {
    sum = Add(x, b)
    y = Relu(sum)
  })");
  REQUIRE(graph.inputs().size() == 2);
  CHECK(graph.value(graph.inputs()[0]).name == "x");
  CHECK(to_string(graph.value(graph.inputs()[0]).type) == "float[N, 3]");
  REQUIRE(graph.outputs().size() == 2);
  CHECK(graph.outputs()[0].name == "sum");
  CHECK(to_string(graph.outputs()[1].type) == "float[N, 3]");
  REQUIRE(graph.nodes().size() == 2);
  CHECK(node(graph, 1).op->name() == "Relu");
  CHECK(node(graph, 1).origin != nullptr);
}

TEST_CASE("initializers and Constant nodes are constants") {
  const Graph graph = import_text(R"(agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
    c = Constant <value = float[2] {3, 4}> ()
    s = Add(w, c)
    y = Mul(x, s)
  })");
  CHECK(graph.inputs().size() == 1);
  REQUIRE(graph.nodes().size() == 2);
  CHECK(graph.value(node(graph, 0).inputs[0]).name == "w");
  CHECK(graph.value(node(graph, 0).inputs[1]).constant.reals() == std::vector<double>{3, 4});
  CHECK(graph.constant_values()[node(graph, 0).outputs[0]]);
}

TEST_CASE("shapes that a model computes are followed") {
  const Graph graph = import_text(R"(agraph (float[N, 3, H] x) => (y) <int64[1] minus = {-1}, int64[1] zero = {0}> {
    shape = Shape(x)
    n = Gather <axis = 0> (shape, zero)
    wanted = Concat <axis = 0> (n, minus)
    y = Reshape(x, wanted)
  })");
  CHECK(to_string(graph.outputs()[0].type) == "float[N, 3*H]");
  const Node& reshape = node(graph, 3);
  CHECK(reshape.inputs.size() == 1);
  REQUIRE(reshape.parameters.size() == 1);
  CHECK(graph.value(reshape.parameters[0]).name == "wanted");
}

TEST_CASE("sizes that have no name get one, and given sizes replace names") {
  const std::string text = R"(agraph (float[N, ?] x, float[N] z) => (float[N, ?] y) { y = Relu(x) })";
  CHECK(to_string(import_text(text).outputs()[0].type) == "float[N, x_1]");
  ImportOptions options;
  options.input_sizes["x"] = {2, 5};
  const Graph graph = import_text(text, 17, options);
  CHECK(to_string(graph.outputs()[0].type) == "float[2, 5]");
  CHECK(to_string(graph.value(graph.inputs()[1]).type) == "float[2]");
}

TEST_CASE("what has no definition is opaque, and says why") {
  const Graph graph = import_text(R"(agraph (float[N] x) => (y) {
    a = custom.Strange(x)
    y = Relu(a)
  })",
                                  17, {}, ", \"custom\" : 3");
  REQUIRE(graph.nodes().size() == 2);
  CHECK(node(graph, 0).op == nullptr);
  CHECK(node(graph, 0).opaque_reason == "no definition of operator custom.Strange");
  CHECK(node(graph, 1).op == nullptr);
  CHECK(node(graph, 1).opaque_reason == "the type of its input \"a\" is not known");
}

TEST_CASE("behind an opaque node, types are those that the model declares or ONNX infers") {
  const Graph declared = import_text(R"(agraph (float[N] x) => (y) <float[N, M] a> {
    a = custom.Strange(x)
    y = Relu(a)
  })",
                                     17, {}, ", \"custom\" : 3");
  CHECK(node(declared, 1).op != nullptr);
  CHECK(to_string(declared.outputs()[0].type) == "float[N, a_1]");
  const Graph inferred = import_text(R"(agraph (float[4, 6] x) => (y) <int64[1] k = {2}> {
    values, indices = TopK <axis = 1> (x, k)
    y = Relu(values)
  })");
  CHECK(node(inferred, 1).op != nullptr);
  CHECK(to_string(inferred.outputs()[0].type) == "float[4, 2]");
}

TEST_CASE("nodes with subgraphs read what these capture") {
  const Graph graph = import_text(R"(agraph (bool c, float[2] x, float[2] z) => (float[2] y) {
    w = Relu(z)
    y = If (c) <then_branch = t () => (float[2] a) { a = Neg(x) }, else_branch = e () => (float[2] b) { b = Add(w, x) }>
  })");
  const Node& branch = node(graph, 1);
  CHECK(branch.op == nullptr);
  REQUIRE(branch.inputs.size() == 3);
  CHECK(graph.value(branch.inputs[1]).name == "x");
  CHECK(graph.value(branch.inputs[2]).name == "w");
}

TEST_CASE("nodes out of order are sorted") {
  onnx::ModelProto model = text_model("agraph (float[2] x) => (float[2] y) { a = Exp(x)\n y = Relu(a) }");
  model.mutable_graph()->mutable_node()->SwapElements(0, 1);
  const Graph graph = import_onnx_bytes(model.SerializeAsString(), "test");
  CHECK(node(graph, 0).op->name() == "Exp");
}

TEST_CASE("tensors are read from all encodings") {
  onnx::TensorProto proto;
  const TemporaryFolder folder;
  auto read = [&] {
    write_file(folder / "t.pb", proto.SerializeAsString());
    return read_tensor_proto(folder / "t.pb");
  };
  proto.add_dims(2);
  proto.set_data_type(onnx::TensorProto::FLOAT16);
  proto.add_int32_data(float_to_half(1.5f));
  proto.add_int32_data(float_to_half(-2));
  CHECK(read().reals() == std::vector<double>{1.5, -2});
  proto.set_data_type(onnx::TensorProto::INT8);
  proto.set_int32_data(0, -7);
  proto.set_int32_data(1, 8);
  CHECK(read().integers() == std::vector<std::int64_t>{-7, 8});
  proto.set_data_type(onnx::TensorProto::BOOL);
  proto.set_int32_data(0, 0);
  proto.set_int32_data(1, 1);
  CHECK(read().integers() == std::vector<std::int64_t>{0, 1});
  proto.clear_int32_data();
  CHECK_THROWS_WITH(read(), Catch::Contains("has no data for its 2 elements"));
  proto.set_data_type(onnx::TensorProto::UINT32);
  proto.add_uint64_data(1);
  proto.add_uint64_data(4000000000u);
  CHECK(read().integers() == std::vector<std::int64_t>{1, 4000000000});
  proto.clear_uint64_data();
  proto.set_data_type(onnx::TensorProto::INT32);
  proto.set_raw_data(std::string("\1\0\0\0\2\0\0\0", 8));
  CHECK(read().integers() == std::vector<std::int64_t>{1, 2});
  proto.set_raw_data("abc");
  CHECK_THROWS_WITH(read(), Catch::Contains("has 3 bytes for 2 elements"));
}

TEST_CASE("a question mark stands for a size of its own each time") {
  onnx::ModelProto proto = text_model("agraph (float[A, B] x) => (float[A, B] y) { y = Relu(x) }");
  auto* shape = proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (int axis : {0, 1}) shape->mutable_dim(axis)->set_dim_param("?");
  ImportOptions options;
  options.input_sizes["x"] = {2, 3};
  const Graph graph = import_onnx_bytes(proto.SerializeAsString(), "test", options);
  CHECK(to_string(graph.outputs()[0].type) == "float[2, 3]");
}

TEST_CASE("an If whose condition is known is the branch that it takes") {
  const auto text = [](const std::string& condition) {
    return "agraph (float[2, N] x, bool b) => (float[2, N] y, float[2, N] z) {\n w = Exp(x)\n" + condition + R"(
      y, z = If (c) <
        then_branch = t () => (float[2, N] t1, float[2, N] t2) <float[1] k = {3}> { t1 = Mul(w, k)  u = Unknown.Custom(t1) t2 = Neg(u) },
        else_branch = e () => (float[2, N] e1, float[2, N] e2) { e1 = Abs(w)  e2 = Identity(x) }>
    })";
  };
  const auto operators = [&](const std::string& condition) {
    const Graph graph = import_text(text(condition), 17, {}, ", \"Unknown\" : 1");
    std::string names;
    for (const auto& n : graph.nodes()) names += (n->op != nullptr ? n->op->name() : "?") + " ";
    export_onnx_bytes(graph);  // passes the checker
    return names;
  };
  CHECK(operators("c = Identity(b)") == "Exp Identity ? ");
  CHECK(operators("c = Constant <value = bool {1}> ()") == "Exp Mul ? ? ");
  CHECK(operators("n = Constant <value = int64 {3}> ()\n m = Constant <value = int64 {4}> ()\n c = Less(m, n)") ==
        "Exp Less Abs Identity ");
}

TEST_CASE("of a sequence that is put together in sight, elements at known positions and the length are known") {
  const Graph graph =
      import_text(R"(agraph (float[2] x, float[N] z, int64 at) => (float[2] y, int64 n, float[M] open, float[2] out) {
    both = SequenceConstruct(x, z, x)
    last = Constant <value = int64 {-1}> ()
    beyond = Constant <value = int64 {3}> ()
    x1 = SequenceAt(both, last)
    y = Relu(x1)
    n = SequenceLength(both)
    open = SequenceAt(both, at)
    out = SequenceAt(both, beyond)
  })",
                  17);
  std::vector<std::string> opaque;
  for (const auto& node : graph.nodes())
    if (node->op == nullptr) opaque.push_back(graph.value(node->outputs[0]).name);
  CHECK(opaque == std::vector<std::string>{"both", "open", "out"});
  const ValueId n = graph.outputs()[1].value;
  REQUIRE(graph.is_constant(n));
  CHECK(graph.value(n).constant.integers() == std::vector<std::int64_t>{3});
  export_onnx_bytes(graph);  // passes the checker
}

TEST_CASE("an element of a sequence that is absent is not known") {
  const Graph graph = import_text(R"(agraph (float[2] x) => (float[2] y) {
    parts = SequenceConstruct(x, , x)
    second = Constant <value = int64 {1}> ()
    y = SequenceAt(parts, second)
  })",
                                  17);
  CHECK(graph.nodes().back()->op == nullptr);
}

TEST_CASE("a model of 5,000 functions") {
  constexpr int kFunctions = 5000;
  std::string nodes, functions;
  for (int i = 0; i < kFunctions; ++i) {
    const std::string number = std::to_string(i);
    nodes += "v" + std::to_string(i + 1) + " = local.f" + number + "(v" + number + ")\n";
    functions += "<domain: \"local\", opset_import: [\"\" : 17]> f" + number + " (a) => (b) { b = Relu(a) }\n";
  }
  const Graph graph = import_onnx_bytes(
      text_bytes("agraph (float[2] v0) => (float[2] v5000) {\n" + nodes + "}\n" + functions, 17, ", \"local\" : 1"), "test");
  REQUIRE(graph.nodes().size() == kFunctions);
  for (const auto& node : graph.nodes()) REQUIRE(node->op != nullptr);
}

}  // namespace rewright::graph
