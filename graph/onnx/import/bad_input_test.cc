// A test of the message for each way in which a model can be wrong.
#include <catch2/catch.hpp>
#include <limits>

#include "base/temporary_folder.h"
#include "graph/file.h"
#include "graph/onnx/model.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"

namespace rewright::graph {

namespace {

std::string failure(const std::string& bytes, const ImportOptions& options = {}, ErrorCode expected = ErrorCode::kBadInput) {
  try {
    import_onnx_bytes(bytes, "bad.onnx", options);
  } catch (const Error& error) {
    CHECK(error.code() == expected);
    CHECK(std::string(error.what()).starts_with("bad.onnx"));
    return error.what();
  }
  return "no failure";
}

using Catch::Contains;

}  // namespace

TEST_CASE("files that are no models") {
  CHECK_THAT(failure(""), Contains("is empty"));
  CHECK_THAT(failure("hello, world"), Contains("is not a"));
  const std::string good = text_bytes("agraph (float[2] x) => (float[2] y) { y = Relu(x) }");
  CHECK_THAT(failure(good.substr(0, good.size() - 3)), Contains("not a"));
  CHECK_THAT(failure(std::string("\x08\x08", 2)), Contains("it has no graph"));
}

TEST_CASE("every cut of a model is refused or read") {
  const std::string good =
      text_bytes("agraph (float[2, 3] x) => (y) <float[3] w = {1, 2, 3}> { a = Add(x, w)\n y = Softmax <axis = 1> (a) }");
  for (std::size_t length = 0; length < good.size(); ++length) {
    try {
      import_onnx_bytes(good.substr(0, length), "cut");
    } catch (const Error&) {
    }
  }
  for (std::size_t at = 0; at < good.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = good;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      try {
        import_onnx_bytes(flipped, "flipped");
      } catch (const Error&) {
      }
    }
}

TEST_CASE("opsets") {
  CHECK_THAT(failure(text_bytes("agraph (float[2] x) => (float[2] y) { y = Relu(x) }", 99)),
             Contains("asks for opset 99, the newest known is"));
  onnx::ModelProto model = text_model("agraph (float[2] x) => (float[2] y) { y = Relu(x) }");
  model.clear_opset_import();
  CHECK_THAT(failure(model.SerializeAsString()), Contains("Relu") && Contains("imports no opset of domain \"\""));
  model.set_ir_version(1000);
  CHECK_THAT(failure(model.SerializeAsString()), Contains("has IR version 1000"));
}

TEST_CASE("cycles, undefined and doubly defined values") {
  onnx::ModelProto model = text_model("agraph (float[2] x) => (float[2] y) { a = Exp(x)\n y = Relu(a) }");
  model.mutable_graph()->mutable_node(0)->set_input(0, "y");
  model.mutable_graph()->mutable_node(0)->set_name("first");
  CHECK_THAT(failure(model.SerializeAsString()), Contains("node \"first\"") && Contains("cycle"));
  model.mutable_graph()->mutable_node(0)->set_input(0, "nowhere");
  CHECK_THAT(failure(model.SerializeAsString()), Contains("node \"first\": its input \"nowhere\" is not defined"));
  model.mutable_graph()->mutable_node(0)->set_input(0, "x");
  model.mutable_graph()->mutable_node(0)->set_output(0, "y");
  CHECK_THAT(failure(model.SerializeAsString()), Contains("tensor \"y\": is defined twice"));
  model = text_model("agraph (float[2] x) => (float[2] y) { a = Exp(x)\n y = Relu(a) }");
  model.mutable_graph()->mutable_output(0)->set_name("z");
  CHECK_THAT(failure(model.SerializeAsString()), Contains("output \"z\": nothing defines it"));
}

TEST_CASE("weights that are missing or do not fit") {
  onnx::ModelProto model = text_model("agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }");
  onnx::TensorProto& weight = *model.mutable_graph()->mutable_initializer(0);
  weight.clear_float_data();
  weight.clear_raw_data();
  CHECK_THAT(failure(model.SerializeAsString()), Contains("initializer \"w\": has no data for its 2 elements"));
  weight.set_dims(0, std::int64_t{1} << 40);
  CHECK_THAT(failure(model.SerializeAsString()), Contains("initializer \"w\": has no data"));
  weight.set_raw_data("12345");
  weight.set_dims(0, 2);
  CHECK_THAT(failure(model.SerializeAsString()), Contains("initializer \"w\": has 5 bytes for 2 elements"));
  weight.set_dims(0, -2);
  CHECK_THAT(failure(model.SerializeAsString()), Contains("initializer \"w\""));
  model.mutable_graph()->clear_initializer();
  CHECK_THAT(failure(model.SerializeAsString()), Contains("its input \"w\" is not defined"));
}

TEST_CASE("ill-typed nodes are named") {
  CHECK_THAT(failure(text_bytes("agraph (float[2, 3] x, float[4, 5] w) => (y) { y = MatMul(x, w) }")),
             Contains("MatMul of \"y\""));
  CHECK_THAT(failure(text_bytes("agraph (float[1,64,8,8] x, float[8,3,3,3] w) => (y) { y = Conv(x, w) }")),
             Contains("Conv of \"y\""));
  CHECK_THAT(failure(text_bytes("agraph (float[2] x, int64[2] w) => (y) { y = Add(x, w) }")), Contains("Add of \"y\""));
  CHECK_THAT(failure(text_bytes("agraph (float[2] x) => (y) { y = Add(x) }")), Contains("Add of \"y\""));
}

TEST_CASE("declared types that contradict what is computed") {
  CHECK_THAT(failure(text_bytes("agraph (float[2, 3] x) => (int64[2, 3] y) { y = Relu(x) }")),
             Contains("\"y\" is float[2, 3], but the model declares elements of type int64"));
  CHECK_THAT(failure(text_bytes("agraph (float[2, 3] x) => (y) <double[2, 3] a> { a = Exp(x)\n y = Relu(a) }")),
             Contains("\"a\" is float[2, 3], but the model declares elements of type double"));
}

TEST_CASE("declared sizes that contradict what is computed are kept, and count for nothing") {
  for (const char* text : {"agraph (float[2, 3] x) => (float[2, 4] y) { y = Relu(x) }",
                           "agraph (float[2, 3] x) => (float[6] y) <float[N] a> { a = Exp(x)\n y = Relu(a) }"}) {
    const std::string bytes = text_bytes(text);
    const Graph graph = import_onnx_bytes(bytes, "test");
    CHECK(to_string(graph.value(graph.outputs()[0].value).type) == "float[2, 3]");
    onnx::ModelProto before, after;
    REQUIRE(before.ParseFromString(bytes));
    REQUIRE(after.ParseFromString(export_onnx_bytes(graph)));
    CHECK(after.graph().output(0).SerializeAsString() == before.graph().output(0).SerializeAsString());
  }
}

TEST_CASE("given sizes that contradict the model") {
  const std::string bytes = text_bytes("agraph (float[N, 3] x, float[N] z) => (y) { y = Relu(x) }");
  auto given = [&](std::map<std::string, Sizes> sizes, ErrorCode code = ErrorCode::kBadInput) {
    ImportOptions options;
    options.input_sizes = std::move(sizes);
    return failure(bytes, options, code);
  };
  CHECK_THAT(given({{"x", {2, 4}}}), Contains("input \"x\": the given size [2, 4] contradicts the model: axis 1 is 3"));
  CHECK_THAT(given({{"x", {2}}}), Contains("has 1 axes, the model declares 2"));
  CHECK_THAT(given({{"x", {2, 3}}, {"z", {5}}}), Contains("\"N\" is 2"));
  CHECK_THAT(given({{"w", {2, 3}}}, ErrorCode::kUsage), Contains("input \"w\", which the model does not have"));
}

TEST_CASE("a node whose input has no type at all is kept") {
  onnx::ModelProto model = text_model("agraph (float[2, 2] x) => (float[2, 2] y) { y = EyeLike(x) }");
  model.mutable_graph()->mutable_input(0)->clear_type();
  model.mutable_graph()->mutable_output(0)->clear_type();
  const Graph graph = import_onnx_bytes(model.SerializeAsString(), "test");
  CHECK(graph.nodes()[0]->op == nullptr);
  CHECK(graph.nodes()[0]->opaque_reason == "the type of its input \"x\" is not known");
}

TEST_CASE("a shape that cannot be inferred makes opaque what needs it") {
  const Graph graph = import_onnx_bytes(text_bytes(R"(agraph (float[4] x, int64[2] s) => (y) {
    a = Reshape(x, s)
    y = Relu(a)
  })"),
                                        "test");
  CHECK(graph.nodes()[0]->op == nullptr);
  CHECK_THAT(graph.nodes()[0]->opaque_reason, Contains("not known"));
}

