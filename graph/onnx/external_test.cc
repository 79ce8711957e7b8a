// Weights in files beside models: which files are read, and where they may be.
#include <catch2/catch.hpp>
#include <cstring>

#include "base/temporary_folder.h"
#include "graph/file.h"
#include "graph/onnx/external.h"
#include "graph/onnx/model.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/text.h"

namespace rewright::graph {

namespace {

using Catch::Contains;

constexpr float kFirst = 1.5f, kSecond = -2;

std::string file_of_two() {
  std::string bytes(2 * sizeof(float), '\0');
  const float numbers[] = {kFirst, kSecond};
  std::memcpy(bytes.data(), numbers, bytes.size());
  return bytes;
}

void move_to_file(onnx::TensorProto& tensor, const std::string& location) {
  tensor.clear_float_data();
  tensor.clear_raw_data();
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  tensor.clear_external_data();
  auto* entry = tensor.add_external_data();
  entry->set_key("location");
  entry->set_value(location);
}

std::string model_with_data_in(const std::string& location) {
  onnx::ModelProto model = text_model("agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }");
  move_to_file(*model.mutable_graph()->mutable_initializer(0), location);
  return model.SerializeAsString();
}

// A folder in which files and links are created together with their parent folders.
struct Tree : TemporaryFolder {
  void file(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((*this / name).parent_path());
    write_file(*this / name, bytes);
  }
  void link(const std::string& name, const std::string& to) const {
    std::filesystem::create_directories((*this / name).parent_path());
    std::filesystem::create_symlink(to, *this / name);
  }
  // The error of importing a model; "" if its weights are those of the file.
  std::string import(const std::string& name) const {
    try {
      const Graph graph = import_onnx(*this / name);
      for (ValueId id = 0; id < graph.value_count(); ++id)
        if (const Tensor& constant = graph.value(id).constant) CHECK(constant.reals() == std::vector<double>{kFirst, kSecond});
      return {};
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kBadInput);
      return error.what();
    }
  }
};

}  // namespace

TEST_CASE("a model and its data may be links into one folder, as the caches of model hubs have them") {
  const Tree tree;
  tree.file("blobs/aa", model_with_data_in("m.onnx_data"));
  tree.file("blobs/bb", file_of_two());
  for (const std::string snapshot : {"snapshots/r/", "snapshots/r/onnx/"}) {
    const std::string up = snapshot == "snapshots/r/" ? "../../" : "../../../";
    tree.link(snapshot + "m.onnx", up + "blobs/aa");
    tree.link(snapshot + "m.onnx_data", up + "blobs/bb");
    CHECK(tree.import(snapshot + "m.onnx").empty());
  }
  tree.link("again/m.onnx", "../snapshots/r/m.onnx");
  tree.link("again/m.onnx_data", "../snapshots/r/m.onnx_data");
  CHECK(tree.import("again/m.onnx").empty());
  tree.link("folder", "snapshots/r");
  CHECK(tree.import("folder/m.onnx").empty());
}

TEST_CASE("a link to a model gives no way to other folders") {
  const Tree tree;
  tree.file("blobs/aa", model_with_data_in("d.bin"));
  tree.file("blobs/below/bb", file_of_two());
  tree.file("blobs2/bb", file_of_two());
  tree.file("other/bb", file_of_two());
  tree.link("model/m.onnx", "../blobs/aa");
  CHECK_THAT(tree.import("model/m.onnx"), Contains("cannot be read"));
  for (const std::string folder : {"blobs2", "other"}) {
    std::filesystem::remove(tree / "model/d.bin");
    tree.link("model/d.bin", "../" + folder + "/bb");
    CHECK_THAT(tree.import("model/m.onnx"), Contains("is a link out of the model's folder"));
  }
  std::filesystem::remove(tree / "model/d.bin");
  tree.link("model/d.bin", "../blobs/below/bb");
  CHECK(tree.import("model/m.onnx").empty());
  // The folder of an intermediate link is neither the first link's nor the final target's.
  tree.file("between/bb", file_of_two());
  tree.link("between/m.onnx", "../blobs/aa");
  tree.link("outer/m.onnx", "../between/m.onnx");
  tree.link("outer/d.bin", "../between/bb");
  CHECK_THAT(tree.import("outer/m.onnx"), Contains("is a link out of the model's folder"));
  tree.link("round/m.onnx", "../blobs/aa");
  tree.link("round/d.bin", "d.bin");
  CHECK_THAT(tree.import("round/m.onnx"), Contains("cannot be read"));
}

TEST_CASE("a path may lead through other folders, if it ends in the model's") {
  const Tree tree;
  tree.file("a/d.bin", file_of_two());
  tree.file("d.bin", file_of_two());
  tree.file("a/sub/m.onnx", model_with_data_in("../d.bin"));
  tree.file("a/m.onnx", model_with_data_in("sub/../d.bin"));
  tree.file("a/n.onnx", model_with_data_in("../a/d.bin"));
  tree.file("a/o.onnx", model_with_data_in("../d.bin"));
  CHECK(tree.import("a/m.onnx").empty());
  CHECK(tree.import("a/n.onnx").empty());
  CHECK_THAT(tree.import("a/o.onnx"), Contains("outside of the model's folder"));
  CHECK_THAT(tree.import("a/sub/m.onnx"), Contains("outside of the model's folder"));
}

TEST_CASE("tensors of attributes and subgraphs may have their data in files") {
  const Tree tree;
  tree.file("d.bin", file_of_two());
  onnx::ModelProto model = text_model(R"(agraph (bool c, float[2] x) => (float[2] y) {
    w = Constant <value = float[2] {1, 2}> ()
    a = Add(w, x)
    y = If (c) <then_branch = t () => (float[2] b) <float[2] v = {1, 2}> { b = Mul(v, a) },
                else_branch = e () => (float[2] d) { u = Constant <value = float[2] {1, 2}> ()
                                                     d = Sub(u, a) }>
  })");
  auto& nodes = *model.mutable_graph()->mutable_node();
  move_to_file(*nodes[0].mutable_attribute(0)->mutable_t(), "d.bin");
  for (auto& attribute : *nodes[2].mutable_attribute()) {
    auto& branch = *attribute.mutable_g();
    if (branch.initializer_size() > 0)
      move_to_file(*branch.mutable_initializer(0), "d.bin");
    else
      move_to_file(*branch.mutable_node(0)->mutable_attribute(0)->mutable_t(), "d.bin");
  }
  tree.file("m.onnx", model.SerializeAsString());
  CHECK(external_files(tree / "m.onnx") == std::vector<std::string>{"d.bin"});
  const Graph graph = import_onnx(tree / "m.onnx");
  const std::vector<double> x = {3, 4};
  for (const bool condition : {false, true}) {
    const std::vector<Tensor> inputs = {Tensor::from_integers(DataType::kBool, {}, std::vector<std::int64_t>{condition}),
                                        Tensor::from_reals(DataType::kFloat, {2}, x)};
    std::vector<double> expected;
    for (const auto& [weight, element] : {std::pair(kFirst, x[0]), std::pair(kSecond, x[1])})
      expected.push_back(condition ? weight * (weight + element) : weight - (weight + element));
    CHECK(interpret(graph, inputs)[0].reals() == expected);
  }
  // The written model contains its weights, so it may be moved.
  const std::string written = export_onnx_bytes(graph);
  CHECK_NOTHROW(import_onnx_bytes(written, "elsewhere.onnx"));
  std::filesystem::remove(tree / "d.bin");
  CHECK_THAT(tree.import("m.onnx"), Contains("\"w\"") && Contains("cannot be read"));
}

}  // namespace rewright::graph