TEST_CASE("functions that call themselves") {
  onnx::ModelProto model = text_model("agraph (float[2] x) => (float[2] y) { y = local.f(x) }", 17, ", \"local\" : 1");
  onnx::FunctionProto& f = *model.add_functions();
  f.set_name("f");
  f.set_domain("local");
  f.add_input("a");
  f.add_output("b");
  f.add_opset_import()->set_domain("local");
  f.mutable_opset_import(0)->set_version(1);
  onnx::NodeProto& call = *f.add_node();
  call.set_op_type("f");
  call.set_domain("local");
  call.add_input("a");
  call.add_output("b");
  CHECK_THAT(failure(model.SerializeAsString()), Contains("bad.onnx") && !Contains("no failure"));
}

TEST_CASE("external data must lie in the model's folder") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "model");
  std::filesystem::create_directories(folder / "model/sub");
  write_file(folder / "outside.bin", std::string(8, '\0'));
  write_file(folder / "model/sub/inside.bin", std::string(8, '\0'));
  std::filesystem::create_symlink(folder / "outside.bin", folder / "model/link.bin");
  onnx::ModelProto model = text_model("agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }");
  onnx::TensorProto& weight = *model.mutable_graph()->mutable_initializer(0);
  weight.clear_float_data();
  weight.clear_raw_data();
  weight.set_data_location(onnx::TensorProto::EXTERNAL);
  auto entry = [&](const char* key) {
    auto* added = weight.add_external_data();
    added->set_key(key);
    return added;
  };
  auto* location = entry("location");
  auto* offset = entry("offset");
  offset->set_value("0");
  auto import_with = [&](const std::string& file) -> std::string {
    location->set_value(file);
    write_file(folder / "model/m.onnx", model.SerializeAsString());
    try {
      import_onnx(folder / "model/m.onnx");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kBadInput);
      return error.what();
    }
    return "no failure";
  };
  CHECK(import_with("sub/inside.bin") == "no failure");
  CHECK_THAT(import_with("../outside.bin"), Contains("initializer \"w\"") && Contains("outside of the model's folder"));
  CHECK_THAT(import_with((folder / "outside.bin").string()), Contains("outside of the model's folder"));
  CHECK_THAT(import_with("link.bin"), Contains("is a link out of the model's folder"));
  CHECK_THAT(import_with("none.bin"), Contains("cannot be read"));
  offset->set_value("4");
  CHECK_THAT(import_with("sub/inside.bin"), Contains("reach beyond the end"));
  offset->set_value("-4");
  CHECK_THAT(import_with("sub/inside.bin"), Contains("is not a number"));
  offset->set_value("0");
  CHECK_THAT(failure(model.SerializeAsString()), Contains("the model is not in a folder"));
}

TEST_CASE("sizes that overflow 64 bits are refused, or what needs them is kept") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const std::string huge = std::to_string(kHuge);
  onnx::ModelProto model = text_model("agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }");
  onnx::TensorProto& weight = *model.mutable_graph()->mutable_initializer(0);
  for (const std::int64_t size : {kHuge, std::numeric_limits<std::int64_t>::max()}) {
    weight.set_dims(0, size);
    weight.clear_dims();
    weight.add_dims(size);
    weight.add_dims(size);
    CHECK_THAT(failure(model.SerializeAsString()), Contains("initializer \"w\""));
    weight.add_dims(0);  // no elements, whatever the other sizes are
    CHECK_THAT(failure(model.SerializeAsString()), !Contains("no failure"));
  }
  // Sizes computed in the model. Nothing may overflow, whatever happens to the node.
  for (const char* body :
       {"y = Flatten <axis = 0> (x)", "y = Concat <axis = 0> (x, x, x)", "y = MatMul(x, x)", "y = Expand(x, shape)",
        "y = Tile(x, shape)", "y = ConstantOfShape(shape)", "y = Reshape(x, shape)", "y = Pad(x, pads)",
        "y = Resize(x, , scales)", "y = Gemm(x, x)", "y = Transpose(x)", "n = Shape(x)\n y = ReduceProd(n)"}) {
    const std::string text = "agraph (float[" + huge + ", " + huge + "] x) => (y) <int64[2] shape = {" + huge + ", " + huge +
                             "}, int64[4] pads = {" + huge + ", 0, " + huge + ", 0}, float[2] scales = {1e30, 1e30}> { " +
                             body + " }";
    INFO(body);
    try {
      const Graph graph = import_onnx_bytes(text_bytes(text), "huge");
      CHECK(graph.outputs().size() == 1);
    } catch (const Error& error) {
      CHECK(error.code() != ErrorCode::kUsage);
    }
  }
}

TEST_CASE("tensors of every kind whose data do not fit their sizes are refused") {
  for (int type = 1; type <= onnx::TensorProto::DataType_MAX; ++type) {
    if (type == onnx::TensorProto::STRING) continue;
    for (const std::int64_t missing : {std::int64_t{1}, std::int64_t{1} << 61}) {
      onnx::ModelProto model = text_model("agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Relu(x) }");
      onnx::TensorProto& weight = *model.mutable_graph()->mutable_initializer(0);
      weight.clear_float_data();
      weight.set_data_type(type);
      weight.set_dims(0, 64 + missing);
      const auto known = data_type_of(type);
      if (!known) continue;
      const Tensor few = packed(Tensor(*known, {64}));
      weight.set_raw_data(reinterpret_cast<const char*>(few.bytes().data()), few.bytes().size());
      INFO(onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type)) << ", " << missing);
      CHECK_THAT(failure(model.SerializeAsString()), Contains("initializer \"w\""));
    }
  }
}

TEST_CASE("chains of 100,000 nodes, in any order, are read, tidied, hashed and written") {
  constexpr int kNodes = 100'000;
  onnx::ModelProto model = text_model("agraph (float[2] x) => (float[2] y) { y = Relu(x) }");
  model.mutable_graph()->clear_node();
  for (int n = kNodes; n-- > 0;) {  // the last one first
    onnx::NodeProto& node = *model.mutable_graph()->add_node();
    node.set_op_type(n % 2 == 0 ? "Neg" : "Exp");
    node.add_input(n == 0 ? "x" : "v" + std::to_string(n - 1));
    node.add_output(n == kNodes - 1 ? "y" : "v" + std::to_string(n));
  }
  Graph graph = import_onnx_bytes(model.SerializeAsString(), "deep");
  CHECK(graph.nodes().size() == kNodes);
  graph.tidy();
  ExportOptions unchecked;  // without ONNX's own checker
  unchecked.check = false;
  CHECK(import_onnx_bytes(export_onnx_bytes(graph, unchecked), "again").hash() == graph.hash());
}

}  // namespace rewright::graph
